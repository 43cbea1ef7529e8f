package io.tarry;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigInteger;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @Test
    void readsEveryKindOfValue() {
        Object found = Json.parse(" {\"a\":[1,-2.5e1,null,true,false,\"\\u00e9\\n\\\\\"],\"b\":{},\"c\":[],\"d\":123456789012345678901}\n");
        Object wanted = Map.of("a", Arrays.asList(1L, -25.0, null, true, false, "é\n\\"), "b", Map.of(), "c", List.of(), "d", new BigInteger("123456789012345678901"));
        assertEquals(wanted, found);
        assertEquals(Long.MAX_VALUE, Json.parse("9223372036854775807"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "01", "1.", ".5", "+1", "1e", "-", "tru", "nulll", "\"a", "\"\\x\"", "\"\\u12g4\"", "\"\n\"", "[1] 2", "'a'", "NaN", "\u0000", "\u00a01"})
    void refusesWhatIsNoJson(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.parse(text));
    }

    @Test
    void isBounded() {
        assertThrows(IllegalArgumentException.class, () -> Json.parse("[".repeat(100_000)));
        assertThrows(IllegalArgumentException.class, () -> Json.parse("1".repeat(100_000)));
        List<Object> own = new java.util.ArrayList<>();
        own.add(own);
        assertThrows(IllegalArgumentException.class, () -> Json.write(own));
    }

    @Test
    void writesWhatItReads() {
        String text = "{\"a\":[1,2.5,null,true,\"é 你 🎉 \\\"\\\\\\u0000\"],\"b\":{},\"c\":[]}";
        assertEquals(text, Json.write(Json.parse(text)));
    }

    @Test
    void refusesWhatJsonHasNot() {
        assertThrows(IllegalArgumentException.class, () -> Json.write(Double.NaN));
        assertThrows(IllegalArgumentException.class, () -> Json.write(new Object()));
        assertThrows(IllegalArgumentException.class, () -> Json.encode("\ud800"));
        assertThrows(IllegalArgumentException.class, () -> Json.decode(new byte[] {(byte) 0xff}));
    }
}
