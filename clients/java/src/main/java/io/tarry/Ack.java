package io.tarry;

import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Jobs that are done, and the result of one: {@code new Ack(job).result(Map.of("sum", 3))}. */
public final class Ack {
    final List<String> leases;
    private Object result;
    private String contentType;
    private Duration hold;

    public Ack(Job... jobs) {
        this(List.of(jobs));
    }

    /** Acks jobs of this list, or their leases. */
    public Ack(Collection<?> jobs) {
        leases = Api.leases(jobs);
    }

    /** Sets the result, as the body of a {@link Push}. It belongs to one job. */
    public Ack result(Object result) {
        this.result = result;
        return this;
    }

    public Ack contentType(String contentType) {
        this.contentType = contentType;
        return this;
    }

    /** Sets how long no job of its group is delivered; without a group, of its topic. */
    public Ack hold(Duration hold) {
        this.hold = hold;
        return this;
    }

    Map<String, Object> options(Codec codec) {
        return result(leases, new LinkedHashMap<>(), Api.result(result, contentType, codec), hold);
    }

    /** Adds the result and the hold to the options of an answer. */
    static Map<String, Object> result(Collection<String> leases, Map<String, Object> options, Map<String, Object> result, Duration hold) {
        if (!result.isEmpty() && leases.size() != 1) {
            throw new IllegalArgumentException("a result belongs to one job, so ack the others in another call");
        }
        options.putAll(result);
        if (hold != null) {
            options.put("hold", Api.milliseconds(hold));
        }
        return options;
    }
}
