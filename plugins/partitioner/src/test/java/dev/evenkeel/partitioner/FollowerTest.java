package dev.evenkeel.partitioner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The background thread's work, on the test's thread, with a consumer of our own making. */
class FollowerTest {
    private static final TopicPartition ROUTES = new TopicPartition(Follower.ROUTES_TOPIC, 0);
    private static final String TWO = ",\"weights\":[900000,100000]";
    private static final String THREE = ",\"weights\":[900000,100000,0]";
    private static final long HOUR_MS = 3_600_000;

    private final Router router = new Router("r", new Settings(Map.of("evenkeel.heartbeat.ms", "0")));
    private final Brokers brokers = new Brokers();
    private long now = 1_000_000;
    private final Follower follower = new Follower(router, () -> now, 1);

    /** The routes topic, how many partitions other topics have, and which of them were asked for. */
    private final class Brokers extends MockConsumer<byte[], byte[]> {
        private final List<String> asked = new ArrayList<>();
        private final Map<String, Integer> partitions = new HashMap<>(Map.of(Follower.ROUTES_TOPIC, 1));
        private long offset;
        private boolean silent;
        private int missing;

        private Brokers() {
            super("latest");
            updateBeginningOffsets(Map.of(ROUTES, 0L));
            updateEndOffsets(Map.of(ROUTES, 0L));
        }

        @Override
        public List<PartitionInfo> partitionsFor(String topic, Duration timeout) {
            asked.add(topic);
            if (topic.equals(Follower.ROUTES_TOPIC)) {
                return --missing < 0 ? describe(topic) : List.of();
            }
            if (silent) {
                throw new TimeoutException("nobody answers");
            }
            return describe(topic);
        }

        private List<PartitionInfo> describe(String topic) {
            List<PartitionInfo> found = new ArrayList<>();
            for (int p = 0; p < partitions.getOrDefault(topic, 2); p++) {
                found.add(new PartitionInfo(topic, p, Clusters.NODE, null, null));
            }
            return found;
        }

        @Override
        public Map<TopicPartition, OffsetAndTimestamp> offsetsForTimes(
                Map<TopicPartition, Long> times, Duration timeout) {
            Map<TopicPartition, OffsetAndTimestamp> found = new HashMap<>();
            found.put(ROUTES, new OffsetAndTimestamp(0, 0));
            return found;
        }

        /** With the next poll the table of a topic comes. */
        private void publish(String topic, int epoch, String weights, long ageMs) {
            String text = "{\"topic\":\"" + topic + "\",\"ownerEpoch\":1,\"epoch\":" + epoch
                    + ",\"takenAtMs\":" + (System.currentTimeMillis() - ageMs) + weights + "}";
            byte[] value = text.getBytes(StandardCharsets.UTF_8);
            byte[] key = topic.getBytes(StandardCharsets.UTF_8);
            addRecord(new ConsumerRecord<>(Follower.ROUTES_TOPIC, 0, offset++, key, value));
        }

        /** With the next poll the table of a topic is taken back. */
        private void withdraw(String topic) {
            byte[] key = topic.getBytes(StandardCharsets.UTF_8);
            addRecord(new ConsumerRecord<>(Follower.ROUTES_TOPIC, 0, offset++, key, null));
        }

        private List<String> askedOfOthers() {
            List<String> found = new ArrayList<>(asked);
            found.removeIf(Follower.ROUTES_TOPIC::equals);
            return found;
        }
    }

    /** Follows until the given steps were taken, each before a poll, and then ends. */
    private void follow(Runnable... steps) {
        for (Runnable step : steps) {
            brokers.schedulePollTask(step);
            brokers.schedulePollTask(() -> now += 10_000);
        }
        brokers.schedulePollTask(follower::end);
        follower.follow(brokers);
    }

    @Test
    @Timeout(60)
    void itsOwnClockBeginsAtNothingAndGrows() {
        LongSupplier clock = Follower.startClock();
        long before = clock.getAsLong();
        assertTrue(0 <= before && before < 60_000, () -> "" + before);
        while (clock.getAsLong() <= before) {
            Thread.onSpinWait();
        }
    }

    @Test
    void asksNobodyForLeadersOfTopicsThatAreNotWrittenTo() {
        follow(() -> {
            for (int i = 0; i < 500; i++) {
                brokers.publish("t" + i, 1, TWO, 0);
            }
        }, () -> {});
        assertEquals(500, router.counts().accepted);
        assertEquals("Table", router.mode("t499"));
        assertEquals(List.of(), brokers.askedOfOthers());
    }

