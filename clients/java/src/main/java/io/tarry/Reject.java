package io.tarry;

/** A handler throws it: no further attempt can help, the job is dead at once. */
public final class Reject extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public Reject(String error) {
        super(error);
    }
}
