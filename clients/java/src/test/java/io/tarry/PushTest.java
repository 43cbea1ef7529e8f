package io.tarry;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Duration;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class PushTest {
    private static void claims(Push push, String body, String type) {
        Map<String, Object> item = push.item(null);
        assertArrayEquals(Json.encode(body), Base64.getDecoder().decode((String) item.get("body_base64")));
        assertEquals(type, item.get("content_type"));
    }

    @Test
    void theContentTypeFollowsFromTheBody() {
        claims(new Push("t", new byte[] {65}), "A", "application/octet-stream");
        claims(new Push("t", "é"), "é", "text/plain; charset=utf-8");
        claims(new Push("t", Map.of("a", Arrays.asList(1, 2.5, null, true, "é"))), "{\"a\":[1,2.5,null,true,\"é\"]}", "application/json");
        claims(new Push("t", List.of()), "[]", "application/json");
        claims(new Push("t", null), "null", "application/json");
        claims(new Push("t", "x").contentType("application/json"), "\"x\"", "application/json");
        claims(new Push("t", new byte[] {49}).contentType("application/json"), "1", "application/json");
        claims(new Push("t", "<a/>").contentType("text/xml"), "<a/>", "text/xml");
        assertThrows(IllegalArgumentException.class, () -> new Push("t", new Object()).item(null));
    }

    @Test
    void theOptionsOfABatchHaveTheNamesOfTheApi() {
        Map<String, Object> item = new Push("t", "x").id("1").batch("r", "7").parent("L").waits().members(2).waitAtMost(Duration.ofSeconds(1))
            .closeWithin(Duration.ofSeconds(2)).onDead("hold").item(null);
        item.keySet().removeAll(List.of("topic", "id", "body_base64", "content_type"));
        assertEquals(Map.of("batch_topic", "r", "batch_id", "7", "parent", "L", "waits", true, "members", 2, "wait_at_most", "1000ms", "close_within", "2000ms",
            "on_dead", "hold"), item);
    }

    @Test
    void anIdOfTheClientsMakingStaysAndKeeps() {
        Push push = new Push("t", "x").delay(Duration.ofSeconds(1));
        Map<String, Object> item = push.item(null);
        assertEquals("keep", item.get("on_conflict"));
        assertEquals(26, ((String) item.get("id")).length());
        assertEquals(item, push.item(null));
        assertFalse(new Push("t", "x").id("1").item(null).containsKey("on_conflict"));
        assertEquals("reject", new Push("t", "x").onConflict("reject").item(null).get("on_conflict"));
    }
}
