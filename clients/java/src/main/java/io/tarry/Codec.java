package io.tarry;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.zip.CRC32;
import java.util.zip.DataFormatException;
import java.util.zip.GZIPOutputStream;
import java.util.zip.Inflater;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * The codec of bodies and results between the program and the server: compression, encryption, storage elsewhere, in this order. docs/codec.md has the format. Set it up before it is
 * given to a client; threads may use it together then.
 *
 * <pre>{@code Client.builder().codec(new Codec().gzip().aesGcm("2026-11", Map.of("2026-11", key))).build()}</pre>
 */
public final class Codec {
    private static final String ENCODED = "application/vnd.tarry.encoded";
    private static final String GZIP = "gzip";
    private static final String AES_GCM = "aes-gcm";
    private static final String CLAIM_CHECK = "claim-check";
    private static final List<String> ORDER = List.of(GZIP, AES_GCM, CLAIM_CHECK);
    private static final int KEY_BYTES = 32;
    private static final int NONCE_BYTES = 12;
    private static final int TAG_BYTES = 16;
    private static final byte[] GZIP_HEADER = {0x1f, (byte) 0x8b, 8, 0};
    private static final int GZIP_HEADER_BYTES = 10;
    private static final int GZIP_TRAILER_BYTES = 8;
    private static final Pattern KEY_ID = Pattern.compile("[A-Za-z0-9._-]{1,32}");
    private static final Pattern NAME = Pattern.compile("[0-9a-f]{32}");
    private static final SecureRandom RANDOM = new SecureRandom();
    static final String BODY = "body";
    static final String RESULT = "result";

    private int gzipAbove = -1;
    private int inflatedMax = 64 << 20;
    private String current;
    private final Map<String, SecretKeySpec> keys = new HashMap<>();
    private final Map<String, byte[]> nonceKeys = new HashMap<>();
    private Store store;
    private int storedAbove = 64 << 10;
    private boolean isDeleted = true;
    private String context = "";

    /** Stores bodies in place of the server. A name is 32 hexadecimal digits. Threads may call a store at the same time. */
    public interface Store {
        void put(String name, byte[] data) throws IOException;

        /** Returns nothing if the store does not have it. */
        Optional<byte[]> get(String name) throws IOException;

        /** Does nothing if the store does not have it. */
        void delete(String name) throws IOException;
    }

    /** A directory that all producers and consumers share. The files are synced to the disk. */
    public static final class DirectoryStore implements Store {
        private static final FileAttribute<?> OWN = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
        private final Path path;

        public DirectoryStore(Path path) {
            this.path = path;
        }

        @Override
        public void put(String name, byte[] data) throws IOException {
            Path temporary = Files.createTempFile(path, ".", "", OWN);
            try (FileChannel file = FileChannel.open(temporary, StandardOpenOption.WRITE)) {
                ByteBuffer left = ByteBuffer.wrap(data);
                while (left.hasRemaining()) {
                    file.write(left);
                }
                file.force(true);
            }
            Files.move(temporary, path.resolve(name), StandardCopyOption.ATOMIC_MOVE);
            try (FileChannel directory = FileChannel.open(path, StandardOpenOption.READ)) {
                directory.force(true);
            }
        }

        @Override
        public Optional<byte[]> get(String name) throws IOException {
            try {
                return Optional.of(Files.readAllBytes(path.resolve(name)));
            } catch (NoSuchFileException fault) {
                return Optional.empty();
            }
        }

        @Override
        public void delete(String name) throws IOException {
            Files.deleteIfExists(path.resolve(name));
        }
    }

    /** Compresses data of at least 1,024 bytes, if it becomes smaller. Data that inflates to more than 64 MiB is an error. */
    public Codec gzip() {
        return gzip(1024, inflatedMax);
    }

    /** Compresses data of at least {@code above} bytes. Data that inflates to more than {@code inflatedMax} bytes is an error. */
    public Codec gzip(int above, int inflatedMax) {
        gzipAbove = above;
        this.inflatedMax = inflatedMax;
        return this;
    }

