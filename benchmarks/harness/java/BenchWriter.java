import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import javax.management.JMException;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes records at a steady pace with the Java client and tells what became of them as one line of JSON.
 *
 * <p>Arguments: topic, bytes, seconds, record bytes, for how many milliseconds at most to wait for a routes
 * table before the first record (0: not at all), then key=value of the producer's configuration.
 */
public final class BenchWriter {
  private static final int BLOCKS = 64;

  private BenchWriter() {}

  public static void main(String[] arguments) throws Exception {
    String topic = arguments[0];
    long bytes = Long.parseLong(arguments[1]);
    double seconds = Double.parseDouble(arguments[2]);
    int size = Integer.parseInt(arguments[3]);
    long patience = Long.parseLong(arguments[4]);
    Properties config = new Properties();
    for (int i = 5; i < arguments.length; i++) {
      int split = arguments[i].indexOf('=');
      config.setProperty(arguments[i].substring(0, split), arguments[i].substring(split + 1));
    }
    AtomicBoolean stop = new AtomicBoolean();
    Thread main = Thread.currentThread();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      stop.set(true);
      try {
        main.join(20_000);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }));
    ByteArraySerializer plain = new ByteArraySerializer();
    try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, plain, plain)) {
      producer.partitionsFor(topic);
      if (patience > 0) {
        awaitTable(patience);
      }
      write(producer, topic, bytes / size, seconds, size, stop);
    }
  }

  /** Ends without writing where our partitioner has read no table in time: it would measure something else. */
  private static void awaitTable(long patience) throws JMException {
    long deadline = System.nanoTime() + patience * 1_000_000L;
    while (tablesAccepted() == 0) {
      if (System.nanoTime() > deadline) {
        throw new IllegalStateException("no routes table within " + patience + " ms");
      }
      LockSupport.parkNanos(50_000_000L);
    }
  }

  private static long tablesAccepted() throws JMException {
    MBeanServer beans = ManagementFactory.getPlatformMBeanServer();
    long found = 0;
    for (ObjectName name : beans.queryNames(new ObjectName("dev.evenkeel:type=router,*"), null)) {
      found += (Long) beans.getAttribute(name, "TablesAccepted");
    }
    return found;
  }

  private static void write(
      KafkaProducer<byte[], byte[]> producer, String topic, long total, double seconds, int size, AtomicBoolean stop)
      throws JMException {
    AtomicLong acked = new AtomicLong();
    AtomicLong failed = new AtomicLong();
    Map<Integer, Long> partitions = new ConcurrentSkipListMap<>();
    byte[][] values = new byte[BLOCKS][size];
    Random random = new Random();
    for (byte[] value : values) {
      random.nextBytes(value);
    }
    long began = System.nanoTime();
    long sent = 0;
    while (sent < total && !stop.get()) {
      double passed = (System.nanoTime() - began) / 1e9;
      long due = Math.min(total, (long) (total * passed / seconds) + 1);
      while (sent < due) {
        producer.send(
            new ProducerRecord<>(topic, values[(int) (sent % BLOCKS)]),
            (metadata, error) -> {
              if (error == null) {
                acked.addAndGet(size);
                partitions.merge(metadata.partition(), (long) size, Long::sum);
              } else {
                failed.addAndGet(size);
              }
            });
        sent++;
      }
      LockSupport.parkNanos(5_000_000L);
    }
    producer.flush();
    System.out.printf(
        "{\"bytes_acked\": %d, \"bytes_failed\": %d, \"seconds\": %.3f, \"tables_seen\": %d, "
            + "\"partition_bytes\": {%s}}%n",
        acked.get(), failed.get(), (System.nanoTime() - began) / 1e9, tablesAccepted(),
        partitions.entrySet().stream()
            .map(entry -> "\"" + entry.getKey() + "\": " + entry.getValue())
            .collect(Collectors.joining(", ")));
  }
}
