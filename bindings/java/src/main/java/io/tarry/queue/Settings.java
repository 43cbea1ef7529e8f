package io.tarry.queue;

import java.time.Duration;

/** Defaults of a topic for jobs that do not set their own. Unset members have the default. */
public final class Settings {
    private int flags;
    private long leaseMs;
    private long ttlMs;
    private int maxAttempts;
    private Backoff backoff;
    private int priority;
    private OnConflict onConflict;
    private long dedupWindowMs;
    private long maxJobs;
    private long keepFinishedMs;
    private long keepFinishedMax;
    private long keepFinishedBytes;

    public Settings() {}

    Settings(Pack.Reader from) {
        flags = from.number();
        leaseMs = from.bigNumber();
        ttlMs = from.bigNumber();
        maxAttempts = from.number();
        backoff = Backoff.read(from);
        priority = from.number();
        onConflict = OnConflict.of(from.number());
        dedupWindowMs = from.bigNumber();
        maxJobs = from.bigNumber();
        keepFinishedMs = from.bigNumber();
        keepFinishedMax = from.bigNumber();
        keepFinishedBytes = from.bigNumber();
    }

    void pack(Pack pack) {
        pack.number(flags).number(leaseMs).number(ttlMs).number(maxAttempts);
        Backoff.pack(pack, backoff);
        pack.number(priority).number(OnConflict.number(onConflict)).number(dedupWindowMs).number(maxJobs);
        pack.number(keepFinishedMs).number(keepFinishedMax).number(keepFinishedBytes);
    }

    public Settings lease(Duration value) {
        leaseMs = Times.milliseconds(value);
        return this;
    }

    public Duration lease() {
        return Times.duration(leaseMs);
    }

    public Settings ttl(Duration value) {
        ttlMs = Times.milliseconds(value);
        return this;
    }

    public Duration ttl() {
        return Times.duration(ttlMs);
    }

    public Settings maxAttempts(int value) {
        maxAttempts = value;
        return this;
    }

    /** The limit of attempts; 0 means the default. */
    public int maxAttempts() {
        return maxAttempts;
    }

    public Settings backoff(Backoff value) {
        backoff = value;
        return this;
    }

    public Backoff backoff() {
        return backoff;
    }

    public Settings priority(int value) {
        priority = value;
        flags |= Native.HAS_PRIORITY;
        return this;
    }

    /** Null: the default. */
    public Integer priority() {
        return (flags & Native.HAS_PRIORITY) == 0 ? null : priority;
    }

    public Settings onConflict(OnConflict value) {
        onConflict = value;
        return this;
    }

    public OnConflict onConflict() {
        return onConflict;
    }

    /** Sets how long finished ids are remembered. */
    public Settings dedupWindow(Duration value) {
        dedupWindowMs = Times.milliseconds(value);
        return this;
    }

    public Duration dedupWindow() {
        return Times.duration(dedupWindowMs);
    }

    public Settings maxJobs(long value) {
        maxJobs = value;
        return this;
    }

    /** The limit of jobs; 0 means no limit. */
    public long maxJobs() {
        return maxJobs;
    }

    /** Sets how long finished jobs are kept. */
    public Settings keepFinished(Duration value) {
        keepFinishedMs = Times.milliseconds(value);
        return this;
    }

    public Duration keepFinished() {
        return Times.duration(keepFinishedMs);
    }

    /** Sets how many finished jobs are kept at most; above it the oldest are dropped. */
    public Settings keepFinishedMax(long value) {
        keepFinishedMax = value;
        return this;
    }

    /** The limit of kept jobs; 0 means the default. */
    public long keepFinishedMax() {
        return keepFinishedMax;
    }

    /** Sets the size of the kept jobs above which the oldest are dropped. */
    public Settings keepFinishedBytes(long value) {
        keepFinishedBytes = value;
        return this;
    }

    /** The limit of the size of kept jobs; 0 means the default. */
    public long keepFinishedBytes() {
        return keepFinishedBytes;
    }

    /** Kept jobs keep their body and content type. */
    public Settings keepBody(boolean value) {
        flags = value ? flags | Native.KEEP_BODY : flags & ~Native.KEEP_BODY;
        return this;
    }

    public boolean keepBody() {
        return (flags & Native.KEEP_BODY) != 0;
    }

    /** Jobs that expire are kept as dead. */
    public Settings deadLetterExpired(boolean value) {
        flags = value ? flags | Native.DEAD_LETTER_EXPIRED : flags & ~Native.DEAD_LETTER_EXPIRED;
        return this;
    }

    public boolean deadLetterExpired() {
        return (flags & Native.DEAD_LETTER_EXPIRED) != 0;
    }
}
