package io.tarry.queue;

import java.time.Duration;

/** Which jobs are taken, how many and for how long. */
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

    /** At most so many, up to 1,000. One is the default. */
    public Take max(int value) {
        if (value < 1 || value > TarryQueue.BATCH_MAX) {
            throw new IllegalArgumentException("bad max " + value + ", give 1 to " + TarryQueue.BATCH_MAX);
        }
        max = value;
        return this;
    }

    /** For how long it waits for the first; zero: it does not. Without this: for ever. */
    public Take wait(Duration value) {
        waitMs = Math.max(Times.milliseconds(value), 0);
        return this;
    }

    /** Another lease than the job's own. */
    public Take lease(Duration value) {
        leaseMs = Times.milliseconds(value);
        return this;
    }

    /** What the taker calls himself, shown as the job's holder. */
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
