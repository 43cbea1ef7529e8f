package io.tarry;

import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verification that a callback was sent by one's own server: Standard Webhooks. */
public final class Signature {
    private static final Duration TOLERANCE = Duration.ofMinutes(5);
    private static final String META = "tarry-meta-";

    private Signature() {
    }

    /**
     * The job of a callback; else {@link BadSignature}. {@code secrets}: one, or several while they change, as in the policy file, with or without
     * {@code whsec_}. {@code headers}: each a text or a list of texts, of which the first counts. {@code body}: the bytes as they came. The
     * signature covers id, time and body; trust the other headers, and so the job's topic and id, only on https.
     */
    public static Job verify(Collection<String> secrets, Map<String, ?> headers, byte[] body) {
        return verify(secrets, headers, body, Instant.now());
    }

    static Job verify(Collection<String> secrets, Map<String, ?> headers, byte[] body, Instant now) {
        Map<String, String> found = new LinkedHashMap<>();
        headers.forEach((name, value) -> found.put(name == null ? "" : name.toLowerCase(Locale.ROOT), first(value)));
        String stamp = found.getOrDefault("webhook-timestamp", "");
        if (!stamp.matches("[0-9]{1,11}") || Duration.between(Instant.ofEpochSecond(Long.parseLong(stamp)), now).abs().compareTo(TOLERANCE) > 0) {
            throw new BadSignature("the time stamp is missing or too far away");
        }
        byte[] head = Json.encode(found.getOrDefault("webhook-id", "") + "." + stamp + ".");
        List<byte[]> signatures = new ArrayList<>();
        for (String one : found.getOrDefault("webhook-signature", "").split(" ")) {
            signatures.add(Json.encode(one));
        }
        boolean matches = false;
        for (String secret : secrets) {
            byte[] expected = Json.encode("v1," + Base64.getEncoder().encodeToString(digest(secret, head, body)));
            for (byte[] one : signatures) {
                matches |= MessageDigest.isEqual(expected, one);
            }
        }
        if (!matches) {
            throw new BadSignature("no signature is right");
        }
        return job(found, body);
    }

    private static byte[] digest(String secret, byte[] head, byte[] body) {
        byte[] key;
        try {
            key = Base64.getDecoder().decode(secret.startsWith("whsec_") ? secret.substring(6) : secret);
        } catch (IllegalArgumentException fault) {
            throw new IllegalArgumentException("a secret is not base64, give it as in the policy file"); // no cause: it would show the secret
        }
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            mac.update(head);
            return mac.doFinal(body);
        } catch (GeneralSecurityException fault) {
            throw new IllegalStateException("no HMAC-SHA256 here, which every JDK has", fault);
        }
    }

    private static Job job(Map<String, String> headers, byte[] body) {
        Map<String, Object> members = new LinkedHashMap<>();
        Map<String, Object> meta = new LinkedHashMap<>();
        headers.forEach((name, value) -> {
            if (name.startsWith(META)) {
                meta.put(name.substring(META.length()), value);
            }
        });
        members.put("meta", meta);
        members.put("topic", headers.get("tarry-topic"));
        members.put("id", headers.get("tarry-id"));
        members.put("content_type", headers.get("content-type"));
        for (String name : List.of("attempt", "delivery")) {
            String text = headers.getOrDefault("tarry-" + name, "");
            if (text.matches("[0-9]{1,18}")) {
                members.put(name, Long.valueOf(text));
            }
        }
        return new Job(members, null, body);
    }

    private static String first(Object value) {
        Object found = value instanceof Iterable ? ((Iterable<?>) value).iterator().hasNext() ? ((Iterable<?>) value).iterator().next() : "" : value;
        return found == null ? "" : found.toString();
    }
}
