import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/**
 * The JDK's DelayQueue with a ConcurrentHashMap beside it that finds jobs by their id: what bench/library.c does, with the same ids,
 * bodies, delays and the same words on the command line. Time is a counter, but for `late`.
 */
final class DelayQueuePeer {
    static final int BODY_BYTES = 200, ID_BYTES = 26, ROUNDS = 5, LATE_S = 5;
    static final byte[] BODY = new byte[BODY_BYTES];
    static final AtomicLong now = new AtomicLong();
    static boolean isReal;

    static final class Job implements Delayed {
        final String id;
        final byte[] body;
        final long due;

        Job(String id, byte[] body, long due) {
            this.id = id;
            this.body = body;
            this.due = due;
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return isReal ? unit.convert(due - System.nanoTime(), TimeUnit.NANOSECONDS) : unit.convert(due - now.get(), TimeUnit.MILLISECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(due, ((Job) other).due);
        }
    }

    static final DelayQueue<Job> queue = new DelayQueue<>();
    static final ConcurrentHashMap<String, Job> jobs = new ConcurrentHashMap<>();

    static String id(char kind, long number) {
        byte[] id = new byte[ID_BYTES];
        for (int i = ID_BYTES - 1; i > 0; i--, number /= 10)
            id[i] = (byte) ('0' + number % 10);
        id[0] = (byte) kind;
        return new String(id, java.nio.charset.StandardCharsets.ISO_8859_1);
    }

    static void push(char kind, long number, long due) {
        Job job = new Job(id(kind, number), BODY.clone(), due);
        jobs.put(job.id, job);
        queue.add(job);
    }

    static void pop() {
        Job job;
        while ((job = queue.poll()) == null)
            now.addAndGet(32);
        jobs.remove(job.id, job);
    }

    // ---- hold ----

    static volatile boolean isOver;

    static void hold(long pending, int threads) throws InterruptedException {
        SplittableRandom random = new SplittableRandom(1);
        LongAdder operations = new LongAdder();
        for (long i = 0; i < pending; i++)
            push('p', i, now.get() + 1 + random.nextLong(2 * pending));
        Thread[] workers = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            char kind = (char) ('A' + t);
            SplittableRandom own = random.split();
            workers[t] = new Thread(() -> {
                for (long number = 0; !isOver; number++) {
                    pop();
                    push(kind, number, now.get() + 1 + own.nextLong(2 * pending));
                    operations.increment();
                }
            });
            workers[t].start();
        }
        for (long since = Measure.cpuNs(); Measure.cpuNs() - since < 3_000_000_000L;) // compiled by then
            Thread.sleep(100);
        double bestCpu = 0, bestWall = 0;
        for (int round = 0; round < ROUNDS; round++) {
            long before = operations.sum(), wall = System.nanoTime(), cpu = Measure.cpuNs();
            do
                Thread.sleep(100);
            while (Measure.cpuNs() - cpu < Measure.ROUND_CPU_NS);
            double done = operations.sum() - before;
            bestCpu = Math.max(bestCpu, done * 1e9 / (Measure.cpuNs() - cpu));
            bestWall = Math.max(bestWall, done * 1e9 / (System.nanoTime() - wall));
        }
        isOver = true;
        for (Thread worker : workers)
            worker.join();
        System.out.printf("{\"what\":\"hold\",\"pending\":%d,\"threads\":%d,\"per_cpu_s\":%.0f,\"per_s\":%.0f}%n", pending, threads, bestCpu, bestWall);
    }

    // ---- by id ----

    static void ids(long pending) {
        SplittableRandom random = new SplittableRandom(1);
        for (long i = 0; i < 300000; i++) // warms up
            push('w', i, 1 + random.nextLong(3600000));
        queue.clear();
        jobs.clear();
        long before = Measure.usedBytes(), since = Measure.cpuNs();
        for (long i = 0; i < pending; i++)
            push('p', i, 1 + random.nextLong(3600000));
        Measure.rate("push", pending, pending, since);
        System.out.printf("{\"what\":\"bytes\",\"pending\":%d,\"bytes\":%.0f}%n", pending, (Measure.usedBytes() - before) / (double) pending);
        long done = 0;
        for (int round = 0; round < 2; round++) { // the first one warms up
            since = Measure.cpuNs();
            for (done = 0; done % 64 != 0 || Measure.cpuNs() - since < Measure.ROUND_CPU_NS; done++) {
                long number = random.nextLong(pending);
                queue.remove(jobs.remove(id('p', number)));
                push('p', number, 1 + random.nextLong(3600000));
            }
        }
        Measure.rate("cancel_push", pending, done, since);
    }

    // ---- late ----

    static void late(long pending, long rate) throws InterruptedException {
        SplittableRandom random = new SplittableRandom(1);
        int want = (int) (rate * LATE_S);
        long[] lates = new long[want];
        isReal = true;
        for (long i = 0; i < pending; i++)
            push('p', i, System.nanoTime() + (3600000 + random.nextLong(3600000)) * 1000000);
        Thread taker = new Thread(() -> {
            try {
                for (int i = 0; i < want; i++) {
                    Job job = queue.take();
                    lates[i] = System.nanoTime() - job.due;
                    jobs.remove(job.id, job);
                }
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        });
        taker.start();
        long began = System.nanoTime();
        for (long sent = 0; sent < want;) {
            long due = (System.nanoTime() - began) * rate / 1_000_000_000L;
            for (; sent < due && sent < want; sent++)
                push('j', sent, System.nanoTime() + (100 + random.nextLong(1900)) * 1000000);
            Thread.sleep(0, 500000);
        }
        taker.join();
        Measure.late(pending, rate, lates);
    }

    public static void main(String[] words) throws InterruptedException {
        long pending = Long.parseLong(words[1]);
        switch (words[0]) {
            case "hold" -> hold(pending, Integer.parseInt(words[2]));
            case "ids" -> ids(pending);
            case "late" -> late(pending, Long.parseLong(words[2]));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }
}
