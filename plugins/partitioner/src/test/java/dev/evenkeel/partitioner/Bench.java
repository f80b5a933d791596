package dev.evenkeel.partitioner;

import java.io.Reader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.JMX;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A program for benchmarks/java_partitioner.py: writes as fast as it can with several producers in turns.
 *
 * <p>Arguments: rounds, seconds per turn, record size, topic, then NAME=FILE for each kind of producer with its
 * configuration. All live in this one process, each round has an order of its own, so that none always has the same one
 * before it, and a first round warms up. Prints a line of JSON per turn: kind, round, bytes and records per second,
 * Produce requests, failures.
 */
public final class Bench {
    private Bench() {}

    public static void main(String[] arguments) throws Exception {
        int rounds = Integer.parseInt(arguments[0]);
        double seconds = Double.parseDouble(arguments[1]);
        int size = Integer.parseInt(arguments[2]);
        Map<String, KafkaProducer<byte[], byte[]>> producers = new TreeMap<>();
        for (int i = 4; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            producers.put(pair[0], open(Path.of(pair[1])));
        }
        awaitTables();
        List<String> kinds = new ArrayList<>(producers.keySet());
        for (int round = 0; round <= rounds; round++) {
            Collections.shuffle(kinds, new Random(round));
            for (String kind : kinds) {
                System.out.println(turn(kind, producers.get(kind), round, seconds, size, arguments[3]));
            }
        }
        producers.values().forEach(KafkaProducer::close);
    }

    /** Until every router that may route all topics has read a table. */
    private static void awaitTables() throws Exception {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        long until = System.nanoTime() + 30_000_000_000L;
        for (ObjectName name : server.queryNames(new ObjectName("dev.evenkeel:type=router,*"), null)) {
            RouterMXBean bean = JMX.newMXBeanProxy(server, name, RouterMXBean.class);
            while (bean.getTablesAccepted() == 0 && !name.getKeyProperty("id").contains("without-table")) {
                if (System.nanoTime() > until) {
                    throw new IllegalStateException("no table came: " + bean.getLastProblem());
                }
                Thread.sleep(50);
            }
        }
    }

    private static KafkaProducer<byte[], byte[]> open(Path file) throws Exception {
        Properties config = new Properties();
        try (Reader text = Files.newBufferedReader(file)) {
            config.load(text);
        }
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static String turn(
            String kind, KafkaProducer<byte[], byte[]> producer, int round, double seconds, int size, String topic) {
        AtomicLong failed = new AtomicLong();
        byte[] value = new byte[size];
        double before = requests(producer);
        long began = System.nanoTime();
        long until = began + (long) (seconds * 1e9);
        long records = 0;
        while (System.nanoTime() < until) {
            for (int i = 0; i < 100; i++) {
                producer.send(new ProducerRecord<>(topic, value), (metadata, error) -> {
                    if (error != null) {
                        failed.incrementAndGet();
                    }
                });
            }
            records += 100;
        }
        producer.flush();
        double took = (System.nanoTime() - began) / 1e9;
        return String.format(
                "{\"kind\":\"%s\",\"round\":%d,\"recordsPerSecond\":%.1f,\"bytesPerSecond\":%.0f,"
                        + "\"requests\":%.0f,\"records\":%d,\"failed\":%d}",
                kind, round, records / took, records * (double) size / took, requests(producer) - before, records,
                failed.get());
    }

    private static double requests(KafkaProducer<byte[], byte[]> producer) {
        for (Map.Entry<MetricName, ? extends Metric> metric : producer.metrics().entrySet()) {
            MetricName name = metric.getKey();
            if (name.name().equals("request-total") && name.group().equals("producer-metrics")) {
                return (Double) metric.getValue().metricValue();
            }
        }
        return 0;
    }
}
