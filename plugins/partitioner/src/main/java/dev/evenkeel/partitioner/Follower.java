package dev.evenkeel.partitioner;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The background thread of a router: reads tables, keeps schedules fresh, sends heartbeats.
 *
 * <p>It has clients of its own, so that the user's transactions, callbacks and buffer never see it. Whatever
 * fails is counted and tried again: producing goes on without it.
 */
final class Follower extends Thread {
    static final String ROUTES_TOPIC = "__evenkeel_routes";
    static final String HEARTBEATS_TOPIC = "__evenkeel_heartbeats";
    /** Every table is published again within this time: older records say nothing more. */
    private static final long LOOK_BACK_MS = 600_000;
    private static final Duration POLL = Duration.ofMillis(100);
    private static final Duration CALL_TIMEOUT = Duration.ofSeconds(5);
    private static final long REFRESH_MS = 1_000;
    private static final long LEADERS_MS = 5_000;
    private static final long RETRY_MS = 500;
    private static final TopicPartition ROUTES = new TopicPartition(ROUTES_TOPIC, 0);

    private final Router router;
    private final Map<String, boolean[]> leaders = new HashMap<>();
    private final Map<String, Cluster> seen = new HashMap<>();
    private final Map<String, Long> due = new HashMap<>();
    private final Arrivals arrivals = new Arrivals();
    private final LongSupplier clock;
    private final long retryMs;
    private long silentUntil = Long.MIN_VALUE;
    /** Offset in the routes topic before which records are of the past. */
    private long liveFrom;
    private volatile boolean ended;
    private volatile Consumer<byte[], byte[]> reader;
    private Producer<byte[], byte[]> heartbeats;

    Follower(Router router) {
        this(router, startClock(), RETRY_MS);
    }

    /** Milliseconds since now: what the system counts from is anything, and may be negative. */
    static LongSupplier startClock() {
        long began = System.nanoTime();
        return () -> (System.nanoTime() - began) / 1_000_000;
    }

    /** `clock`: milliseconds, never set back; `retryMs`: until what failed is tried again. */
    Follower(Router router, LongSupplier clock, long retryMs) {
        super("evenkeel-router-" + router.name);
        setDaemon(true);
        this.router = router;
        this.clock = clock;
        this.retryMs = retryMs;
    }

    /** Starts the thread; in a process that may have no more of them there will be no tables. */
    void begin() {
        try {
            start();
        } catch (OutOfMemoryError error) {
            router.note("starting the routing thread: " + error);
        }
    }

    /** Ends the thread; waits a second at most. */
    void end() {
        ended = true;
        Consumer<byte[], byte[]> current = reader;
        if (current != null) {
            current.wakeup();
        }
        synchronized (router) {
            router.notifyAll();
        }
        if (Thread.currentThread() == this) {
            return;
        }
        try {
            join(1_000);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void run() {
        while (!ended) {
            try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                    readerConfig(), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                reader = consumer;
                follow(consumer);
            } catch (WakeupException | InterruptException error) {
                ended = true; // only `end` and who stops the process do that
            } catch (RuntimeException | Error error) { // dead, it would leave the last table in force for ever
                router.note("reading " + ROUTES_TOPIC + ": " + error);
                pause();
                age();
            }
        }
        if (heartbeats != null) {
            heartbeats.close(Duration.ofMillis(500));
        }
    }

    private void pause() {
        synchronized (router) {
            if (!ended) {
                try {
                    router.wait(retryMs);
                } catch (InterruptedException error) {
                    ended = true;
                }
            }
        }
    }

    /** Lets tables age while there is no reader: were they not to, they would be followed for ever. */
    private void age() {
        try {
            tick(false);
        } catch (RuntimeException | Error error) {
            router.note("keeping schedules: " + error);
        }
    }

    /** Reads along; while there is no routes topic, or no right to it, the same client asks again. */
    void follow(Consumer<byte[], byte[]> consumer) {
        consumer.assign(List.of(ROUTES));
        while (!isThere(consumer)) {
            pause();
            if (ended) {
                return;
            }
            tick(false);
        }
        consumer.seek(ROUTES, findStart(consumer));
        while (!ended) {
            boolean fresh = false;
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                fresh |= take(consumer, record);
            }
            tick(fresh);
            arrivals.judge(router, System.currentTimeMillis());
        }
    }

