package dev.evenkeel.partitioner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Cluster;
import org.junit.jupiter.api.Test;

class RouterTest {
    private static final long NOW = 1_000_000;
    private static final Cluster CLUSTER = Clusters.cluster(true, true);

    private final Router router = new Router("r", new Settings(Map.of("evenkeel.phase", "0")));

    private static byte[] table(int owner, int epoch, String rest) {
        String text = "{\"topic\":\"t\",\"ownerEpoch\":" + owner + ",\"epoch\":" + epoch
                + ",\"takenAtMs\":" + NOW + rest + "}";
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] table(int owner, int epoch) {
        return table(owner, epoch, ",\"weights\":[900000,100000]");
    }

    private double share(int records) {
        long first = 0;
        for (int i = 0; i < records; i++) {
            first += router.run("t").next(1024, CLUSTER) == 0 ? 1 : 0;
        }
        return first / (double) records;
    }

    @Test
    void followsANewTable() {
        assertTrue(router.accept("t", table(1, 1), 2, NOW));
        router.refresh(NOW, Map.of());
        assertEquals("Table", router.mode("t"));
        assertEquals(0.9, share(64 * 1000), 0.02);
    }

    @Test
    void tellsATableWhenItIsInForce() {
        router.accept("t", table(1, 1), 2, NOW);
        assertNull(router.table("t"));
        router.refresh(NOW, Map.of());
        router.accept("t", table(1, 2), 2, NOW);
        assertEquals(1, router.table("t").epoch);
        router.refresh(NOW, Map.of());
        assertEquals(2, router.table("t").epoch);
    }

    @Test
    void ignoresLowerEpochs() {
        router.accept("t", table(2, 5), 2, NOW);
        router.accept("t", table(2, 5), 2, NOW);
        router.accept("t", table(2, 4), 2, NOW);
        router.accept("t", table(1, 9), 2, NOW);
        router.refresh(NOW, Map.of());
        assertEquals(5, router.table("t").epoch);
        assertEquals(3, router.counts().lower);
        router.accept("t", table(3, 1), 2, NOW);
        router.refresh(NOW, Map.of());
        assertEquals(3, router.table("t").ownerEpoch);
    }

    @Test
    void keepsItsTableWhenAnInvalidOneComes() {
        router.accept("t", table(1, 1), 2, NOW);
        assertFalse(router.accept("t", "{".getBytes(StandardCharsets.UTF_8), 2, NOW));
        assertFalse(router.accept("t", table(1, 2), 3, NOW));
        router.refresh(NOW, Map.of());
        assertEquals(1, router.table("t").epoch);
        assertEquals(2, router.counts().invalid);
        assertTrue(router.lastProblem().contains("3 partitions"), router.lastProblem());
    }

    @Test
    void mixesWithTheYearsAndEndsAtTheDefault() {
        router.accept("t", table(1, 1), 2, NOW);
        router.refresh(NOW + 3_300_000, Map.of());
        assertEquals("Mixed", router.mode("t"));
        assertEquals(0.7, share(64 * 1000), 0.03);
        router.refresh(NOW + 6_000_000, Map.of());
        assertEquals("Default", router.mode("t"));
        assertEquals(0.5, share(64 * 4000), 0.05);
    }

    @Test
    void endsAtTheDefaultAlsoSecondBySecond() {
        router.accept("t", table(1, 1), 2, NOW);
        for (int second = 0; second < 6_000; second++) {
            router.refresh(NOW + second * 1_000L, Map.of());
        }
        assertEquals("Mixed", router.mode("t"));
        router.refresh(NOW + 6_000_000, Map.of());
        assertEquals("Default", router.mode("t"));
    }

    @Test
    void endsAtTheDefaultAlsoWhereOnlyPartitionsWithoutWeightHaveALeader() {
        byte[] first = table(1, 1, ",\"weights\":[1000000,0]");
        router.accept("t", first, 2, NOW);
        Map<String, boolean[]> leaders = Map.of("t", new boolean[] {false, true});
        router.refresh(NOW, leaders);
        assertEquals("Mixed", router.mode("t"));
        router.refresh(NOW + 6_000_000, leaders);
        assertEquals("Default", router.mode("t"));
    }

    @Test
    void mixesPastItsShareOfTheBudget() {
        String budget = ",\"weights\":[900000,100000],\"budgetBytes\":1024000,\"bytesPerSecond\":1024000";
        router.accept("t", table(1, 1, budget), 2, NOW);
        router.refresh(NOW, Map.of());
        share(1000);
        router.refresh(NOW + 1_000, Map.of()); // the whole rate, the whole budget
        assertEquals("Table", router.mode("t"));
        share(1000);
        router.refresh(NOW + 2_000, Map.of());
        assertEquals("Mixed", router.mode("t"));
    }

