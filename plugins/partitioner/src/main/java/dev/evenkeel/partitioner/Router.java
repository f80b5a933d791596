package dev.evenkeel.partitioner;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.Cluster;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What a partitioner and its background thread share: runs, the newest tables, and how they are mixed just now.
 *
 * <p>`run` is called by the producing threads; only the background thread changes anything else.
 */
final class Router {
    /** How many topics without a table are reported; heartbeats must stay small. */
    private static final int REPORTED_TOPICS = 256;
    /** A change of the mixture below this is not worth a new schedule. */
    private static final double MIX_STEP = 0.01;
    /** As long as the keeper's window over heartbeats, so that both mean the same by a rate. */
    private static final long RATE_MS = 60_000;
    /** Batches of a run; the client sends one batch of a partition per request, so longer ones send no fewer. */
    private static final int RUN_BATCHES = 4;
    private static final Logger logger = LoggerFactory.getLogger(Router.class);

    final String name;
    final Settings settings;
    final AtomicLong heartbeatsSent = new AtomicLong();
    final AtomicLong heartbeatsFailed = new AtomicLong();
    private final ConcurrentHashMap<String, TopicRun> runs = new ConcurrentHashMap<>();
    private final Map<String, Followed> followed = new ConcurrentHashMap<>();
    private volatile Counts counts = new Counts(0, 0, 0, 0, 0);
    private volatile String lastProblem = "";

    Router(String name, Settings settings) {
        this.name = name;
        this.settings = settings;
    }

    /** The run of a topic, made at its first record or table. */
    TopicRun run(String topic) {
        TopicRun found = runs.get(topic);
        return found != null ? found : runs.computeIfAbsent(topic, this::newRun);
    }

    private TopicRun newRun(String topic) {
        long length = settings.runBytes > 0 ? settings.runBytes : (long) RUN_BATCHES * settings.batchBytes;
        return new TopicRun(topic, settings.phase, length, settings.messageBytes);
    }

    /** Whether tables of this topic matter to us. */
    boolean wants(String topic) {
        return settings.topics.isEmpty() || settings.topics.contains(topic);
    }

    /** Topics that have a table. */
    Set<String> routedTopics() {
        return followed.keySet();
    }

    /** All topics that had a record or a table. */
    Set<String> topics() {
        return new TreeSet<>(runs.keySet());
    }

    /** The table in force; null: none. One that has just come is in force with the next refresh. */
    RouteTable table(String topic) {
        Followed now = followed.get(topic);
        return now == null ? null : now.inForce;
    }

    /** The newest table, in force or to be with the next refresh; null: none. */
    RouteTable newest(String topic) {
        Followed now = followed.get(topic);
        return now == null ? null : now.table;
    }

    /** The cluster as the topic's records saw it last; null: there were none of late. */
    Cluster cluster(String topic) {
        TopicRun run = runs.get(topic);
        return run == null ? null : run.cluster();
    }

    Counts counts() {
        return counts;
    }

    String lastProblem() {
        return lastProblem;
    }

    private synchronized void count(long accepted, long lower, long invalid, long withdrawn, long readErrors) {
        counts = counts.plus(accepted, lower, invalid, withdrawn, readErrors);
    }

    /** Says once what went wrong; it is tried again. */
    void note(String problem) {
        count(0, 0, 0, 0, 1);
        tell(problem, !problem.equals(lastProblem));
    }

    /** Says what is wrong, though nothing failed. */
    void tell(String problem, boolean log) {
        lastProblem = problem;
        if (log) {
            logger.warn("router={} problem={}", name, problem);
        }
    }

    /**
     * Takes a record of the routes topic if it holds a valid, newer table.
     *
     * @param partitions how many the topic has; -1: not known
     * @return whether the record was a valid table, though perhaps not a newer one
     */
    boolean accept(String topic, byte[] value, int partitions, long nowMs) {
        RouteTable table;
        try {
            table = RouteTable.parse(topic, value, partitions);
        } catch (InvalidTableException error) {
            lastProblem = error.getMessage();
            count(0, 0, 1, 0, 0);
            return false;
        }
        Followed current = followed.get(topic);
        if (current != null && !table.isNewerThan(current.table)) {
            count(0, 1, 0, 0, 0);
            return true;
        }
        TopicRun run = run(topic);
        followed.put(topic, new Followed(table, run.bytes(), nowMs, current));
        count(1, 0, 0, 0, 0);
        return true;
    }

    /** Forgets the table of a topic. */
    void withdraw(String topic) {
        count(0, 0, 0, 1, 0);
        if (followed.remove(topic) != null) {
            run(topic).follow(null);
        }
    }

    /** Brings every topic's schedule up to its newest table, its age, bytes and leaders. */
    void refresh(long nowMs, Map<String, boolean[]> leaders) {
        for (Map.Entry<String, Followed> entry : followed.entrySet()) {
            TopicRun run = run(entry.getKey());
            entry.getValue().refresh(run, nowMs, leaders.get(entry.getKey()));
        }
    }