    /** Whether the routes topic is there; asked for offsets of one that is not, a client waits out its time limit. */
    private boolean isThere(Consumer<byte[], byte[]> consumer) {
        String why = "no such topic";
        try {
            List<PartitionInfo> found = consumer.partitionsFor(ROUTES_TOPIC, CALL_TIMEOUT);
            if (found != null && !found.isEmpty()) {
                return true;
            }
        } catch (TimeoutException | AuthorizationException error) {
            why = error.toString();
        }
        router.note("reading " + ROUTES_TOPIC + ": " + why);
        return false;
    }

    /** First record of the last 10 minutes; where there is none, the end as it was before we asked. */
    private long findStart(Consumer<byte[], byte[]> consumer) {
        long end = consumer.endOffsets(List.of(ROUTES), CALL_TIMEOUT).get(ROUTES);
        liveFrom = end;
        Map<TopicPartition, Long> since =
                Collections.singletonMap(ROUTES, System.currentTimeMillis() - LOOK_BACK_MS);
        OffsetAndTimestamp start = consumer.offsetsForTimes(since, CALL_TIMEOUT).get(ROUTES);
        return start == null ? end : start.offset();
    }

    /** Whether the record brought something new. */
    private boolean take(Consumer<byte[], byte[]> consumer, ConsumerRecord<byte[], byte[]> record) {
        String topic = record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
        if (!router.wants(topic)) {
            return false;
        }
        if (record.value() == null) {
            router.withdraw(topic);
            arrivals.forget(topic);
            return true;
        }
        RouteTable before = router.newest(topic);
        boolean good = accept(consumer, topic, record.value());
        RouteTable now = router.newest(topic);
        if (now != before && record.offset() >= liveFrom) {
            arrivals.add(now);
        }
        return good;
    }

    /**
     * Whether the value is a table of the topic as it is.
     *
     * <p>Of a topic that nobody wrote to the first table is taken at its word, and later ones must be as wide: a
     * question for each of thousands of tables, in each of thousands of producers, would be more than brokers bear.
     */
    private boolean accept(Consumer<byte[], byte[]> consumer, String topic, byte[] value) {
        long nowMs = System.currentTimeMillis();
        int known = partitions(topic);
        if (router.accept(topic, value, known, nowMs)) {
            return true;
        }
        if (known < 0 || !isDue("partitions of " + topic, LEADERS_MS)) {
            return false;
        }
        askLeaders(consumer, topic); // the table may be right, and we may be late
        int asked = partitions(topic);
        return asked != known && router.accept(topic, value, asked, nowMs);
    }

    /** How many partitions the topic has: as seen, as the producer says, or by its table before; -1: not known. */
    private int partitions(String topic) {
        boolean[] led = leaders.get(topic);
        if (led != null) {
            return led.length;
        }
        Cluster cluster = router.cluster(topic);
        int count = cluster == null ? 0 : cluster.partitionsForTopic(topic).size();
        if (count > 0) {
            return count;
        }
        RouteTable table = router.newest(topic);
        return table == null ? -1 : table.weights.length;
    }

    /** What has to be done every now and then, with or without a view of the routes topic. */
    private void tick(boolean brought) {
        boolean fresh = brought | adoptClusters();
        if (isDue("refresh", REFRESH_MS)) {
            router.adapt();
            fresh = true;
        }
        if (fresh) {
            router.refresh(System.currentTimeMillis(), leaders);
        }
        if (router.settings.heartbeatMs > 0 && isDue("heartbeat", router.settings.heartbeatMs)) {
            sendHeartbeat();
        }
    }

