import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer of a chaos run, of Kafka's own library: writes and notes what chaos/writer.py does.
 *
 * Arguments: name, bootstrap servers, topic, partitions, rate, file.
 */
public class ChaosWriter {
    private static final int BURST = 10;

    private final BufferedWriter notes;

    private ChaosWriter(BufferedWriter notes) {
        this.notes = notes;
    }

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[1]);
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        settings.put("linger.ms", "2");
        settings.put("retry.backoff.ms", "20");
        settings.put("reconnect.backoff.ms", "10");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("request.timeout.ms", "5000");
        settings.put("delivery.timeout.ms", "120000");
        settings.put("max.block.ms", "120000");
        AtomicBoolean ended = new AtomicBoolean();
        Thread listener = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Only the end counts.
                }
            } catch (IOException closed) {
                // The same as the end.
            }
            ended.set(true);
        });
        listener.setDaemon(true);
        listener.start();
        Path file = Path.of(args[5]);
        try (BufferedWriter notes = Files.newBufferedWriter(file);
                KafkaProducer<String, String> producer =
                    new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            new ChaosWriter(notes).write(producer, args, ended);
            producer.flush();
            producer.close(Duration.ofSeconds(120));
        }
    }

    private void write(KafkaProducer<String, String> producer, String[] args, AtomicBoolean ended)
            throws Exception {
        int partitions = Integer.parseInt(args[3]);
        long pauseMs = 1000L * BURST / Integer.parseInt(args[4]);
        for (int first = 0; !ended.get(); first += BURST) {
            for (int number = first; number < first + BURST; number++) {
                int known = number;
                int partition = number % partitions;
                long timestamp = System.currentTimeMillis();
                note("\"s\", " + number + ", " + partition + ", " + timestamp);
                ProducerRecord<String, String> record =
                    new ProducerRecord<>(args[2], partition, timestamp, null, args[0] + ":" + number);
                producer.send(record, (metadata, error) -> {
                    if (error == null) {
                        note("\"a\", " + known + ", " + metadata.offset());
                    } else {
                        note("\"f\", " + known + ", \"" + error.getClass().getSimpleName() + "\"");
                    }
                });
            }
            synchronized (notes) {
                notes.flush();
            }
            Thread.sleep(pauseMs);
        }
    }

    /** Writes a line. System.nanoTime() is the monotonic clock that Python reads, too. */
    private void note(String what) {
        synchronized (notes) {
            try {
                notes.write("[" + what + ", " + System.nanoTime() + "]\n");
            } catch (IOException failure) {
                throw new java.io.UncheckedIOException(failure);
            }
        }
    }
}
