package io.tarry;

import java.time.Duration;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Jobs whose leases end later: {@code new Extend(job).lease(Duration.ofMinutes(1)).progress("40 of 100")}. */
public final class Extend {
    private static final int PROGRESS_BYTES_MAX = 256;

    final List<String> leases;
    private Duration lease;
    private String progress = "";

    public Extend(Job... jobs) {
        this(List.of(jobs));
    }

    /** Extends the leases of the jobs of this list, or these leases. */
    public Extend(Collection<?> jobs) {
        leases = Api.leases(jobs);
    }

    /** Sets the time from now to the end of the leases; the default is the lease time of the job. */
    public Extend lease(Duration lease) {
        this.lease = lease;
        return this;
    }

    /** Sets how far the job is, up to 256 bytes of text; shown with the job. */
    public Extend progress(String progress) {
        this.progress = progress;
        return this;
    }

    Map<String, Object> options() {
        Map<String, Object> out = new LinkedHashMap<>();
        if (lease != null) {
            out.put("lease_for", Api.milliseconds(lease));
        }
        if (!progress.isEmpty()) {
            out.put("progress", Api.line(progress, PROGRESS_BYTES_MAX));
        }
        return out;
    }
}
