package io.tarry;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The vectors that all clients share, stores, and a job that cannot be decoded. */
class CodecTest {
    private static final Map<String, Object> FOUND = read();

    @SuppressWarnings("unchecked") // as the file has them
    private static Map<String, Object> read() {
        try {
            return (Map<String, Object>) Json.parse(Files.readAllBytes(Path.of("../conformance/codec.json")));
        } catch (IOException fault) {
            throw new IllegalStateException(fault);
        }
    }

    @SuppressWarnings("unchecked") // as the file has them
    private static List<Map<String, Object>> rows(Object found) {
        return (List<Map<String, Object>>) found;
    }

    private static byte[] bytes(Object base64) {
        return base64 == null ? null : Base64.getDecoder().decode((String) base64);
    }

    private static Map<String, byte[]> bytesOf(Object found) {
        Map<String, byte[]> out = new HashMap<>();
        if (found != null) {
            ((Map<?, ?>) found).forEach((name, value) -> out.put((String) name, bytes(value)));
        }
        return out;
    }

    private static final class MemoryStore implements Codec.Store {
        private final Map<String, byte[]> data;

        MemoryStore(Map<String, byte[]> data) {
            this.data = data;
        }

        @Override
        public void put(String name, byte[] body) {
            data.put(name, body);
        }

        @Override
        public Optional<byte[]> get(String name) {
            return Optional.ofNullable(data.get(name));
        }

        @Override
        public void delete(String name) {
            data.remove(name);
        }
    }

    private static Codec codec(Map<String, Object> one) {
        Codec codec = new Codec().context((String) one.getOrDefault("context", FOUND.get("context")));
        if (!one.containsKey("no_keys")) {
            codec.aesGcm((String) FOUND.get("current"), bytesOf(FOUND.get("keys")));
        }
        if (!one.containsKey("no_store")) {
            codec.claimCheck(new MemoryStore(bytesOf(one.get("stored"))));
        }
        return codec.gzip(1024, ((Number) one.getOrDefault("inflated", 64 << 20)).intValue());
    }

    private static Codec.Content decoded(Map<String, Object> one) {
        return Codec.decode(codec(one), bytes(one.get("encoded_base64")), (String) one.get("encoded_type"), (String) one.get("part"));
    }

    @Test
    void encodesAsEveryClientDoes() {
        for (Map<String, Object> one : rows(FOUND.get("vectors"))) {
            Codec.Content made = codec(one).encode(bytes(one.get("body_base64")), (String) one.get("content_type"), (String) one.get("part"), one.containsKey("is_steady"), bytes(one.get("nonce_base64")));
            assertArrayEquals(bytes(one.get("encoded_base64")), made.data(), (String) one.get("about"));
            assertEquals(one.get("encoded_type"), made.type());
        }
    }

    @Test
    void decodesWhatEveryClientEncodes() {
        List<Map<String, Object>> all = new ArrayList<>(rows(FOUND.get("vectors")));
        all.addAll(rows(FOUND.get("decodes")));
        ((Map<?, ?>) FOUND.get("outputs")).values().forEach(outputs -> all.addAll(rows(outputs)));
        for (Map<String, Object> one : all) {
            assertArrayEquals(bytes(one.get("body_base64")), decoded(one).data(), (String) one.get("about"));
            assertEquals(one.get("content_type"), decoded(one).type());
        }
    }

    @Test
    void reportsWhatIsWrong() {
        for (Map<String, Object> one : rows(FOUND.get("errors"))) {
            assertEquals(one.get("error"), assertThrows(TarryException.CodecError.class, () -> decoded(one), (String) one.get("about")).detail());
        }
    }

    @Test
    void onlyWhatBecomesSmallerIsCompressed() {
        Codec mine = new Codec().gzip(100, 1000);
        byte[] random = new byte[200];
        new Random(1).nextBytes(random);
        assertEquals("text/plain", mine.encode(new byte[99], "text/plain").type());
        assertArrayEquals(random, mine.encode(random, "text/plain").data());
        assertEquals("application/vnd.tarry.encoded; steps=gzip", mine.encode(new byte[100], "text/plain").type());
    }

    private static List<Path> files(Path place) throws IOException {
        try (Stream<Path> found = Files.list(place)) {
            return found.collect(Collectors.toList());
        }
    }

    private static Job job(Codec codec, byte[] data, String type) {
        return new Job(Map.of("topic", "t", "id", "1", "body_base64", Base64.getEncoder().encodeToString(data), "content_type", type), codec);
    }

    @Test
    void largeBodiesAreStoredAndDeleted(@TempDir Path place) throws IOException {
        Codec mine = new Codec().claimCheck(new Codec.DirectoryStore(place), 20, true);
        Codec.Content made = mine.encode(Json.encode("a body that is longer"), "text/plain");
        assertEquals(List.of(place.resolve(Json.decode(made.data()))), files(place));
        assertEquals("application/vnd.tarry.encoded; steps=claim-check", made.type());
        assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(files(place).get(0))));
        Job job = job(mine, made.data(), made.type());
        assertEquals("a body that is longer", job.text());
        assertEquals("text/plain", job.contentType());
        mine.deleteStored(job);
        mine.deleteStored(job);
        assertTrue(files(place).isEmpty());
    }

    @Test
    void aBodyThatCannotBeDecodedIsNeverReadAsItIs() {
        Map<String, Object> one = rows(FOUND.get("vectors")).get(0);
        for (Codec mine : new Codec[] {null, new Codec()}) {
            Job job = job(mine, bytes(one.get("encoded_base64")), (String) one.get("encoded_type"));
            assertThrows(TarryException.CodecError.class, job::body);
            assertThrows(TarryException.CodecError.class, job::text);
            assertThrows(TarryException.CodecError.class, job::json);
            assertTrue(job.codecError().isPresent());
            assertFalse(job.result().isPresent());
        }
    }

    @Test
    void badKeysAreRejected() {
        assertThrows(IllegalArgumentException.class, () -> new Codec().aesGcm("a", Map.of("b", new byte[32])));
        assertThrows(IllegalArgumentException.class, () -> new Codec().aesGcm("a", Map.of("a", new byte[16])));
        assertThrows(IllegalArgumentException.class, () -> new Codec().aesGcm("a b", Map.of("a b", new byte[32])));
    }
}
