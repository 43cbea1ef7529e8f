package io.tarry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** The figures are those of the Standard Webhooks libraries' own tests. */
class SignatureTest {
    private static final String SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    private static final byte[] BODY = "{\"test\": 2432232314}".getBytes(java.nio.charset.StandardCharsets.UTF_8);
    private static final Instant SIGNED = Instant.ofEpochSecond(1614265330);

    private final Map<String, Object> headers = new HashMap<>(Map.of("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp", List.of("1614265330"),
        "WEBHOOK-SIGNATURE", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "Tarry-Topic", "orders", "Tarry-Id", "42", "Tarry-Attempt", "2", "Tarry-Meta-who", "me"));

    private Job verify(String secret, long laterS) {
        return Signature.verify(List.of(secret), headers, BODY, SIGNED.plusSeconds(laterS));
    }

    @Test
    void aRightOneGivesTheJob() {
        Job job = verify(SECRET, 0);
        assertEquals("orders/42 2 me", job + " " + job.attempt() + " " + job.meta().get("who"));
        assertEquals(2432232314L, job.jsonObject().get("test"));
        assertEquals("42", verify(SECRET.substring(6), 300).id());
        assertEquals("42", Signature.verify(List.of("whsec_AAAA", SECRET), headers, BODY, SIGNED).id());
        headers.put("WEBHOOK-SIGNATURE", "v1,AAAA v2,x " + headers.get("WEBHOOK-SIGNATURE"));
        assertEquals("42", verify(SECRET, -300).id());
    }

    @Test
    void anythingElseIsRefused() {
        assertThrows(BadSignature.class, () -> verify("whsec_AAAA", 0));
        assertThrows(BadSignature.class, () -> verify(SECRET, 301));
        assertThrows(BadSignature.class, () -> verify(SECRET, -301));
        assertThrows(BadSignature.class, () -> Signature.verify(List.of(), headers, BODY, SIGNED));
        assertThrows(BadSignature.class, () -> Signature.verify(List.of(SECRET), Map.of(), BODY, SIGNED));
        assertThrows(BadSignature.class, () -> Signature.verify(List.of(SECRET), headers, new byte[0], SIGNED));
        assertThrows(IllegalArgumentException.class, () -> verify("whsec_?", 0));
    }
}
