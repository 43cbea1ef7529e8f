package io.tarry;

import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * A job to push, and its options: {@code new Push("orders", Map.of("order", 1001)).id("1001").delay(Duration.ofMinutes(30))}.
 *
 * <p>A body is a {@code byte[]}, a text, or else what becomes JSON: a map, list, number, boolean or null of those. The content type follows
 * from that, unless it is given. For JSON of a library's making, give its bytes and {@code contentType("application/json")}.
 */
public final class Push {
    private final Map<String, Object> item = new LinkedHashMap<>();
    private final Map<String, String> meta = new LinkedHashMap<>();
    private final Object body;
    private List<Push> memberJobs = List.of();

    public Push(String topic, Object body) {
        item.put("topic", topic);
        this.body = body;
    }

    /** Sets the id. Without one the client makes one, so that a try whose answer was lost does not make two jobs. */
    public Push id(String id) {
        return with("id", id);
    }

    public Push delay(Duration delay) {
        return with("delay", Api.milliseconds(delay));
    }

    public Push at(Instant at) {
        return with("at", Api.moment(at));
    }

    /** Sets the priority; smaller is sooner, the default is 100. */
    public Push priority(int priority) {
        return with("priority", priority);
    }

    public Push ttl(Duration ttl) {
        return with("ttl", Api.milliseconds(ttl));
    }

    public Push lease(Duration lease) {
        return with("lease_for", Api.milliseconds(lease));
    }

    public Push maxAttempts(int maxAttempts) {
        return with("max_attempts", maxAttempts);
    }

    /** Sets the backoff in the format of the topic's option: {@code fixed:10s}, {@code exp:1s..1h}, {@code list:10s,1m,1h}. */
    public Push backoff(String backoff) {
        return with("backoff", backoff);
    }

    /** {@code replace}, {@code keep}, {@code reject} or {@code after}, if a job with this id exists. */
    public Push onConflict(String onConflict) {
        return with("on_conflict", onConflict);
    }

    /**
     * Makes the push idempotent: if a push to the topic had the same text within {@link #onceFor}, nothing changes, even if its job has ended. The server then
     * generates a missing id.
     */
    public Push once(String once) {
        return with("once", once);
    }

    /** Sets how long the text of {@link #once} is remembered, 5 minutes by default. */
    public Push onceFor(Duration time) {
        return with("once_for", Api.milliseconds(time));
    }

    /** Sets how long the server keeps the job and its result after its end, in place of the setting of the topic. */
    public Push keepFinished(Duration time) {
        return with("keep_finished", Api.milliseconds(time));
    }

    /** Sets the group. Groups, such as the tenants of a service, are served fairly and may have limits. */
    public Push group(String group) {
        return with("group", group);
    }

    /** Makes the job a member of the batch of this waiting job. */
    public Push batch(String topic, String id) {
        return with("batch_topic", topic).with("batch_id", id);
    }

    /** Names the lease of a member of the batch that runs, which may add members after the close. */
    public Push parent(String lease) {
        return with("parent", lease);
    }

    /** Makes the job wait: it becomes due when its batch is closed and all members have ended. */
    public Push waits() {
        return with("waits", true);
    }

    /** Makes the batch of this waiting job close itself when it has this number of members. */
    public Push members(int members) {
        return with("members", members);
    }

    /** Sets the time after which the waiting job becomes due in any case, 7 days by default. */
    public Push waitAtMost(Duration time) {
        return with("wait_at_most", Api.milliseconds(time));
    }

    /** Sets the time after which the waiting job is dead if its batch is not closed, 1 hour by default. */
    public Push closeWithin(Duration time) {
        return with("close_within", Api.milliseconds(time));
    }

    /** Sets the effect of a dead member on the waiting job: {@code go}, {@code hold} or {@code stop}. */
    public Push onDead(String onDead) {
        return with("on_dead", onDead);
    }

    /** Sets the members of this member in {@link Client#pushBatch}. */
    public Push memberJobs(List<Push> jobs) {
        memberJobs = List.copyOf(jobs);
        return this;
    }

    public Push callback(String url) {
        return with("callback", url);
    }

    public Push contentType(String contentType) {
        return with("content_type", contentType);
    }

    public Push meta(String name, String value) {
        meta.put(name, value);
        return this;
    }

    public Push meta(Map<String, String> more) {
        meta.putAll(more);
        return this;
    }

    /** Handed to the handler, in the job's meta. */
    public Push traceparent(String traceparent) {
        return meta("traceparent", traceparent);
    }

    public Push tracestate(String tracestate) {
        return meta("tracestate", tracestate);
    }

    private Push with(String name, Object value) {
        item.put(name, value);
        return this;
    }

    /** That given, or made by {@link #item}. */
    String id() {
        return (String) item.get("id");
    }

    /** The item of a batch push. An id that is made here stays: the same Push pushed again is the same job. */
    Map<String, Object> item(Codec codec) {
        if (!item.containsKey("id")) {
            if (!item.containsKey("once")) { // else the server makes one that belongs to the shard of the once
                item.put("id", Api.newId(System.currentTimeMillis()));
            }
            item.putIfAbsent("on_conflict", "keep");
        }
        Map<String, Object> out = new LinkedHashMap<>(item);
        Codec.Content content = content(codec, Codec.BODY, false);
        out.put("body_base64", Base64.getEncoder().encodeToString(content.data()));
        out.put("content_type", content.type());
        if (!meta.isEmpty()) {
            out.put("meta", meta);
        }
        if (!memberJobs.isEmpty()) {
            out.put("members", memberJobs.stream().map(push -> push.item(codec)).collect(Collectors.toList()));
        }
        return out;
    }

    /** The body and its content type, encoded by the codec unless it is null. */
    Codec.Content content(Codec codec, String part, boolean isSteady) {
        String given = (String) item.get("content_type");
        byte[] bytes;
        String type;
        if (body instanceof byte[]) {
            bytes = (byte[]) body;
            type = "application/octet-stream";
        } else if (body instanceof CharSequence && (given == null || !given.startsWith("application/json"))) {
            bytes = Json.encode(body.toString());
            type = "text/plain; charset=utf-8";
        } else {
            bytes = Json.encode(Json.write(body));
            type = "application/json";
        }
        String plainType = given == null ? type : given;
        return codec == null ? new Codec.Content(bytes, plainType, null) : codec.encode(bytes, plainType, part, isSteady, null);
    }
}
