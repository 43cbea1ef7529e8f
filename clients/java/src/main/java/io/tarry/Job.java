package io.tarry;

import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;

/** A job as it was taken, or as it stands. */
public final class Job {
    private final Map<String, Object> members;
    private final byte[] body;
    private final Codec codec;
    private Codec.Content decodedBody;
    private Codec.Content decodedResult;
    private TarryException.CodecError fault;
    private boolean isDecoded;
    private final Map<String, String> meta = new LinkedHashMap<>();
    private volatile boolean isLost;
    private volatile boolean isCancelRequested;
    private volatile Object toSet;
    private volatile Predicate<String> extend;

    /** Of an answer that was asked for with body=base64. */
    Job(Map<String, Object> members, Codec codec) {
        this(members, codec, members.get("body_base64") instanceof String ? Base64.getDecoder().decode((String) members.get("body_base64")) : new byte[0]);
    }

    Job(Map<String, Object> members, Codec codec, byte[] body) {
        this.members = members;
        this.codec = codec;
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

    /** The body exactly as it was pushed, decoded. The array belongs to the job. {@link TarryException.CodecError} if the body cannot be decoded. */
    public byte[] body() {
        return valueOf(decoded().decodedBody, body, text("content_type", ""));
    }

    /** Why the body or the result cannot be decoded. To read it then throws this error. */
    public Optional<TarryException.CodecError> codecError() {
        return Optional.ofNullable(decoded().fault);
    }

    /** The name of the body in the store of a codec; null if the body is not stored there. */
    String storedAs() {
        return decoded().decodedBody == null ? null : decodedBody.storedAs;
    }

    private byte[] valueOf(Codec.Content content, byte[] plain, String type) {
        if (content != null) {
            return content.data();
        }
        if (plain.length > 0 && Codec.isEncoded(type)) {
            throw fault;
        }
        return plain;
    }

    /** Decodes body and result, once. The first caller waits for a store. */
    private synchronized Job decoded() {
        if (isDecoded) {
            return this;
        }
        isDecoded = true;
        try {
            if (body.length > 0) {
                decodedBody = Codec.decode(codec, body, text("content_type", ""), Codec.BODY);
            }
        } catch (TarryException.CodecError error) {
            fault = error;
        }
        try {
            Optional<byte[]> result = encodedResult();
            if (result.isPresent() && result.get().length > 0) {
                decodedResult = Codec.decode(codec, result.get(), text("result_type", ""), Codec.RESULT);
            }
        } catch (TarryException.CodecError error) {
            fault = error;
        }
        return this;
    }

    /** The body as text; {@link IllegalArgumentException} if it is not UTF-8. */
    public String text() {
        return Json.decode(body());
    }

    /** The body as JSON: a map, list, String, Long, BigInteger, Double, Boolean or null; {@link IllegalArgumentException} if it is not JSON. */
    public Object json() {
        return Json.parse(body());
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
        return decoded().decodedBody != null ? decodedBody.type() : text("content_type", "application/octet-stream");
    }

    public Map<String, String> meta() {
        return Collections.unmodifiableMap(meta);
    }

    /** The trace that the push was part of. */
    public Optional<String> traceparent() {
        return Optional.ofNullable(meta.get("traceparent"));
    }

    /** The number of this delivery, counted from 1. */
    public int attempt() {
        return (int) number("attempt", 0);
    }

    /** A number that rises with every delivery of the job: pass it to the systems that you write to, so that they can reject late writes. */
    public long delivery() {
        return number("delivery", 0);
    }

    public int priority() {
        return (int) number("priority", 100);
    }

    public String state() {
        return text("state", "leased");
    }

    /** The due time; null if the job has no due time. */
    public Instant dueAt() {
        return Api.instant(members.get("due_at"));
    }

    /** Proves that you hold the job: ack, nack and extend require it. Empty if the job was not taken. */
    public String lease() {
        return text("lease", "");
    }

    /** End of the lease by the server's clock; null if no consumer holds the job. */
    public Instant leaseUntil() {
        return Api.instant(members.get("lease_until"));
    }

    public Optional<String> lastError() {
        return Optional.ofNullable(text("last_error", null));
    }

    /** Lost lease, in a handler: another consumer may do the same work from now on. The handler's thread is also interrupted. */
    public boolean isLost() {
        return isLost;
    }

    /** Name of the consumer that holds the job. */
    public Optional<String> consumer() {
        return Optional.ofNullable(text("consumer", null));
    }

    /** The group in which the job was pushed. */
    public Optional<String> group() {
        return Optional.ofNullable(text("group", null));
    }

    /** The waiting job of the batch of which the job is a member, as its topic and id. */
    public Optional<Map.Entry<String, String>> batch() {
        if (!(members.get("batch") instanceof Map)) {
            return Optional.empty();
        }
        Map<?, ?> name = (Map<?, ?>) members.get("batch");
        return Optional.of(Map.entry(String.valueOf(name.get("topic")), String.valueOf(name.get("id"))));
    }

    /** The number of members that have not ended, while the job waits for them. */
    public Optional<Long> waitsFor() {
        return members.get("waits_for") instanceof Number ? Optional.of(number("waits_for", 0)) : Optional.empty();
    }

    /** Members of a waiting job by their outcome: unfinished, acked, dead, cancelled, expired. Empty if the job has no batch. */
    public Map<String, Long> outcomes() {
        Map<String, Long> out = new LinkedHashMap<>();
        if (members.get("outcomes") instanceof Map) {
            ((Map<?, ?>) members.get("outcomes")).forEach((name, count) -> out.put(String.valueOf(name), ((Number) count).longValue()));
        }
        return out;
    }

    /** How a finished job ended: acked, cancelled or expired. */
    public Optional<String> outcome() {
        return Optional.ofNullable(text("outcome", null));
    }

    /** The time of the end; null if the job has not finished. */
    public Instant finishedAt() {
        return Api.instant(members.get("finished_at"));
    }

    /** The duration of the last attempt of a finished job. */
    public Optional<Duration> duration() {
        return members.get("duration_ms") instanceof Number ? Optional.of(Duration.ofMillis(number("duration_ms", 0))) : Optional.empty();
    }

    /** The last progress that the worker reported. */
    public Optional<String> progress() {
        return Optional.ofNullable(text("progress", null));
    }

    /** The result that the worker returned. */
    public Optional<byte[]> result() {
        decoded();
        return encodedResult().map(bytes -> valueOf(decodedResult, bytes, text("result_type", "")));
    }

    private Optional<byte[]> encodedResult() {
        Object base64 = members.get("result_base64");
        Object found = members.get("result");
        if (base64 instanceof String) {
            return Optional.of(Base64.getDecoder().decode((String) base64));
        }
        if (!members.containsKey("result")) {
            return Optional.empty();
        }
        boolean isText = found instanceof String && !text("result_type", "").startsWith("application/json");
        return Optional.of(Json.encode(isText ? (String) found : Json.write(found)));
    }

    /** The result as text; empty if the job has no result. */
    public String resultText() {
        return result().map(Json::decode).orElse("");
    }

    /** The result as JSON; null if the job has no result. */
    public Object resultJson() {
        return result().filter(bytes -> bytes.length > 0).map(Json::parse).orElse(null);
    }

    /** The content type of the result. */
    public Optional<String> resultType() {
        return Optional.ofNullable(decoded().decodedResult != null ? decodedResult.type() : text("result_type", null));
    }

    /** Sets the result, in a handler, as the body of a {@link Push}. It is sent with the ack, or with the nack of {@link Reject}. */
    public void setResult(Object result) {
        toSet = result;
    }

    Object resultToSend() {
        return toSet;
    }

    /** Stores the progress of the job, which is shown with it, in a handler: up to 256 bytes of text. Returns false if the lease is lost. */
    public boolean reportProgress(String progress) {
        if (extend == null) {
            throw new IllegalStateException("no worker holds the job");
        }
        return extend.test(progress);
    }

    void heldBy(Predicate<String> extend) {
        this.extend = extend;
    }

    /**
     * Requested cancel: unless the job is acked, it is cancelled when the lease ends. In a handler its thread is also interrupted, and
     * the result of the handler counts.
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
