import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Locale;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongSupplier;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/**
 * Drives Redisson's RDelayedQueue and prints one JSON object, like bench/bullmq/drive.js for BullMQ.
 *
 *   java -cp JARS/* Drive.java PORT life  JOBS DELAY_MS              pushed as fast as answers come, taken at the same time
 *   java -cp JARS/* Drive.java PORT late  RATE SECONDS MIN_MS MAX_MS so many a second, come what may
 *   java -cp JARS/* Drive.java PORT burst JOBS DELAY_MS TIMES        all due at one moment, and so again
 *   java -cp JARS/* Drive.java PORT fill  JOBS DELAY_MS              pushed only: for memory
 *
 * One client pushes and one takes, both as Redisson sets them up by itself, but that texts are stored as they are. Some threads
 * wait in take(), each on a connection of its own. A job is done when it was taken: there are no leases and no acks.
 * An unmeasured run comes first, because Java is slow in the beginning; `pushed` and `acked` also count that.
 */
@SuppressWarnings("deprecation") // what came after RDelayedQueue is sold
public final class Drive {
    private static final int TAKERS = Integer.parseInt(System.getenv().getOrDefault("TAKERS", "8"));
    private static final int UNDER_WAY = Integer.parseInt(System.getenv().getOrDefault("UNDER_WAY", "1000"));
    private static final int WARM_UP_JOBS = 20_000, WARM_UP_SECONDS = 3;
    private static final long TIMEOUT_MS = 120_000;
    private static final String PADDING = "abcdefghijklmnopqrstuvwxyz".repeat(8).substring(0, 176);

    private final RDelayedQueue<String> delayed;
    private final RBlockingQueue<String> ready;
    private final Semaphore room = new Semaphore(UNDER_WAY);
    private volatile String problem = "";
    private int pushed;
    private long begunUs, pushedUs; // of the part that is measured
    private int pushedBefore;

    // Jobs that the takers have found; under `this`.
    private final BitSet seen = new BitSet();
    private int acked, duplicates, early, lateCount;
    private long lastUs;
    private double[] lateMs = new double[1 << 16];

    private Drive(int port) {
        delayed = queueOf(connect(port));
        ready = connect(port).getBlockingQueue("orders");
    }

    private static RedissonClient connect(int port) {
        Config config = new Config();
        config.setCodec(StringCodec.INSTANCE);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        return Redisson.create(config);
    }

    private static RDelayedQueue<String> queueOf(RedissonClient client) {
        return client.getDelayedQueue(client.getBlockingQueue("orders"));
    }

    /** Wall clock. */
    private static long nowUs() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    // ---- pushing ----

    /** Pushes one job, due after this time as Redisson counts it: from the whole millisecond. Its number and its due time are in the body, of
     * 200 bytes. */
    private void push(long delayMs) {
        String body = String.format(Locale.ROOT, "%09d %013d %s", pushed, System.currentTimeMillis() + delayMs, PADDING);
        pushed++;
        delayed.offerAsync(body, delayMs, TimeUnit.MILLISECONDS).whenComplete((done, error) -> {
            if (error != null) problem = error.toString();
            room.release();
        });
    }

    private void pushMany(int count, LongSupplier delayMs) {
        for (int i = 0; i < count; i++) {
            room.acquireUninterruptibly();
            push(delayMs.getAsLong());
        }
        room.acquireUninterruptibly(UNDER_WAY); // all are answered
        room.release(UNDER_WAY);
    }

    /** Pushes each job at its planned time, without waiting for room. */
    private void pushByClock(int rate, int seconds, LongSupplier delayMs) {
        long begun = System.nanoTime();
        for (long sent = 0; sent < (long) rate * seconds; ) {
            long wanted = Math.min((System.nanoTime() - begun) * rate / 1_000_000_000L, (long) rate * seconds);
            for (; sent < wanted; sent++) {
                push(delayMs.getAsLong());
            }
            LockSupport.parkNanos(200_000);
        }
    }

    // ---- taking ----

