import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Netty's HashedWheelTimer with ticks of 1 ms, and a map that finds timeouts by id: `ids` and `late` of bench/library.c. */
final class WheelTimerPeer {
    static final HashedWheelTimer timer = new HashedWheelTimer(1, TimeUnit.MILLISECONDS);
    static final ConcurrentHashMap<String, Timeout> timeouts = new ConcurrentHashMap<>();

    static final class Task implements TimerTask {
        final String id;
        final byte[] body = DelayQueuePeer.BODY.clone();
        final long due;
        final CountDownLatch left;
        final long[] lates;

        Task(String id, long due, CountDownLatch left, long[] lates) {
            this.id = id;
            this.due = due;
            this.left = left;
            this.lates = lates;
        }

        @Override
        public void run(Timeout timeout) {
            if (left == null)
                return;
            lates[(int) left.getCount() - 1] = System.nanoTime() - due; // one thread runs them all
            timeouts.remove(id);
            left.countDown();
        }
    }

    static void push(char kind, long number, long delayMs, CountDownLatch left, long[] lates) {
        Task task = new Task(DelayQueuePeer.id(kind, number), System.nanoTime() + delayMs * 1000000, left, lates);
        timeouts.put(task.id, timer.newTimeout(task, delayMs, TimeUnit.MILLISECONDS));
    }

    static void ids(long pending) throws InterruptedException {
        SplittableRandom random = new SplittableRandom(1);
        for (long i = 0; i < 300000; i++) // warms up
            push('w', i, 3600000 + random.nextLong(3600000), null, null);
        timeouts.values().forEach(Timeout::cancel);
        timeouts.clear();
        Thread.sleep(500); // the timer takes what was cancelled out of its wheel
        long before = Measure.usedBytes(), since = Measure.cpuNs(), done = 0;
        for (long i = 0; i < pending; i++)
            push('p', i, 3600000 + random.nextLong(3600000), null, null);
        Measure.rate("push", pending, pending, since);
        System.out.printf("{\"what\":\"bytes\",\"pending\":%d,\"bytes\":%.0f}%n", pending, (Measure.usedBytes() - before) / (double) pending);
        for (int round = 0; round < 2; round++) { // the first one warms up
            since = Measure.cpuNs();
            for (done = 0; done % 64 != 0 || Measure.cpuNs() - since < Measure.ROUND_CPU_NS; done++) {
                long number = random.nextLong(pending);
                timeouts.remove(DelayQueuePeer.id('p', number)).cancel();
                push('p', number, 3600000 + random.nextLong(3600000), null, null);
            }
        }
        Measure.rate("cancel_push", pending, done, since);
    }

    static void late(long pending, long rate) throws InterruptedException {
        SplittableRandom random = new SplittableRandom(1);
        int want = (int) (rate * DelayQueuePeer.LATE_S);
        long[] lates = new long[want];
        CountDownLatch left = new CountDownLatch(want);
        for (long i = 0; i < pending; i++)
            push('p', i, 3600000 + random.nextLong(3600000), null, null);
        long began = System.nanoTime();
        for (long sent = 0; sent < want;) {
            long due = (System.nanoTime() - began) * rate / 1_000_000_000L;
            for (; sent < due && sent < want; sent++)
                push('j', sent, 100 + random.nextLong(1900), left, lates);
            Thread.sleep(0, 500000);
        }
        left.await();
        Measure.late(pending, rate, lates);
    }

    public static void main(String[] words) throws InterruptedException {
        long pending = Long.parseLong(words[1]);
        switch (words[0]) {
            case "ids" -> ids(pending);
            case "late" -> late(pending, Long.parseLong(words[2]));
            default -> throw new IllegalArgumentException(words[0]);
        }
        timer.stop();
        System.exit(0);
    }
}
