import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Runs Kafka's own assignors: one case per line of standard input (see golden/assignor_cases.py),
 * one answer per line of standard output: {"r": shares in the order of the members, "w": checksum
 * of everything on the wire}, or {"e": class of the exception}.
 */
public class AssignorDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Node[] NO_NODES = {};

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder out = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.append(answer(JSON.readTree(line))).append('\n');
        }
        System.out.print(out);
    }

    private static String answer(JsonNode testCase) throws Exception {
        try {
            return run(testCase);
        } catch (RuntimeException failed) {
            return JSON.writeValueAsString(JSON.createObjectNode().put("e", failed.getClass().getSimpleName()));
        }
    }

    private static String run(JsonNode testCase) throws Exception {
        List<String> topics = new ArrayList<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (JsonNode row : testCase.get("t")) {
            String topic = row.get(0).asText();
            topics.add(topic);
            for (int partition = 0; partition < row.get(1).asInt(); partition++) {
                partitions.add(new PartitionInfo(topic, partition, Node.noNode(), NO_NODES, NO_NODES));
            }
        }
        CRC32 wire = new CRC32();
        List<String> members = new ArrayList<>();
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (JsonNode row : testCase.get("s")) {
            Subscription subscription = subscription(row, topics);
            for (short version = 0; version <= 3; version++) {
                wire.update(ConsumerProtocol.serializeSubscription(subscription, version));
            }
            members.add(row.get(0).asText());
            subscriptions.put(row.get(0).asText(), subscription);
        }
        Cluster cluster = new Cluster("golden", List.of(), partitions, Set.of(), Set.of());
        Map<String, Assignment> assignments =
            assignor(testCase.get("a").asText()).assign(cluster, new GroupSubscription(subscriptions)).groupAssignment();
        ArrayNode shares = JSON.createArrayNode();
        for (String member : members) {
            wire.update(ConsumerProtocol.serializeAssignment(assignments.get(member)));
            shares.add(runs(assignments.get(member).partitions(), topics));
        }
        return JSON.writeValueAsString(JSON.createObjectNode().put("w", wire.getValue()).set("r", shares));
    }

    private static Subscription subscription(JsonNode row, List<String> topics) throws Exception {
        List<String> wanted = new ArrayList<>();
        for (JsonNode index : row.get(2)) {
            wanted.add(topics.get(index.asInt()));
        }
        List<TopicPartition> owned = new ArrayList<>();
        for (JsonNode run : row.get(3)) {
            for (int i = 1; i < run.size(); i++) {
                owned.add(new TopicPartition(topics.get(run.get(0).asInt()), run.get(i).asInt()));
            }
        }
        byte[] userData = row.get(5).isNull() ? null : java.util.HexFormat.of().parseHex(row.get(5).asText());
        Subscription made = new Subscription(
            wanted, userData == null ? null : ByteBuffer.wrap(userData), owned, row.get(4).asInt(), Optional.empty());
        made.setGroupInstanceId(Optional.ofNullable(row.get(1).isNull() ? null : row.get(1).asText()));
        return made;
    }

    private static ArrayNode runs(List<TopicPartition> partitions, List<String> topics) {
        ArrayNode runs = JSON.createArrayNode();
        String last = null;
        ArrayNode run = null;
        for (TopicPartition each : partitions) {
            if (!each.topic().equals(last)) {
                last = each.topic();
                run = runs.addArray();
                run.add(topics.indexOf(last));
            }
            run.add(each.partition());
        }
        return runs;
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
    }
}
