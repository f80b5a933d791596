import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes records at a steady pace with the Java client and tells what became of them as one line of JSON.
 *
 * <p>Arguments: topic, bytes, seconds, record bytes, milliseconds to wait before the first counted record
 * (a partitioner that reads tables needs some), then key=value of the producer's configuration.
 */
public final class BenchWriter {
  private static final int BLOCKS = 64;

  private BenchWriter() {}

  public static void main(String[] arguments) throws Exception {
    String topic = arguments[0];
    long bytes = Long.parseLong(arguments[1]);
    double seconds = Double.parseDouble(arguments[2]);
    int size = Integer.parseInt(arguments[3]);
    long warmUp = Long.parseLong(arguments[4]);
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
      LockSupport.parkNanos(warmUp * 1_000_000L);
      write(producer, topic, bytes / size, seconds, size, stop);
    }
  }

  private static void write(
      KafkaProducer<byte[], byte[]> producer, String topic, long total, double seconds, int size, AtomicBoolean stop) {
    AtomicLong acked = new AtomicLong();
    AtomicLong failed = new AtomicLong();
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
            (metadata, error) -> (error == null ? acked : failed).addAndGet(size));
        sent++;
      }
      LockSupport.parkNanos(5_000_000L);
    }
    producer.flush();
    System.out.printf(
        "{\"bytes_acked\": %d, \"bytes_failed\": %d, \"seconds\": %.3f}%n",
        acked.get(), failed.get(), (System.nanoTime() - began) / 1e9);
  }
}
