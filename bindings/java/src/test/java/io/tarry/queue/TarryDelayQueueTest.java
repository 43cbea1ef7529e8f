package io.tarry.queue;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.DelayQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.Test;

/** Elements that wait for their timer; all elements of the JDK's own tests (bindings/java/tck) are expired. */
public class TarryDelayQueueTest {
    private static final int PATIENCE_S = 60;

    /** Due at a time of System.nanoTime(). */
    private static class At implements Delayed {
        final long nanos;
        final int number;

        At(long nanos, int number) {
            this.nanos = nanos;
            this.number = number;
        }

        static At in(double ms) {
            return new At(System.nanoTime() + (long) (ms * 1e6), 0);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(nanos - System.nanoTime(), TimeUnit.NANOSECONDS);
        }

        @Override
        public int compareTo(Delayed other) {
            return Long.compare(nanos, ((At) other).nanos);
        }
    }

    /** Its numbers are equal where they are. */
    private static final class Named extends At {
        Named(int number, double ms) {
            super(System.nanoTime() + (long) (ms * 1e6), number);
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Named && ((Named) other).number == number;
        }

        @Override
        public int hashCode() {
            return number % 7; // many in one bucket
        }
    }

    private static <T> FutureTask<T> inThread(Callable<T> call) {
        FutureTask<T> task = new FutureTask<>(call);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    @Test
    public void eachComesInOrderAndNeverEarly() throws Exception {
        Random random = new Random(3);
        TarryDelayQueue<At> queue = new TarryDelayQueue<>();
        for (int i = 0; i < 3000; i++) {
            queue.put(At.in(random.nextDouble() * 300));
        }
        long before = Long.MIN_VALUE;
        for (int i = 0; i < 3000; i++) {
            At first = queue.take();
            assertTrue("early", System.nanoTime() - first.nanos >= 0);
            assertTrue("in order", first.nanos >= before);
            before = first.nanos;
        }
        assertNull(queue.poll());
        assertTrue(queue.isEmpty());
    }

    @Test
    public void severalThreadsTakeEachOnceWhileOthersPut() throws Exception {
        TarryDelayQueue<At> queue = new TarryDelayQueue<>();
        int threads = 4;
        int each = 2000;
        List<FutureTask<List<Integer>>> takers = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            takers.add(inThread(() -> {
                List<Integer> seen = new ArrayList<>();
                for (int j = 0; j < each; j++) {
                    At one = queue.take();
                    assertTrue(System.nanoTime() - one.nanos >= 0);
                    seen.add(one.number);
                }
                return seen;
            }));
        }
        for (int i = 0; i < threads; i++) {
            int base = i * each;
            inThread(() -> {
                Random random = new Random(base);
                for (int j = 0; j < each; j++) {
                    queue.put(new At(System.nanoTime() + random.nextInt(50_000_000), base + j));
                }
                return null;
            });
        }
        Set<Integer> all = new HashSet<>();
        for (FutureTask<List<Integer>> taker : takers) {
            all.addAll(taker.get(PATIENCE_S, TimeUnit.SECONDS));
        }
        assertEquals(threads * each, all.size());
    }

    @Test
    public void whoWaitsForALateOneGetsAnEarlierOneThatComes() throws Exception {
        TarryDelayQueue<At> queue = new TarryDelayQueue<>();
        queue.put(At.in(3_600_000));
        FutureTask<At> taker = inThread(queue::take);
        At sooner = At.in(20);
        queue.put(sooner);
        assertSame(sooner, taker.get(PATIENCE_S, TimeUnit.SECONDS));
    }

    @Test
    public void anElementIsFoundAndRemovedByEqualityNearOrFar() {
        TarryDelayQueue<Named> queue = new TarryDelayQueue<>();
        for (int i = 0; i < 1000; i++) {
            queue.put(new Named(i, i % 2 == 0 ? -1 : 1e7));
        }
        queue.put(new Named(7, 1e7));
        for (int i = 0; i < 1000; i++) {
            assertTrue(queue.contains(new Named(i, 0)));
            assertTrue(queue.remove(new Named(i, 0)));
            assertEquals(i == 7, queue.contains(new Named(i, 0))); // there were two of it
        }
        assertEquals(1, queue.size());
        assertTrue(queue.remove(new Named(7, 0)));
        assertFalse(queue.remove(new Named(7, 0)));
        assertFalse(queue.remove(null));
        assertFalse(queue.contains("another kind"));
        assertNull(queue.poll());
    }

    /** Random steps beside a DelayQueue whose elements are expired or far from it. */
    @Test
    public void itDoesWhatADelayQueueDoes() throws Exception {
        Random random = new Random(4);
        TarryDelayQueue<Named> queue = new TarryDelayQueue<>();
        DelayQueue<Named> model = new DelayQueue<>();
        for (int step = 0; step < 50_000; step++) {
            int number = random.nextInt(300);
            switch (random.nextInt(5)) {
                case 0:
                case 1:
                    if (!model.contains(new Named(number, 0))) {
                        Named one = new Named(number, random.nextBoolean() ? -1 - random.nextInt(100) : 1e6 + random.nextInt(1000));
                        queue.add(one);
                        model.add(one);
                    }
                    break;
                case 2:
                    assertSame(model.poll(), queue.poll());
                    break;
                case 3:
                    assertEquals(model.remove(new Named(number, 0)), queue.remove(new Named(number, 0)));
                    break;
                default:
                    assertSame(model.peek(), queue.peek());
                    assertEquals(model.size(), queue.size());
            }
            if (step % 5000 == 4999) {
                assertEquals(new HashSet<>(List.of(model.toArray())), new HashSet<>(List.of(queue.toArray())));
                List<Named> drained = new ArrayList<>();
                List<Named> expected = new ArrayList<>();
                assertEquals(model.drainTo(expected, 10), queue.drainTo(drained, 10));
                assertEquals(expected, drained);
            }
            if (step == 25_000) {
                queue.clear();
                model.clear();
            }
        }
    }

    @Test
    public void whatThrowsOnItsWayInIsNotIn() {
        TarryDelayQueue<Delayed> queue = new TarryDelayQueue<>();
        queue.put(At.in(-1));
        Delayed other = new Delayed() {
            @Override
            public long getDelay(TimeUnit unit) {
                return -1;
            }

            @Override
            public int compareTo(Delayed to) {
                throw new ClassCastException("of another kind");
            }
        };
        assertThrows(ClassCastException.class, () -> queue.put(other));
        assertThrows(NullPointerException.class, () -> queue.put(null));
        assertEquals(1, queue.size());
        assertFalse(queue.contains(other));
        assertNotNull(queue.poll());
        assertTrue(queue.isEmpty());
    }

    @Test
    public void delaysOfAnyLengthAreKept() {
        TarryDelayQueue<Delayed> queue = new TarryDelayQueue<>();
        Delayed ever = new Delayed() {
            @Override
            public long getDelay(TimeUnit unit) {
                return Long.MAX_VALUE;
            }

            @Override
            public int compareTo(Delayed to) {
                return 0;
            }
        };
        queue.put(ever);
        assertNull(queue.poll());
        assertSame(ever, queue.peek());
        assertTrue(queue.remove(ever));
    }
}
