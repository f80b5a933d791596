package dev.evenkeel.partitioner;

import java.math.BigInteger;
import java.util.List;
import java.util.Map;

/**
 * The routes table of one topic, as the keeper publishes it; checked as evenkeel.domain.table checks it.
 *
 * <p>Both are held together by the tables in tests/data/tables.
 */
final class RouteTable {
    /** Weights travel as integers of a millionth. */
    static final int WEIGHT_SCALE = 1_000_000;
    /** Of times, bytes and epochs: what is above is no measurement. */
    static final long LARGEST = 1L << 62;
    private static final double CAP_SLACK = 1.01;
    private static final int UNKNOWN = -1;

    final String topic;
    final long ownerEpoch;
    final long epoch;
    /** Milliseconds since 1970: when the measurement behind it was taken. */
    final long takenAtMs;
    /** By partition, in millionths. */
    final int[] weights;
    /** Partitions that must take nothing. */
    final int[] stop;
    /** What all routers together may write by it; -1: no limit. */
    final long budgetBytes;
    /** What all routers together wrote when it was made; -1: not known. */
    final long bytesPerSecond;
    final long validMs;

    private RouteTable(Map<?, ?> fields) throws InvalidTableException {
        Object name = fields.get("topic");
        if (!(name instanceof String)) {
            throw new InvalidTableException("RouteTable.topic: a string is required");
        }
        topic = (String) name;
        ownerEpoch = readLong(fields, "ownerEpoch", null);
        epoch = readLong(fields, "epoch", null);
        takenAtMs = readLong(fields, "takenAtMs", null);
        validMs = readLong(fields, "validMs", 600_000L);
        budgetBytes = readOptional(fields, "budgetBytes");
        bytesPerSecond = readOptional(fields, "bytesPerSecond");
        weights = readIntegers(fields.get("weights"), "weights");
        stop = fields.containsKey("stop") ? readIntegers(fields.get("stop"), "stop") : new int[0];
        requireInteger(fields, "planOffset", true);
        requireInteger(fields, "schemaVersion", false);
    }

    /**
     * Reads and checks a record of the routes topic.
     *
     * @param key the record's key: the topic's name
     * @param value the record's value
     * @param partitions how many the topic has; -1: not known, the table is taken at its word
     * @throws InvalidTableException the table cannot be right
     */
    static RouteTable parse(String key, byte[] value, int partitions) throws InvalidTableException {
        Object raw = Json.parse(value);
        if (!(raw instanceof Map)) {
            throw new InvalidTableException("RouteTable: an object is required");
        }
        RouteTable table = new RouteTable((Map<?, ?>) raw);
        if (!table.topic.equals(key)) {
            throw table.refuse("stands under the key " + key);
        }
        if (table.weights.length == 0) {
            throw table.refuse("weights is empty");
        }
        table.check(partitions == UNKNOWN ? table.weights.length : partitions);
        return table;
    }

    /** Whether this one comes after another. */
    boolean isNewerThan(RouteTable other) {
        return ownerEpoch != other.ownerEpoch ? ownerEpoch > other.ownerEpoch : epoch > other.epoch;
    }

    private void check(int partitions) throws InvalidTableException {
        if (weights.length != partitions) {
            throw refuse("weights has " + weights.length + " entries, the topic " + partitions + " partitions");
        }
        int used = 0;
        for (int weight : weights) {
            used += weight > 0 ? 1 : 0;
        }
        double highest = Math.max(WEIGHT_SCALE * 8.0 / partitions, (double) WEIGHT_SCALE / Math.max(1, used));
        long sum = 0;
        for (int p = 0; p < partitions; p++) {
            if (weights[p] < 0 || weights[p] > Math.min(WEIGHT_SCALE, highest) * CAP_SLACK + 1) {
                throw refuse("weights[" + p + "] = " + weights[p] + ", limits 0 and " + (long) highest);
            }
            sum += weights[p];
        }
        if (Math.abs(sum - WEIGHT_SCALE) > partitions) {
            throw refuse("weights sum to " + sum + ", not " + WEIGHT_SCALE);
        }
        for (int partition : stop) {
            if (partition < 0 || partition >= partitions) {
                throw refuse("stop names a partition outside 0.." + (partitions - 1));
            }
        }
    }

    private InvalidTableException refuse(String why) {
        return new InvalidTableException("route table of " + topic + ": " + why);
    }

    private static long readLong(Map<?, ?> fields, String name, Long absent) throws InvalidTableException {
        if (absent != null && !fields.containsKey(name)) {
            return absent;
        }
        Object raw = fields.get(name);
        if (raw instanceof Long && (Long) raw >= 0 && (Long) raw <= LARGEST) {
            return (Long) raw;
        }
        throw new InvalidTableException(
                "RouteTable." + name + ": must be an integer from 0 to " + LARGEST + ", not " + shorten(raw));
    }

    private static long readOptional(Map<?, ?> fields, String name) throws InvalidTableException {
        return fields.get(name) == null ? UNKNOWN : readLong(fields, name, null);
    }

    private static int[] readIntegers(Object raw, String name) throws InvalidTableException {
        if (!(raw instanceof List)) {
            throw new InvalidTableException("RouteTable." + name + ": must be a list, not " + shorten(raw));
        }
        List<?> items = (List<?>) raw;
        int[] numbers = new int[items.size()];
        for (int i = 0; i < numbers.length; i++) {
            Object item = items.get(i);
            if (!(item instanceof Long) || (Long) item != (int) (long) (Long) item) {
                throw new InvalidTableException(
                        "RouteTable." + name + "[" + i + "]: must be a small integer, not " + shorten(item));
            }
            numbers[i] = (int) (long) (Long) item;
        }
        return numbers;
    }

    /** A field that routers of this kind do not use, and that must be right all the same. */
    private static void requireInteger(Map<?, ?> fields, String name, boolean mayBeNull)
            throws InvalidTableException {
        Object raw = fields.get(name);
        boolean good = raw instanceof Long || raw instanceof BigInteger;
        if (!good && !(raw == null && (mayBeNull || !fields.containsKey(name)))) {
            throw new InvalidTableException("RouteTable." + name + ": must be an integer, not " + shorten(raw));
        }
    }

    private static String shorten(Object raw) {
        String text = String.valueOf(raw);
        return text.length() <= 40 ? text : text.substring(0, 40);
    }
}