    /** Encrypts with AES-256-GCM under the key {@code current}, and decrypts with each of the keys, of 32 bytes, by their ids. */
    public Codec aesGcm(String current, Map<String, byte[]> keys) {
        keys.forEach((id, key) -> {
            if (!KEY_ID.matcher(id).matches()) {
                throw new IllegalArgumentException("bad id of a key '" + id + "', give 1 to 32 letters, digits, dots, underscores and hyphens");
            }
            if (key.length != KEY_BYTES) {
                throw new IllegalArgumentException("the key '" + id + "' has " + key.length + " bytes, give " + KEY_BYTES);
            }
            this.keys.put(id, new SecretKeySpec(key, "AES"));
            nonceKeys.put(id, digest(key, Json.encode("tarry-codec nonce")));
        });
        if (!keys.containsKey(current)) {
            throw new IllegalArgumentException("there is no key '" + current + "', add it to the keys");
        }
        this.current = current;
        return this;
    }

    /** Stores data of more than 64 KiB in the store. The server gets its name. A worker deletes the data of a body after the ack of its job. */
    public Codec claimCheck(Store store) {
        return claimCheck(store, storedAbove, true);
    }

    /** Stores data of more than {@code above} bytes in the store. {@code isDeleted}: whether a worker deletes the data of a body after the ack of its job. */
    public Codec claimCheck(Store store, int above, boolean isDeleted) {
        this.store = store;
        storedAbove = above;
        this.isDeleted = isDeleted;
        return this;
    }

    /** Sets the context, such as the name of a service. It must be the same for those that encrypt and decrypt: data of another context is rejected. */
    public Codec context(String context) {
        this.context = context;
        return this;
    }

    /** Bytes and their content type. */
    public static final class Content {
        private final byte[] data;
        private final String type;
        final String storedAs;

        Content(byte[] data, String type, String storedAs) {
            this.data = data;
            this.type = type;
            this.storedAs = storedAs;
        }

        public byte[] data() {
            return data;
        }

        public String type() {
            return type;
        }
    }

    /** Returns the body for the server. */
    public Content encode(byte[] data, String contentType) {
        return encode(data, contentType, BODY, false, null);
    }

    /** Returns the body as it was before it was encoded: for bodies that come by a callback or a broker. Data that is not encoded stays as it is. */
    public Content decode(byte[] data, String contentType) {
        return decode(this, data, contentType, BODY);
    }

    /** {@code isSteady}, for schedules: equal data has equal bytes and is never stored elsewhere. */
    Content encode(byte[] data, String contentType, String part, boolean isSteady, byte[] nonce) {
        byte[] type = Json.encode(contentType);
        if (type.length > 255) {
            throw TarryException.codec("the content type has more than 255 bytes", null);
        }
        byte[] out = concat(new byte[] {(byte) type.length}, type, data);
        List<String> steps = new ArrayList<>();
        if (gzipAbove >= 0 && data.length >= gzipAbove) {
            byte[] packed = deflate(out);
            if (packed.length < out.length) {
                out = packed;
                steps.add(GZIP);
            }
        }
        if (current != null) {
            steps.add(AES_GCM);
            out = encrypt(out, bound(part, steps, current), isSteady, nonce);
        }
        if (store != null && !isSteady && out.length > storedAbove) {
            byte[] random = new byte[16];
            RANDOM.nextBytes(random);
            StringBuilder name = new StringBuilder();
            for (byte one : random) {
                name.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
            }
            try {
                store.put(name.toString(), out);
            } catch (IOException fault) {
                throw new UncheckedIOException("the " + part + " cannot be stored", fault);
            }
            steps.add(CLAIM_CHECK);
            out = Json.encode(name.toString());
        }
        if (steps.isEmpty()) {
            return new Content(data, contentType, null);
        }
        return new Content(out, ENCODED + "; steps=" + String.join("+", steps) + (current == null ? "" : "; key=" + current), null);
    }

