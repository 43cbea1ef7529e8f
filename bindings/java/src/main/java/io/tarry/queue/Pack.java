package io.tarry.queue;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** Arguments of a call as one array; pack.h is the other side. */
final class Pack {
    private static final VarHandle INT = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle LONG = MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

    byte[] bytes;
    int length;

    Pack(int capacity) {
        bytes = new byte[capacity];
    }

    private int room(int count) {
        int at = length;
        int end = Math.addExact(at, count);
        if (end > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(end, (int) Math.min(2L * bytes.length, Integer.MAX_VALUE - 8)));
        }
        length = end;
        return at;
    }

    Pack number(int value) {
        int at = room(4);
        INT.set(bytes, at, value);
        return this;
    }

    Pack number(long value) {
        int at = room(8);
        LONG.set(bytes, at, value);
        return this;
    }

    /** With a NUL behind it; null is another than empty. */
    Pack bytes(byte[] from) {
        if (from == null) {
            return number(-1);
        }
        number(from.length);
        int at = room(from.length + 1);
        System.arraycopy(from, 0, bytes, at, from.length);
        bytes[at + from.length] = 0;
        return this;
    }

    /** Appends a text, which must not contain a NUL: C reads up to the first NUL. */
    Pack text(String text, String what) {
        if (text == null) {
            return number(-1);
        }
        if (text.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("bad " + what + ": it has a NUL inside, give a text without");
        }
        return bytes(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Name NUL value NUL, again and again. */
    Pack meta(Map<String, String> meta) {
        if (meta == null || meta.isEmpty()) {
            return number(-1);
        }
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, String> one : meta.entrySet()) {
            if (one.getKey().indexOf('\0') >= 0 || one.getValue().indexOf('\0') >= 0) {
                throw new IllegalArgumentException("bad meta: it has a NUL inside, give texts without");
            }
            text.append(one.getKey()).append('\0').append(one.getValue()).append('\0');
        }
        return bytes(text.toString().getBytes(StandardCharsets.UTF_8));
    }

    /** An answer, read from the front. */
    static final class Reader {
        private final byte[] bytes;
        private int at;

        Reader(byte[] bytes) {
            this.bytes = bytes;
        }

        int number() {
            at += 4;
            return (int) INT.get(bytes, at - 4);
        }

        long bigNumber() {
            at += 8;
            return (long) LONG.get(bytes, at - 8);
        }

        byte[] bytes() {
            int count = number();
            at += count;
            return Arrays.copyOfRange(bytes, at - count, at);
        }

        String text() {
            int count = number();
            at += count;
            return new String(bytes, at - count, count, StandardCharsets.UTF_8);
        }

        /** Null where it is empty. */
        String textOrNull() {
            String text = text();
            return text.isEmpty() ? null : text;
        }

        Map<String, String> meta() {
            int count = number();
            if (count == 0) {
                return Map.of();
            }
            String[] parts = new String(bytes, at, count, StandardCharsets.UTF_8).split("\0", -1);
            at += count;
            Map<String, String> meta = new LinkedHashMap<>();
            for (int i = 0; i + 1 < parts.length; i += 2) {
                meta.put(parts[i], parts[i + 1]);
            }
            return meta;
        }
    }
}
