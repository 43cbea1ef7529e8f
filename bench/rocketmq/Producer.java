// RocketMQ's own producer, asynchronously with a window: Producer NAMES ACCESSKEY SECRETKEY TOPIC COUNT WINDOW BYTES
import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

public class Producer {
    static final AtomicLong failed = new AtomicLong();

    static void send(DefaultMQProducer producer, String topic, int count, int window, byte[] body) throws Exception {
        Semaphore free = new Semaphore(window);
        for (int i = 0; i < count; i++) {
            free.acquire();
            producer.send(new Message(topic, "", "job-" + i, body), new SendCallback() {
                public void onSuccess(SendResult result) { free.release(); }
                public void onException(Throwable why) { failed.incrementAndGet(); free.release(); }
            });
        }
        free.acquire(window);
    }

    public static void main(String[] args) throws Exception {
        int count = Integer.parseInt(args[4]), window = Integer.parseInt(args[5]);
        byte[] body = new byte[Integer.parseInt(args[6])];
        DefaultMQProducer producer = new DefaultMQProducer("bench", new AclClientRPCHook(new SessionCredentials(args[1], args[2])));
        producer.setNamesrvAddr(args[0]);
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.start();
        send(producer, args[3], count, window, body); // its compiler has its time first
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime(), began = System.nanoTime();
        failed.set(0);
        send(producer, args[3], count, window, body);
        double seconds = (System.nanoTime() - began) / 1e9, used = (system.getProcessCpuTime() - cpu) / 1e9;
        System.out.printf("{\"per_s\":%.0f,\"cpu_us\":%.2f,\"failed\":%d}%n", count / seconds, used * 1e6 / count, failed.get());
        System.exit(0);
    }
}