    static boolean isEncoded(String contentType) {
        return contentType.split(";", 2)[0].strip().equals(ENCODED);
    }

    /** Decodes by the codec, which is null if the client has none. */
    static Content decode(Codec codec, byte[] data, String contentType, String part) {
        if (!isEncoded(contentType)) {
            return new Content(data, contentType, null);
        }
        Map<String, String> members = members(contentType);
        String key = members.getOrDefault("key", "");
        List<String> steps = stepsOf(members.getOrDefault("steps", ""), key, part);
        if (codec == null) {
            throw TarryException.codec("the " + part + " is encoded (" + String.join(", ", steps) + "), and the client has no codec", null);
        }
        byte[] out = data;
        String name = null;
        if (steps.remove(CLAIM_CHECK)) {
            name = new String(data, StandardCharsets.ISO_8859_1);
            out = codec.fetch(name, part);
        }
        if (steps.contains(AES_GCM)) {
            out = codec.decrypt(out, codec.bound(part, steps, key), key, part);
        }
        if (steps.contains(GZIP)) {
            out = inflate(out, codec.inflatedMax, part);
        }
        int end = 1 + (out.length == 0 ? 0 : out[0] & 255);
        if (out.length < end) {
            throw TarryException.codec("the " + part + " is too short", null);
        }
        return new Content(Arrays.copyOfRange(out, end, out.length), new String(out, 1, end - 1, StandardCharsets.UTF_8), name);
    }

    private static Map<String, String> members(String contentType) {
        Map<String, String> members = new HashMap<>();
        String[] parts = contentType.split(";");
        for (int at = 1; at < parts.length; at++) {
            String[] pair = parts[at].strip().split("=", 2);
            members.put(pair[0], pair.length > 1 ? pair[1] : "");
        }
        return members;
    }

    /** Returns the steps in the order of their application. */
    private static List<String> stepsOf(String text, String key, String part) {
        List<String> steps = new ArrayList<>(List.of(text.split("\\+", -1)));
        int last = -1;
        boolean isInOrder = true;
        for (String one : steps) {
            int at = ORDER.indexOf(one);
            if (at < 0) {
                throw TarryException.codec("the " + part + " has the step '" + one + "', which the codec does not have", null);
            }
            isInOrder &= at > last;
            last = at;
        }
        if (!isInOrder || steps.contains(AES_GCM) != KEY_ID.matcher(key).matches()) {
            throw TarryException.codec("the content type of the " + part + " is not valid", null);
        }
        return steps;
    }

    /** Deletes the stored body of an acked job, if it has one. A worker does this itself. */
    public void deleteStored(Job job) throws IOException {
        if (store != null && isDeleted && job.storedAs() != null) {
            store.delete(job.storedAs());
        }
    }

    /** Returns the additional data that is authenticated. */
    private byte[] bound(String part, List<String> steps, String key) {
        return Json.encode(String.join("\n", "tarry-codec 1", part, String.join("+", steps), key, context));
    }

    private byte[] encrypt(byte[] data, byte[] bound, boolean isSteady, byte[] given) {
        byte[] nonce = given == null ? new byte[NONCE_BYTES] : given;
        if (given == null && isSteady) {
            nonce = Arrays.copyOf(digest(nonceKeys.get(current), concat(bound, new byte[] {'\n'}, data)), NONCE_BYTES);
        } else if (given == null) {
            RANDOM.nextBytes(nonce);
        }
        try {
            Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
            cipher.init(Cipher.ENCRYPT_MODE, keys.get(current), new GCMParameterSpec(8 * TAG_BYTES, nonce));
            cipher.updateAAD(bound);
            return concat(nonce, cipher.doFinal(data));
        } catch (GeneralSecurityException fault) {
            throw new IllegalStateException("AES-GCM fails", fault);
        }
    }

