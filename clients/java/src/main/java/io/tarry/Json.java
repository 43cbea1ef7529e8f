package io.tarry;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON of RFC 8259, and nothing more: the JDK has none. Objects are {@code Map<String, Object>} in their order, arrays
 * {@code List<Object>}, numbers Long, BigInteger or Double. Invalid input, too deep nesting and too long numbers are an
 * {@link IllegalArgumentException}, in both directions.
 */
final class Json {
    private static final int DEPTH_MAX = 128;
    private static final int NUMBER_CHARS_MAX = 400;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The value that the bytes, which are UTF-8, hold. */
    static Object parse(byte[] bytes) {
        return parse(decode(bytes));
    }

    static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.blanks();
        if (json.at < text.length()) {
            throw json.fault("something follows the value");
        }
        return value;
    }

    /** UTF-8 to text; invalid bytes are an error and are not replaced. */
    static String decode(byte[] bytes) {
        String found = new String(bytes, StandardCharsets.UTF_8); // several times as fast as what follows
        if (found.indexOf('\ufffd') < 0) {
            return found;
        }
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException fault) {
            throw new IllegalArgumentException("the bytes are not UTF-8", fault);
        }
    }

    private static boolean hasSurrogates(String text) {
        for (int at = 0; at < text.length(); at++) {
            if (Character.isSurrogate(text.charAt(at))) {
                return true;
            }
        }
        return false;
    }

    /** Text to UTF-8; half a surrogate pair is an error and must not silently become a question mark. */
    static byte[] encode(String text) {
        if (!hasSurrogates(text)) {
            return text.getBytes(StandardCharsets.UTF_8); // several times as fast
        }
        try {
            ByteBuffer found = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
            byte[] bytes = new byte[found.remaining()];
            found.get(bytes);
            return bytes;
        } catch (CharacterCodingException fault) {
            throw new IllegalArgumentException("this text has half a surrogate pair, which UTF-8 has no bytes for", fault);
        }
    }

    // ---- reading ----

    private Object value(int depth) {
        if (depth > DEPTH_MAX) {
            throw fault("nested too deep");
        }
        blanks();
        switch (peek()) {
            case '{':
                return object(depth);
            case '[':
                return array(depth);
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> found = new LinkedHashMap<>();
        at++;
        blanks();
        if (passes('}')) {
            return found;
        }
        do {
            blanks();
            if (peek() != '"') {
                throw fault("a name is missing");
            }
            String name = string();
            blanks();
            expect(':');
            found.put(name, value(depth + 1));
            blanks();
        } while (passes(','));
        expect('}');
        return found;
    }

    private List<Object> array(int depth) {
        List<Object> found = new ArrayList<>();
        at++;
        blanks();
        if (passes(']')) {
            return found;
        }
        do {
            found.add(value(depth + 1));
            blanks();
        } while (passes(','));
        expect(']');
        return found;
    }

    private String string() {
        int begin = ++at;
        for (char one = peek(); one != '"' && one != '\\' && one >= ' '; one = peek()) {
            at++;
        }
        if (peek() == '"') { // most have no escape, and are a piece of the text
            return text.substring(begin, at++);
        }
        StringBuilder found = new StringBuilder(text.substring(begin, at));
        while (!passes('"')) {
            char one = peek();
            if (one < ' ') {
                throw fault("a control character, or no end of a string");
            }
            at++;
            found.append(one == '\\' ? escape() : one);
        }
        return found.toString();
    }

    private char escape() {
        char one = peek();
        at++;
        switch (one) {
            case '"':
            case '\\':
            case '/':
                return one;
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                int code = 0;
                for (int digits = 0; digits < 4; digits++, at++) {
                    int digit = peek() < 128 ? Character.digit(peek(), 16) : -1;
                    if (digit < 0) {
                        throw fault("four hexadecimal digits are missing");
                    }
                    code = code << 4 | digit;
                }
                return (char) code;
            default:
                throw fault("there is no such escape");
        }
    }

    private Number number() {
        int begin = at;
        passes('-');
        if (!passes('0')) {
            digits();
        }
        boolean isWhole = true;
        if (passes('.')) {
            isWhole = false;
            digits();
        }
        if (passes('e') || passes('E')) {
            isWhole = false;
            if (!passes('+')) {
                passes('-');
            }
            digits();
        }
        if (at - begin > NUMBER_CHARS_MAX) {
            throw fault("a number too long");
        }
        String found = text.substring(begin, at);
        if (!isWhole) {
            return Double.valueOf(found);
        }
        if (found.length() < 19) {
            return Long.valueOf(found);
        }
        BigInteger big = new BigInteger(found);
        return big.bitLength() < 64 ? (Number) big.longValue() : big;
    }

    private void digits() {
        int begin = at;
        while (peek() >= '0' && peek() <= '9') {
            at++;
        }
        if (at == begin) {
            throw fault("no value");
        }
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw fault("no value");
        }
        at += word.length();
        return value;
    }

    private void blanks() {
        for (char one = peek(); one == ' ' || one == '\n' || one == '\r' || one == '\t'; one = peek()) {
            at++;
        }
    }

    /** The character at hand; after the last one NUL, which no JSON has outside of an escape. */
    private char peek() {
        return at < text.length() ? text.charAt(at) : '\0';
    }

    private boolean passes(char wanted) {
        if (at >= text.length() || text.charAt(at) != wanted) {
            return false;
        }
        at++;
        return true;
    }

    private void expect(char wanted) {
        if (!passes(wanted)) {
            throw fault("'" + wanted + "' is missing");
        }
    }

    private IllegalArgumentException fault(String what) {
        return new IllegalArgumentException("no JSON: " + what + ", at character " + at);
    }

    // ---- writing ----

    static String write(Object value) {
        StringBuilder out = new StringBuilder(512);
        write(out, value, 0);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value, int depth) {
        if (depth > DEPTH_MAX) {
            throw new IllegalArgumentException("nested too deep for JSON, or within itself");
        }
        if (value == null || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof CharSequence || value instanceof Enum || value instanceof Character) {
            writeText(out, value.toString());
        } else if (value instanceof Number) {
            if (!Double.isFinite(((Number) value).doubleValue()) && (value instanceof Double || value instanceof Float)) {
                throw new IllegalArgumentException("JSON has no number " + value);
            }
            out.append(value);
        } else if (value instanceof Map) {
            char before = '{';
            for (Map.Entry<?, ?> member : ((Map<?, ?>) value).entrySet()) {
                out.append(before);
                before = ',';
                writeText(out, String.valueOf(member.getKey()));
                out.append(':');
                write(out, member.getValue(), depth + 1);
            }
            out.append(before == '{' ? "{}" : "}");
        } else if (value instanceof Iterable) {
            char before = '[';
            for (Object one : (Iterable<?>) value) {
                out.append(before);
                before = ',';
                write(out, one, depth + 1);
            }
            out.append(before == '[' ? "[]" : "]");
        } else {
            throw new IllegalArgumentException("no JSON for a '" + value.getClass().getName() + "'; give a map, list, text, number or boolean, or bytes and their content type");
        }
    }

    private static void writeText(StringBuilder out, String text) {
        out.append('"');
        int begin = 0; // of a piece without an escape
        for (int at = 0; at < text.length(); at++) {
            char one = text.charAt(at);
            if (one == '"' || one == '\\' || one < ' ') {
                out.append(text, begin, at).append(one < ' ' ? String.format("\\u%04x", (int) one) : "\\" + one);
                begin = at + 1;
            }
        }
        out.append(text, begin, text.length()).append('"');
    }
}
