package io.tarry;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;

/** Jobs that failed, and how they continue: {@code new Nack(job).error("no such order").isFinal()}. */
public final class Nack {
    final List<String> leases;
    private Duration delay;
    private String error;
    private boolean isFinal;
    private Object result;
    private String contentType;
    private Duration hold;

    public Nack(Job... jobs) {
        this(List.of(jobs));
    }

    /** Nacks jobs of this list, or their leases. */
    public Nack(Collection<?> jobs) {
        leases = Api.leases(jobs);
    }

    /** Sets the time until the next attempt; the default is the job's backoff. */
    public Nack delay(Duration delay) {
        this.delay = delay;
        return this;
    }

    public Nack error(String error) {
        this.error = error;
        return this;
    }

    /** Allows no further attempt: the jobs are dead. */
    public Nack isFinal() {
        isFinal = true;
        return this;
    }

    /** Sets the result of a final nack, as the body of a {@link Push}: it is sent to those that wait for the job. */
    public Nack result(Object result) {
        this.result = result;
        return this;
    }

    public Nack contentType(String contentType) {
        this.contentType = contentType;
        return this;
    }

    /** Sets how long no job of its group is delivered; without a group, of its topic. */
    public Nack hold(Duration hold) {
        this.hold = hold;
        return this;
    }

    Map<String, Object> options(Codec codec) {
        return Ack.result(leases, Client.nackOptions(delay, error, isFinal), Api.result(result, contentType, codec), hold);
    }
}
