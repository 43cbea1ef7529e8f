package io.tarry.queue;

import java.time.Duration;
import java.util.Objects;

/** The wait between a failed attempt and the next one. */
public final class Backoff {
    private static final int FIXED = 1;
    private static final int EXPONENTIAL = 2;
    private static final int NONE = 3;

    private final int kind;
    private final long firstMs;
    private final long mostMs;

    private Backoff(int kind, long firstMs, long mostMs) {
        this.kind = kind;
        this.firstMs = firstMs;
        this.mostMs = mostMs;
    }

    /** The same wait each time. */
    public static Backoff fixed(Duration wait) {
        return new Backoff(FIXED, Times.milliseconds(wait), 0);
    }

    /** Twice as long each time, from the first up to the most. */
    public static Backoff exponential(Duration first, Duration most) {
        return new Backoff(EXPONENTIAL, Times.milliseconds(first), Times.milliseconds(most));
    }

    /** No wait: the next attempt is immediate. */
    public static Backoff none() {
        return new Backoff(NONE, 0, 0);
    }

    static void pack(Pack pack, Backoff one) {
        pack.number(one == null ? 0 : one.kind).number(one == null ? 0L : one.firstMs).number(one == null ? 0L : one.mostMs);
    }

    static Backoff read(Pack.Reader from) {
        int kind = from.number();
        long firstMs = from.bigNumber();
        long mostMs = from.bigNumber();
        return kind == 0 ? null : new Backoff(kind, firstMs, mostMs);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Backoff && ((Backoff) other).kind == kind && ((Backoff) other).firstMs == firstMs && ((Backoff) other).mostMs == mostMs;
    }

    @Override
    public int hashCode() {
        return Objects.hash(kind, firstMs, mostMs);
    }

    @Override
    public String toString() {
        return kind == NONE ? "none" : kind == FIXED ? "fixed:" + firstMs + "ms" : "exp:" + firstMs + "ms.." + mostMs + "ms";
    }
}
