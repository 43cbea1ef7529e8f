package io.tarry.queue;

/** The codes of tarry.h, whose numbers never change, and their names, which are those of the HTTP API. */
final class Code {
    static final int OK = 0;
    static final int CREATED = 1;
    static final int REPLACED = 2;
    static final int EXISTED = 3;
    static final int CANCELLED = 4;
    static final int NOT_FOUND = 5;
    static final int CONFLICT = 6;
    static final int LEASED = 7;
    static final int DEAD = 8;
    static final int LEASE_ENDED = 9;
    static final int BAD_OPTION = 12;
    static final int TOO_MANY_TOPICS = 14;
    static final int NO_SPACE = 16;
    static final int NO_MEMORY = 17;
    static final int STOPPING = 18;
    static final int DIRECTORY_MOVED = 19;
    static final int UNAVAILABLE = 20;
    static final int TOPIC_FULL = 23;
    static final int REQUESTED = 24;
    static final int BATCH_CLOSED = 36;
    static final int NO_BATCH = 37;
    static final int WAITING = 38;
    static final int TOO_MANY_BATCHES = 39;
    static final int TOO_MANY_MEMBERS = 40;
    static final int INTERRUPTED = 101;
    static final int IN_USE = 103;

    private Code() {}

    /** Checks for a code that means that nothing was done. */
    static boolean isRefusal(int code) {
        return code >= NOT_FOUND && code != REQUESTED;
    }
}
