package io.tarry.queue;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.Test;

/** Threads that wait in the library: served, interrupted, closed at any moment, and nothing is lost or crashes. */
public class WaitTest {
    private static final int PATIENCE_S = 60;

    private static <T> FutureTask<T> inThread(Callable<T> call) {
        FutureTask<T> task = new FutureTask<>(call);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    private static <T> T result(FutureTask<T> task) throws Exception {
        return task.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    /** Returns the exception that ended a task. */
    private static Throwable failure(FutureTask<?> task) throws Exception {
        try {
            return new AssertionError("it came to an end with " + result(task));
        } catch (ExecutionException failed) {
            return failed.getCause();
        }
    }

    @Test
    public void whoWaitsIsServed() throws Exception {
        try (TarryQueue queue = TarryQueue.open()) {
            List<FutureTask<String>> tasks = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                tasks.add(inThread(() -> queue.pop("t").text()));
            }
            int sum = 0;
            for (int i = 0; i < 8; i++) {
                queue.push(new Push("t", "" + i).delay(Duration.ofMillis(i)));
            }
            for (FutureTask<String> task : tasks) {
                sum += Integer.parseInt(result(task));
            }
            assertEquals(28, sum);
        }
    }

    @Test
    public void aWaitEndsWithNothing() throws Exception {
        try (TarryQueue queue = TarryQueue.open()) {
            long start = System.nanoTime();
            assertNull(queue.poll(Duration.ofMillis(30), "t"));
            assertTrue(System.nanoTime() - start >= 30_000_000);
        }
    }

    /** Wherever it comes: before the wait, on the way there, in it. */
    @Test
    public void anInterruptEndsAWaitAndNoJobIsLost() throws Exception {
        Random random = new Random(1);
        try (TarryQueue queue = TarryQueue.open()) {
            int came = 0;
            for (int i = 0; i < 500; i++) {
                FutureTask<Boolean> task = new FutureTask<>(() -> {
                    try {
                        queue.take("t").ack();
                        return true;
                    } catch (InterruptedException interrupted) {
                        assertFalse(Thread.currentThread().isInterrupted());
                        return false;
                    }
                });
                Thread waiter = new Thread(task);
                waiter.start();
                for (int spin = random.nextInt(20_000); spin > 0; spin--) {
                    Thread.onSpinWait();
                }
                boolean pushes = i % 2 == 0;
                if (pushes) {
                    queue.push(new Push("t", "x"));
                }
                waiter.interrupt();
                boolean got = result(task);
                came += got ? 1 : 0;
                assertFalse(got && !pushes);
                if (pushes && !got) {
                    Job left = queue.poll(Duration.ZERO, "t");
                    assertEquals(1, left.attempt());
                    left.ack();
                }
            }
            assertTrue("a job came before the interrupt at times", came > 0);
            assertEquals(0, queue.topic("t").ready + queue.topic("t").leased);
        }
    }

    /** Wherever it comes, as for a take. */
    @Test
    public void anInterruptEndsTheWaitForAJob() throws Exception {
        Random random = new Random(1);
        try (TarryQueue queue = TarryQueue.open()) {
            queue.push(new Push("t", "x").id("a").delay(Duration.ofHours(1)));
            for (int i = 0; i < 200; i++) {
                FutureTask<Boolean> task = new FutureTask<>(() -> {
                    assertThrows(InterruptedException.class, () -> queue.await("t", "a", null));
                    return Thread.currentThread().isInterrupted();
                });
                Thread waiter = new Thread(task);
                waiter.start();
                for (int spin = random.nextInt(20_000); spin > 0; spin--) {
                    Thread.onSpinWait();
                }
                waiter.interrupt();
                assertFalse(result(task));
            }
        }
    }

    @Test
    public void closingEndsAllWaits() throws Exception {
        TarryQueue queue = TarryQueue.open();
        List<FutureTask<Job>> tasks = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            tasks.add(inThread(() -> queue.take("t")));
        }
        queue.close();
        for (FutureTask<Job> task : tasks) {
            assertEquals(TarryException.Closed.class, failure(task).getClass());
        }
    }

    @Test
    public void closingBetweenTheCallsOfOthersOnlyEndsThem() throws Exception {
        Random random = new Random(2);
        for (int round = 0; round < 100; round++) {
            TarryQueue queue = TarryQueue.open();
            List<FutureTask<Object>> tasks = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                tasks.add(inThread(() -> {
                    for (;;) {
                        queue.push(new Push("t", "x"));
                        queue.take("t");
                        queue.poll(Duration.ofMillis(1), "u");
                    }
                }));
            }
            Thread.sleep(0, random.nextInt(999_999));
            queue.close();
            for (FutureTask<Object> task : tasks) {
                assertEquals(TarryException.Closed.class, failure(task).getClass());
            }
        }
    }

    /** Leaves three hundred megabytes of jobs unanswered and many queues open. */
    @Test
    public void whatIsDroppedGivesItsMemoryBack() throws Exception {
        long before = residentBytes();
        for (int i = 0; i < 100; i++) {
            TarryQueue queue = TarryQueue.open();
            TarryDelayQueue<?> timers = new TarryDelayQueue<>();
            for (int j = 0; j < 30; j++) {
                queue.push(new Push("t", new byte[100_000]));
                queue.take("t");
            }
            assertTrue(timers.isEmpty());
            if (i % 10 == 0) {
                System.gc();
            }
        }
        for (int i = 0; i < 100 && residentBytes() - before > 100_000_000; i++) {
            System.gc();
            Thread.sleep(20);
        }
        assertTrue(residentBytes() - before <= 100_000_000);
    }

    private static long residentBytes() throws Exception {
        String line = java.nio.file.Files.readString(java.nio.file.Path.of("/proc/self/statm"));
        return Long.parseLong(line.split(" ")[1]) * 4096;
    }
}
