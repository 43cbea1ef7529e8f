package io.tarry.queue;

/** A refusal. {@link #code} is stable and the same as in the HTTP API; each kind has its subclass. */
public class TarryException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Such as {@code bad_topic}. */
    public final String code;

    /** Of {@code bad_option}: the field; else null. */
    public final String detail;

    /** State of the job that is in the way; null if there is no such job. */
    public final State state;

    TarryException(String message, String code, String detail, State state) {
        super(message);
        this.code = code;
        this.detail = detail;
        this.state = state;
    }

    /** The job or topic does not exist, or the job has finished. */
    public static final class NotFound extends TarryException {
        private static final long serialVersionUID = 1;

        NotFound(String message, String code, String detail, State state) {
            super(message, code, detail, state);
        }
    }

    /** The job is in a state in which this cannot be done. */
    public static final class Conflict extends TarryException {
        private static final long serialVersionUID = 1;

        Conflict(String message, String code, String detail, State state) {
            super(message, code, detail, state);
        }
    }

    /** The lease is no longer the job's: it has ended, or was answered. */
    public static final class LeaseEnded extends TarryException {
        private static final long serialVersionUID = 1;

        LeaseEnded(String message, String code, String detail, State state) {
            super(message, code, detail, state);
        }
    }

    /** The call is wrong, and would be wrong again. */
    public static final class Refused extends TarryException {
        private static final long serialVersionUID = 1;

        Refused(String message, String code, String detail, State state) {
            super(message, code, detail, state);
        }
    }

    /** The topic or the queue has no room for another job. */
    public static final class Full extends TarryException {
        private static final long serialVersionUID = 1;

        Full(String message, String code, String detail, State state) {
            super(message, code, detail, state);
        }
    }

    /** The directory cannot be opened, is open elsewhere, or failed: what was under way may have happened or not. */
    public static final class Unavailable extends TarryException {
        private static final long serialVersionUID = 1;

        Unavailable(String message, String code, String detail, State state) {
            super(message, code, detail, state);
        }
    }

    /** The queue is closed, or is being closed. */
    public static final class Closed extends TarryException {
        private static final long serialVersionUID = 1;

        Closed(String message, String code, String detail, State state) {
            super(message, code, detail, state);
        }
    }

    static TarryException of(int code, String detail, String sentence, int state) {
        String name = Native.codeName(code);
        String text = sentence != null ? sentence : Native.sentence(code);
        if (code == Code.BAD_OPTION && detail != null) {
            text = "bad value of '" + detail + "': tarry.h lists the allowed values";
        }
        State found = State.of(state);
        switch (code) {
            case Code.NOT_FOUND:
            case Code.NO_BATCH:
                return new NotFound(text, name, detail, found);
            case Code.CONFLICT:
            case Code.LEASED:
            case Code.DEAD:
            case Code.BATCH_CLOSED:
            case Code.WAITING:
                return new Conflict(text, name, detail, found);
            case Code.LEASE_ENDED:
                return new LeaseEnded(text, name, detail, found);
            case Code.NO_SPACE:
            case Code.TOPIC_FULL:
            case Code.TOO_MANY_TOPICS:
            case Code.TOO_MANY_BATCHES:
            case Code.TOO_MANY_MEMBERS:
                return new Full(text, name, detail, found);
            case Code.DIRECTORY_MOVED:
            case Code.UNAVAILABLE:
            case Code.IN_USE:
                return new Unavailable(text, name, detail, found);
            case Code.STOPPING:
                return new Closed(text, name, detail, found);
            case Code.NO_MEMORY:
                return new TarryException(text, name, detail, found);
            default:
                return new Refused(text, name, detail, found);
        }
    }
}
