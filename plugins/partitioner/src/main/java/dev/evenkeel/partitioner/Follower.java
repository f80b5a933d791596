package dev.evenkeel.partitioner;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
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
import org.apache.kafka.common.errors.InterruptException;
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
    private volatile boolean ended;
    private volatile Consumer<byte[], byte[]> reader;
    private Producer<byte[], byte[]> heartbeats;

    Follower(Router router) {
        super("evenkeel-router-" + router.name);
        setDaemon(true);
        this.router = router;
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
                    router.wait(RETRY_MS);
                } catch (InterruptedException error) {
                    ended = true;
                }
            }
        }
    }

    /** Lets tables age while there is no reader: were they not to, they would be followed for ever. */
    private void age() {
        try {
            tick(null, false);
        } catch (RuntimeException | Error error) {
            router.note("keeping schedules: " + error);
        }
    }

    private void follow(Consumer<byte[], byte[]> consumer) {
        consumer.assign(List.of(ROUTES));
        consumer.seek(ROUTES, findStart(consumer));
        while (!ended) {
            boolean fresh = false;
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
                fresh |= take(consumer, record);
            }
            tick(consumer, fresh);
        }
    }

    /** First record of the last 10 minutes; where there is none, the end as it was before we asked. */
    private static long findStart(Consumer<byte[], byte[]> consumer) {
        long end = consumer.endOffsets(List.of(ROUTES), CALL_TIMEOUT).get(ROUTES);
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
            return true;
        }
        long now = System.currentTimeMillis();
        if (!leaders.containsKey(topic) && isDue("leaders of " + topic, LEADERS_MS)) {
            askLeaders(consumer, topic);
        }
        boolean[] led = leaders.get(topic);
        if (router.accept(topic, record.value(), led == null ? -1 : led.length, now)) {
            return true;
        }
        if (led == null || !isDue("partitions of " + topic, LEADERS_MS)) {
            return false;
        }
        askLeaders(consumer, topic); // the table may be right, and we may be late
        boolean[] asked = leaders.get(topic);
        return asked.length != led.length && router.accept(topic, record.value(), asked.length, now);
    }

    /** What has to be done every now and then, with or without a view of the routes topic. */
    private void tick(Consumer<byte[], byte[]> consumer, boolean brought) {
        boolean fresh = brought;
        if (consumer != null && isDue("leaders", LEADERS_MS)) {
            for (String topic : List.copyOf(router.routedTopics())) {
                askLeaders(consumer, topic);
            }
        }
        fresh |= adoptClusters();
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
        long now = System.nanoTime() / 1_000_000;
        Long next = due.get(what);
        if (next != null && now < next) {
            return false;
        }
        due.put(what, now + everyMs);
        return true;
    }

    private void askLeaders(Consumer<byte[], byte[]> consumer, String topic) {
        try {
            setLeaders(topic, consumer.partitionsFor(topic, CALL_TIMEOUT));
        } catch (WakeupException | InterruptException error) {
            throw error;
        } catch (RuntimeException error) {
            router.note("asking for leaders: " + error);
        }
    }

    /** Takes over what the producer itself learnt: it hears of a lost leader before anybody else. */
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
        String beat = router.heartbeat();
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