    private void take() {
        try {
            for (;;) receive(ready.take());
        } catch (InterruptedException end) {
            return;
        } catch (RuntimeException error) {
            problem = error.toString();
        }
    }

    private synchronized void receive(String body) {
        long us = nowUs();
        int number = Integer.parseInt(body.substring(0, 9));
        double ms = us / 1000.0 - Long.parseLong(body.substring(10, 23));
        if (seen.get(number)) duplicates++;
        seen.set(number);
        if (ms < 0) early++;
        if (lateCount == lateMs.length) lateMs = Arrays.copyOf(lateMs, 2 * lateCount);
        lateMs[lateCount++] = ms;
        acked++;
        lastUs = us;
    }

    private synchronized int taken() {
        return acked;
    }

    private void awaitAll() throws InterruptedException {
        long end = System.currentTimeMillis() + TIMEOUT_MS;
        while (taken() < pushed) {
            if (System.currentTimeMillis() > end) {
                problem = "gave up waiting";
                return;
            }
            Thread.sleep(1);
        }
    }

    // ---- runs ----

    /** Begins the measurement. */
    private synchronized void begin() {
        lateCount = 0;
        pushedBefore = pushed;
        begunUs = nowUs();
    }

    private static LongSupplier between(long from, long to) {
        return () -> ThreadLocalRandom.current().nextLong(from, to + 1);
    }

    private void run(String mode, int[] numbers) throws InterruptedException {
        if (!mode.equals("fill")) {
            for (int i = 0; i < TAKERS; i++) {
                Thread taker = new Thread(this::take);
                taker.setDaemon(true);
                taker.start();
            }
        }
        switch (mode) {
            case "late" -> {
                LongSupplier delay = between(numbers[2], numbers[3]);
                pushByClock(numbers[0], WARM_UP_SECONDS, delay);
                awaitAll();
                begin();
                pushByClock(numbers[0], numbers[1], delay);
            }
            case "burst" -> {
                for (int time = 0; time <= numbers[2] + 3; time++) {
                    if (time == 4) begin();
                    long due = System.currentTimeMillis() + numbers[1];
                    pushMany(numbers[0], () -> Math.max(1, due - System.currentTimeMillis()));
                    awaitAll();
                }
            }
            case "life" -> {
                pushMany(WARM_UP_JOBS, () -> numbers[1]);
                awaitAll();
                begin();
                pushMany(numbers[0], () -> numbers[1]);
            }
            default -> {
                begin();
                pushMany(numbers[0], () -> numbers[1]);
            }
        }
        pushedUs = nowUs();
        if (!mode.equals("fill")) awaitAll();
    }

    private synchronized String result(boolean takes) {
        double[] late = Arrays.copyOf(lateMs, lateCount);
        Arrays.sort(late);
        double pushSeconds = (pushedUs - begunUs) / 1e6, lifeSeconds = (lastUs - begunUs) / 1e6;
        return String.format(Locale.ROOT, "{\"pushed\":%d,\"acked\":%d,\"early\":%d,\"duplicates\":%d,\"missing\":%d,\"pushes_per_s\":%.0f,"
            + "\"lives_per_s\":%.0f,\"problem\":\"%s\",\"late_ms\":{\"p50\":%.3f,\"p99\":%.3f,\"p99.9\":%.3f,\"max\":%.3f}}", pushed, acked, early,
            duplicates, takes ? pushed - acked : 0, (pushed - pushedBefore) / pushSeconds, takes ? lateCount / lifeSeconds : 0,
            problem.replaceAll("[\"\\\\]", "'"), at(late, 0.5), at(late, 0.99), at(late, 0.999), at(late, 1));
    }

    private static double at(double[] sorted, double part) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, part * sorted.length)];
    }

    public static void main(String[] words) throws InterruptedException {
        int[] numbers = Arrays.stream(words).skip(2).mapToInt(Integer::parseInt).toArray();
        Drive drive = new Drive(Integer.parseInt(words[0]));
        drive.run(words[1], numbers);
        System.out.println(drive.result(!words[1].equals("fill")));
        System.exit(0); // Redisson's own threads would go on
    }
}
