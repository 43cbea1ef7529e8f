package io.tarry;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/** The result of a push. */
public final class Pushed {
    /** EXISTED: nothing was changed. REFUSED: see {@link Pushed#error}. */
    public enum Result { CREATED, REPLACED, EXISTED, REFUSED }

    private static final Map<String, Result> RESULTS = Map.of("created", Result.CREATED, "replaced", Result.REPLACED, "existed", Result.EXISTED);

    private final String topic;
    private final String id;
    private final Result result;
    private final Object dueAt;
    private final TarryException error;

    private Pushed(Object topic, String id, Result result, Object dueAt, TarryException error) {
        this.topic = topic instanceof String ? (String) topic : "";
        this.id = id;
        this.result = result;
        this.dueAt = dueAt;
        this.error = error;
    }

    static Pushed of(Object id, Map<String, Object> answer) {
        Object name = answer.get("result");
        Result result = name == null ? null : RESULTS.get(name);
        if (result != null) {
            return new Pushed(answer.get("topic"), String.valueOf(answer.getOrDefault("id", id)), result, answer.get("due_at"), null);
        }
        return new Pushed(null, String.valueOf(id), Result.REFUSED, null, TarryException.of(0, answer, null));
    }

    public String topic() {
        return topic;
    }

    public String id() {
        return id;
    }

    public Result result() {
        return result;
    }

    /** The due time of the job; null if the push was refused. */
    public Instant dueAt() {
        return Api.instant(dueAt); // read when it is asked for, which is seldom
    }

    /** The reason of a refusal, for one of many; a single push throws it. */
    public Optional<TarryException> error() {
        return Optional.ofNullable(error);
    }

    /** Returns this, or throws the refusal. */
    public Pushed orThrow() {
        if (error != null) {
            throw error;
        }
        return this;
    }

    @Override
    public String toString() {
        return result.name().toLowerCase(java.util.Locale.ROOT) + " " + id + (error != null ? " (" + error.getMessage() + ")" : "");
    }
}
