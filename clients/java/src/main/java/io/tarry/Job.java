package io.tarry;

import java.time.Instant;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;

/** A job as it was taken, or as it stands. */
public final class Job {
    private final Map<String, Object> members;
    private final byte[] body;
    private final Map<String, String> meta = new LinkedHashMap<>();
    private volatile boolean isLost;
    private volatile boolean isCancelRequested;

    /** Of an answer that was asked for with body=base64. */
    Job(Map<String, Object> members) {
        this(members, members.get("body_base64") instanceof String ? Base64.getDecoder().decode((String) members.get("body_base64")) : new byte[0]);
    }

    Job(Map<String, Object> members, byte[] body) {
        this.members = members;
        this.body = body;
        isCancelRequested = Boolean.TRUE.equals(members.get("cancel_requested"));
        if (members.get("meta") instanceof Map) {
            ((Map<?, ?>) members.get("meta")).forEach((name, value) -> meta.put(String.valueOf(name), String.valueOf(value)));
        }
    }

    public String topic() {
        return text("topic", "");
    }

    public String id() {
        return text("id", "");
    }

    /** To the byte what was pushed. It is the job's own array. */
    public byte[] body() {
        return body;
    }

    /** The body as text; {@link IllegalArgumentException} where it is no UTF-8. */
    public String text() {
        return Json.decode(body);
    }

    /** The body as JSON: a map, list, String, Long, BigInteger, Double, Boolean or null; {@link IllegalArgumentException} where it is none. */
    public Object json() {
        return Json.parse(body);
    }

    /** The body as a JSON object. */
    @SuppressWarnings("unchecked") // the names of an object that was read are texts
    public Map<String, Object> jsonObject() {
        Object found = json();
        if (!(found instanceof Map)) {
            throw new IllegalArgumentException("the body is not a JSON object");
        }
        return (Map<String, Object>) found;
    }

    public String contentType() {
        return text("content_type", "application/octet-stream");
    }

    public Map<String, String> meta() {
        return Collections.unmodifiableMap(meta);
    }

    /** The trace that the push was part of. */
    public Optional<String> traceparent() {
        return Optional.ofNullable(meta.get("traceparent"));
    }

    /** Which delivery this is, counted from 1. */
    public int attempt() {
        return (int) number("attempt", 0);
    }

    /** Rises with every delivery of the job: hand it on to what you write to, which then refuses whoever comes late. */
    public long delivery() {
        return number("delivery", 0);
    }

    public int priority() {
        return (int) number("priority", 100);
    }

    public String state() {
        return text("state", "leased");
    }

    /** Null where the job has none. */
    public Instant dueAt() {
        return Api.instant(members.get("due_at"));
    }

    /** Proves that you hold the job: ack, nack and extend want it. Empty of a job that was not taken. */
    public String lease() {
        return text("lease", "");
    }

    /** By the server's clock; null of a job that nobody holds. */
    public Instant leaseUntil() {
        return Api.instant(members.get("lease_until"));
    }

    public Optional<String> lastError() {
        return Optional.ofNullable(text("last_error", null));
    }

    /** In a handler: the lease is lost; what is done from now on somebody else may do as well. The handler's thread is interrupted, too. */
    public boolean isLost() {
        return isLost;
    }

    /** Who holds the job, as he calls himself. */
    public Optional<String> consumer() {
        return Optional.ofNullable(text("consumer", null));
    }

    /**
     * Nobody wants the job any more: unless it is acked, it is cancelled when the lease ends. In a handler its thread is interrupted, too, and
     * what becomes of the handler counts.
     */
    public boolean isCancelRequested() {
        return isCancelRequested;
    }

    void requestCancel() {
        isCancelRequested = true;
    }

    void lose() {
        isLost = true;
    }

    private String text(String name, String otherwise) {
        Object found = members.get(name);
        return found instanceof String ? (String) found : otherwise;
    }

    private long number(String name, long otherwise) {
        Object found = members.get(name);
        return found instanceof Number ? ((Number) found).longValue() : otherwise;
    }

    @Override
    public String toString() {
        return topic() + "/" + id();
    }
}