    @Test
    void aSmallRouterHasASmallBudget() {
        String budget = ",\"weights\":[900000,100000],\"budgetBytes\":102400000,\"bytesPerSecond\":10240000";
        router.accept("t", table(1, 1, budget), 2, NOW);
        for (int second = 1; second <= 10; second++) { // a tenth of the rate: ten seconds of the whole cluster
            share(1000);
            router.refresh(NOW + second * 1_000L, Map.of());
        }
        assertEquals("Table", router.mode("t"));
        for (int second = 11; second <= 20; second++) {
            share(1000);
            router.refresh(NOW + second * 1_000L, Map.of());
        }
        assertEquals("Mixed", router.mode("t"));
    }

    @Test
    void neverWritesToAStoppedPartition() {
        router.accept("t", table(1, 1, ",\"weights\":[900000,100000],\"stop\":[0]"), 2, NOW);
        router.refresh(NOW + 60_000_000, Map.of());
        assertEquals(0, share(10_000));
    }

    @Test
    void leavesPartitionsWithoutALeaderOut() {
        router.accept("t", table(1, 1), 2, NOW);
        router.refresh(NOW, Map.of("t", new boolean[] {false, true}));
        assertEquals(0, share(10_000));
        router.refresh(NOW, Map.of("t", new boolean[] {true, true}));
        assertEquals(0.9, share(64 * 1000), 0.03);
    }

    @Test
    void forgetsAWithdrawnTable() {
        router.accept("t", table(1, 1), 2, NOW);
        router.refresh(NOW, Map.of());
        router.withdraw("t");
        router.withdraw("never seen");
        assertEquals("Default", router.mode("t"));
        assertTrue(router.accept("t", table(1, 1), 2, NOW));
        router.refresh(NOW, Map.of());
        assertEquals(1, router.table("t").epoch);
    }

    @Test
    void tellsTheKeeperWhatItDid() throws Exception {
        assertNull(router.heartbeat(0));
        router.accept("t", table(1, 7), 2, NOW);
        router.refresh(NOW, Map.of());
        router.run("t").next(1000, CLUSTER);
        Map<?, ?> beat = (Map<?, ?>) Json.parse(router.heartbeat(12_345).getBytes(StandardCharsets.UTF_8));
        Map<String, Object> topic = Map.of("bytes", 1000L, "mode", "Table", "ownerEpoch", 1L, "epoch", 7L);
        Map<String, Object> told =
                Map.of("router", "r", "clockMs", 12_345L, "schemaVersion", 1L, "topics", Map.of("t", topic));
        assertEquals(told, beat);
    }

    @Test
    void tellsOfTopicsWithoutATableThatItMayRoute() {
        Router named = new Router("r", new Settings(Map.of("evenkeel.topics", List.of("t"))));
        named.run("t").next(10, CLUSTER);
        named.run("other").next(10, CLUSTER);
        assertTrue(named.heartbeat(0).contains("\"mode\":\"Default\""), named.heartbeat(0));
        assertFalse(named.heartbeat(0).contains("other"));
    }

    @Test
    void heartbeatsLeaveOutTopicsThatNobodyWritesTo() {
        router.accept("t", table(1, 7), 2, NOW);
        router.refresh(NOW, Map.of());
        assertNull(router.heartbeat(0));
    }

    @Test
    void heartbeatsLeaveOutWithdrawnTablesOfTopicsThatNobodyWritesTo() {
        for (int i = 0; i < 300; i++) {
            String topic = "topic-" + i;
            String text = "{\"topic\":\"" + topic + "\",\"ownerEpoch\":1,\"epoch\":1,\"takenAtMs\":" + NOW
                    + ",\"weights\":[1000000]}";
            router.accept(topic, text.getBytes(StandardCharsets.UTF_8), 1, NOW);
            router.refresh(NOW, Map.of());
            router.withdraw(topic);
        }
        assertNull(router.heartbeat(0));
        router.run("t").next(10, CLUSTER);
        assertTrue(router.heartbeat(0).contains("{\"t\":{"), router.heartbeat(0));
    }

    @Test
    void heartbeatsStaySmall() throws Exception {
        for (int i = 0; i < 1000; i++) {
            router.run("topic-" + i).next(1, CLUSTER);
        }
        Map<?, ?> beat = (Map<?, ?>) Json.parse(router.heartbeat(0).getBytes(StandardCharsets.UTF_8));
        assertEquals(256, ((Map<?, ?>) beat.get("topics")).size());
    }
}
