import io.tarry.queue.Push;
import io.tarry.queue.TarryDelayQueue;
import io.tarry.queue.TarryQueue;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Supplier;

/** Processor time of an operation with so many waiting; bench/bindings/java documents how to run it. */
public class Hold {
    static final int RATE = 100_000;
    static final double SECONDS = Double.parseDouble(System.getProperty("seconds", "2"));
    static final byte[] BODY = new byte[200];

    /** A queue under test. Numbers name jobs. */
    interface Subject extends AutoCloseable {
        void add(int number, long delayNanos);

        /** Waits for the next that is due. */
        int take() throws InterruptedException;

        void cancel(int number);

        @Override
        void close();
    }

    static class Element implements Delayed {
        final int number;
        final long nanos;

        Element(int number, long delayNanos) {
            this.number = number;
            nanos = System.nanoTime() + delayNanos;
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(nanos - System.nanoTime(), TimeUnit.NANOSECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(nanos, ((Element) other).nanos);
        }
    }

    static final class Job extends Element {
        final String id;
        final byte[] body = BODY.clone();

        Job(int number, long delayNanos) {
            super(number, delayNanos);
            id = idOf(number);
        }
    }

    /** Makes an id of 26 bytes. */
    static String idOf(int number) {
        char[] id = "order-00000000000000000000".toCharArray();
        for (int i = id.length - 1; number > 0; i--, number /= 10) {
            id[i] = (char) ('0' + number % 10);
        }
        return new String(id);
    }

    /** Elements and nothing else; those that may be cancelled are remembered by their number. */
    static Subject elements(BlockingQueue<Element> queue, int count) {
        Element[] all = new Element[count];
        return new Subject() {
            @Override
            public void add(int number, long delayNanos) {
                Element element = new Element(number, delayNanos);
                all[number] = element;
                queue.add(element);
            }

            @Override
            public int take() throws InterruptedException {
                return queue.take().number;
            }

            @Override
            public void cancel(int number) {
                queue.remove(all[number]);
            }

            @Override
            public void close() {
                queue.clear();
            }
        };
    }

    /** Jobs with an id and a body, and a map to find them by id. */
    static Subject withMap() {
        DelayQueue<Job> queue = new DelayQueue<>();
        Map<String, Job> byId = new ConcurrentHashMap<>();
        return new Subject() {
            @Override
            public void add(int number, long delayNanos) {
                Job job = new Job(number, delayNanos);
                byId.put(job.id, job);
                queue.add(job);
            }

            @Override
            public int take() throws InterruptedException {
                Job job = queue.take();
                byId.remove(job.id);
                return job.number;
            }

            @Override
            public void cancel(int number) {
                queue.remove(byId.remove(idOf(number)));
            }

            @Override
            public void close() {
                queue.clear();
            }
        };
    }

    static Subject tarryQueue() {
        TarryQueue queue = TarryQueue.open();
        return new Subject() {
            @Override
            public void add(int number, long delayNanos) {
                queue.push(new Push("t", BODY).id(idOf(number)).delay(Duration.ofNanos(delayNanos)));
            }

            @Override
            public int take() throws InterruptedException {
                return Integer.parseInt(queue.pop("t").id().substring(6));
            }

            @Override
            public void cancel(int number) {
                queue.cancel("t", idOf(number));
            }

            @Override
            public void close() {
                queue.close();
            }
        };
    }

    static Map<String, Supplier<Subject>> subjects(int count) {
        Map<String, Supplier<Subject>> all = new LinkedHashMap<>();
        all.put("DelayQueue", () -> elements(new DelayQueue<>(), count));
        all.put("TarryDelayQueue", () -> elements(new TarryDelayQueue<>(), count));
        all.put("DelayQueue + map", Hold::withMap);
        all.put("TarryQueue", Hold::tarryQueue);
        return all;
    }