    /** Fits what a schedule takes for an ordinary turn to the runs as they are. */
    void adapt() {
        for (TopicRun run : runs.values()) {
            run.adapt();
        }
    }

    /** How partitions of the topic are chosen, in the words of heartbeats. */
    String mode(String topic) {
        Followed now = followed.get(topic);
        TopicRun run = runs.get(topic);
        if (now == null || run == null || !run.routed()) {
            return "Default";
        }
        return now.mix > 0 ? "Mixed" : "Table";
    }

    /**
     * Counters for the keeper as evenkeel.domain.heartbeat reads them; null: nothing to tell.
     *
     * <p>Topics without a table are counted too: the keeper learns what could be steered before it makes one.
     *
     * @param clockMs when this is counted, milliseconds of a clock that is never set back, 0 or more
     */
    String heartbeat(long clockMs) {
        StringBuilder topics = new StringBuilder();
        int others = 0;
        for (Map.Entry<String, TopicRun> entry : runs.entrySet()) {
            String topic = entry.getKey();
            if (!wants(topic)) {
                continue;
            }
            RouteTable table = table(topic);
            long bytes = entry.getValue().bytes();
            // Of thousands of tables, in force or withdrawn, a producer uses few.
            boolean counts = bytes > 0 && (table != null || ++others <= REPORTED_TOPICS);
            if (!counts) {
                continue;
            }
            topics.append(topics.length() == 0 ? "" : ",")
                    .append(Json.quote(topic))
                    .append(":{\"bytes\":").append(bytes)
                    .append(",\"mode\":\"").append(mode(topic))
                    .append("\",\"ownerEpoch\":").append(table == null ? 0 : table.ownerEpoch)
                    .append(",\"epoch\":").append(table == null ? 0 : table.epoch)
                    .append('}');
        }
        if (topics.length() == 0) {
            return null;
        }
        return "{\"router\":" + Json.quote(name) + ",\"clockMs\":" + clockMs
                + ",\"schemaVersion\":1,\"topics\":{" + topics + "}}";
    }

    /** What became of the records of the routes topic. */
    static final class Counts {
        final long accepted;
        final long lower;
        final long invalid;
        final long withdrawn;
        final long readErrors;

        private Counts(long accepted, long lower, long invalid, long withdrawn, long readErrors) {
            this.accepted = accepted;
            this.lower = lower;
            this.invalid = invalid;
            this.withdrawn = withdrawn;
            this.readErrors = readErrors;
        }

        private Counts plus(long more, long moreLower, long moreInvalid, long moreWithdrawn, long moreErrors) {
            return new Counts(
                    accepted + more,
                    lower + moreLower,
                    invalid + moreInvalid,
                    withdrawn + moreWithdrawn,
                    readErrors + moreErrors);
        }
    }

    /** The table a topic follows, since how many bytes, and how fast this router writes. */
    private static final class Followed {
        private final RouteTable table;
        private final long since;
        private final long sinceMs;
        private final long cameNanos = System.nanoTime();
        private long markBytes;
        private long markMs;
        /** The largest since the table came: who falls silent has not spent more of the budget. */
        private double rate;
        /** The mixture by limits when the schedule was made; `mix` is more where no partition was left. */
        private double due = -1;
        private volatile double mix;
        private volatile RouteTable inForce;
        private boolean[] led;

        private Followed(RouteTable table, long since, long nowMs, Followed former) {
            this.table = table;
            this.since = since;
            this.sinceMs = nowMs;
            this.markBytes = former == null ? since : former.markBytes;
            this.markMs = former == null ? nowMs : former.markMs;
            this.inForce = former == null ? null : former.inForce;
        }

        private void refresh(TopicRun run, long nowMs, boolean[] leaders) {
            long bytes = run.bytes();
            rate = Math.max(rate, measure(bytes, nowMs));
            // A wall clock that was set back must not make a table last for ever.
            long agedMs = table.takenAtMs + (System.nanoTime() - cameNanos) / 1_000_000;
            long atMs = Math.max(nowMs, agedMs);
            double now = Effective.mixture(table, atMs, bytes - since, rate);
            // The last step to 1 is smaller than MIX_STEP where it is taken second by second.
            boolean ended = (now >= 1) != (due >= 1);
            if (ended || Math.abs(now - due) >= MIX_STEP || !Arrays.equals(leaders, led)) {
                Effective effective = Effective.of(table, atMs, bytes - since, rate, leaders);
                due = now;
                mix = effective.mix;
                led = leaders;
                run.follow(effective.weights);
            }
            inForce = table;
        }

        /** Bytes per second since the table came, or over the last minute if that is more. */
        private double measure(long bytes, long nowMs) {
            double best = Math.max(perSecond(bytes - since, nowMs - sinceMs), perSecond(bytes - markBytes, nowMs - markMs));
            if (nowMs - markMs >= RATE_MS) {
                markBytes = bytes;
                markMs = nowMs;
            }
            return best;
        }

        private static double perSecond(long bytes, long milliseconds) {
            return bytes * 1000.0 / Math.max(1000, milliseconds);
        }
    }
}
