package dev.evenkeel.partitioner;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    private static Object parse(String text) throws InvalidTableException {
        return Json.parse(text.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void readsEveryKindOfValue() throws Exception {
        assertEquals(
                Map.of("a", List.of(1L, -2.5e3, true, false), "b", Map.of(), "c", List.of()),
                parse(" {\"a\": [1, -2.5e3, true, false],\r\n\t\"b\":{}, \"c\":[]} "));
        assertNull(parse("null"));
    }

    @Test
    void keepsIntegersExact() throws Exception {
        assertEquals(Long.MAX_VALUE, parse("9223372036854775807"));
        assertEquals(Long.MIN_VALUE, parse("-9223372036854775808"));
        assertEquals(new BigInteger("9223372036854775808"), parse("9223372036854775808"));
    }

    @Test
    void readsEscapes() throws Exception {
        assertEquals("\"\\/\b\f\n\r\té😀", parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\""));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", " ", "{", "[", "[1", "[1,", "[1,]", "[,1]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:1}", "\"a", "\"\\",
        "\"\\u00e", "\"\\u00g0\"", "\"\\u٠٠٠٠\"", "\"\\v\"", "\"\t\"", "tru", "nul", "True", "NaN", "Infinity", "-", "01", "1.",
        ".5", "1e", "1e+", "+1", "0x1", "1 2", "[1 2]", "{\"a\" 1}", "]", "}", "\u0000"
    })
    void refusesWhatIsNoJson(String text) {
        assertThrows(InvalidTableException.class, () -> parse(text));
    }

    @Test
    void refusesWhatIsNoUtf8() {
        assertThrows(InvalidTableException.class, () -> Json.parse(new byte[] {'"', (byte) 0xff, '"'}));
        assertThrows(InvalidTableException.class, () -> Json.parse(new byte[] {'"', (byte) 0xc3}));
    }

    @Test
    void boundsDepthSizeAndNumbers() throws Exception {
        String open = String.join("", Collections.nCopies(Json.DEEPEST, "["));
        String close = String.join("", Collections.nCopies(Json.DEEPEST, "]"));
        parse(open + close);
        assertThrows(InvalidTableException.class, () -> parse("[" + open + close + "]"));
        assertThrows(InvalidTableException.class, () -> parse(String.join("", Collections.nCopies(401, "1"))));
        byte[] large = new byte[Json.LARGEST_BYTES + 1];
        Arrays.fill(large, (byte) ' ');
        assertThrows(InvalidTableException.class, () -> Json.parse(large));
    }

    @Test
    void quotesSoThatItReadsTheSame() throws Exception {
        String text = "a\"b\\c\n\u0001é\ud83d\ude00";
        assertEquals(text, parse(Json.quote(text)));
        assertEquals("\ud800", parse(Json.quote("\ud800")));
    }

    @Test
    void answersAnyBytesWithAValueOrOurError() {
        Random random = new Random(7);
        byte[] signs = "{}[]\",:\\u0123456789.eE+-truefalsn \n\u00ff".getBytes(StandardCharsets.ISO_8859_1);
        for (int i = 0; i < 200_000; i++) {
            byte[] text = new byte[random.nextInt(24)];
            for (int j = 0; j < text.length; j++) {
                text[j] = signs[random.nextInt(signs.length)];
            }
            try {
                Json.parse(text);
            } catch (InvalidTableException expected) {
                continue;
            }
        }
    }
}
