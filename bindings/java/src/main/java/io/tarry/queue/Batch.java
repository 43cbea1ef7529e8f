package io.tarry.queue;

import java.util.EnumMap;
import java.util.Map;

/** The batches of a job: that of which it is a member, and its own if it waits for members or did so. */
public final class Batch {
    private final String topic;
    private final String id;
    private final boolean hasOwn;
    private final boolean isClosed;
    private final boolean hasEnded;
    private final int waitsFor;
    private final Map<MemberOutcome, Integer> outcomes = new EnumMap<>(MemberOutcome.class);

    Batch(Pack.Reader from) {
        topic = from.text();
        id = from.text();
        hasOwn = from.number() != 0;
        isClosed = from.number() != 0;
        hasEnded = from.number() != 0;
        waitsFor = from.number();
        for (MemberOutcome outcome : MemberOutcome.values()) {
            outcomes.put(outcome, from.number());
        }
    }

    /** Topic of the waiting job of whose batch the job is a member; empty if it is not a member. */
    public String topic() {
        return topic;
    }

    /** Id of that waiting job. */
    public String id() {
        return id;
    }

    /** Returns whether the job has a batch of its own; the rest is about that batch. */
    public boolean hasOwn() {
        return hasOwn;
    }

    public boolean isClosed() {
        return isClosed;
    }

    /** The wait has ended: the numbers stay as they are. */
    public boolean hasEnded() {
        return hasEnded;
    }

    /** The number of members that the job still waits for. */
    public int waitsFor() {
        return waitsFor;
    }

    /** The number of members by outcome. */
    public Map<MemberOutcome, Integer> outcomes() {
        return outcomes;
    }
}
