package dev.evenkeel.partitioner;

import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * The run of one topic: which partition takes bytes now, and for how long.
 *
 * <p>`next` is called by the producing threads and never waits: where the background thread holds the lock,
 * the run in progress goes on a little longer.
 */
final class TopicRun {
    /** From this size on a message is a run of its own. */
    static final int LARGE_MESSAGE = 256 * 1024;
    /** A run ends after this time, however little was written. */
    static final long RUN_NANOS = 100_000_000L;
    private static final int NONE = -1;
    private static final int FEW_RUNS = 3;
    /** After so many calls of `adapt` (one a second) without a byte a topic is idle. */
    static final int IDLE_CALLS = 60;
    /** Mean lengths that differ by less than this factor are taken as equal. */
    private static final double ALIKE = 1.25;

    private final String topic;
    private final double phase;
    private final long runBytes;
    private final AtomicLong sent = new AtomicLong();
    /** Which partition is next where no table says it. */
    private final AtomicInteger untabled = new AtomicInteger(ThreadLocalRandom.current().nextInt(1 << 30));
    private final ReentrantLock lock = new ReentrantLock();
    private volatile int partition = NONE;
    private volatile long limit = -1;
    private volatile long started;
    private volatile Cluster cluster;
    // below: under the lock
    private long done;
    private long runs;
    /**
     * Usual length of a run: what the schedule counts in. First turns are spread over one stride; were it longer
     * than runs really are, light partitions would begin too late, and in all routers at once.
     */
    private double stride;
    private long measuredBytes;
    private long measuredRuns;
    private long idleBytes;
    private int idleCalls;
    private Schedule schedule;

    /** `messageBytes`: usual size of a message where known, else 0. */
    TopicRun(String topic, double phase, long runBytes, int messageBytes) {
        this.topic = topic;
        this.phase = phase;
        this.runBytes = runBytes;
        this.stride = messageBytes == 0 ? 0 : ordinary(messageBytes);
    }

    /** The partition of an unkeyed record with a value of `size` bytes. */
    int next(int size, Cluster now) {
        long total = sent.addAndGet(size);
        if (total <= limit && now == cluster && System.nanoTime() - started < RUN_NANOS) {
            return partition;
        }
        return turn(size, now);
    }

    private int turn(int size, Cluster now) {
        if (!lock.tryLock()) {
            int current = partition;
            return leads(current, now) ? current : anyAvailable(now);
        }
        try {
            cluster = now;
            boolean goesOn = sent.get() <= limit && System.nanoTime() - started < RUN_NANOS;
            if (goesOn && leads(partition, now)) {
                return partition; // only the cluster's description is new, or another thread was faster
            }
            closeRun(sent.getAndSet(size) - size);
            if (stride == 0) {
                stride = ordinary(size);
            }
            partition = schedule == null ? anyAvailable(now) : pick(now);
            limit = size >= LARGE_MESSAGE ? 0 : runBytes;
            started = System.nanoTime();
            runs++;
            return partition;
        } finally {
            lock.unlock();
        }
    }

    /** The partition whose turn is due; one without a leader loses its turn. */
    private int pick(Cluster now) {
        for (int tries = schedule.size(); tries > 0; tries--) {
            int due = schedule.pick();
            if (leads(due, now)) {
                return due;
            }
            schedule.account(due, runBytes / stride);
        }
        return anyAvailable(now);
    }

    private void closeRun(long used) {
        done += used;
        if (schedule != null && partition != NONE && stride > 0) {
            schedule.account(partition, used / stride);
        }
    }

    private boolean leads(int wanted, Cluster now) {
        List<PartitionInfo> known = now.partitionsForTopic(topic);
        if (wanted < 0 || wanted >= known.size()) {
            return false;
        }
        PartitionInfo found = known.get(wanted);
        if (found.partition() != wanted) { // a cluster's list is by number; never trust that for a record's sake
            found = now.partition(new TopicPartition(topic, wanted));
        }
        return found != null && found.leader() != null;
    }

    /**
     * Where the client's own partitioner may put it too: a partition that has a leader, else any.
     *
     * <p>One after the other, begun anywhere: neighbours are led by different brokers. Drawn at random, runs met on
     * one broker while others had none: 0.96 of the throughput at saturation, and 8 % more requests.
     */
    int anyAvailable(Cluster now) {
        List<PartitionInfo> usable = now.availablePartitionsForTopic(topic);
        if (usable.isEmpty()) {
            usable = now.partitionsForTopic(topic);
        }
        return usable.isEmpty()
                ? 0
                : usable.get(Math.floorMod(untabled.getAndIncrement(), usable.size())).partition();
    }

    /**
     * Go by these weights from the next run on; null: any available partition.
     *
     * <p>A run in progress is finished, unless its partition may not be used any more.
     */
    void follow(double[] weights) {
        lock.lock();
        try {
            Schedule former = schedule;
            if (weights == null) {
                schedule = null;
            } else {
                schedule = former == null ? new Schedule(weights, phase) : former.successor(weights);
            }
            boolean unmanaged = former == null && schedule != null;
            if (unmanaged || (schedule != null && !schedule.contains(partition))) {
                limit = -1;
            }
        } finally {
            lock.unlock();
        }
    }

    private double ordinary(int size) {
        return size >= LARGE_MESSAGE ? size : runBytes;
    }

    /** Fits the stride to the runs since the last call. */
    void adapt() {
        lock.lock();
        try {
            long bytes = done + sent.get();
            idleCalls = bytes == idleBytes ? idleCalls + 1 : 0;
            idleBytes = bytes;
            if (idleCalls >= IDLE_CALLS) {
                cluster = null; // each topic would hold a description of its own of the whole cluster
            }
            long count = runs - measuredRuns;
            if (count >= FEW_RUNS && stride > 0) {
                double mean = (bytes - measuredBytes) / (double) count;
                if (mean > 0 && (mean > ALIKE * stride || stride > ALIKE * mean)) {
                    stride = mean;
                }
            }
            if (count >= FEW_RUNS) {
                measuredBytes = bytes;
                measuredRuns = runs;
            }
        } finally {
            lock.unlock();
        }
    }

    /** Bytes of values without key and partition so far, routed or not. */
    long bytes() {
        lock.lock();
        try {
            return done + sent.get();
        } finally {
            lock.unlock();
        }
    }

    long runs() {
        lock.lock();
        try {
            return runs;
        } finally {
            lock.unlock();
        }
    }

    /** Whether a schedule is in force. */
    boolean routed() {
        lock.lock();
        try {
            return schedule != null;
        } finally {
            lock.unlock();
        }
    }

    /** The cluster as the producer saw it last; null before the first record, and for an idle topic. */
    Cluster cluster() {
        return cluster;
    }
}
