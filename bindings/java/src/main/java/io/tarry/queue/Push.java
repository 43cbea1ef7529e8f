package io.tarry.queue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.Objects;

/** A job to be pushed. Unset fields have the topic's setting, else the default. */
public final class Push {
    private final String topic;
    private final byte[] body;
    private String contentType;
    private String id;
    private int flags;
    private long delayMs;
    private long atMs;
    private int priority;
    private OnConflict onConflict;
    private long leaseMs;
    private long ttlMs;
    private int maxAttempts;
    private Backoff backoff;
    private String once;
    private long onceForMs;
    private Map<String, String> meta;
    private long keepFinishedMs;
    private String batchTopic;
    private String batchId;
    private String parent;
    private OnDead onDead;
    private int members;
    private long waitAtMostMs;
    private long closeWithinMs;

    /** Bytes as they are; they are read when it is pushed. */
    public Push(String topic, byte[] body) {
        this.topic = Objects.requireNonNull(topic, "topic");
        this.body = Objects.requireNonNull(body, "body");
    }

    /** A text, as UTF-8. */
    public Push(String topic, String body) {
        this(topic, body.getBytes(StandardCharsets.UTF_8));
        contentType = "text/plain; charset=utf-8";
    }

    /** A job without a body. */
    public Push(String topic) {
        this(topic, new byte[0]);
    }

    /** The caller's own id, such as the number of the order. Without one it gets one. */
    public Push id(String value) {
        id = value;
        return this;
    }

    /** Sets the due time relative to now. */
    public Push delay(Duration value) {
        delayMs = Times.milliseconds(value);
        return this;
    }

    /** Sets the due time by the wall clock. */
    public Push at(Instant value) {
        atMs = Times.milliseconds(value);
        flags |= Native.HAS_AT;
        return this;
    }

    /** Sets the priority: 0 is first; the default is 100. */
    public Push priority(int value) {
        priority = value;
        flags |= Native.HAS_PRIORITY;
        return this;
    }

    public Push onConflict(OnConflict value) {
        onConflict = value;
        return this;
    }

    public Push lease(Duration value) {
        leaseMs = Times.milliseconds(value);
        return this;
    }

    /** Sets how long the job may be ready before it expires. */
    public Push ttl(Duration value) {
        ttlMs = Times.milliseconds(value);
        return this;
    }

    public Push maxAttempts(int value) {
        maxAttempts = value;
        return this;
    }

    public Push backoff(Backoff value) {
        backoff = value;
        return this;
    }

    /**
     * Makes the push idempotent: if a push to the topic had the same text within {@link #onceFor}, nothing changes and the result is
     * {@code existed}, even if its job has ended.
     */
    public Push once(String value) {
        once = value;
        return this;
    }

    /** Sets how long the text of {@link #once} is remembered, 5 minutes by default. */
    public Push onceFor(Duration value) {
        onceForMs = Times.milliseconds(value);
        return this;
    }

    /** Sets how long the job is kept once it has finished, in place of the topic's setting; zero: not at all. */
    public Push keepFinished(Duration value) {
        keepFinishedMs = Times.milliseconds(value);
        flags |= Native.HAS_KEEP_FINISHED;
        return this;
    }

    public Push meta(Map<String, String> value) {
        meta = value;
        return this;
    }

    public Push contentType(String value) {
        contentType = value;
        return this;
    }

    /** The job is a member of the batch of this waiting job, which was pushed before. */
    public Push batch(String topic, String id) {
        batchTopic = Objects.requireNonNull(topic, "topic");
        batchId = Objects.requireNonNull(id, "id");
        return this;
    }

    /** A member in hand, which adds this one also after the close of the batch. */
    public Push parent(Job job) {
        parent = job.lease();
        return this;
    }

    /** The job becomes due when its batch is closed and all members have ended. */
    public Push waits() {
        flags |= Native.WAITS;
        return this;
    }

    /** What a dead member does to this waiting job. */
    public Push onDead(OnDead value) {
        onDead = value;
        return this;
    }

    /** The batch closes itself when it has this number of members. */
    public Push members(int value) {
        members = value;
        return this;
    }

    /** After this time the waiting job becomes due in any case. */
    public Push waitAtMost(Duration value) {
        waitAtMostMs = Times.milliseconds(value);
        return this;
    }

    /** If the batch is still open then, the waiting job is dead. */
    public Push closeWithin(Duration value) {
        closeWithinMs = Times.milliseconds(value);
        return this;
    }

    int sizeHint() {
        return 240 + topic.length() + body.length + (id == null ? 0 : id.length()) + (once == null ? 0 : once.length());
    }

    void pack(Pack pack) {
        pack.number(flags).text(topic, "topic").text(id, "id").text(contentType, "content type").meta(meta).bytes(body);
        pack.number(delayMs).number(atMs).number(priority).number(OnConflict.number(onConflict)).number(leaseMs).number(ttlMs).number(maxAttempts);
        Backoff.pack(pack, backoff);
        pack.text(once, "once").number(onceForMs).number(keepFinishedMs);
        pack.text(batchTopic, "batch").text(batchId, "batch").text(parent, "parent").number(onDead == null ? 0 : onDead.ordinal() + 1).number(members);
        pack.number(waitAtMostMs).number(closeWithinMs);
    }
}