    @Test
    void routesTheFirstRecordByWhatTheProducerKnows() {
        follow(() -> brokers.publish("t", 1, ",\"weights\":[500000,500000]", 0), () -> {});
        for (int i = 0; i < 100; i++) {
            assertEquals(1, router.run("t").next(300_000, Clusters.cluster(false, true)));
        }
        assertEquals(List.of(), brokers.askedOfOthers());
    }

    @Test
    void leavesPartitionsThatTheProducerSeesWithoutALeader() {
        follow(() -> brokers.publish("t", 1, ",\"weights\":[1000000,0]", 0), () -> {
            router.run("t").next(1, Clusters.cluster(false, true));
        }, () -> {});
        assertEquals("Mixed", router.mode("t")); // of what is left all is as good
        assertEquals(List.of(), brokers.askedOfOthers());
    }

    @Test
    void refusesATableThatIsNotAsWideAsTheTopic() {
        router.run("t").next(1, Clusters.cluster(true, true));
        follow(() -> {
            brokers.publish("t", 1, THREE, 0);
            brokers.publish("t", 2, TWO, 0);
            brokers.publish("u", 1, TWO, 0);
            brokers.publish("u", 2, THREE, 0);
        }, () -> {});
        assertEquals(2, router.counts().invalid);
        assertEquals(2, router.newest("t").epoch);
        assertEquals(1, router.newest("u").epoch);
        assertEquals(List.of("t", "u"), brokers.askedOfOthers());
    }

    @Test
    void takesATableOfATopicThatGrew() {
        follow(() -> brokers.publish("t", 1, TWO, 0), () -> {
            brokers.partitions.put("t", 3);
            brokers.publish("t", 2, THREE, 0);
        }, () -> {});
        assertEquals(2, router.newest("t").epoch);
        assertEquals(List.of("t"), brokers.askedOfOthers());
    }

    @Test
    void asksNothingForAWhileAfterAQuestionWithoutAnAnswer() {
        brokers.silent = true;
        follow(() -> {
            for (int i = 0; i < 5; i++) {
                brokers.publish("t" + i, 1, TWO, 0);
                brokers.publish("t" + i, 2, THREE, 0);
            }
        }, () -> brokers.publish("t4", 3, THREE, 0), () -> {});
        assertEquals(List.of("t0", "t4"), brokers.askedOfOthers());
        assertEquals(2, router.counts().readErrors);
    }

    @Test
    void asksAgainWithTheSameClientWhileThereIsNoRoutesTopic() {
        brokers.missing = 3;
        follow(() -> brokers.publish("t", 1, TWO, 0), () -> {});
        assertEquals(4, brokers.asked.size());
        assertEquals(3, router.counts().readErrors);
        assertEquals(1, router.newest("t").epoch);
    }

    @Test
    void tellsOfTablesThatAreTooOldWhenTheyCome() {
        follow(() -> brokers.publish("t", 1, TWO, HOUR_MS), () -> {});
        String expected = "the table of t was 3600 s old when it came, its limit is 600 s";
        assertTrue(router.lastProblem().contains(expected), router.lastProblem());
        assertTrue(router.lastProblem().contains("clocks"), router.lastProblem());
        assertEquals(0, router.counts().readErrors);
    }

    @Test
    void saysNothingOfTablesThatComeInTimeOrLayThere() {
        brokers.updateEndOffsets(Map.of(ROUTES, 1L));
        follow(() -> brokers.publish("t", 1, TWO, HOUR_MS), () -> brokers.publish("t", 2, TWO, 0), () -> {});
        assertEquals(2, router.newest("t").epoch);
        assertEquals("", router.lastProblem());
    }

    @Test
    void saysNothingOfAnOldTableThatIsWithdrawn() {
        follow(() -> {
            brokers.publish("t", 1, TWO, HOUR_MS);
            brokers.withdraw("t");
        }, () -> {});
        assertEquals(1, router.counts().withdrawn);
        assertEquals("", router.lastProblem());
    }

    @Test
    void saysNothingWhereAnOldTableStaysInForce() {
        brokers.updateEndOffsets(Map.of(ROUTES, 1L));
        follow(() -> brokers.publish("t", 2, TWO, HOUR_MS), () -> brokers.publish("t", 1, TWO, 0), () -> {});
        assertEquals(1, router.counts().lower);
        assertEquals("", router.lastProblem());
    }
}