    static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** Microseconds of processor time of a take and an add, at RATE a second, so many waiting. */
    static double hold(Subject subject, int count, int threads) throws InterruptedException {
        long span = 2_000_000_000L / RATE * count; // the mean delay is count / RATE
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < count; i++) {
            subject.add(i, random.nextLong(span));
        }
        LongAdder done = new LongAdder();
        List<Thread> workers = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            SplittableRandom own = new SplittableRandom(i);
            Thread worker = new Thread(() -> {
                try {
                    for (;;) {
                        subject.add(subject.take(), own.nextLong(span));
                        done.increment();
                    }
                } catch (InterruptedException over) {
                    return;
                }
            });
            workers.add(worker);
            worker.start();
        }
        Thread.sleep((long) (SECONDS * 500)); // warms up
        long cpu = cpuNanos();
        long before = done.sum();
        Thread.sleep((long) (SECONDS * 1000));
        double each = (cpuNanos() - cpu) / 1e3 / Math.max(done.sum() - before, 1);
        for (Thread worker : workers) {
            worker.interrupt();
        }
        for (Thread worker : workers) {
            worker.join();
        }
        return each;
    }

    /** Cancels a random element by its identity, each followed by an add: thousands for each second of processor time. */
    static double cancel(Subject subject, int count) {
        SplittableRandom random = new SplittableRandom(2);
        for (int i = 0; i < count; i++) {
            subject.add(i, 3_600_000_000_000L + random.nextLong(3_600_000_000_000L));
        }
        double best = 0;
        for (int round = 0; round < 2; round++) {
            long cpu = cpuNanos();
            long end = System.nanoTime() + (long) (SECONDS * 5e8);
            int done = 0;
            while (System.nanoTime() < end) {
                int number = random.nextInt(count);
                subject.cancel(number);
                subject.add(number, 3_600_000_000_000L + random.nextLong(3_600_000_000_000L));
                done++;
            }
            best = Math.max(best, done * 1e6 / (cpuNanos() - cpu));
        }
        return best;
    }

    public static void main(String[] arguments) throws Exception {
        int rounds = Integer.parseInt(System.getProperty("rounds", "3"));
        String[] counts = System.getProperty("waiting", "10000,1000000").split(",");
        for (String text : counts) {
            int count = Integer.parseInt(text);
            for (String number : System.getProperty("threads", "1,4,16").split(",")) {
                int threads = Integer.parseInt(number);
                Map<String, double[]> found = new LinkedHashMap<>();
                for (int round = 0; round < rounds; round++) {
                    for (Map.Entry<String, Supplier<Subject>> one : subjects(count).entrySet()) {
                        try (Subject subject = one.getValue().get()) {
                            found.computeIfAbsent(one.getKey(), name -> new double[rounds])[round] = hold(subject, count, threads);
                        }
                        System.gc();
                    }
                }
                show("hold, " + count + " waiting, " + threads + " threads, us of CPU", found);
            }
            Map<String, double[]> found = new LinkedHashMap<>();
            for (int round = 0; round < rounds; round++) {
                for (Map.Entry<String, Supplier<Subject>> one : subjects(count).entrySet()) {
                    try (Subject subject = one.getValue().get()) {
                        found.computeIfAbsent(one.getKey(), name -> new double[rounds])[round] = cancel(subject, count);
                    }
                    System.gc();
                }
                if (Wheel.IS_THERE) {
                    found.computeIfAbsent("HashedWheelTimer", name -> new double[rounds])[round] = Wheel.cancel(count);
                }
            }
            show("cancel and add, " + count + " waiting, thousands a second of CPU", found);
        }
    }

    static void show(String what, Map<String, double[]> found) {
        StringBuilder line = new StringBuilder(what).append(':');
        for (Map.Entry<String, double[]> one : found.entrySet()) {
            double[] sorted = one.getValue().clone();
            Arrays.sort(sorted);
            line.append(String.format("  %s %.2f", one.getKey(), sorted[sorted.length / 2]));
        }
        System.out.println(line);
    }

    /** Netty's wheel, where it is on the class path: its timeouts run callbacks, so that only the cancel can be compared. */
    static final class Wheel {
        static final boolean IS_THERE = isThere();

        private static boolean isThere() {
            try {
                Class.forName("io.netty.util.HashedWheelTimer");
                return true;
            } catch (ClassNotFoundException notThere) {
                return false;
            }
        }

        static double cancel(int count) throws Exception {
            Class<?> type = Class.forName("io.netty.util.HashedWheelTimer");
            Class<?> task = Class.forName("io.netty.util.TimerTask");
            Object timer = type.getConstructor().newInstance();
            Object nothing = java.lang.reflect.Proxy.newProxyInstance(task.getClassLoader(), new Class<?>[] {task}, (proxy, method, given) -> null);
            java.lang.reflect.Method add = type.getMethod("newTimeout", task, long.class, TimeUnit.class);
            java.lang.reflect.Method cancel = Class.forName("io.netty.util.Timeout").getMethod("cancel");
            Object[] all = new Object[count];
            for (int i = 0; i < count; i++) {
                all[i] = add.invoke(timer, nothing, 3600L + i % 3600, TimeUnit.SECONDS);
            }
            SplittableRandom random = new SplittableRandom(2);
            double best = 0;
            for (int round = 0; round < 2; round++) {
                long cpu = cpuNanos();
                long end = System.nanoTime() + (long) (SECONDS * 5e8);
                int done = 0;
                while (System.nanoTime() < end) {
                    int number = random.nextInt(count);
                    cancel.invoke(all[number]);
                    all[number] = add.invoke(timer, nothing, 3600L, TimeUnit.SECONDS);
                    done++;
                }
                best = Math.max(best, done * 1e6 / (cpuNanos() - cpu));
            }
            type.getMethod("stop").invoke(timer);
            return best;
        }
    }
}
