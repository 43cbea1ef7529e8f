import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;

/** A measurement in the form of bench/sql/peers: prints when it can begin, counts, reports; the program ends when its input does. */
final class Measurement {
    static final String BODY = "x".repeat(200);
    final AtomicInteger done = new AtomicInteger();
    private final BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    private List<Double> late;
    private long begunNs;

    interface Call {
        void run() throws Exception;
    }

    void ready() throws IOException {
        System.out.println("ready");
        input.readLine();
        begunNs = System.nanoTime();
    }

    void report(int jobs, int missing) throws IOException {
        double seconds = (System.nanoTime() - begunNs) / 1e9;
        StringBuilder line = new StringBuilder(String.format(Locale.ROOT, "{\"jobs\": %d, \"seconds\": %.6f", jobs, seconds));
        if (late != null) {
            synchronized (this) {
                line.append(", \"missing\": ").append(missing).append(", \"late_ms\": ").append(late);
            }
        }
        System.out.println(line.append("}"));
        input.readLine();
        System.exit(0);
    }

    /** A job has been run that was due then. */
    void ran(long dueMs) {
        long nowMs = System.currentTimeMillis();
        synchronized (this) {
            if (late != null) {
                late.add((double) (nowMs - dueMs));
            }
        }
        done.incrementAndGet();
    }

    /** From now on it is noted how late jobs are; how many were done before. */
    synchronized int note() {
        late = new ArrayList<>();
        return done.get();
    }

    /** From the fifth of the jobs that is done to the last. */
    void drain(int jobs, Call start) throws Exception {
        start.run();
        while (done.get() < jobs / 5) {
            Thread.sleep(1);
        }
        ready();
        int before = done.get();
        while (done.get() < jobs) {
            Thread.sleep(1);
        }
        report(jobs - before, 0);
    }

    /** Calls of so many clients, each its next once it has the answer, for so long; how many there were. */
    static int push(int seconds, int clients, Call call) throws InterruptedException {
        AtomicInteger pushed = new AtomicInteger();
        long untilNs = System.nanoTime() + seconds * 1_000_000_000L;
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < clients; i++) {
            Thread thread = new Thread(() -> {
                while (System.nanoTime() < untilNs) {
                    try {
                        call.run();
                    } catch (Exception problem) {
                        problem.printStackTrace();
                        System.exit(1);
                    }
                    pushed.incrementAndGet();
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return pushed.get();
    }
}
