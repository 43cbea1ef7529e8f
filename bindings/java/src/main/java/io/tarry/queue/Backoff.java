package io.tarry.queue;

import java.time.Duration;
import java.util.Arrays;
import java.util.Objects;
import java.util.stream.Collectors;

/** The wait between a failed attempt and the next one. */
public final class Backoff {
    private static final int FIXED = 1;
    private static final int EXPONENTIAL = 2;
    private static final int NONE = 3;
    private static final int LIST = 4;

    private final int kind;
    private final long firstMs;
    private final long mostMs;
    private final int[] stepsMs; // of a list

    private Backoff(int kind, long firstMs, long mostMs, int... stepsMs) {
        this.kind = kind;
        this.firstMs = firstMs;
        this.mostMs = mostMs;
        this.stepsMs = stepsMs;
    }

    /** The same wait each time. */
    public static Backoff fixed(Duration wait) {
        return new Backoff(FIXED, Times.milliseconds(wait), 0);
    }

    /** Twice as long each time, from the first up to the most. */
    public static Backoff exponential(Duration first, Duration most) {
        return new Backoff(EXPONENTIAL, Times.milliseconds(first), Times.milliseconds(most));
    }

    /** A wait for each retry, from 1 to 16 of at most 30 days; the last one repeats. */
    public static Backoff list(Duration... waits) {
        return new Backoff(LIST, 0, 0, Arrays.stream(waits).mapToLong(Times::milliseconds).mapToInt(Backoff::stepOf).toArray());
    }

    /** The bits of an unsigned number. */
    private static int stepOf(long waitMs) {
        if (waitMs < 0 || waitMs >= 1L << 32) {
            throw new IllegalArgumentException("bad wait of a list: " + waitMs + " ms, give at most 30 days");
        }
        return (int) waitMs;
    }

    /** No wait: the next attempt is immediate. */
    public static Backoff none() {
        return new Backoff(NONE, 0, 0);
    }

    static void pack(Pack pack, Backoff one) {
        pack.number(one == null ? 0 : one.kind).number(one == null ? 0L : one.firstMs).number(one == null ? 0L : one.mostMs);
        pack.number(one == null ? 0 : one.stepsMs.length);
        for (int i = 0; one != null && i < one.stepsMs.length; i++) {
            pack.number(one.stepsMs[i]);
        }
    }

    static Backoff read(Pack.Reader from) {
        int kind = from.number();
        long firstMs = from.bigNumber();
        long mostMs = from.bigNumber();
        int[] stepsMs = new int[from.number()];
        for (int i = 0; i < stepsMs.length; i++) {
            stepsMs[i] = from.number();
        }
        return kind == 0 ? null : new Backoff(kind, firstMs, mostMs, stepsMs);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Backoff && ((Backoff) other).kind == kind && ((Backoff) other).firstMs == firstMs && ((Backoff) other).mostMs == mostMs
                && Arrays.equals(((Backoff) other).stepsMs, stepsMs);
    }

    @Override
    public int hashCode() {
        return Objects.hash(kind, firstMs, mostMs, Arrays.hashCode(stepsMs));
    }

    @Override
    public String toString() {
        if (kind == LIST) {
            return Arrays.stream(stepsMs).mapToObj(wait -> Integer.toUnsignedString(wait) + "ms").collect(Collectors.joining(",", "list:", ""));
        }
        return kind == NONE ? "none" : kind == FIXED ? "fixed:" + firstMs + "ms" : "exp:" + firstMs + "ms.." + mostMs + "ms";
    }
}
