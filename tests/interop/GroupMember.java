import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a group that tells what happens as tests/clients/group_member.py does, and ends when
 * its standard input does.
 *
 * Arguments: bootstrap servers, group, topic, assignor, session timeout in ms, perhaps instance id.
 */
public class GroupMember {
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[1]);
        settings.put("partition.assignment.strategy", assignor(args[3]));
        settings.put("session.timeout.ms", args[4]);
        settings.put("heartbeat.interval.ms", "500");
        settings.put("auto.offset.reset", "earliest");
        settings.put("auto.commit.interval.ms", "200");
        if (args.length > 5) {
            settings.put("group.instance.id", args[5]);
        }
        AtomicBoolean ended = new AtomicBoolean();
        Thread listener = new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException closed) {
                // The same as the end.
            }
            ended.set(true);
        });
        listener.setDaemon(true);
        listener.start();
        AtomicBoolean changed = new AtomicBoolean();
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(args[2]), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                    called("revoked", partitions);
                    changed.set(true);
                }

                @Override
                public void onPartitionsLost(Collection<TopicPartition> partitions) {
                    called("lost", partitions);
                    changed.set(true);
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                    called("assigned", partitions);
                    changed.set(true);
                }
            });
            while (!ended.get()) {
                StringBuilder values = new StringBuilder();
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    values.append(values.length() == 0 ? "" : ", ").append('"').append(record.value()).append('"');
                }
                if (values.length() > 0) {
                    System.out.println("{\"read\": [" + values + "]}");
                }
                if (changed.getAndSet(false)) {
                    System.out.println("{\"owned\": " + numbers(consumer.assignment()) + "}");
                }
            }
        }
    }

    private static void called(String occasion, Collection<TopicPartition> partitions) {
        System.out.println("{\"called\": \"" + occasion + "\", \"with\": " + numbers(partitions) + "}");
    }

    private static TreeSet<Integer> numbers(Collection<TopicPartition> partitions) {
        return partitions.stream()
            .map(TopicPartition::partition).collect(Collectors.toCollection(TreeSet::new));
    }

    private static String assignor(String name) {
        return "org.apache.kafka.clients.consumer." + switch (name) {
            case "range" -> "RangeAssignor";
            case "roundrobin" -> "RoundRobinAssignor";
            case "sticky" -> "StickyAssignor";
            default -> "CooperativeStickyAssignor";
        };
    }
}
