package io.tarry;

import java.time.Duration;
import java.util.List;

/** The topics, number and lease of a take: {@code new Take("orders", "mails").max(10).waitFor(Duration.ofSeconds(30))}. The topic named first
 * is served first. */
public final class Take {
    final List<String> topics;
    int max = 1;
    Duration wait = Duration.ZERO;
    Duration lease;
    String consumer;

    public Take(String... topics) {
        this(List.of(topics));
    }

    public Take(List<String> topics) {
        this.topics = List.copyOf(topics);
    }

    /** Sets the most jobs of the take; the default is 1. */
    public Take max(int max) {
        this.max = max;
        return this;
    }

    /** Answer as soon as one job is ready, or empty after so long, up to four minutes. */
    public Take waitFor(Duration wait) {
        this.wait = wait;
        return this;
    }

    /** Sets the time within which the job must be answered; the default is the job's own. */
    public Take lease(Duration lease) {
        this.lease = lease;
        return this;
    }

    /** Sets the name of the consumer, at most 64 printable ASCII characters: shown as the holder. */
    public Take consumer(String consumer) {
        this.consumer = consumer;
        return this;
    }

    String target() {
        StringBuilder out = new StringBuilder("/v1/take?max=").append(max).append("&wait=").append(Api.milliseconds(wait)).append("&body=base64");
        topics.forEach(topic -> out.append("&topic=").append(Api.quote(topic)));
        if (lease != null) {
            out.append("&lease_for=").append(Api.milliseconds(lease));
        }
        if (consumer != null) {
            out.append("&consumer=").append(Api.quote(consumer));
        }
        return out.toString();
    }
}
