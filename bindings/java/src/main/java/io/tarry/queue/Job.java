package io.tarry.queue;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A job as it was taken, or its state when it was read. A taken job must be answered before its lease ends; otherwise it is
 * delivered again.
 */
public final class Job {
    private static final Cleaner CLEANER = Cleaner.create();

    /** An attempt that ended without an ack. {@code outcome}: failed, lease_ended or refused. */
    public static final class Attempt {
        public final int number;
        public final String outcome;
        public final Instant startedAt;
        public final Duration duration;
        public final String error;

        Attempt(Pack.Reader from) {
            number = from.number();
            int kind = from.number();
            outcome = kind == 1 ? "failed" : kind == 2 ? "lease_ended" : kind == 3 ? "refused" : "unknown";
            startedAt = Times.instant(from.bigNumber());
            duration = Duration.ofMillis(from.bigNumber());
            error = from.text();
        }
    }

    /** The library's own object of a taken job; again() needs it. */
    private static final class Held implements Runnable {
        private long pointer;

        @Override
        public synchronized void run() {
            if (pointer != 0) {
                Native.freeJob(pointer);
                pointer = 0;
            }
        }
    }

    private final TarryQueue queue;
    private final Held held;
    private final Cleaner.Cleanable cleanable;
    private final State state;
    private final int attempt;
    private final int priority;
    private final boolean isCancelRequested;
    private final long delivery;
    private final long dueMs;
    private final long leaseUntilMs;
    private final String topic;
    private final String id;
    private final String contentType;
    private final Map<String, String> meta;
    private final String lastError;
    private final String consumer;
    private final String lease;
    private final byte[] body;
    private final List<Attempt> history;
    private final String progress;
    private final int outcome;
    private final long finishedMs;
    private final long durationMs;
    private final byte[] result;
    private final String resultType;
    private final Batch batch;

    Job(TarryQueue queue, Pack.Reader from) {
        this.queue = queue;
        long pointer = from.bigNumber();
        if (pointer == 0) {
            held = null;
            cleanable = null;
        } else {
            held = new Held();
            held.pointer = pointer;
            cleanable = CLEANER.register(this, held);
        }
        state = State.of(from.number());
        attempt = from.number();
        priority = from.number();
        isCancelRequested = from.number() != 0;
        delivery = from.bigNumber();
        dueMs = from.bigNumber();
        leaseUntilMs = from.bigNumber();
        topic = from.text();
        id = from.text();
        contentType = from.text();
        meta = from.meta();
        lastError = from.textOrNull();
        consumer = from.textOrNull();
        lease = from.text();
        body = from.bytes();
        int count = from.number();
        history = count == 0 ? List.of() : new ArrayList<>(count);
        for (int i = 0; i < count; i++) {
            history.add(new Attempt(from));
        }
        progress = from.text();
        outcome = from.number();
        finishedMs = from.bigNumber();
        durationMs = from.bigNumber();
        result = from.bytes();
        resultType = from.textOrNull();
        batch = from.number() != 0 ? new Batch(from) : null;
    }

    public String topic() {
        return topic;
    }

    public String id() {
        return id;
    }

    /** The body exactly as it was pushed. The array belongs to the job. */
    public byte[] body() {
        return body;
    }

    public String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    /** The content type; empty if the push had no content type. */
    public String contentType() {
        return contentType;
    }

    public Map<String, String> meta() {
        return meta;
    }

    public State state() {
        return state;
    }

    /** Deliveries so far, with this one. */
    public int attempt() {
        return attempt;
    }

    /** A number that rises with every delivery of the job: pass it to the systems that you write to, so that they can reject late writes. */
    public long delivery() {
        return delivery;
    }

    public int priority() {
        return priority;
    }

    public Instant dueAt() {
        return Instant.ofEpochMilli(dueMs);
    }

    /** Null: it is not leased. */
    public Instant leaseUntil() {
        return Times.instant(leaseUntilMs);
    }

    /** The lease as text; empty if the job was not taken. */
    public String lease() {
        return lease;
    }

    /** Error of the last failed attempt; null if no attempt failed. */
    public String lastError() {
        return lastError;
    }

    /** Name of the consumer that holds the job; null if no consumer holds it or the consumer has no name. */
    public String consumer() {
        return consumer;
    }

    public boolean isCancelRequested() {
        return isCancelRequested;
    }

    /** The attempts that ended without an ack, oldest first, the last eight. */
    public List<Attempt> history() {
        return history;
    }

    /** The progress that the last extend gave; empty if there is none. */
    public String progress() {
        return progress;
    }

    /** How a kept or awaited job ended: acked, cancelled or expired. Null: it has not ended, is dead, or was popped. */
    public String outcome() {
        return outcome == 1 ? "acked" : outcome == 2 ? "cancelled" : outcome == 3 ? "expired" : null;
    }

    /** Null: as above. */
    public Instant finishedAt() {
        return Times.instant(finishedMs);
    }

    /** Duration of the last attempt of a job that ended; zero if it is unknown. */
    public Duration duration() {
        return Duration.ofMillis(durationMs);
    }

    /** The result of a job that ended. The array belongs to the job. */
    public byte[] result() {
        return result;
    }

    public String resultText() {
        return new String(result, StandardCharsets.UTF_8);
    }

    /** The content type of the result; null if it has none. */
    public String resultType() {
        return resultType;
    }

    /** The batches of the job; null if it is not a member and has no batch of its own. */
    public Batch batch() {
        return batch;
    }

    /** Done. */
    public void ack() {
        queue.ack(this);
    }

    /** Done, with a result; its content type may be null. */
    public void ack(byte[] result, String contentType) {
        queue.ack(this, result, contentType);
    }

    /** Done, with a text as the result. */
    public void ack(String result) {
        queue.ack(this, result.getBytes(StandardCharsets.UTF_8), "text/plain; charset=utf-8");
    }

    /** Failed: it comes again after its backoff. */
    public void nack(String error) {
        queue.nack(this, error, null);
    }

    /** Extends the lease by its full duration from now. Returns true if a cancel of the job was requested. */
    public boolean extend() {
        return queue.extend(this, null);
    }

    /** Extends the lease as above and reports progress, a text of up to 256 bytes. */
    public boolean extend(String progress) {
        return queue.extend(this, null, progress);
    }

    /** Gives the job back unbegun: it is ready again immediately, and the attempt does not count. */
    public void giveBack() {
        queue.giveBack(this);
    }

    /** Finishes the job and makes it due again with the same id, in one step; body null keeps its body. */
    public void again(byte[] newBody, Duration delay) {
        queue.again(this, newBody, delay);
    }

    /** Frees the library's object after the answer; this object has all that is needed. */
    void release() {
        if (cleanable != null) {
            cleanable.clean();
        }
    }

    interface Use<R> {
        R of(long pointer);
    }

    /** Calls with the library's own job, which stays allocated meanwhile. 0 if it was released or not taken. */
    <R> R use(Use<R> call) {
        if (held == null) {
            return call.of(0);
        }
        try {
            synchronized (held) {
                return call.of(held.pointer);
            }
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    @Override
    public String toString() {
        return topic + "/" + id + " " + state + ", attempt " + attempt;
    }
}
