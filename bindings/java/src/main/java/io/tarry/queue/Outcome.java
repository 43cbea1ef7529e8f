package io.tarry.queue;

import java.time.Instant;

/** The result of one item of a call. */
public final class Outcome {
    private final int code;
    private final int state;
    private final String detail;
    private final long dueMs;
    private final long leaseUntilMs;
    private final boolean isCancelRequested;
    private final String id;

    Outcome(Pack.Reader from) {
        code = from.number();
        state = from.number();
        isCancelRequested = from.number() != 0;
        dueMs = from.bigNumber();
        leaseUntilMs = from.bigNumber();
        detail = from.textOrNull();
        id = from.text();
    }

    int number() {
        return code;
    }

    /** The code of the HTTP API: {@code created}, {@code replaced}, {@code existed}, {@code ok}, {@code cancelled}, or why it was refused. */
    public String code() {
        return Native.codeName(code);
    }

    /** The reason why nothing was done; null if it was done. */
    public TarryException refusal() {
        return Code.isRefusal(code) ? TarryException.of(code, detail, null, state) : null;
    }

    /** The job's id, for a push. */
    public String id() {
        return id;
    }

    /** The job's due time; null if it has no due time. */
    public Instant dueAt() {
        return Times.instant(dueMs);
    }

    /** End of the lease, for an extend. */
    public Instant leaseUntil() {
        return Times.instant(leaseUntilMs);
    }

    /** Requested cancel, for an extend: true if a cancel of the job was requested. */
    public boolean isCancelRequested() {
        return isCancelRequested;
    }

    /** Itself; or throws what it was refused for. */
    Outcome orThrow() {
        TarryException refusal = refusal();
        if (refusal != null) {
            throw refusal;
        }
        return this;
    }

    @Override
    public String toString() {
        return code() + (id.isEmpty() ? "" : " " + id);
    }
}
