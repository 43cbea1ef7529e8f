import io.tarry.Client;
import io.tarry.Push;
import io.tarry.Worker;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.Socket;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * The client for Java compared with Redisson's RDelayedQueue, in one run and in turn: how many jobs a second are pushed with a short delay and worked
 * off at the same time, from the first push to the last job done.
 *
 *   mvn -q -f ../../../clients/java/pom.xml compile
 *   mvn -q -f ../../redisson/pom.xml dependency:copy-dependencies -DoutputDirectory=JARS
 *   TARRY_BIN=../../../build/tarry java -cp '../../../clients/java/target/classes:JARS/*' Compare.java [ROUNDS [JOBS]]    5 rounds of 10,000
 *
 * Both servers are started here, in each round on an empty directory. tarry has its defaults: a push is answered once it is on the disk, a job is
 * leased and acked. Redis keeps nothing, which is its quickest, and Redisson's job is gone once it is taken. `single`: a hundred pushes on their way;
 * `many`: as many as each is made for, by the thousand with tarry, a thousand on their way with Redisson. The round before the first is for warming up.
 */
@SuppressWarnings("deprecation") // what came after RDelayedQueue is sold
public final class Compare {
    private static final long DELAY_MS = 100;
    private static final int SINGLES_AT_ONCE = 100, MANY = 1000, CONCURRENCY = 100, TAKERS = 8;
    private static final String PADDING = " " + "x".repeat(190);

    /** Pushes jobs with these numbers, the second way or the first, and calls `done` for each. Returns jobs a second. */
    private interface Subject {
        double measure(int port, int jobs, boolean isMany) throws Exception;
    }

    /** Counts each number once. */
    private static final class Count {
        final Set<String> seen = ConcurrentHashMap.newKeySet();
        final CountDownLatch left;
        final long begun = System.nanoTime();

        Count(int jobs) {
            left = new CountDownLatch(jobs);
        }

        void done(String body) {
            if (!seen.add(body)) {
                throw new IllegalStateException("twice: " + body);
            }
            left.countDown();
        }

        double rate(int jobs) throws InterruptedException {
            if (!left.await(120, TimeUnit.SECONDS)) {
                throw new IllegalStateException(left.getCount() + " of " + jobs + " jobs did not come");
            }
            return jobs / ((System.nanoTime() - begun) / 1e9);
        }
    }

    /** Starts `one` for each number, so many on their way. */
    private static void pushEach(int jobs, int atOnce, IntFunction<CompletionStage<?>> one) throws Exception {
        Semaphore room = new Semaphore(atOnce);
        AtomicReference<Throwable> problem = new AtomicReference<>();
        for (int i = 0; i < jobs; i++) {
            room.acquire();
            one.apply(i).whenComplete((pushed, error) -> {
                problem.compareAndSet(null, error);
                room.release();
            });
        }
        room.acquire(atOnce);
        if (problem.get() != null) {
            throw new IllegalStateException("a push failed", problem.get());
        }
    }

    private static double tarry(int port, int jobs, boolean isMany) throws Exception {
        try (Client client = new Client("http://127.0.0.1:" + port)) {
            IntFunction<Push> push = number -> new Push("orders", number + PADDING).delay(Duration.ofMillis(DELAY_MS));
            Count count = new Count(jobs);
            Worker.Builder builder = Worker.builder(client, "orders", job -> { }).concurrency(CONCURRENCY);
            builder.onDone((job, outcome, held) -> { // once the ack is answered
                if (outcome == Worker.Outcome.ACK) count.done(job.text());
            });
            Worker worker = builder.start();
            if (isMany) {
                pushEach(jobs / MANY, 2, batch -> client.pushManyAsync(IntStream.range(batch * MANY, (batch + 1) * MANY).mapToObj(push).toList()));
            } else {
                pushEach(jobs, SINGLES_AT_ONCE, number -> client.pushAsync(push.apply(number)));
            }
            double found = count.rate(jobs);
            worker.stop(Duration.ofSeconds(5));
            return found;
        }
    }

