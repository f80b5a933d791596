package dev.evenkeel.partitioner;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.function.ThrowingConsumer;

/** The tables on which this router and the Python one must agree: tests/data/tables. */
class TableCorpusTest {
    @TestFactory
    Stream<DynamicTest> takesARightTable() throws Exception {
        return cases("valid.json", TableCorpusTest::parse);
    }

    @TestFactory
    Stream<DynamicTest> refusesAWrongTable() throws Exception {
        return cases("invalid.json", wrong -> assertThrows(InvalidTableException.class, () -> parse(wrong)));
    }

    @TestFactory
    Stream<DynamicTest> agesATable() throws Exception {
        return cases("ageing.json", TableCorpusTest::age);
    }

    private static Stream<DynamicTest> cases(String name, ThrowingConsumer<Map<?, ?>> check) throws Exception {
        Path file = Path.of(System.getProperty("evenkeel.tables"), name);
        List<?> found = (List<?>) Json.parse(Files.readAllBytes(file));
        return found.stream()
                .map(item -> (Map<?, ?>) item)
                .map(item -> DynamicTest.dynamicTest((String) item.get("about"), () -> check.accept(item)));
    }

    private static RouteTable parse(Map<?, ?> wanted) throws InvalidTableException {
        Object partitions = wanted.get("partitions");
        byte[] value = ((String) wanted.get("text")).getBytes(StandardCharsets.UTF_8);
        return RouteTable.parse(
                (String) wanted.get("key"), value, partitions == null ? -1 : ((Long) partitions).intValue());
    }

    private static void age(Map<?, ?> wanted) throws InvalidTableException {
        byte[] value = ((String) wanted.get("table")).getBytes(StandardCharsets.UTF_8);
        Object rate = wanted.get("ownBytesPerSecond");
        Effective now = Effective.of(
                RouteTable.parse("t", value, -1),
                (Long) wanted.get("nowMs"),
                (Long) wanted.get("writtenBytes"),
                rate == null ? -1 : ((Number) rate).doubleValue(),
                led((List<?>) wanted.get("led")));
        assertEquals(((Number) wanted.get("mix")).doubleValue(), now.mix);
        assertArrayEquals(numbers((List<?>) wanted.get("weights")), now.weights);
    }

    private static boolean[] led(List<?> flags) {
        if (flags == null) {
            return null;
        }
        boolean[] led = new boolean[flags.size()];
        for (int p = 0; p < led.length; p++) {
            led[p] = (Boolean) flags.get(p);
        }
        return led;
    }

    private static double[] numbers(List<?> items) {
        return items == null
                ? null
                : items.stream().mapToDouble(item -> ((Number) item).doubleValue()).toArray();
    }
}
