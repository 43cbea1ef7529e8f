package io.tarry;

/** A handler throws it if no further attempt can help: the job is dead immediately, and its result is sent to those that wait for it. */
public final class Reject extends RuntimeException {
    private static final long serialVersionUID = 1L;

    public Reject(String error) {
        super(error);
    }
}
