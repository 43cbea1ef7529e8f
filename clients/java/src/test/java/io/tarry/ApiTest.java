package io.tarry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

class ApiTest {
    @Test
    void idsAreUlids() {
        assertEquals("01ARYZ6S41", Api.newId(1469918176385L).substring(0, 10)); // the example of the ULID specification's library
        assertEquals("7ZZZZZZZZZ", Api.newId((1L << 48) - 1).substring(0, 10));
        Set<String> found = new HashSet<>();
        for (int at = 0; at < 10_000; at++) {
            String id = Api.newId(at);
            assertTrue(id.matches("[0-7][0-9A-HJKMNP-TV-Z]{25}"), id);
            found.add(id.substring(10));
        }
        assertEquals(10_000, found.size());
    }

    @Test
    void durationsAndTimesAreNeverEarly() {
        assertEquals("1500ms", Api.milliseconds(Duration.ofMillis(1500)));
        assertEquals("1501ms", Api.milliseconds(Duration.ofNanos(1_500_000_001)));
        assertEquals("0ms", Api.milliseconds(Duration.ZERO));
        assertEquals("1ms", Api.milliseconds(Duration.ofNanos(1)));
        assertEquals("1001", Api.moment(Instant.ofEpochSecond(1, 1_000_000)));
        assertEquals("1002", Api.moment(Instant.ofEpochSecond(1, 1_000_001)));
    }

    @Test
    void aBlankIsNoPlus() {
        assertEquals("/v1/topics/a%20b/jobs/a%2Fb%3Fc%2Bd%C3%A9", Api.path("a b", "jobs", "a/b?c+dé"));
    }

    @Test
    void textsOfErrorsAreCutBetweenCharacters() {
        assertEquals("a b", Api.errorText("a\nb"));
        String cut = Api.errorText("银".repeat(100));
        assertEquals(198, cut.getBytes(StandardCharsets.UTF_8).length);
        assertEquals("🎉".repeat(50), Api.errorText("🎉".repeat(51)));
        assertEquals("a b", Api.errorText("a\ud800b"));
    }

    @Test
    void aConsumerIsHostAndProcessIn64Characters() {
        assertEquals("shop-1:77", Api.consumer("shop-1", 77));
        assertEquals("shop:77", Api.consumer("sh op\né", 77));
        assertEquals("h".repeat(61) + ":77", Api.consumer("h".repeat(80), 77));
        assertEquals(":77", Api.consumer("", 77));
    }
}
