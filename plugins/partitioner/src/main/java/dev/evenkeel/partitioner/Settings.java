package dev.evenkeel.partitioner;

import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.kafka.common.config.ConfigException;

/** The keys `evenkeel.*` of a producer's configuration, and what the router's own clients take from the rest. */
final class Settings {
    private static final String PREFIX = "evenkeel.";
    private static final Set<String> KNOWN =
            Set.of("topics", "phase", "message.bytes", "heartbeat.ms", "run.bytes");
    /** Addresses and security, nothing that concerns the user's records. */
    private static final String[] SHARED = {
        "bootstrap.servers", "security.", "sasl.", "ssl.", "client.dns.", "socket.", "reconnect.", "metadata.recovery."
    };
    private static final int DEFAULT_BATCH = 16_384;

    /** Names of topics to route; empty: all that have a table. */
    final Set<String> topics;
    /** (i + 1/2)/n for the i-th of n producers that work together; else random. */
    final double phase;
    /** Usual size of a message, where all are about equal; 0: the first one tells. */
    final int messageBytes;
    /** How often bytes are reported; 0: never. */
    final long heartbeatMs;
    /** Length of a run; 0: by the producer's batches. */
    final int runBytes;
    /** The producer's own `batch.size`. */
    final int batchBytes;
    /** The producer's own `partitioner.ignore.keys`: keyed records are routed as the others. */
    final boolean ignoreKeys;
    final String clientId;
    private final Map<String, Object> shared = new HashMap<>();

    /**
     * Reads the configuration that a producer hands to its partitioner.
     *
     * @throws ConfigException an `evenkeel.` key is unknown or its value out of bounds
     */
    Settings(Map<String, ?> config) {
        for (String key : new TreeSet<>(config.keySet())) {
            if (key.startsWith(PREFIX) && !KNOWN.contains(key.substring(PREFIX.length()))) {
                throw new ConfigException(key, config.get(key), "unknown; known are " + new TreeSet<>(KNOWN));
            }
            for (String prefix : SHARED) {
                if (key.startsWith(prefix) && config.get(key) != null) {
                    shared.put(key, config.get(key));
                }
            }
        }
        topics = readNames(config.get(PREFIX + "topics"));
        phase = readNumber(config, "phase", ThreadLocalRandom.current().nextDouble(), 1.0);
        messageBytes = (int) readNumber(config, "message.bytes", 0, 1 << 30);
        heartbeatMs = (long) readNumber(config, "heartbeat.ms", 5_000, 3_600_000);
        runBytes = (int) readNumber(config, "run.bytes", 0, 1 << 30);
        batchBytes = readBatch(config.get("batch.size"));
        ignoreKeys = Boolean.parseBoolean(String.valueOf(config.get("partitioner.ignore.keys")).trim());
        Object client = config.get("client.id");
        clientId = client == null || client.toString().isEmpty() ? "evenkeel" : client.toString();
    }

    /** Addresses and security of the producer, for a client of the router's own. */
    Map<String, Object> clientConfig() {
        return new HashMap<>(shared);
    }

    private static Set<String> readNames(Object value) {
        if (value == null) {
            return Collections.emptySet();
        }
        Collection<?> names = value instanceof Collection
                ? (Collection<?>) value
                : Arrays.asList(value.toString().split(","));
        Set<String> found = new TreeSet<>();
        for (Object name : names) {
            if (!name.toString().trim().isEmpty()) {
                found.add(name.toString().trim());
            }
        }
        return found;
    }

    private static double readNumber(Map<String, ?> config, String name, double absent, double highest) {
        Object raw = config.get(PREFIX + name);
        if (raw == null) {
            return absent;
        }
        double value;
        try {
            value = Double.parseDouble(raw.toString().trim());
        } catch (NumberFormatException error) {
            value = -1;
        }
        if (!(value >= 0 && value <= highest)) {
            String limits = String.format("must be a number from 0 to %.0f", highest);
            throw new ConfigException(PREFIX + name, raw, limits);
        }
        return value;
    }

    private static int readBatch(Object raw) {
        try {
            return raw == null ? DEFAULT_BATCH : Math.max(1, Integer.parseInt(raw.toString().trim()));
        } catch (NumberFormatException error) {
            return DEFAULT_BATCH; // the producer itself refuses it
        }
    }
}
