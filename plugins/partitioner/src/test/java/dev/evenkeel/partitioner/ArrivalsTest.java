package dev.evenkeel.partitioner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ArrivalsTest {
    private static final long LATE = 700_000;

    private final Router router = new Router("r", new Settings(Map.of()));
    private final Arrivals arrivals = new Arrivals();

    /** Taken at 0, valid for 600 s. */
    private static RouteTable table(String topic) throws InvalidTableException {
        String text = "{\"topic\":\"" + topic + "\",\"ownerEpoch\":1,\"epoch\":1,\"takenAtMs\":0"
                + ",\"weights\":[1000000]}";
        return RouteTable.parse(topic, text.getBytes(StandardCharsets.UTF_8), 1);
    }

    private boolean logs(String topic, long nowMs) throws InvalidTableException {
        arrivals.add(table(topic));
        return arrivals.judge(router, nowMs);
    }

    @Test
    void logsTheFirstLateTableAfterAllWereInTime() throws Exception {
        assertTrue(logs("a", LATE));
        assertFalse(logs("b", LATE));
        assertFalse(logs("a", 0));
        assertFalse(logs("a", LATE));
        assertFalse(logs("a", 0));
        assertFalse(logs("b", 0));
        assertTrue(logs("b", LATE));
    }

    @Test
    void logsTheNextLateTableAfterALateOneWasWithdrawn() throws Exception {
        assertTrue(logs("a", LATE));
        arrivals.forget("a");
        assertTrue(logs("b", LATE));
    }

    @Test
    void saysNothingOfATableThatIsWithdrawnAlready() throws Exception {
        arrivals.add(table("a"));
        arrivals.forget("a");
        assertFalse(arrivals.judge(router, LATE));
        assertEquals("", router.lastProblem());
    }
}
