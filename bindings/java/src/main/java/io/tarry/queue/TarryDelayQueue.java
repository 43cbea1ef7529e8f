package io.tarry.queue;

import java.util.AbstractQueue;
import java.util.Arrays;
import java.util.Collection;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * An unbounded blocking queue of delayed elements, in place of {@link java.util.concurrent.DelayQueue}: an element can be taken once its
 * delay has passed, in the order of {@link Delayed#compareTo}. With a million elements {@link #remove(Object)} and {@link #contains(Object)}
 * cost the same as with ten.
 *
 * <p>Elements whose time is far wait in a timing wheel of libtarry, outside of the heap and by a number each; a few milliseconds before the
 * delay has passed they move to a heap of near elements, which works as a DelayQueue does for all of its. So no element is taken early or
 * later than there, and the queue needs no thread.
 *
 * <p>Unlike there, {@code equals} and {@code hashCode} of an element must agree, and neither they nor the end of its delay
 * may change while it is in the queue; {@link #peek} reads every element if none is expired.
 */
public class TarryDelayQueue<E extends Delayed> extends AbstractQueue<E> implements BlockingQueue<E> {
    private static final long MILLI = 1_000_000;
    /**
     * Lead of a timer before the end of the delay: the wheel counts in whole milliseconds, which are rounded when the timer is set and when it
     * is read, and a millisecond may pass while it is being set.
     */
    private static final long AHEAD_MS = 3;
    /** Elements due within this time are near. */
    private static final long NEAR_NANOS = (AHEAD_MS + 1) * MILLI;

    private static final long TIMER_MS_MAX = 9L * 365 * 24 * 60 * 60 * 1000;
    private static final long FOR_EVER = Long.MAX_VALUE;

    private final ReentrantLock lock = new ReentrantLock();
    private final Condition available = lock.newCondition();
    private final Elements<E> elements = new Elements<>();
    private final Timers timers = new Timers();
    private final int[] rung = new int[64];
    private int timerCount;
    /** Before this no timer rings, by System.nanoTime(); so nothing far is due before it. */
    private long nextNanos;

    /** Waits for the next element; the other threads wait for a signal. As in DelayQueue. */
    private Thread leader;

    private long leaderNanos;

    /** An empty queue. */
    public TarryDelayQueue() {}

    /** A queue of these elements. */
    public TarryDelayQueue(Collection<? extends E> from) {
        addAll(from);
    }

    // ---- in ----

    @Override
    public boolean add(E element) {
        return offer(element);
    }

    @Override
    public void put(E element) {
        offer(element);
    }

    /** Does not wait: there is always room. */
    @Override
    public boolean offer(E element, long timeout, TimeUnit unit) {
        return offer(element);
    }

    @Override
    public boolean offer(E element) {
        int hash = element.hashCode();
        lock.lock();
        try {
            int slot = elements.add(element, hash);
            boolean isFirst;
            try {
                isFirst = element.getDelay(TimeUnit.NANOSECONDS) < NEAR_NANOS ? elements.addNear(slot) : addFar(element, slot);
            } catch (Throwable failed) {
                timers.remove(slot);
                elements.remove(slot);
                throw failed;
            }
            if (isFirst) {
                leader = null;
                available.signal();
            }
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Adds a far element; returns true if waiting threads must check again. */
    private boolean addFar(E element, int slot) {
        for (;;) {
            long now = System.nanoTime();
            long delay = element.getDelay(TimeUnit.NANOSECONDS);
            if (delay < NEAR_NANOS) {
                timers.remove(slot); // of the round before
                return elements.addNear(slot);
            }
            long ms = Math.min(delay / MILLI - AHEAD_MS, TIMER_MS_MAX);
            timers.add(slot, ms);
            if (System.nanoTime() - now > MILLI) {
                continue; // the machine was busy with something else: it would ring too late
            }
            long ringsNanos = now + ms * MILLI;
            if (timerCount++ == 0 || ringsNanos - nextNanos < 0) {
                nextNanos = ringsNanos;
            }
            return leader == null || ringsNanos - leaderNanos < 0;
        }
    }

    // ---- out ----

    /** Moves some of those whose timers have rung to the near ones, those that are due first first. */
    private void takeRung() {
        // In this order nothing that comes between makes it late: what has rung by nextMs() is taken by takeDue().
        long now = System.nanoTime();
        long ms = timers.nextMs();
        int count = timers.takeDue(rung);
        timerCount -= count;
        for (int i = 0; i < count; i++) {
            elements.addNear(rung[i]);
        }
        if (count < rung.length) {
            nextNanos = now + Math.max(ms, 0) * MILLI;
            return;
        }
        long lastRangNanos = now + delayOf(elements.at(rung[count - 1])) - NEAR_NANOS; // or later
        if (lastRangNanos - nextNanos > 0) {
            nextNanos = lastRangNanos;
        }
    }

    private static long delayOf(Delayed element) {
        return Math.max(element.getDelay(TimeUnit.NANOSECONDS), -FOR_EVER / 4);
    }

    /** The first element if its delay has passed, else null. No far element is due before it. */
    private E firstExpired() {
        for (;;) {
            E first = elements.firstNear();
            long delay = first == null ? FOR_EVER : delayOf(first);
            long now = System.nanoTime();
            boolean isFirst = timerCount == 0 || now - nextNanos < 0 || (delay <= 0 && now + delay - nextNanos <= 0);
            if (isFirst) {
                return delay <= 0 ? first : null;
            }
            takeRung();
        }
    }

    private E pollExpired() {
        E first = firstExpired();
        if (first != null) {
            elements.removeFirstNear();
        }
        return first;
    }

    /** Time until the next element is due. */
    private long restNanos() {
        E first = elements.firstNear();
        long rest = first == null ? FOR_EVER : Math.max(first.getDelay(TimeUnit.NANOSECONDS), 1);
        return timerCount == 0 ? rest : Math.min(rest, Math.max(nextNanos - System.nanoTime(), 1));
    }

    /** Waits for that long, or until something came. How much is left. */
    private long waitFor(long nanos) throws InterruptedException {
        long rest = leader == null ? restNanos() : FOR_EVER;
        if (nanos == FOR_EVER && rest == FOR_EVER) {
            available.await();
            return nanos;
        }
        if (nanos < rest) {
            return available.awaitNanos(nanos);
        }
        Thread self = Thread.currentThread();
        leader = self;
        leaderNanos = System.nanoTime() + rest;
        try {
            long left = available.awaitNanos(rest);
            return nanos == FOR_EVER ? nanos : nanos - (rest - left);
        } finally {
            if (leader == self) {
                leader = null;
            }
        }
    }

    /** Unlocks, and makes another thread the leader if there is an element to wait for. */
    private void unlock() {
        if (leader == null && elements.size() > 0) {
            available.signal();
        }
        lock.unlock();
    }

    @Override
    public E take() throws InterruptedException {
        return await(FOR_EVER);
    }

    @Override
    public E poll(long timeout, TimeUnit unit) throws InterruptedException {
        return await(Math.min(unit.toNanos(timeout), FOR_EVER - 1));
    }

    private E await(long nanos) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            for (;;) {
                E first = pollExpired();
                if (first != null || nanos <= 0) {
                    return first;
                }
                nanos = waitFor(nanos);
            }
        } finally {
            unlock();
        }
    }

    @Override
    public E poll() {
        lock.lock();
        try {
            return pollExpired();
        } finally {
            unlock();
        }
    }

    /** The first of all elements, also where its delay is not over. */
    @Override
    public E peek() {
        lock.lock();
        try {
            E first = firstExpired();
            return first != null ? first : elements.least();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public int drainTo(Collection<? super E> into) {
        return drainTo(into, Integer.MAX_VALUE);
    }

    /** Moves elements whose delay has passed to a collection, at most so many. */
    @Override
    public int drainTo(Collection<? super E> into, int most) {
        Objects.requireNonNull(into);
        if (into == this) {
            throw new IllegalArgumentException("a queue cannot be drained to itself");
        }
        lock.lock();
        try {
            int count = 0;
            for (E first; count < most && (first = firstExpired()) != null; count++) {
                into.add(first); // before it is removed: if this throws, the element is not lost
                elements.removeFirstNear();
            }
            return count;
        } finally {
            unlock();
        }
    }

    // ---- any element ----

    @Override
    public boolean remove(Object wanted) {
        return wanted != null && remove(wanted, false);
    }

    private boolean remove(Object wanted, boolean isSame) {
        lock.lock();
        try {
            int slot = elements.find(wanted, isSame);
            if (slot < 0) {
                return false;
            }
            if (!elements.isNear(slot)) {
                timers.remove(slot);
                timerCount--;
            }
            elements.remove(slot);
            return true;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public boolean contains(Object wanted) {
        if (wanted == null) {
            return false;
        }
        lock.lock();
        try {
            return elements.find(wanted, false) >= 0;
        } finally {
            lock.unlock();
        }
    }

    @Override
    public void clear() {
        lock.lock();
        try {
            timers.removeAll();
            timerCount = 0;
            elements.clear();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public int size() {
        lock.lock();
        try {
            return elements.size();
        } finally {
            lock.unlock();
        }
    }

    @Override
    public int remainingCapacity() {
        return Integer.MAX_VALUE;
    }

    @Override
    public Object[] toArray() {
        lock.lock();
        try {
            return elements.toArray();
        } finally {
            lock.unlock();
        }
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T[] toArray(T[] into) {
        Object[] found = toArray();
        if (into.length < found.length) {
            return (T[]) Arrays.copyOf(found, found.length, into.getClass());
        }
        System.arraycopy(found, 0, into, 0, found.length);
        if (into.length > found.length) {
            into[found.length] = null;
        }
        return into;
    }

    /** Iterates over a copy of all present elements, in no order; later changes do not disturb it. */
    @Override
    public Iterator<E> iterator() {
        Object[] found = toArray();
        return new Iterator<E>() {
            private int at;
            private Object last;

            @Override
            public boolean hasNext() {
                return at < found.length;
            }

            @Override
            @SuppressWarnings("unchecked")
            public E next() {
                if (at >= found.length) {
                    throw new NoSuchElementException();
                }
                last = found[at++];
                return (E) last;
            }

            @Override
            public void remove() {
                if (last == null) {
                    throw new IllegalStateException();
                }
                TarryDelayQueue.this.remove(last, true);
                last = null;
            }
        };
    }
}
