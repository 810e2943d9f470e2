import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.utils.Exit;

/**
 * Reads partitions from their beginning without a group, as many records as are asked for.
 * Prints how many records and bytes came, the last offset + 1 of each partition, and the checksum of
 * all values in the order of partitions and offsets.
 *
 * Arguments: bootstrap servers, topic, number of partitions, records to read, isolation level.
 */
public class AssignedConsumer {
    private static final Duration POLL = Duration.ofMillis(500);
    private static final long PATIENCE_MS = 120_000;

    public static void main(String[] args) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", args[4]);
        settings.put("max.poll.records", "5000");
        int partitions = Integer.parseInt(args[2]);
        long wanted = Long.parseLong(args[3]);
        long records = 0;
        long bytes = 0;
        CRC32 checksum = new CRC32();
        StringBuilder positions = new StringBuilder();
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
                settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            for (int partition = 0; partition < partitions; partition++) {
                TopicPartition assigned = new TopicPartition(args[1], partition);
                consumer.assign(List.of(assigned));
                consumer.seekToBeginning(List.of(assigned));
                long end = consumer.endOffsets(List.of(assigned)).get(assigned);
                while (consumer.position(assigned) < end && System.currentTimeMillis() < deadline) {
                    for (var record : consumer.poll(POLL)) {
                        records++;
                        bytes += record.value().length;
                        checksum.update(record.value());
                    }
                }
                positions.append(' ').append(consumer.position(assigned));
            }
        }
        System.out.println(records + " records " + bytes + " bytes" + positions + " crc " + checksum.getValue());
        Exit.exit(records == wanted ? 0 : 1);
    }
}
