package io.tarry;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Jobs to wait for, up to 1,000: {@code new Wait().job(pushed).job("sums", "2").timeout(Duration.ofSeconds(30))}. */
public final class Wait {
    final List<Map<String, Object>> names = new ArrayList<>();
    Duration timeout = Duration.ofSeconds(30);
    private String until = "all";

    public Wait job(String topic, String id) {
        names.add(Map.of("topic", topic, "id", id));
        return this;
    }

    public Wait job(Job job) {
        return job(job.topic(), job.id());
    }

    public Wait job(Pushed pushed) {
        return job(pushed.topic(), pushed.id());
    }

    /** Waits until one of the jobs has ended, not all. */
    public Wait any() {
        until = "any";
        return this;
    }

    /** Sets the longest time, up to 4 minutes; 30 s. */
    public Wait timeout(Duration timeout) {
        this.timeout = timeout;
        return this;
    }

    Map<String, Object> body() {
        return Map.of("jobs", names, "for", until, "wait", Api.milliseconds(timeout));
    }
}