    private boolean isDue(String what, long everyMs) {
        long now = clock.getAsLong();
        Long next = due.get(what);
        if (next != null && now < next) {
            return false;
        }
        due.put(what, now + everyMs);
        return true;
    }

    /** Asks the brokers; after a question without an answer not for a while, since each would wait anew. */
    private void askLeaders(Consumer<byte[], byte[]> consumer, String topic) {
        if (clock.getAsLong() < silentUntil) {
            return;
        }
        try {
            setLeaders(topic, consumer.partitionsFor(topic, CALL_TIMEOUT));
        } catch (WakeupException | InterruptException error) {
            throw error;
        } catch (RuntimeException error) {
            router.note("asking for leaders: " + error);
            silentUntil = clock.getAsLong() + LEADERS_MS;
        }
    }

    /**
     * Takes over what the producer itself learnt: it hears of a lost leader before anybody else.
     *
     * <p>Nobody else is asked: a topic is described to the partitioner with its first record, and of one that is not
     * written to leaders do not matter.
     */
    private boolean adoptClusters() {
        boolean changed = false;
        for (String topic : router.routedTopics()) {
            Cluster now = router.cluster(topic);
            if (now == null) {
                seen.remove(topic);
            } else if (now != seen.put(topic, now)) {
                changed |= setLeaders(topic, now.partitionsForTopic(topic));
            }
        }
        return changed;
    }

    private boolean setLeaders(String topic, List<PartitionInfo> partitions) {
        if (partitions == null || partitions.isEmpty()) {
            return false;
        }
        boolean[] led = new boolean[partitions.size()];
        for (PartitionInfo partition : partitions) {
            if (partition.partition() < led.length) {
                led[partition.partition()] = partition.leader() != null;
            }
        }
        return !Arrays.equals(led, leaders.put(topic, led));
    }

    /** A missing right is counted, nothing else: routing works without heartbeats. */
    private void sendHeartbeat() {
        String beat = router.heartbeat(clock.getAsLong());
        if (beat == null) {
            return;
        }
        try {
            if (heartbeats == null) {
                heartbeats = new KafkaProducer<>(
                        heartbeatConfig(), new ByteArraySerializer(), new ByteArraySerializer());
            }
            byte[] key = router.name.getBytes(StandardCharsets.UTF_8);
            byte[] value = beat.getBytes(StandardCharsets.UTF_8);
            heartbeats.send(new ProducerRecord<>(HEARTBEATS_TOPIC, key, value), (metadata, error) -> {
                (error == null ? router.heartbeatsSent : router.heartbeatsFailed).incrementAndGet();
            });
        } catch (InterruptException error) {
            throw error;
        } catch (RuntimeException | LinkageError error) {
            router.heartbeatsFailed.incrementAndGet();
        }
    }

    /** No group: assigned by hand, so that the right to read the routes topic suffices. */
    private Map<String, Object> readerConfig() {
        Map<String, Object> config = router.settings.clientConfig();
        config.put("client.id", router.name + "-routes");
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "latest");
        config.put("allow.auto.create.topics", "false");
        config.put("isolation.level", "read_committed");
        config.put("fetch.max.wait.ms", "500");
        config.put("enable.metrics.push", "false");
        return config;
    }

    /** One that may fail without anybody waiting. */
    private Map<String, Object> heartbeatConfig() {
        Map<String, Object> config = router.settings.clientConfig();
        config.put("client.id", router.name + "-heartbeats");
        config.put("acks", "1");
        config.put("enable.idempotence", "false");
        config.put("max.block.ms", "1000");
        config.put("request.timeout.ms", "5000");
        config.put("delivery.timeout.ms", "10000");
        config.put("linger.ms", "0");
        config.put("buffer.memory", "1048576");
        config.put("enable.metrics.push", "false");
        return config;
    }
}
