package io.tarry;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ResultTest {
    private static Job job(Map<String, Object> members) {
        Map<String, Object> out = new HashMap<>(Map.of("topic", "t", "id", "1", "lease", "l", "duration_ms", 1500L, "finished_at", "2026-11-20T09:00:00.000Z"));
        out.putAll(members);
        return new Job(out, null);
    }

    @Test
    void aResultIsBytesHoweverTheAnswerHasIt() {
        Job json = job(Map.of("result", Map.of("a", "é"), "result_type", "application/json"));
        assertEquals("{\"a\":\"é\"}", json.resultText());
        assertEquals(Map.of("a", "é"), json.resultJson());
        assertEquals("é", job(Map.of("result", "é", "result_type", "text/plain")).resultText());
        assertEquals("\"x\"", job(Map.of("result", "x", "result_type", "application/json")).resultText());
        assertArrayEquals(new byte[] {'x'}, job(Map.of("result_base64", "eA==")).result().orElseThrow());
        Job none = job(Map.of());
        assertTrue(none.result().isEmpty() && none.resultText().isEmpty());
        assertNull(none.resultJson());
        assertEquals(Duration.ofMillis(1500), none.duration().orElseThrow());
        assertEquals(Instant.parse("2026-11-20T09:00:00Z"), none.finishedAt());
    }

    @Test
    void aResultBelongsToOneJob() {
        Job one = job(Map.of());
        assertEquals(Map.of("result_base64", "eyJzdW0iOjN9", "result_type", "application/json"), new Ack(one).result(Map.of("sum", 3)).options(null));
        assertEquals(Map.of(), new Ack(one, one).options(null));
        assertThrows(IllegalArgumentException.class, () -> new Ack(one, one).result("x").options(null));
        assertThrows(IllegalArgumentException.class, () -> new Nack(List.of()).result("x").options(null));
        assertThrows(IllegalArgumentException.class, () -> new Ack(List.of(7)));
        assertEquals(List.of("l", "m"), new Ack(List.of(one, "m")).leases);
    }

    @Test
    void aPushThatWaitsNeedsAnIdIfItHasAOnce() {
        try (Client client = new Client("http://127.0.0.1:9")) {
            assertThrows(IllegalArgumentException.class, () -> client.pushAndWait(new Push("t", "x").once("order-1"), Duration.ofSeconds(1)));
        }
    }

    @Test
    void requestsWithResultsStayBelowTheLimitOfTheServer() {
        Map<String, Object> big = Map.of("result_base64", "x".repeat(1 << 17));
        assertEquals(List.of(4, 4, 1), sizes(Collections.nCopies(9, big)));
        assertEquals(List.of(1000, 1000, 500), sizes(Collections.nCopies(2500, Map.of("lease", "l"))));
        assertEquals(List.of(), sizes(List.of()));
    }

    private static List<Integer> sizes(List<Map<String, Object>> items) {
        return Client.batches(items).stream().map(List::size).collect(java.util.stream.Collectors.toList());
    }

    @Test
    void metaInAHeaderCannotAddAnotherHeader() {
        Transport.Request request = new Transport.Request("PUT", "/", new Transport("http://127.0.0.1:9", null, Duration.ZERO, Duration.ZERO, null));
        for (String[] bad : new String[][] {{"a", "x\r\nEvil: 1"}, {"a\r\nEvil", "x"}, {"a b", "x"}, {"", "x"}}) {
            assertThrows(IllegalArgumentException.class, () -> request.header(bad[0], bad[1]));
        }
        request.header("Tarry-Meta-who", "Ž");
        assertArrayEquals("Tarry-Meta-who: Ž\r\n".getBytes(StandardCharsets.UTF_8), request.headers.getBytes(StandardCharsets.ISO_8859_1));
    }

    @Test
    void onlyAJobOfAWorkerReportsItsProgress() {
        Job one = job(Map.of());
        assertThrows(IllegalStateException.class, () -> one.reportProgress("half"));
        one.heldBy(progress -> progress.equals("half"));
        assertTrue(one.reportProgress("half"));
        assertFalse(one.reportProgress("all"));
    }
}
