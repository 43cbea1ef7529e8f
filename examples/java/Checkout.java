import io.tarry.Client;
import io.tarry.Job;
import io.tarry.Push;
import io.tarry.Worker;
import java.time.Duration;
import java.util.List;

/** An order is charged, then shipped, then the customer gets a mail: Checkout [SECONDS], the mail 0 seconds after the shipment by default. */
public class Checkout {
    static Worker worker;

    public static void main(String[] arguments) {
        double seconds = arguments.length > 0 ? Double.parseDouble(arguments[0]) : 0;
        try (Client client = new Client()) {
            Push charge = new Push("charge", "").id("1001");
            Push ship = new Push("ship", "").id("1001").memberJobs(List.of(charge));
            client.pushBatch(new Push("mail", "").id("1001").delay(Duration.ofMillis((long) (seconds * 1000))), List.of(ship));
            System.out.println("order 1001 placed");
            worker = Worker.builder(client, List.of("charge", "ship", "mail"), Checkout::step).build();
            worker.run();
        }
    }

    static void step(Job job) {
        System.out.println(job.topic() + " " + job.id());
        if (job.topic().equals("mail")) {
            worker.stopAsync(Duration.ofSeconds(30)); // your own worker runs until SIGTERM
        }
    }
}
