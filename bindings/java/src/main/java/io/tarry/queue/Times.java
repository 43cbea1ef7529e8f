package io.tarry.queue;

import java.time.Duration;
import java.time.Instant;

/** Times as Java has them, and in the milliseconds of tarry.h. */
final class Times {
    private Times() {}

    /** Rounded up: never early. Null: 0. */
    static long milliseconds(Duration duration) {
        if (duration == null) {
            return 0;
        }
        long ms = duration.toMillis();
        return duration.getNano() % 1_000_000 == 0 ? ms : ms + 1;
    }

    /** Since 1970, rounded up. Null: 0. */
    static long milliseconds(Instant instant) {
        if (instant == null) {
            return 0;
        }
        long ms = instant.toEpochMilli();
        return instant.getNano() % 1_000_000 == 0 ? ms : ms + 1;
    }

    /** Converts milliseconds; 0 becomes null. */
    static Instant instant(long ms) {
        return ms == 0 ? null : Instant.ofEpochMilli(ms);
    }

    /** Converts milliseconds; 0 becomes null. */
    static Duration duration(long ms) {
        return ms == 0 ? null : Duration.ofMillis(ms);
    }
}
