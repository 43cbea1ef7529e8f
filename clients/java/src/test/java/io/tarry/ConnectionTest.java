package io.tarry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ConnectionTest {
    private static final String OK = "HTTP/1.1 200 OK\r\n";

    /** Gives each request on a connection the next of its answers, and closes it behind the last. */
    private static final class Server implements AutoCloseable {
        final ServerSocket socket;
        final List<String> requests = new CopyOnWriteArrayList<>();
        final List<Socket> connections = new CopyOnWriteArrayList<>();

        Server(ServerSocket socket, String... answers) {
            this.socket = socket;
            Thread thread = new Thread(() -> {
                try {
                    while (true) {
                        serve(socket.accept(), answers);
                    }
                } catch (IOException end) {
                    return;
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        private void serve(Socket connection, String... answers) {
            connections.add(connection);
            try (connection) {
                for (String answer : answers) {
                    requests.add(head(connection.getInputStream()));
                    connection.getOutputStream().write(answer.getBytes(StandardCharsets.ISO_8859_1));
                }
            } catch (IOException fault) {
                return; // the client went
            }
        }

        private static String head(InputStream in) throws IOException {
            StringBuilder head = new StringBuilder();
            while (head.indexOf("\r\n\r\n") < 0) {
                int one = in.read();
                if (one < 0) {
                    throw new IOException("the client went");
                }
                head.append((char) one);
            }
            return head.toString();
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    private static Server serve(String... answers) throws IOException {
        return new Server(new ServerSocket(0, 50, InetAddress.getLoopbackAddress()), answers);
    }

    private static byte[] request() {
        return Connection.request("GET", "/", "Host: x\r\n", new byte[0]);
    }

    private static Connection.Response ask(String answer) throws IOException {
        try (Server server = serve(answer)) {
            return new Connection("127.0.0.1", server.socket.getLocalPort(), null).ask(request());
        }
    }

    @ParameterizedTest
    @CsvSource({
        "HTTP/1.1 200 OK|Content-Length: 2||hi, 200, hi", "HTTP/1.1 200 |content-length:2||hi, 200, hi", "HTTP/1.1 404|Content-Length: 0||, 404, ''", "HTTP/1.1 204 No||, 204, ''", "HTTP/1.1 304 Same|Content-Length: 9||, 304, ''",
        "HTTP/1.1 200 OK|Transfer-Encoding: chunked||1|h|1;x=y|i|0|Trailer: 1||, 200, hi", "HTTP/1.1 100 Continue|X: 1||HTTP/1.1 503 No|Content-Length: 1||x, 503, x",
        "HTTP/1.0 200 OK||to the end, 200, to the end"
    })
    void answersOfEachShapeAreRead(String answer, int status, String body) throws IOException {
        Connection.Response found = ask(answer.replace("|", "\r\n"));
        assertEquals(status, found.status);
        assertEquals(body, new String(found.body, StandardCharsets.UTF_8));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 200 OK\n\n", OK + "Content-Length: 3\r\n\r\nhi", OK + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nhi", OK + "Content-Length: +2\r\n\r\nhi",
        OK + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", OK + "Transfer-Encoding: gzip\r\n\r\n", OK + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi", OK + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi!\r\n0\r\n\r\n",
        OK + "Transfer-Encoding: chunked\r\n\r\n-2\r\nhi\r\n0\r\n\r\n", OK + "Content-Length : 2\r\n\r\nhi", OK + " folded: 1\r\n\r\n", OK + "X: a\rb\r\n\r\n", OK + "Content-Length: 99999999999\r\n\r\n"
    })
    void whatIsNoWholeAnswerIsNone(String answer) {
        assertThrows(IOException.class, () -> ask(answer));
    }

    @Test
    void aHeadThatDoesNotEndIsNone() {
        assertThrows(IOException.class, () -> ask(OK + "X: " + "x".repeat(70_000)));
    }

    private static Client client(Server server) {
        return Client.builder().url("127.0.0.1:" + server.socket.getLocalPort()).token("secret").build();
    }

    @Test
    void aConnectionIsUsedAgainUntilTheServerClosesIt() throws Exception {
        String answer = OK + "Content-Length: 2\r\n\r\n{}";
        try (Server server = serve(answer, answer, OK + "Connection: close\r\nContent-Length: 2\r\n\r\n{}", answer); Client client = client(server)) {
            for (int at = 0; at < 4; at++) {
                client.run("t", "1");
            }
            assertEquals(4, server.requests.size());
            assertEquals(2, server.connections.size());
            assertTrue(server.requests.get(0).startsWith("POST /v1/topics/t/jobs/1/run HTTP/1.1\r\n") && server.requests.get(0).contains("\r\nAuthorization: Bearer secret\r\n"));
        }
        try (Server server = serve(answer); Client client = client(server)) { // closes without a word behind each answer
            for (int at = 0; at < 3; at++) {
                client.take(new Take("t")); // which would not be made again
                TimeUnit.MILLISECONDS.sleep(50); // the end is on its way
            }
            assertEquals(3, server.connections.size());
        }
    }

    @Test
    void whatCameBeyondAnAnswerIsNoAnswerToTheNextRequest() throws Exception {
        for (String answer : List.of(OK + "Content-Length: 2\r\n\r\n{}HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\n{}")) {
            try (Server server = serve(answer, answer); Client client = client(server)) {
                client.run("t", "1");
                client.run("t", "1");
                assertEquals(2, server.connections.size());
            }
        }
    }

    @Test
    void anAnswerThatLeadsElsewhereIsNoSuccess() throws Exception {
        String answer = "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 2\r\n\r\n{}";
        try (Server server = serve(answer, answer, answer); Client client = client(server)) {
            assertEquals(302, assertThrows(TarryException.class, () -> client.cancel("t", "1")).status());
            assertEquals(302, assertThrows(TarryException.class, () -> client.take(new Take("t"))).status());
            assertEquals(302, assertThrows(TarryException.class, () -> client.push("t", "x")).status());
        }
    }

    @Test
    void aJobThatASecondTryDoesNotFindMayBeCancelledButMayBeDoneWhereItsHolderWasAsked() throws Exception {
        String lost = "HTTP/1.1 504 No\r\nContent-Length: 0\r\n\r\n";
        String missing = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
        try (Server server = serve(lost, missing, lost, missing, missing); Client client = client(server)) {
            assertTrue(client.cancel("t", "1"));
            assertEquals(Client.Cancel.NOT_FOUND, client.requestCancel("t", "1"));
            assertFalse(client.cancel("t", "1"));
        }
    }

    @Test
    void theTimeLimitAndACancelCutTheConnection() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            silent.setSoTimeout(10_000);
            Client.Builder builder = Client.builder().url("127.0.0.1:" + silent.getLocalPort()).retryFor(Duration.ZERO).timeout(Duration.ofMillis(200));
            try (Client client = builder.build()) {
                TarryException.Unavailable fault = assertThrows(TarryException.Unavailable.class, () -> client.run("t", "1"));
                assertTrue(fault.detail().contains("the time limit has passed"), fault.detail());
                assertEnd(silent);
            }
            String elsewhere = "127.0.0.1:1";
            try (Client client = builder.url("127.0.0.1:" + silent.getLocalPort() + "," + elsewhere).timeout(Duration.ofSeconds(60)).build()) {
                for (int tries = 0; tries < 2; tries++) { // a cancel is not a failure of the server: the next take goes to it again
                    CompletableFuture<List<Job>> take = client.takeAsync(new Take("t"));
                    Socket connection = silent.accept();
                    Server.head(connection.getInputStream());
                    take.cancel(true);
                    assertEquals(-1, connection.getInputStream().read());
                    TimeUnit.MILLISECONDS.sleep(50); // until the call has also seen it
                }
            }
        }
    }

    @Test
    void anInterruptCutsACallOfSeveralRequests() throws Exception {
        List<Consumer<Client>> calls = List.of(client -> client.ack(List.of("l")), client -> client.pushMany(List.of(new Push("t", "x"))));
        for (Consumer<Client> call : calls) {
            try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
                 Client client = Client.builder().url("127.0.0.1:" + silent.getLocalPort()).timeout(Duration.ofSeconds(60)).build()) {
                silent.setSoTimeout(10_000);
                CompletableFuture<String> code = new CompletableFuture<>();
                Thread caller = new Thread(() -> code.complete(assertThrows(TarryException.class, () -> call.accept(client)).code()));
                caller.start();
                try (Socket connection = silent.accept()) {
                    connection.setSoTimeout(10_000);
                    Server.head(connection.getInputStream());
                    caller.interrupt();
                    while (connection.getInputStream().read() >= 0) { // the rest of the request, and then its end
                        continue;
                    }
                }
                assertEquals("interrupted", code.get(10, TimeUnit.SECONDS));
            }
        }
    }

    @Test
    void aPushThatIsCancelledIsNotMadeAgain() throws Exception {
        String busy = "HTTP/1.1 503 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        try (Server server = serve(busy, busy, busy); Client client = client(server)) {
            CompletableFuture<Pushed> push = client.pushAsync(new Push("t", "x"));
            while (server.requests.isEmpty()) {
                TimeUnit.MILLISECONDS.sleep(5);
            }
            TimeUnit.MILLISECONDS.sleep(200); // until the answer was read, and the next try is to come
            push.cancel(true);
            TimeUnit.MILLISECONDS.sleep(1300);
            assertEquals(1, server.requests.size());
        }
    }

    @Test
    void aClosedClientSendsNothingAgain() throws Exception {
        String busy = "HTTP/1.1 503 No\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
        try (Server server = serve(busy, busy, busy)) {
            Client client = client(server);
            CompletableFuture<Pushed> push = client.pushAsync(new Push("t", "x"));
            while (server.requests.isEmpty()) {
                TimeUnit.MILLISECONDS.sleep(5);
            }
            TimeUnit.MILLISECONDS.sleep(200); // until the client has read the answer
            client.close();
            ExecutionException fault = assertThrows(ExecutionException.class, () -> push.get(10, TimeUnit.SECONDS));
            assertTrue(fault.getCause() instanceof TarryException.Unavailable);
            assertEquals(1, server.requests.size());
        }
    }

    @Test
    void aCloseLeavesAPushThatWaitsForOthersToItsEnd() throws Exception {
        CountDownLatch came = new CountDownLatch(4);
        CountDownLatch goesOn = new CountDownLatch(1);
        HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.setExecutor(Transport.pool("test", 8));
        server.createContext("/", exchange -> {
            exchange.getRequestBody().readAllBytes();
            came.countDown();
            await(goesOn);
            byte[] answer = "{\"results\":[{\"id\":\"1\",\"result\":\"created\"}]}".getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
        try {
            Client client = new Client("127.0.0.1:" + server.getAddress().getPort());
            List<CompletableFuture<Pushed>> pushes = new ArrayList<>();
            for (int at = 0; at < 5; at++) { // the fifth waits for one of the four requests under way
                pushes.add(client.pushAsync(new Push("t", "x")));
            }
            await(came);
            client.close();
            goesOn.countDown();
            for (CompletableFuture<Pushed> push : pushes) {
                assertEquals("1", push.get(10, TimeUnit.SECONDS).id());
            }
            assertThrows(IllegalStateException.class, () -> client.push("t", "x"));
            assertThrows(IllegalStateException.class, () -> client.run("t", "1"));
            assertThrows(IllegalStateException.class, () -> client.ack(List.of("l")));
        } finally {
            server.stop(0);
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(10, TimeUnit.SECONDS));
        } catch (InterruptedException fault) {
            throw new IllegalStateException(fault);
        }
    }

    @Test
    void aCallThatWaitsForAConnectionHasATimeLimit() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 200, InetAddress.getLoopbackAddress());
             Client client = Client.builder().url("127.0.0.1:" + silent.getLocalPort()).retryFor(Duration.ZERO).timeout(Duration.ofMillis(300)).build()) {
            List<CompletableFuture<?>> calls = new ArrayList<>();
            for (int at = 0; at < 200; at++) {
                calls.add(client.ackAsync(List.of("l")));
            }
            ExecutionException fault = assertThrows(ExecutionException.class, () -> calls.get(199).get(10, TimeUnit.SECONDS));
            assertEquals("no answer: no connection was free in time", ((TarryException.Unavailable) fault.getCause()).detail());
            fault = assertThrows(ExecutionException.class, () -> calls.get(0).get());
            assertEquals("no answer: the time limit has passed", ((TarryException.Unavailable) fault.getCause()).detail());
        }
    }

    private static void assertEnd(ServerSocket silent) throws IOException {
        try (Socket connection = silent.accept()) {
            Server.head(connection.getInputStream());
            assertEquals(-1, connection.getInputStream().read());
        }
    }

    private static SSLContext context(KeyStore store, char[] password) throws Exception {
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, password);
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    @Test
    void tlsNamesItsServerAndRefusesAnother(@TempDir Path directory) throws Exception {
        Path file = directory.resolve("keys");
        String tool = Path.of(System.getProperty("java.home"), "bin", "keytool").toString();
        assertEquals(0, new ProcessBuilder(tool, "-genkeypair", "-keyalg", "EC", "-alias", "a", "-dname", "CN=localhost", "-ext", "san=dns:localhost", "-storetype", "PKCS12", "-keystore", file.toString(),
            "-storepass", "password").redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor());
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(file)) {
            store.load(in, "password".toCharArray());
        }
        SSLContext context = context(store, "password".toCharArray());
        String answer = OK + "Content-Length: 2\r\n\r\n{}";
        try (Server server = new Server(context.getServerSocketFactory().createServerSocket(0, 50, InetAddress.getLoopbackAddress()), answer, answer)) {
            Client.Builder builder = Client.builder().retryFor(Duration.ZERO).url("https://localhost:" + server.socket.getLocalPort());
            try (Client client = builder.tls(context).build()) {
                client.run("t", "1");
                client.run("t", "1");
            }
            assertEquals(1, server.connections.size());
            try (Client client = builder.url("https://127.0.0.1:" + server.socket.getLocalPort()).build()) {
                assertThrows(TarryException.Unavailable.class, () -> client.run("t", "1"));
            }
            try (Client client = Client.builder().retryFor(Duration.ZERO).url("https://localhost:" + server.socket.getLocalPort()).build()) {
                assertThrows(TarryException.Unavailable.class, () -> client.run("t", "1"));
            }
            assertEquals(2, server.requests.size());
        }
    }

    @Test
    void aTokenCannotAddAHeader() {
        assertThrows(IllegalArgumentException.class, () -> Client.builder().token("a\r\nX: y").build());
        assertFalse(new String(Connection.request("GET", "/", "", new byte[0]), StandardCharsets.US_ASCII).contains("Content-Length"));
    }
}
