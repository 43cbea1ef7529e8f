import io.tarry.Client;
import io.tarry.Job;
import io.tarry.Push;
import io.tarry.Worker;
import java.time.Duration;
import java.util.Map;

/** A document that is saved again and again is indexed once, when it has been quiet for a while: Debounce [SECONDS], 5 by default. */
public class Debounce {
    static Worker worker;

    public static void main(String[] arguments) {
        double seconds = arguments.length > 0 ? Double.parseDouble(arguments[0]) : 5;
        Duration delay = Duration.ofMillis((long) (seconds * 1000));
        try (Client client = new Client()) {
            for (int version = 1; version <= 3; version++) {
                save(client, version, delay);
            }
            worker = Worker.builder(client, "reindex", Debounce::index).build();
            worker.run();
        }
    }

    /** The job of the save before, if it still waits, is replaced: its body, and when it is due. */
    static void save(Client client, int version, Duration delay) {
        client.push(new Push("reindex", Map.of("version", version)).id("doc-7").delay(delay).onConflict("replace"));
        System.out.println("saved version " + version);
    }

    static void index(Job job) {
        System.out.println("indexing version " + job.jsonObject().get("version"));
        worker.stopAsync(Duration.ofSeconds(30)); // your own worker runs until SIGTERM
    }
}