    private byte[] decrypt(byte[] data, byte[] bound, String key, String part) {
        if (keys.isEmpty()) {
            throw TarryException.codec("the " + part + " is encrypted with the key '" + key + "', and the codec has no keys", null);
        }
        if (!keys.containsKey(key)) {
            throw TarryException.codec("the " + part + " is encrypted with the key '" + key + "', which the codec does not have", null);
        }
        if (data.length < NONCE_BYTES + TAG_BYTES) {
            throw TarryException.codec("the " + part + " is too short to be encrypted", null);
        }
        try {
            Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
            cipher.init(Cipher.DECRYPT_MODE, keys.get(key), new GCMParameterSpec(8 * TAG_BYTES, data, 0, NONCE_BYTES));
            cipher.updateAAD(bound);
            return cipher.doFinal(data, NONCE_BYTES, data.length - NONCE_BYTES);
        } catch (AEADBadTagException fault) {
            throw TarryException.codec("the " + part + " cannot be decrypted with the key '" + key + "': it was changed, or has another context", null);
        } catch (GeneralSecurityException fault) {
            throw new IllegalStateException("AES-GCM fails", fault);
        }
    }

    private byte[] fetch(String name, String part) {
        if (store == null) {
            throw TarryException.codec("the " + part + " is stored elsewhere, and the codec has no store", null);
        }
        if (!NAME.matcher(name).matches()) {
            throw TarryException.codec("the " + part + " is stored elsewhere, but its name is not valid", null);
        }
        Optional<byte[]> found;
        try {
            found = store.get(name);
        } catch (IOException | RuntimeException fault) {
            throw TarryException.codec("the " + part + " is stored elsewhere as '" + name + "' and cannot be read: " + fault.getMessage(), fault);
        }
        return found.orElseThrow(() -> TarryException.codec("the " + part + " is stored elsewhere as '" + name + "', which the store does not have", null));
    }

    private static byte[] deflate(byte[] data) {
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (GZIPOutputStream out = new GZIPOutputStream(packed)) {
            out.write(data);
        } catch (IOException fault) {
            throw new UncheckedIOException(fault); // never: it is in memory
        }
        return packed.toByteArray();
    }

    /** Reads one member. GZIPInputStream does not notice bytes after it. */
    private static byte[] inflate(byte[] data, int most, String part) {
        TarryException bad = TarryException.codec("the " + part + " is not valid gzip", null);
        if (data.length < GZIP_HEADER_BYTES + GZIP_TRAILER_BYTES || !Arrays.equals(GZIP_HEADER, Arrays.copyOf(data, GZIP_HEADER.length))) {
            throw bad;
        }
        Inflater inflater = new Inflater(true);
        try {
            inflater.setInput(data, GZIP_HEADER_BYTES, data.length - GZIP_HEADER_BYTES);
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            byte[] piece = new byte[8192];
            while (!inflater.finished()) {
                int count = inflater.inflate(piece);
                out.write(piece, 0, count);
                if (out.size() > most) {
                    throw TarryException.codec("the " + part + " inflates to more than " + most + " bytes", null);
                }
                if (count == 0 && !inflater.finished()) {
                    throw bad; // it is cut
                }
            }
            CRC32 sum = new CRC32();
            sum.update(out.toByteArray());
            ByteBuffer trailer = ByteBuffer.wrap(data, data.length - GZIP_TRAILER_BYTES, GZIP_TRAILER_BYTES).order(java.nio.ByteOrder.LITTLE_ENDIAN);
            if (inflater.getRemaining() != GZIP_TRAILER_BYTES || trailer.getInt() != (int) sum.getValue() || trailer.getInt() != out.size()) {
                throw bad;
            }
            return out.toByteArray();
        } catch (DataFormatException fault) {
            throw bad;
        } finally {
            inflater.end();
        }
    }

    private static byte[] digest(byte[] key, byte[] data) {
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(data);
        } catch (GeneralSecurityException fault) {
            throw new IllegalStateException("HMAC fails", fault);
        }
    }

    private static byte[] concat(byte[]... parts) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] part : parts) {
            out.writeBytes(part);
        }
        return out.toByteArray();
    }
}
