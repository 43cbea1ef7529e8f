package io.tarry.queue;

import java.time.Instant;

/** A topic: jobs in each state now, and what happened since it was made. */
public final class Topic {
    public final String name;
    public final boolean isPaused;
    /** Null: not paused, or until it is resumed. */
    public final Instant pausedUntil;
    /** Due time of the oldest ready job; null if no job is ready. */
    public final Instant oldestReadyDue;

    public final long delayed;
    public final long retrying;
    public final long ready;
    public final long leased;
    public final long dead;
    public final long pushed;
    public final long replaced;
    public final long delivered;
    public final long acked;
    public final long nacked;
    public final long leaseEnded;
    public final long cancelled;
    public final long expired;
    public final long died;
    public final long redriven;
    /** Kept jobs, which are in no other count. */
    public final long finished;

    Topic(Pack.Reader from) {
        name = from.text();
        isPaused = from.number() != 0;
        pausedUntil = Times.instant(from.bigNumber());
        oldestReadyDue = Times.instant(from.bigNumber());
        delayed = from.bigNumber();
        retrying = from.bigNumber();
        ready = from.bigNumber();
        leased = from.bigNumber();
        dead = from.bigNumber();
        pushed = from.bigNumber();
        replaced = from.bigNumber();
        delivered = from.bigNumber();
        acked = from.bigNumber();
        nacked = from.bigNumber();
        leaseEnded = from.bigNumber();
        cancelled = from.bigNumber();
        expired = from.bigNumber();
        died = from.bigNumber();
        redriven = from.bigNumber();
        finished = from.bigNumber();
    }
}
