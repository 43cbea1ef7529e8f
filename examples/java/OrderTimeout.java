import io.tarry.Client;
import io.tarry.Job;
import io.tarry.Push;
import io.tarry.Worker;
import java.time.Duration;
import java.util.Map;

/** An order that is not paid in time is closed: OrderTimeout [SECONDS], 1800 by default. */
public class OrderTimeout {
    static Worker worker;

    public static void main(String[] arguments) {
        double seconds = arguments.length > 0 ? Double.parseDouble(arguments[0]) : 1800;
        Duration delay = Duration.ofMillis((long) (seconds * 1000));
        try (Client client = new Client()) {
            place(client, "1001", delay);
            place(client, "1002", delay);
            pay(client, "1001");
            worker = Worker.builder(client, "orders", OrderTimeout::close).build();
            worker.run();
        }
    }

    /** The job has the order's own number: the order number is enough to cancel it. */
    static void place(Client client, String order, Duration delay) {
        client.push(new Push("orders", Map.of("order", order)).id(order).delay(delay));
        System.out.println("order " + order + " placed");
    }

    static void pay(Client client, String order) {
        if (client.cancel("orders", order)) {
            System.out.println("order " + order + " paid, nothing to close");
        }
    }

    static void close(Job job) {
        System.out.println("order " + job.jsonObject().get("order") + " closed: not paid in time");
        worker.stopAsync(Duration.ofSeconds(30)); // your own worker runs until SIGTERM
    }
}
