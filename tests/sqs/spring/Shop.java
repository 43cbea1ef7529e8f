package shop;

import io.awspring.cloud.sqs.annotation.SqsListener;
import io.awspring.cloud.sqs.listener.Visibility;
import io.awspring.cloud.sqs.operations.SqsTemplate;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.messaging.Message;
import org.springframework.messaging.handler.annotation.Header;

/** Orders by SqsTemplate, received by @SqsListener: one fails once, one falls due while the listener polls, one in a day. */
@SpringBootApplication
public class Shop {
    public record Order(String name, int cents) {
    }

    static final CountDownLatch RECEIVED = new CountDownLatch(12);
    static final Map<String, String> ATTEMPTS = new ConcurrentHashMap<>();
    static final Map<String, String> CUSTOMERS = new ConcurrentHashMap<>();

    @SqsListener(queueNames = "${shop.queue}", messageVisibilitySeconds = "30", pollTimeoutSeconds = "20")
    void order(Message<Order> message, Visibility visibility, @Header("Sqs_Msa_ApproximateReceiveCount") String attempt) {
        Order order = message.getPayload();
        ATTEMPTS.put(order.name(), attempt);
        if (order.name().equals("fails once") && attempt.equals("1")) {
            visibility.changeTo(1);
            throw new IllegalStateException("the first attempt");
        }
        CUSTOMERS.put(order.name(), String.valueOf(message.getHeaders().get("Customer")));
        RECEIVED.countDown();
    }

    static void equal(Object found, Object expected) {
        if (!expected.equals(found)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    public static void main(String[] arguments) throws InterruptedException {
        String queue = arguments[0];
        System.setProperty("shop.queue", queue);
        System.setProperty("logging.level.root", "ERROR");
        System.setProperty("spring.main.banner-mode", "off");
        var context = SpringApplication.run(Shop.class);
        SqsTemplate template = context.getBean(SqsTemplate.class);
        UUID day = template.send(to -> to.queue(queue).payload(new Order("in a day", 1)).delaySeconds(86400)).messageId();
        template.send(to -> to.queue(queue).payload(new Order("in two seconds", 2)).delaySeconds(2));
        template.send(to -> to.queue(queue).payload(new Order("fails once", 3)).header("Customer", "Grüße"));
        for (int at = 0; at < 10; at++) {
            template.send(queue, new Order("order " + at, at));
        }
        boolean all = RECEIVED.await(60, TimeUnit.SECONDS);
        equal(all, true);
        equal(ATTEMPTS.get("fails once"), "2");
        equal(ATTEMPTS.get("in two seconds"), "1");
        equal(CUSTOMERS.get("fails once"), "Grüße");
        context.close(); // waits for acknowledgements
        System.out.println("{\"day\":\"" + day + "\",\"received\":" + ATTEMPTS.size() + "}");
    }
}
