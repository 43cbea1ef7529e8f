import io.tarry.Client;
import io.tarry.Job;
import io.tarry.Push;
import io.tarry.Worker;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** A report is sent when all rows of an import have been loaded: ImportReport [SECONDS [ROWS]], 0 seconds later and 20,000 rows by default. */
public class ImportReport {
    static Worker worker;

    public static void main(String[] arguments) {
        double seconds = arguments.length > 0 ? Double.parseDouble(arguments[0]) : 0;
        int rows = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 20_000;
        try (Client client = new Client()) {
            client.push(new Push("reports", "").id("import-7").waits().delay(Duration.ofMillis((long) (seconds * 1000))));
            List<Push> pushes = IntStream.range(0, rows).mapToObj(row -> new Push("rows", Map.of("row", row)).batch("reports", "import-7")).collect(Collectors.toList());
            client.pushMany(pushes);
            client.closeBatch("reports", "import-7");
            System.out.println(rows + " rows pushed");
            worker = Worker.builder(client).handler("rows", ImportReport::load).handler("reports", ImportReport::report).build();
            worker.run();
        }
    }

    static void load(Job job) {
        job.jsonObject().get("row"); // your own handler writes it to a database
    }

    static void report(Job job) {
        System.out.println("report: " + job.meta().get("tarry-batch"));
        worker.stopAsync(Duration.ofSeconds(30)); // your own worker runs until SIGTERM
    }
}
