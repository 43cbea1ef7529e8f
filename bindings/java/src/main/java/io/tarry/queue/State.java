package io.tarry.queue;

/** The state of a job. */
public enum State {
    /** It waits for its due. */
    DELAYED,
    /** It waits for a consumer. */
    READY,
    /** A consumer has it. */
    LEASED,
    /** It has used up its attempts. */
    DEAD,
    /** It has left the queue. */
    FINISHED;

    static State of(int number) {
        return number >= 1 && number <= values().length ? values()[number - 1] : null;
    }

    int number() {
        return ordinal() + 1;
    }
}
