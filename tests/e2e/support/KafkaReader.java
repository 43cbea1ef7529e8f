// Reads what arrived in Kafka for the tests, and sends records, with Kafka's own client. Commands come by standard input, a line each:
//   read TOPIC COUNT SECONDS     all records of a topic, from its beginning: until there are so many, and no more for a moment
//   create TOPIC BYTES_MAX PARTITIONS   a topic whose records may be so long
//   deny TOPIC USER              who may not write there
//   send TOPIC FILE              the records of a file, each a line as below with a timestamp in front (0: now); answers when all are stored
//   group GROUP TOPIC            answers a line: how many records of the topic the group has not committed
// A record that was read is a line: its timestamp in milliseconds, key, body (base64), then name and value of each header (base64). A line "." ends each answer.
import java.nio.file.Files;
import java.nio.file.Path;
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
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
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
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class KafkaReader {
    static final int QUIET_MS = 300;

    static String text(byte[] bytes) {
        return bytes == null ? "-" : "+" + Base64.getEncoder().encodeToString(bytes);
    }

    static void print(ConsumerRecord<byte[], byte[]> record) {
        StringBuilder line = new StringBuilder(Long.toString(record.timestamp())).append(' ').append(text(record.key())).append(' ').append(text(record.value()));
        for (Header header : record.headers())
            line.append(' ').append(text(header.key().getBytes())).append(' ').append(text(header.value()));
        System.out.println(line);
    }

    static List<TopicPartition> partitions(KafkaConsumer<byte[], byte[]> consumer, String topic) {
        List<TopicPartition> parts = new ArrayList<>();
        for (PartitionInfo part : consumer.partitionsFor(topic))
            parts.add(new TopicPartition(topic, part.partition()));
        return parts;
    }

    static void read(KafkaConsumer<byte[], byte[]> consumer, String topic, int count, double seconds) throws Exception {
        long limit = System.nanoTime() + (long) (seconds * 1e9), last = System.nanoTime();
        List<TopicPartition> parts = partitions(consumer, topic);
        while (parts.isEmpty() && System.nanoTime() < limit) {
            Thread.sleep(100);
            parts = partitions(consumer, topic);
        }
        if (parts.isEmpty())
            return;
        consumer.assign(parts);
        consumer.seekToBeginning(parts);
        int seen = 0;
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

    static byte[] bytes(String word) {
        return word.equals("-") ? null : Base64.getDecoder().decode(word.substring(1));
    }

    static void send(String servers, String topic, String file) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", servers, "acks", "all", "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class);
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            List<java.util.concurrent.Future<?>> sent = new ArrayList<>();
            for (String line : Files.readAllLines(Path.of(file))) {
                String[] words = line.split(" ");
                long at = Long.parseLong(words[0]);
                ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, null, at == 0 ? null : at, bytes(words[1]), bytes(words[2]));
                for (int i = 3; i + 1 < words.length; i += 2)
                    record.headers().add(new String(bytes(words[i])), bytes(words[i + 1]));
                sent.add(producer.send(record));
            }
            for (java.util.concurrent.Future<?> one : sent)
                one.get();
        }
    }

    static long behind(KafkaConsumer<byte[], byte[]> consumer, Admin admin, String group, String topic) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        long sum = 0;
        for (Map.Entry<TopicPartition, Long> end : consumer.endOffsets(partitions(consumer, topic)).entrySet()) {
            OffsetAndMetadata at = committed.get(end.getKey());
            sum += end.getValue() - (at == null ? 0 : at.offset());
        }
        return sum;
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
                    admin.createTopics(Set.of(new NewTopic(words[1], Integer.parseInt(words[3]), (short) 1).configs(Map.of("max.message.bytes", words[2])))).all().get();
                else if (words[0].equals("send"))
                    send(args[0], words[1], words[2]);
                else if (words[0].equals("group"))
                    System.out.println(behind(consumer, admin, words[1], words[2]));
                else if (words[0].equals("deny"))
                    deny(admin, words[1], words[2]);
                System.out.println(".");
            }
        }
    }
}
