import io.tarry.Client;
import io.tarry.Job;
import io.tarry.Push;
import io.tarry.Worker;
import java.time.Duration;
import java.time.Instant;

/** A reminder for a meeting that is moved: Reminder [SECONDS], 3600 by default. */
public class Reminder {
    static Worker worker;

    public static void main(String[] arguments) {
        double seconds = arguments.length > 0 ? Double.parseDouble(arguments[0]) : 3600;
        Duration delay = Duration.ofMillis((long) (seconds * 1000));
        Instant now = Instant.now();
        try (Client client = new Client()) {
            client.push(new Push("reminders", "meeting with Ada").id("meeting-7").at(now.plus(delay.multipliedBy(24))));
            System.out.println("reminder set");
            client.reschedule("reminders", "meeting-7", now.plus(delay));
            System.out.println("meeting moved, reminder moved");
            worker = Worker.builder(client, "reminders", Reminder::remind).build();
            worker.run();
        }
    }

    static void remind(Job job) {
        System.out.println("reminder: " + job.text());
        worker.stopAsync(Duration.ofSeconds(30)); // your own worker runs until SIGTERM
    }
}
