package io.tarry;

import java.net.InetAddress;
import java.net.URLEncoder;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeParseException;
import java.util.Base64;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** Conversions between the API's texts and Java's types. */
final class Api {
    private static final String CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    private static final SecureRandom RANDOM = new SecureRandom();
    private static final int ERROR_BYTES_MAX = 200;

    private Api() {
    }

    /** A ULID: 48 bits of milliseconds and 80 random ones. */
    static String newId(long nowMs) {
        byte[] random = new byte[10];
        RANDOM.nextBytes(random);
        char[] id = new char[26];
        for (int at = 0; at < 10; at++) {
            id[at] = CROCKFORD.charAt((int) (nowMs >>> (45 - 5 * at)) & 31);
        }
        for (int at = 0; at < 16; at++) { // 16 digits of 5 bits out of 10 bytes
            int bit = 5 * at;
            int pair = (random[bit / 8] & 255) << 8 | (bit / 8 < 9 ? random[bit / 8 + 1] & 255 : 0);
            id[10 + at] = CROCKFORD.charAt(pair >>> (11 - bit % 8) & 31);
        }
        return new String(id);
    }

    /** Rounded up: never early. */
    static String milliseconds(Duration duration) {
        return Math.addExact(duration.toMillis(), duration.getNano() % 1_000_000 > 0 ? 1 : 0) + "ms";
    }

    /** Rounded up: never early. */
    static String moment(Instant at) {
        return Long.toString(Math.addExact(at.toEpochMilli(), at.getNano() % 1_000_000 > 0 ? 1 : 0));
    }

    /** Null where the answer has no time. */
    static Instant instant(Object text) {
        try {
            return text instanceof String ? Instant.parse((String) text) : null;
        } catch (DateTimeParseException fault) {
            return null;
        }
    }

    /** Escapes a text for a path or a query: a blank is %20, never a plus. */
    static String quote(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    static String path(String topic, String... rest) {
        StringBuilder out = new StringBuilder("/v1/topics/").append(quote(topic));
        for (String one : rest) {
            out.append('/').append(quote(one));
        }
        return out.toString();
    }

    /** HOST:PID, of 64 printable ASCII characters at most. */
    static String consumer(String host, long pid) {
        String end = ":" + pid;
        String printable = host.replaceAll("[^!-~]", "");
        return printable.substring(0, Math.min(printable.length(), 64 - end.length())) + end;
    }

    /** HOST:PID of this process. */
    static String consumer() {
        String host = "";
        try {
            host = InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException fault) {
            host = System.getenv().getOrDefault("HOSTNAME", ""); // without one PID must do
        }
        return consumer(host, ProcessHandle.current().pid());
    }

    /** Returns the leases of a list of jobs or leases. */
    static List<String> leases(Collection<?> jobs) {
        return jobs.stream().map(one -> {
            if (!(one instanceof Job) && !(one instanceof String)) {
                throw new IllegalArgumentException("give jobs, or their leases");
            }
            return one instanceof Job ? ((Job) one).lease() : (String) one;
        }).collect(Collectors.toList());
    }

    /** Returns the members of an answer with this result; an empty list for null. */
    static Map<String, Object> result(Object result, String contentType, Codec codec) {
        if (result == null) {
            return Map.of();
        }
        Push push = new Push("", result);
        Codec.Content content = (contentType == null ? push : push.contentType(contentType)).content(codec, Codec.RESULT, false);
        return Map.of("result_base64", Base64.getEncoder().encodeToString(content.data()), "result_type", content.type());
    }

    /** The text of an error: 200 bytes at most, whole characters, no control characters. */
    static String errorText(String text) {
        return line(text, ERROR_BYTES_MAX);
    }

    /** A line of a text: so many bytes at most, whole characters, no control characters. */
    static String line(String text, int bytesMax) {
        StringBuilder out = new StringBuilder();
        int bytes = 0;
        for (int at = 0; at < text.length(); ) {
            int point = text.codePointAt(at);
            at += Character.charCount(point);
            int size = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
            if ((bytes += size) > bytesMax) {
                break;
            }
            boolean isText = !Character.isISOControl(point) && Character.getType(point) != Character.SURROGATE
                && Character.getType(point) != Character.LINE_SEPARATOR && Character.getType(point) != Character.PARAGRAPH_SEPARATOR;
            out.appendCodePoint(isText ? point : ' ');
        }
        return out.toString();
    }
}
