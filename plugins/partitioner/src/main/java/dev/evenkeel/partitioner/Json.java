package dev.evenkeel.partitioner;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A small strict JSON reader (RFC 8259), so that the jar needs nothing beside kafka-clients.
 *
 * <p>Gives Map, List, String, Long (BigInteger where a long is too small), Double, Boolean or null. Of a
 * key that comes twice the last value counts, as in the keeper's own reader.
 */
final class Json {
    /** A table of 10,000 partitions takes 200 KB. */
    static final int LARGEST_BYTES = 8 << 20;
    /** A table is two levels deep; the rest is room for fields that are not known yet. */
    static final int DEEPEST = 32;
    private static final int LONGEST_NUMBER = 400;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /**
     * Reads one value that fills the whole input.
     *
     * @throws InvalidTableException it is not JSON in UTF-8, too large or too deep
     */
    static Object parse(byte[] bytes) throws InvalidTableException {
        if (bytes.length > LARGEST_BYTES) {
            throw new InvalidTableException("not valid JSON: " + bytes.length + " bytes, limit " + LARGEST_BYTES);
        }
        Json reader = new Json(decode(bytes));
        reader.skipSpace();
        Object value = reader.readValue(0);
        reader.skipSpace();
        if (reader.at != reader.text.length()) {
            throw reader.error("something follows the value");
        }
        return value;
    }

    /** A text as a JSON string, quotes included. */
    static String quote(String text) {
        StringBuilder quoted = new StringBuilder(text.length() + 2).append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < 0x20 || Character.isSurrogate(c)) {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }

    private static String decode(byte[] bytes) throws InvalidTableException {
        try {
            return StandardCharsets.UTF_8.newDecoder()
                    .onMalformedInput(CodingErrorAction.REPORT)
                    .onUnmappableCharacter(CodingErrorAction.REPORT)
                    .decode(ByteBuffer.wrap(bytes))
                    .toString();
        } catch (CharacterCodingException error) {
            throw new InvalidTableException("not valid JSON: not UTF-8");
        }
    }

    private Object readValue(int depth) throws InvalidTableException {
        if (depth >= DEEPEST) {
            throw error("deeper than " + DEEPEST + " levels");
        }
        switch (peek()) {
            case '{':
                return readObject(depth);
            case '[':
                return readArray(depth);
            case '"':
                return readString();
            case 't':
                return readWord("true", Boolean.TRUE);
            case 'f':
                return readWord("false", Boolean.FALSE);
            case 'n':
                return readWord("null", null);
            default:
                return readNumber();
        }
    }

    private Map<String, Object> readObject(int depth) throws InvalidTableException {
        Map<String, Object> fields = new LinkedHashMap<>();
        at++;
        skipSpace();
        if (take('}')) {
            return fields;
        }
        do {
            skipSpace();
            if (peek() != '"') {
                throw error("a field's name is expected");
            }
            String name = readString();
            skipSpace();
            need(':');
            skipSpace();
            fields.put(name, readValue(depth + 1));
            skipSpace();
        } while (take(','));
        need('}');
        return fields;
    }

    private List<Object> readArray(int depth) throws InvalidTableException {
        List<Object> items = new ArrayList<>();
        at++;
        skipSpace();
        if (take(']')) {
            return items;
        }
        do {
            skipSpace();
            items.add(readValue(depth + 1));
            skipSpace();
        } while (take(','));
        need(']');
        return items;
    }

    private String readString() throws InvalidTableException {
        at++;
        StringBuilder characters = new StringBuilder();
        while (true) {
            char c = peek();
            if (c < 0x20) {
                throw error("a string holds a control character or does not end");
            }
            at++;
            if (c == '"') {
                return characters.toString();
            }
            characters.append(c == '\\' ? readEscape() : c);
        }
    }

    private char readEscape() throws InvalidTableException {
        char c = peek();
        at++;
        int plain = "\"\\/bfnrt".indexOf(c);
        if (plain >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(plain);
        }
        if (c != 'u' || at + 4 > text.length()) {
            throw error("an unknown escape");
        }
        int code = 0;
        for (int i = 0; i < 4; i++) {
            int digit = hexDigit(text.charAt(at++));
            if (digit < 0) {
                throw error("an unknown escape");
            }
            code = code * 16 + digit;
        }
        return (char) code;
    }

    /** Only ASCII: Character.digit takes digits of every script. */
    private static int hexDigit(char c) {
        return c < 128 ? Character.digit(c, 16) : -1;
    }

    private Object readWord(String word, Object value) throws InvalidTableException {
        if (!text.startsWith(word, at)) {
            throw error("a value is expected");
        }
        at += word.length();
        return value;
    }

    private Object readNumber() throws InvalidTableException {
        int start = at;
        take('-');
        if (!take('0')) {
            readDigits();
        }
        boolean whole = true;
        if (take('.')) {
            whole = false;
            readDigits();
        }
        if (take('e') || take('E')) {
            whole = false;
            if (!take('+')) {
                take('-');
            }
            readDigits();
        }
        if (at - start > LONGEST_NUMBER) {
            throw error("a number of more than " + LONGEST_NUMBER + " characters");
        }
        String digits = text.substring(start, at);
        return whole ? readInteger(digits) : (Object) Double.valueOf(digits);
    }

    private static Object readInteger(String digits) {
        if (digits.length() <= 18) {
            return Long.valueOf(digits);
        }
        BigInteger exact = new BigInteger(digits);
        return exact.bitLength() < Long.SIZE ? (Object) exact.longValue() : exact;
    }

    private void readDigits() throws InvalidTableException {
        int start = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == start) {
            throw error("a value is expected");
        }
    }

    private void skipSpace() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    /** The next character; 0, which is no part of JSON, at the end. */
    private char peek() {
        return at < text.length() ? text.charAt(at) : 0;
    }

    private boolean take(char wanted) {
        boolean there = peek() == wanted && at < text.length();
        if (there) {
            at++;
        }
        return there;
    }

    private void need(char wanted) throws InvalidTableException {
        if (!take(wanted)) {
            throw error("'" + wanted + "' is expected");
        }
    }

    private InvalidTableException error(String why) {
        return new InvalidTableException("not valid JSON: " + why + " at character " + at);
    }
}
