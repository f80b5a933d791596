package dev.evenkeel.partitioner;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.Reader;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import javax.management.JMX;
import javax.management.ObjectName;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A program for integration tests: a producer that does what it is told on standard input, a line each.
 *
 * <p>{@code send TOPIC COUNT SIZE} answers {"bytes": {partition: bytes}, "failed": n};
 * {@code keyed TOPIC COUNT} {"partitions": [...]}, by the records' keys `key-0`, `key-1`, ...; {@code stats} the
 * router's counters. The argument is a file with the producer's configuration.
 */
public final class Writer {
    private final KafkaProducer<byte[], byte[]> producer;

    private Writer(Properties config) {
        producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            config.load(file);
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Writer writer = new Writer(config);
        try {
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                System.out.println(writer.answer(line.split(" ")));
            }
        } finally {
            writer.producer.close();
        }
    }

    private String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "send":
                return send(words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "keyed":
                return keyed(words[1], Integer.parseInt(words[2]));
            case "stats":
                return stats();
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private String send(String topic, int count, int size) {
        Map<Integer, Long> bytes = new TreeMap<>();
        AtomicInteger failed = new AtomicInteger();
        byte[] value = new byte[size];
        for (int i = 0; i < count; i++) {
            producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> {
                if (error == null) { // all callbacks come on the producer's one thread, and before flush returns
                    bytes.merge(metadata.partition(), (long) size, Long::sum);
                } else {
                    failed.incrementAndGet();
                }
            });
        }
        producer.flush();
        List<String> parts = new ArrayList<>();
        bytes.forEach((partition, sum) -> parts.add("\"" + partition + "\":" + sum));
        return "{\"bytes\":{" + String.join(",", parts) + "},\"failed\":" + failed + "}";
    }

    private String keyed(String topic, int count) throws ExecutionException, InterruptedException {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            byte[] key = ("key-" + i).getBytes(StandardCharsets.UTF_8);
            sent.add(producer.send(new ProducerRecord<>(topic, key, new byte[10])));
        }
        List<String> partitions = new ArrayList<>();
        for (Future<RecordMetadata> one : sent) {
            partitions.add(String.valueOf(one.get().partition()));
        }
        return "{\"partitions\":[" + String.join(",", partitions) + "]}";
    }

    private static String stats() throws Exception {
        ObjectName pattern = new ObjectName("dev.evenkeel:type=router,*");
        ObjectName name = ManagementFactory.getPlatformMBeanServer().queryNames(pattern, null).iterator().next();
        RouterMXBean bean =
                JMX.newMXBeanProxy(ManagementFactory.getPlatformMBeanServer(), name, RouterMXBean.class);
        List<String> modes = new ArrayList<>();
        bean.getModes().forEach((topic, mode) -> modes.add(Json.quote(topic) + ":" + Json.quote(mode)));
        List<String> epochs = new ArrayList<>();
        bean.getEpochs().forEach((topic, epoch) -> epochs.add(Json.quote(topic) + ":" + epoch));
        return "{\"modes\":{" + String.join(",", modes)
                + "},\"epochs\":{" + String.join(",", epochs)
                + "},\"invalid\":" + bean.getTablesInvalid()
                + ",\"lower\":" + bean.getTablesLower()
                + ",\"readErrors\":" + bean.getReadErrors()
                + ",\"heartbeatsSent\":" + bean.getHeartbeatsSent()
                + ",\"heartbeatsFailed\":" + bean.getHeartbeatsFailed()
                + ",\"problem\":" + Json.quote(bean.getLastProblem()) + "}";
    }
}
