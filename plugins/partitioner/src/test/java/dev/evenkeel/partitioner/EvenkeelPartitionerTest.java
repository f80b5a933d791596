package dev.evenkeel.partitioner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import javax.management.ObjectName;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.utils.Utils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class EvenkeelPartitionerTest {
    private static final Cluster CLUSTER = Clusters.cluster(true, true, true, true, true);
    private final EvenkeelPartitioner partitioner = new EvenkeelPartitioner();

    /** Nobody listens there: a partitioner must live with that. */
    private EvenkeelPartitioner configured(String... pairs) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", "127.0.0.1:9");
        for (int i = 0; i < pairs.length; i += 2) {
            config.put(pairs[i], pairs[i + 1]);
        }
        partitioner.configure(config);
        return partitioner;
    }

    @AfterEach
    void close() {
        partitioner.close();
    }

    @Test
    void keyedRecordsKeepTheirPartition() {
        configured();
        for (int i = 0; i < 1000; i++) {
            byte[] key = ("key-" + i).getBytes(StandardCharsets.UTF_8);
            int chosen = partitioner.partition("t", key, key, null, new byte[100], CLUSTER);
            assertEquals(Utils.toPositive(Utils.murmur2(key)) % 5, chosen);
        }
        assertEquals(0, partitioner.router().run("t").bytes());
    }

    @Test
    void keysAreIgnoredWhereTheProducerSaysSo() {
        configured("partitioner.ignore.keys", "true");
        partitioner.partition("t", "k", new byte[] {1}, null, new byte[100], CLUSTER);
        assertEquals(100, partitioner.router().run("t").bytes());
    }

    @Test
    void aRecordWithoutValueIsRoutedToo() {
        configured();
        int chosen = partitioner.partition("t", null, null, null, null, CLUSTER);
        assertTrue(chosen >= 0 && chosen < 5);
    }

    @Test
    void anOlderClientsSecondQuestionIsNotCountedTwice() {
        configured();
        partitioner.partition("t", null, null, null, new byte[100], CLUSTER);
        partitioner.onNewBatch("t", CLUSTER, 0);
        partitioner.partition("t", null, null, null, new byte[100], CLUSTER);
        partitioner.partition("t", null, null, null, new byte[100], CLUSTER);
        assertEquals(200, partitioner.router().run("t").bytes());
    }

    @Test
    void closesQuicklyAndTwiceAlsoWhenNobodyAnswers() {
        configured();
        assertTimeoutPreemptively(Duration.ofSeconds(5), () -> {
            partitioner.close();
            partitioner.close();
            new EvenkeelPartitioner().close();
        });
    }

    @Test
    void showsItsCountersByJmx() throws Exception {
        configured("client.id", "me");
        partitioner.partition("t", null, null, null, new byte[100], CLUSTER);
        ObjectName name = new ObjectName(
                "dev.evenkeel:type=router,id=" + ObjectName.quote(partitioner.router().name));
        RouterMXBean bean = javax.management.JMX.newMXBeanProxy(
                ManagementFactory.getPlatformMBeanServer(), name, RouterMXBean.class);
        assertEquals(Map.of("t", 100L), bean.getBytes());
        assertEquals(Map.of("t", "Default"), bean.getModes());
        partitioner.close();
        assertFalse(ManagementFactory.getPlatformMBeanServer().isRegistered(name));
    }
}
