package dev.evenkeel.partitioner;

import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.utils.Utils;

/**
 * Puts unkeyed records where the disks of the Kafka cluster have room, by the tables that Evenkeel's keeper
 * publishes in `__evenkeel_routes`.
 *
 * <p>{@code partitioner.class=dev.evenkeel.partitioner.EvenkeelPartitioner}. Keyed records keep the partition
 * that Kafka's own partitioner gives them. Unkeyed records of a topic without a table go, run by run, to the
 * partitions that have a leader, one after the other: Kafka does not let a partitioner hand a record back to the built-in one.
 * Settings, all optional: `evenkeel.topics`, `evenkeel.phase`, `evenkeel.message.bytes`,
 * `evenkeel.heartbeat.ms`, `evenkeel.run.bytes`. Addresses and security are the producer's own.
 *
 * <p>Never blocks, and never throws out of {@link #partition}.
 */
public final class EvenkeelPartitioner implements Partitioner {
    private final ThreadLocal<boolean[]> repeats = ThreadLocal.withInitial(() -> new boolean[1]);
    private volatile boolean repeating;
    private Router router;
    private Follower follower;
    private RouterStats stats;
    private boolean ignoreKeys;

    /** Needed by Kafka, which makes a partitioner by its name. */
    public EvenkeelPartitioner() {}

    /**
     * Reads the settings and starts the thread that follows the tables; connects to nothing itself.
     *
     * @throws org.apache.kafka.common.config.ConfigException an `evenkeel.` setting is wrong
     */
    @Override
    public void configure(Map<String, ?> config) {
        Settings settings = new Settings(config);
        ignoreKeys = settings.ignoreKeys;
        router = new Router(settings.clientId + "-" + UUID.randomUUID().toString().substring(0, 8), settings);
        follower = new Follower(router);
        follower.begin();
        stats = new RouterStats(router);
        stats.register();
    }

    @Override
    public int partition(
            String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
        if (keyBytes != null && !ignoreKeys) {
            List<PartitionInfo> partitions = cluster.partitionsForTopic(topic);
            return Utils.toPositive(Utils.murmur2(keyBytes)) % Math.max(1, partitions.size());
        }
        int size = valueBytes == null ? 0 : valueBytes.length;
        TopicRun run = router.run(topic);
        try {
            return run.next(repeating && isRepeat() ? 0 : size, cluster);
        } catch (RuntimeException error) {
            router.note("choosing a partition: " + error);
            return run.anyAvailable(cluster);
        }
    }

    /**
     * Clients before 4.0 call this, and then {@link #partition} a second time for the same record, when a
     * record would begin a new batch. It does not override anything in newer ones.
     */
    @SuppressWarnings("all") // an override by name only
    public void onNewBatch(String topic, Cluster cluster, int previous) {
        repeating = true;
        repeats.get()[0] = true;
    }

    private boolean isRepeat() {
        boolean[] flag = repeats.get();
        boolean repeat = flag[0];
        flag[0] = false;
        return repeat;
    }

    @Override
    public void close() {
        if (follower != null) {
            follower.end();
            stats.unregister();
            follower = null;
        }
    }

    /** For tests. */
    Router router() {
        return router;
    }
}
