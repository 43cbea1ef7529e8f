package io.tarry;

import java.time.Instant;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/** The result of a schedule. */
public final class Scheduled {
    /** EXISTED: nothing was changed. */
    public enum Result { CREATED, REPLACED, EXISTED }

    private final Result result;
    private final Instant next;

    Scheduled(Map<String, Object> answer) {
        result = Result.valueOf(String.valueOf(answer.get("result")).toUpperCase(Locale.ROOT));
        next = Api.instant(answer.get("next"));
    }

    public Result result() {
        return result;
    }

    /** The next fire; empty if there is none. */
    public Optional<Instant> next() {
        return Optional.ofNullable(next);
    }
}
