// Reads what arrived in Kafka for the tests, with Kafka's own client. Commands come by standard input, a line each:
// read TOPIC COUNT SECONDS     all records of a topic, from its beginning: until there are so many, and no more for a moment
//   create TOPIC BYTES_MAX       a topic whose records may be so long
//   deny TOPIC USER              who may not write there
// A record is a line: key, body (base64), then name and value of each header (base64). A line "." ends each answer.
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Scanner;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class KafkaReader {
    static final int QUIET_MS = 300;

    static String text(byte[] bytes) {
        return bytes == null ? "-" : "+" + Base64.getEncoder().encodeToString(bytes);
    }

    static void print(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder(text(record.key())).append(' ').append(text(record.value()));
        for (Header header : record.headers())
            line.append(' ').append(text(header.key().getBytes())).append(' ').append(text(header.value()));
        System.out.println(line);
    }

    static void read(KafkaConsumer<byte[], byte[]> consumer, String topic, int count, double seconds) {
        List<TopicPartition> parts = new ArrayList<>();
        for (PartitionInfo part : consumer.partitionsFor(topic))
            parts.add(new TopicPartition(topic, part.partition()));
        consumer.assign(parts);
        consumer.seekToBeginning(parts);
        int seen = 0;
        long limit = System.nanoTime() + (long) (seconds * 1e9), last = System.nanoTime();
        while (System.nanoTime() < limit && (seen < count || System.nanoTime() - last < QUIET_MS * 1000000L))
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(50))) {
                print(record);
                seen++;
                last = System.nanoTime();
            }
    }

    static void deny(Admin admin, String topic, String user) throws Exception {
        ResourcePattern what = new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL);
        AccessControlEntry who = new AccessControlEntry("User:" + user, "*", AclOperation.WRITE, AclPermissionType.DENY);
        admin.createAcls(Set.of(new AclBinding(what, who))).all().get();
    }

    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("key.deserializer", ByteArrayDeserializer.class);
        settings.put("value.deserializer", ByteArrayDeserializer.class);
        settings.put("enable.auto.commit", "false");
        settings.put("metadata.max.age.ms", "1000");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings);
             Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]));
             Scanner in = new Scanner(System.in)) {
            admin.describeCluster().nodes().get();
            System.out.println(".");
            while (in.hasNextLine()) {
                String[] words = in.nextLine().split(" ");
                if (words[0].equals("read"))
                    read(consumer, words[1], Integer.parseInt(words[2]), Double.parseDouble(words[3]));
                else if (words[0].equals("create"))
                    admin.createTopics(Set.of(new NewTopic(words[1], 1, (short) 1).configs(Map.of("max.message.bytes", words[2])))).all().get();
                else if (words[0].equals("deny"))
                    deny(admin, words[1], words[2]);
                System.out.println(".");
            }
        }
    }
}
