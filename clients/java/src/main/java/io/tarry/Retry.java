package io.tarry;

import java.time.Duration;

/** A handler throws it: try the job again, after so long or by the job's backoff. */
public final class Retry extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final Duration after;

    /** Retries by the job's backoff. */
    public Retry(String error) {
        this(null, error);
    }

    public Retry(Duration after, String error) {
        super(error);
        this.after = after;
    }

    /** Null: by the job's backoff. */
    public Duration after() {
        return after;
    }
}
