import com.sun.net.httpserver.HttpServer;
import io.tarry.Client;
import io.tarry.Job;
import io.tarry.Push;
import io.tarry.Retry;
import io.tarry.Worker;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

/** A call that fails is made again later: CallRetry [SECONDS], 10 by default. The service is here as well: it answers 503 twice, then 200. */
public class CallRetry {
    static final HttpClient http = HttpClient.newHttpClient();
    static Duration delay;
    static Worker worker;

    public static void main(String[] arguments) throws IOException {
        double seconds = arguments.length > 0 ? Double.parseDouble(arguments[0]) : 10;
        delay = Duration.ofMillis((long) (seconds * 1000));
        HttpServer service = serve();
        try (Client client = new Client()) {
            client.push(new Push("calls", Map.of("url", "http://127.0.0.1:" + service.getAddress().getPort() + "/")));
            worker = Worker.builder(client, "calls", CallRetry::call).build();
            worker.run();
        }
        service.stop(0);
    }

    static void call(Job job) throws Exception {
        URI url = URI.create((String) job.jsonObject().get("url"));
        HttpRequest request = HttpRequest.newBuilder(url).POST(HttpRequest.BodyPublishers.noBody()).build();
        int status = http.send(request, HttpResponse.BodyHandlers.discarding()).statusCode();
        if (status == 503) {
            System.out.println("call " + job.attempt() + ": 503, again later");
            throw new Retry(delay, "the service answered 503");
        }
        if (status != 200) {
            throw new IOException("the service answered " + status); // tried again by the job's own backoff
        }
        System.out.println("call " + job.attempt() + ": 200, done");
        worker.stopAsync(Duration.ofSeconds(30)); // your own worker runs until SIGTERM
    }

    static HttpServer serve() throws IOException {
        AtomicInteger calls = new AtomicInteger();
        HttpServer service = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        service.createContext("/", exchange -> {
            exchange.sendResponseHeaders(calls.incrementAndGet() <= 2 ? 503 : 200, -1);
            exchange.close();
        });
        service.start();
        return service;
    }
}
