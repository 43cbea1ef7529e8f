package io.tarry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class TransportTest {
    private static final Instant NOW = Instant.parse("2026-01-01T00:00:00Z");

    private static Duration retryAfter(String... pairs) {
        return Transport.retryAfter(pairs.length == 2 ? Map.of(pairs[0], pairs[1]) : Map.of(pairs[0], pairs[1], pairs[2], pairs[3]), NOW);
    }

    @Test
    void retryAfterIsSecondsOrADate() {
        assertEquals(Duration.ofSeconds(2), retryAfter("retry-after", "2"));
        assertEquals(Duration.ofSeconds(5), retryAfter("retry-after", "Thu, 01 Jan 2026 00:00:05 GMT"));
        assertEquals(Duration.ofSeconds(3), retryAfter("retry-after", "Thu, 01 Jan 2026 01:00:03 GMT", "date", "Thu, 01 Jan 2026 01:00:00 GMT"));
        assertEquals(Duration.ZERO, retryAfter("retry-after", "Wed, 31 Dec 2025 00:00:00 GMT"));
        assertNull(retryAfter("retry-after", "soon"));
        assertNull(retryAfter("retry-after", "-1"));
        assertNull(retryAfter("Other", "1"));
    }

    @Test
    void pausesGrowToFiveSecondsAndAreAtLeastHalf() {
        Duration pause = Transport.FIRST_PAUSE;
        for (int at = 0; at < 20; at++) {
            Duration found = Transport.jitter(pause);
            assertTrue(found.compareTo(pause) <= 0 && found.multipliedBy(2).compareTo(pause) >= 0);
            pause = Transport.longer(pause);
        }
        assertEquals(Duration.ofSeconds(5), pause);
    }

    @ParameterizedTest
    @CsvSource({"localhost,http://localhost:8279", "http://a/,http://a:8279", "https://a/b/,https://a:443/b", "http://[::1]:99,http://[::1]:99"})
    void urlsAreMadeWhole(String given, String wanted) {
        assertEquals(wanted, new Transport.Place(given).toString());
    }

    @Test
    void badUrlsAreRefused() {
        for (String url : List.of("ftp://a", "http://", "a b")) {
            assertThrows(IllegalArgumentException.class, () -> new Transport.Place(url), url);
        }
        assertThrows(IllegalArgumentException.class, () -> new Client(" , "));
    }

    @Test
    void noServerIsUnavailableAndAClosedClientAnError() {
        Client client = Client.builder().url("http://127.0.0.1:1").token("").retryFor(Duration.ofMillis(100)).build();
        assertEquals("no_answer", assertThrows(TarryException.Unavailable.class, () -> client.push("t", "x")).code());
        Thread.currentThread().interrupt();
        assertEquals("interrupted", assertThrows(TarryException.Unavailable.class, () -> client.push("t", "x")).code());
        assertTrue(Thread.interrupted());
        client.close();
        assertThrows(IllegalStateException.class, () -> client.push("t", "x"));
    }
}
