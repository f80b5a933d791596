package dev.evenkeel.partitioner;

import static dev.evenkeel.partitioner.Clusters.cluster;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.Cluster;
import org.junit.jupiter.api.Test;

class TopicRunTest {
    private static final int RUN = 64 * 1024;

    private static TopicRun run(double... weights) {
        TopicRun run = new TopicRun("t", 0.25, RUN, 0);
        run.follow(weights.length == 0 ? null : weights);
        return run;
    }

    private static long[] write(TopicRun run, Cluster cluster, int records, int size) {
        long[] bytes = new long[cluster.partitionsForTopic("t").size()];
        for (int i = 0; i < records; i++) {
            bytes[run.next(size, cluster)] += size;
        }
        return bytes;
    }

    @Test
    void followsTheWeights() {
        Cluster cluster = cluster(true, true, true, true);
        long[] bytes = write(run(0.4, 0.3, 0.2, 0.1), cluster, 400_000, 1024);
        double whole = 400_000 * 1024.0;
        assertEquals(0.4, bytes[0] / whole, 0.005);
        assertEquals(0.3, bytes[1] / whole, 0.005);
        assertEquals(0.2, bytes[2] / whole, 0.005);
        assertEquals(0.1, bytes[3] / whole, 0.005);
    }

    @Test
    void anIdleTopicHoldsNoCluster() {
        Cluster cluster = cluster(true, true);
        TopicRun run = run(0.5, 0.5);
        int before = run.next(10, cluster);
        for (int i = 0; i < TopicRun.IDLE_CALLS; i++) {
            run.adapt();
            assertEquals(cluster, run.cluster());
        }
        run.adapt();
        assertNull(run.cluster());
        assertTrue(Set.of(0, 1).contains(before) && Set.of(0, 1).contains(run.next(10, cluster)));
        assertEquals(cluster, run.cluster());
    }

    @Test
    void writesRunsNotRecords() {
        TopicRun run = run(0.5, 0.5);
        write(run, cluster(true, true), 64 * 100, 1024);
        assertTrue(run.runs() <= 120, "runs: " + run.runs());
    }

    @Test
    void aLargeMessageIsARunOfItsOwn() {
        TopicRun run = run(0.5, 0.5);
        long[] bytes = write(run, cluster(true, true), 100, TopicRun.LARGE_MESSAGE);
        assertEquals(100, run.runs());
        assertEquals(bytes[0], bytes[1], TopicRun.LARGE_MESSAGE);
    }

    @Test
    void aRunEndsAfterItsTime() {
        TopicRun run = run(0.5, 0.5);
        Cluster cluster = cluster(true, true);
        int first = run.next(1, cluster);
        long until = System.nanoTime() + 20 * TopicRun.RUN_NANOS;
        int later = first;
        while (later == first && System.nanoTime() < until) {
            Thread.onSpinWait();
            later = run.next(1, cluster);
        }
        assertNotEquals(first, later);
    }

    @Test
    void withoutATableUsesAllPartitionsThatHaveALeader() {
        Cluster cluster = cluster(true, false, true, true);
        long[] bytes = write(run(), cluster, 64 * 3000, 1024);
        assertEquals(0, bytes[1]);
        for (int p : new int[] {0, 2, 3}) {
            assertEquals(1.0 / 3, bytes[p] / (64 * 3000 * 1024.0), 0.001);
        }
    }

    @Test
    void withoutATableGoesFromPartitionToPartitionInTurn() {
        Cluster cluster = cluster(true, true, true);
        TopicRun run = run();
        int first = run.next(RUN, cluster);
        for (int i = 1; i <= 6; i++) {
            assertEquals((first + i) % 3, run.next(RUN, cluster));
        }
    }

    @Test
    void writesSomewhereEvenIfNoneHasALeader() {
        assertTrue(run().next(10, cluster(false, false)) < 2);
        assertTrue(run(0.5, 0.5).next(10, cluster(false, false)) < 2);
        assertEquals(0, run().next(10, cluster()));
    }

    @Test
    void leavesAPartitionThatLosesItsLeaderAtOnce() {
        TopicRun run = run(0.5, 0.5);
        int first = run.next(10, cluster(true, true));
        Cluster lost = first == 0 ? cluster(false, true) : cluster(true, false);
        for (int i = 0; i < 1000; i++) {
            assertEquals(1 - first, run.next(1024, lost));
        }
    }

    @Test
    void neverNamesAPartitionThatTheClientDoesNotKnow() {
        long[] bytes = write(run(0.1, 0.1, 0.4, 0.4), cluster(true, true), 10_000, 1024);
        assertEquals(10_000 * 1024, bytes[0] + bytes[1]);
    }

    @Test
    void staysEvenWhereRunsAreShorterThanExpected() {
        Cluster cluster = cluster(true, true, true, true);
        TopicRun run = new TopicRun("t", 0.25, 1 << 30, 0); // endless, but for the changes below
        run.follow(new double[] {0.4, 0.3, 0.2, 0.1});
        long[] bytes = new long[4];
        for (int i = 0; i < 4000; i++) {
            bytes[run.next(TopicRun.LARGE_MESSAGE, cluster)] += TopicRun.LARGE_MESSAGE;
            if (i % 100 == 0) {
                run.adapt();
            }
        }
        assertEquals(0.1, bytes[3] / (4000.0 * TopicRun.LARGE_MESSAGE), 0.005);
    }

    @Test
    void finishesARunWhenATableComes() {
        Cluster cluster = cluster(true, true, true);
        TopicRun run = run(0.3, 0.3, 0.4);
        int first = run.next(10, cluster);
        run.follow(new double[] {0.4, 0.3, 0.3});
        assertEquals(first, run.next(10, cluster));
    }

    @Test
    void leavesAPartitionThatStopsWithTheNextRecord() {
        Cluster cluster = cluster(true, true);
        TopicRun run = run(0.5, 0.5);
        int first = run.next(10, cluster);
        run.follow(first == 0 ? new double[] {0, 1} : new double[] {1, 0});
        assertEquals(1 - first, run.next(10, cluster));
    }

    @Test
    void beginsWithATableAtOnce() {
        Cluster cluster = cluster(true, true);
        TopicRun run = run();
        run.next(10, cluster);
        run.follow(new double[] {0, 1});
        assertEquals(1, run.next(10, cluster));
        assertTrue(run.routed());
    }

    @Test
    void goesOnWithoutATable() {
        Cluster cluster = cluster(true, true);
        TopicRun run = run(0, 1);
        run.next(10, cluster);
        run.follow(null);
        Set<Integer> used = new HashSet<>();
        for (int i = 0; i < 64 * 100; i++) {
            used.add(run.next(1024, cluster));
        }
        assertEquals(Set.of(0, 1), used);
    }

    @Test
    void countsEveryByteOfManyThreads() throws Exception {
        TopicRun run = run(0.5, 0.3, 0.2);
        Cluster cluster = cluster(true, true, true);
        AtomicLongArray bytes = new AtomicLongArray(3);
        Thread[] threads = new Thread[4];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> {
                for (int i = 0; i < 200_000; i++) {
                    bytes.addAndGet(run.next(100, cluster), 100);
                }
            });
            threads[t].start();
        }
        while (threads[0].isAlive()) {
            run.follow(new double[] {0.5, 0.3, 0.2});
            LockSupport.parkNanos(5_000_000);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        long whole = 4 * 200_000 * 100L;
        assertEquals(whole, run.bytes());
        assertEquals(0.5, bytes.get(0) / (double) whole, 0.05);
    }
}
