package io.tarry;

import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * A refusal of the server. {@link #code} never changes, so programs can rely on it; {@link #detail} explains what to do. Refusals that
 * programs decide by have classes of their own, here within.
 */
@SuppressWarnings("serial") // exceptions are not serialized
public class TarryException extends RuntimeException {
    private static final Set<String> CONFLICTS = Set.of("conflict", "leased", "dead", "batch_closed", "waits", "too_many_members", "too_many_batches");
    private static final Set<String> FULL = Set.of("topic_full", "group_full", "caller_full", "no_space", "memory");
    private static final Set<String> UNAVAILABLE = Set.of("too_many_requests", "unavailable", "stopping");

    private final String code;
    private final int status;
    private final String detail;
    private final String state;
    private final String limit;
    private final Duration retryAfter;

    TarryException(Problem problem) {
        super(problem.code.isEmpty() ? problem.detail : problem.code + ": " + problem.detail, problem.cause);
        code = problem.code;
        status = problem.status;
        detail = problem.detail;
        state = problem.state;
        limit = problem.limit;
        retryAfter = problem.retryAfter;
    }

    /** The kind of refusal, as listed in docs/api.md; {@code no_answer} without an answer, {@code interrupted} if the thread was interrupted. */
    public String code() {
        return code;
    }

    /** The status of the answer; 0 without an answer, or if this is one result of many. */
    public int status() {
        return status;
    }

    public String detail() {
        return detail;
    }

    /** State of the job that was in the way, for a {@link Conflict}. */
    public Optional<String> state() {
        return Optional.ofNullable(state);
    }

    /** The limit that was met. */
    public Optional<String> limit() {
        return Optional.ofNullable(limit);
    }

    /** Pause that the server requires before the next try. */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }

    /** The job or topic does not exist, or the job has finished. */
    public static final class NotFound extends TarryException {
        NotFound(Problem problem) {
            super(problem);
        }
    }

    /** The job is in a state in which this cannot be done. */
    public static final class Conflict extends TarryException {
        Conflict(Problem problem) {
            super(problem);
        }
    }

    /** The lease is no longer the job's: it has ended, or was answered. */
    public static final class LeaseEnded extends TarryException {
        LeaseEnded(Problem problem) {
            super(problem);
        }
    }

    /** The call is wrong, and would be wrong again. */
    public static final class Refused extends TarryException {
        Refused(Problem problem) {
            super(problem);
        }
    }

    /** The token is unknown or lacks the permission. */
    public static final class Denied extends TarryException {
        Denied(Problem problem) {
            super(problem);
        }
    }

    /** The topic, the caller, the disk or the memory has no room for another job. */
    public static final class Full extends TarryException {
        Full(Problem problem) {
            super(problem);
        }
    }

    /** The server cannot be reached, or could not answer for as long as was tried. The call may or may not have been carried out. */
    public static final class Unavailable extends TarryException {
        Unavailable(Problem problem) {
            super(problem);
        }
    }

    /** A body or a result cannot be encoded or decoded. The detail names the key, the step or the limit. */
    public static final class CodecError extends TarryException {
        CodecError(Problem problem) {
            super(problem);
        }
    }

    static CodecError codec(String detail, Throwable cause) {
        Problem problem = new Problem();
        problem.code = "codec";
        problem.detail = detail;
        problem.cause = cause;
        return new CodecError(problem);
    }

    /** The parts of a refusal before it has a class. */
    static final class Problem {
        String code = "";
        int status;
        String detail = "";
        String state;
        String limit;
        Duration retryAfter;
        Throwable cause;
    }

    /** A failure without an answer. */
    static Unavailable noAnswer(String code, String detail, Throwable cause) {
        Problem problem = new Problem();
        problem.code = code;
        problem.detail = detail;
        problem.cause = cause;
        return new Unavailable(problem);
    }

    /** Converts an answer, or one result of a batch, to a refusal; status 0 for the latter. */
    static TarryException of(int status, Map<String, Object> answer, Duration retryAfter) {
        Problem problem = new Problem();
        problem.status = status;
        problem.code = text(answer, "code", text(answer, "result", ""));
        problem.detail = text(answer, "detail", text(answer, "title", "the server answered " + status));
        problem.state = text(answer, "state", null);
        problem.limit = text(answer, "limit", null);
        problem.retryAfter = retryAfter;
        return of(problem);
    }

    private static TarryException of(Problem problem) {
        String code = problem.code;
        int status = problem.status;
        if (code.equals("lease_ended")) {
            return new LeaseEnded(problem);
        }
        if (FULL.contains(code) || status == 507) {
            return new Full(problem);
        }
        if (code.equals("not_found") || code.equals("no_batch") || status == 404) {
            return new NotFound(problem);
        }
        if (CONFLICTS.contains(code) || status == 409) {
            return new Conflict(problem);
        }
        if (code.equals("unauthorized") || code.equals("forbidden") || status == 401 || status == 403) {
            return new Denied(problem);
        }
        if (UNAVAILABLE.contains(code) || status == 429 || status == 502 || status == 503 || status == 504) {
            return new Unavailable(problem);
        }
        return status == 0 || status >= 400 && status < 500 ? new Refused(problem) : new TarryException(problem);
    }

    private static String text(Map<String, Object> answer, String name, String otherwise) {
        Object found = answer.get(name);
        return found == null ? otherwise : found.toString();
    }
}
