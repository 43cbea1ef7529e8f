package io.tarry.queue;

import java.time.Duration;

/** The topics, number and lease of a take. */
public final class Take {
    private final String[] topics;
    private int max = 1;
    private long waitMs = -1;
    private long leaseMs;
    private String consumer;

    /** Ready jobs of these topics, of the one named first first. */
    public Take(String... topics) {
        this.topics = topics.clone();
    }

    /** Sets the most jobs of the take, up to 1,000; the default is 1. */
    public Take max(int value) {
        if (value < 1 || value > TarryQueue.BATCH_MAX) {
            throw new IllegalArgumentException("bad max " + value + ", give 1 to " + TarryQueue.BATCH_MAX);
        }
        max = value;
        return this;
    }

    /** Sets how long to wait for the first job; zero does not wait. Without this the take waits for ever. */
    public Take wait(Duration value) {
        waitMs = Math.max(Times.milliseconds(value), 0);
        return this;
    }

    /** Another lease than the job's own. */
    public Take lease(Duration value) {
        leaseMs = Times.milliseconds(value);
        return this;
    }

    /** Sets the name of the consumer, shown as the job's holder. */
    public Take consumer(String value) {
        consumer = value;
        return this;
    }

    long waitMs() {
        return waitMs;
    }

    Pack pack() {
        Pack pack = new Pack(96).number(max).number(leaseMs).text(consumer, "consumer").number(topics.length);
        for (String topic : topics) {
            pack.text(java.util.Objects.requireNonNull(topic, "topic"), "topic");
        }
        return pack;
    }
}