    private static double redisson(int port, int jobs, boolean isMany) throws Exception {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        RedissonClient client = Redisson.create(config);
        List<Thread> takers = new ArrayList<>();
        try {
            RBlockingQueue<String> ready = client.getBlockingQueue("orders");
            RDelayedQueue<String> delayed = client.getDelayedQueue(ready);
            Count count = new Count(jobs);
            for (int i = 0; i < TAKERS; i++) {
                Thread taker = new Thread(() -> {
                    try {
                        for (;;) count.done(ready.take());
                    } catch (InterruptedException end) {
                        return;
                    }
                });
                taker.start();
                takers.add(taker);
            }
            pushEach(jobs, isMany ? MANY : SINGLES_AT_ONCE, number -> delayed.offerAsync(number + PADDING, DELAY_MS, TimeUnit.MILLISECONDS));
            return count.rate(jobs);
        } finally {
            takers.forEach(Thread::interrupt);
            for (Thread one : takers) one.join();
            client.shutdown();
        }
    }

    /** Returns this process's CPU time in nanoseconds. */
    private static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** Jobs a second, and microseconds of CPU that a job costs the client and the server together, which other work on the machine moves less. */
    private static double[] serving(boolean isTarry, Subject subject, int jobs, boolean isMany) throws Exception {
        Path directory = Files.createTempDirectory("bench-");
        int port;
        try (ServerSocket probe = new ServerSocket(0)) {
            port = probe.getLocalPort();
        }
        String binary = System.getenv().getOrDefault("TARRY_BIN", "tarry");
        List<String> command = isTarry
                ? List.of(binary, "serve", "--data", directory.toString(), "--listen", "127.0.0.1:" + port, "--log-level", "warn")
                : List.of("redis-server", "--port", "" + port, "--bind", "127.0.0.1", "--dir", directory.toString(), "--save", "", "--appendonly", "no");
        Process server = new ProcessBuilder(command).redirectOutput(ProcessBuilder.Redirect.DISCARD).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try {
            awaitListening(port);
            long before = cpuNs();
            double rate = subject.measure(port, jobs, isMany);
            long spent = cpuNs() - before + server.info().totalCpuDuration().orElse(Duration.ZERO).toNanos();
            return new double[] {rate, spent / 1e3 / jobs};
        } finally {
            server.destroy();
            server.waitFor();
            try (Stream<Path> files = Files.walk(directory)) {
                for (Path one : files.sorted(Comparator.reverseOrder()).toList()) Files.delete(one);
            }
        }
    }

    private static void awaitListening(int port) throws Exception {
        for (int tries = 0; tries < 400; tries++) {
            try (Socket there = new Socket("127.0.0.1", port)) {
                return;
            } catch (IOException notYet) {
                Thread.sleep(25);
            }
        }
        throw new IllegalStateException("the server does not listen");
    }

    private static double median(double[] of) {
        double[] sorted = of.clone();
        Arrays.sort(sorted);
        return sorted[sorted.length / 2];
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 5;
        int jobs = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 10_000;
        double[][][] found = new double[4][2][rounds]; // way, and 2 more for its CPU; whose; round
        for (int round = 0; round <= rounds; round++) {
            for (int way = 0; way < 2; way++) {
                double[][] both = {serving(true, Compare::tarry, jobs, way == 1), serving(false, Compare::redisson, jobs, way == 1)};
                System.out.printf(Locale.ROOT, "%-8s %-6s  tarry %.0f/s, %.0f us  Redisson %.0f/s, %.0f us%n", round == 0 ? "warm-up" : "round " + round, way == 1 ? "many" : "single",
                        both[0][0], both[0][1], both[1][0], both[1][1]);
                for (int whose = 0; round > 0 && whose < 2; whose++) {
                    found[way][whose][round - 1] = both[whose][0];
                    found[2 + way][whose][round - 1] = both[whose][1];
                }
            }
        }
        System.out.printf("%nmedian of %d rounds, %d jobs of %d bytes, Java %s%n%n| | tarry | Redisson | ratio |%n|---|--:|--:|--:|%n", rounds, jobs, PADDING.length() + 4, System.getProperty("java.version"));
        for (int way = 0; way < 4; way++) {
            double ours = median(found[way][0]), theirs = median(found[way][1]);
            System.out.printf(Locale.ROOT, "| push + worker, %s, %s | %.0f | %.0f | %.1f × |%n", way % 2 == 1 ? "many" : "single", way < 2 ? "jobs/s" : "us of CPU a job", ours, theirs,
                    way < 2 ? ours / theirs : theirs / ours);
        }
        System.exit(0); // Redisson's threads may linger
    }
}
