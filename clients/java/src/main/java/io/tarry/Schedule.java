package io.tarry;

import java.time.Duration;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A plan, and the jobs that it pushes.
 *
 * <pre>{@code new Schedule("reports", Map.of("kind", "daily")).cron("0 2 * * *").zone("Europe/Berlin").with("overlap", "skip")}</pre>
 */
public final class Schedule {
    private final Map<String, Object> spec = new LinkedHashMap<>();
    private Object body;
    private boolean takesOver;

    /** Jobs without a body. */
    public Schedule(String topic) {
        spec.put("topic", topic);
    }

    /** Jobs with this body: a {@code byte[]}, a text, or a value that becomes JSON. */
    public Schedule(String topic, Object body) {
        this(topic);
        this.body = body;
        if (body instanceof byte[]) {
            spec.put("body_base64", Base64.getEncoder().encodeToString((byte[]) body));
        } else {
            spec.put("body", body instanceof CharSequence ? body.toString() : body);
        }
    }

    /** Fires when any of the expressions fires. */
    public Schedule cron(String... expressions) {
        return with("cron", expressions.length == 1 ? expressions[0] : List.of(expressions));
    }

    /** Fires in an interval, in place of cron expressions. */
    public Schedule every(Duration interval) {
        return with("every", Api.milliseconds(interval));
    }

    /** Sets the time zone, UTC by default. */
    public Schedule zone(String zone) {
        return with("zone", zone);
    }

    /** Also changes a schedule of another owner. */
    public Schedule takeOver() {
        takesOver = true;
        return this;
    }

    boolean takesOver() {
        return takesOver;
    }

    /** Sets another member of the specification in docs/schedules.md, as the API has it. */
    public Schedule with(String member, Object value) {
        spec.put(member, value);
        return this;
    }

    /** The specification. Equal bodies are encoded to equal bytes, so that the same specification again changes nothing. */
    Map<String, Object> spec(Codec codec) {
        if (codec == null || body == null) {
            return spec;
        }
        Map<String, Object> out = new LinkedHashMap<>(spec);
        Push push = new Push("", body);
        Codec.Content content = (spec.containsKey("content_type") ? push.contentType((String) spec.get("content_type")) : push).content(codec, Codec.BODY, true);
        out.remove("body");
        out.put("body_base64", Base64.getEncoder().encodeToString(content.data()));
        out.put("content_type", content.type());
        return out;
    }
}
