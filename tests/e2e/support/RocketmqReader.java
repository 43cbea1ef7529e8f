// Reads topics of a RocketMQ for tests, with its own client: a command a line, answers end with a line ".".
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

public class RocketmqReader {
    static DefaultMQPullConsumer consumer;

    static String word(byte[] bytes) {
        return bytes == null ? "-" : "+" + Base64.getEncoder().encodeToString(bytes);
    }

    static String word(String text) {
        return word(text == null ? null : text.getBytes(java.nio.charset.StandardCharsets.UTF_8));
    }

    // Reads all messages of a topic, from its beginning, until there are so many and no more are found, or until the time has passed.
    static void read(String topic, int wanted, double seconds) throws Exception {
        long limit = System.nanoTime() + (long) (seconds * 1e9);
        Map<MessageQueue, Long> offsets = new HashMap<>();
        int count = 0;
        boolean found = true;
        while ((count < wanted || found) && System.nanoTime() < limit) {
            try {
                for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) offsets.putIfAbsent(queue, 0L);
            } catch (MQClientException away) {
                Thread.sleep(100);
                continue;
            }
            found = false;
            for (MessageQueue queue : offsets.keySet()) {
                PullResult pulled;
                try {
                    pulled = consumer.pull(queue, "*", offsets.get(queue), 32);
                } catch (Exception away) {
                    Thread.sleep(100);
                    continue;
                }
                if (pulled.getPullStatus() != PullStatus.FOUND) continue;
                found = true;
                offsets.put(queue, pulled.getNextBeginOffset());
                for (MessageExt message : pulled.getMsgFoundList()) {
                    StringBuilder line = new StringBuilder(word(message.getTags()) + " " + word(message.getKeys()) + " " + word(message.getBody()));
                    for (Map.Entry<String, String> entry : message.getProperties().entrySet())
                        line.append(" ").append(word(entry.getKey())).append(" ").append(word(entry.getValue()));
                    System.out.println(line);
                    count++;
                }
            }
            if (!found) Thread.sleep(50);
        }
    }

    public static void main(String[] args) throws Exception {
        RPCHook hook = args.length > 1 ? new AclClientRPCHook(new SessionCredentials(args[1], args[2])) : null;
        consumer = new DefaultMQPullConsumer("reader", hook);
        consumer.setNamesrvAddr(args[0]);
        consumer.start();
        System.out.println(".");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            if (words[0].equals("read")) read(words[1], Integer.parseInt(words[2]), Double.parseDouble(words[3]));
            System.out.println(".");
        }
        System.exit(0);
    }
}
