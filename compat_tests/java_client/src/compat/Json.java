package compat;

import java.util.Map;
import java.util.TreeMap;

/** A flat JSON object built field by field; values are numbers, booleans, text, or raw JSON. */
final class Json {
    private final StringBuilder text = new StringBuilder("{");

    Json raw(String key, String value) {
        if (text.length() > 1) {
            text.append(", ");
        }
        text.append(quote(key)).append(": ").append(value);
        return this;
    }

    Json put(String key, long value) {
        return raw(key, Long.toString(value));
    }

    Json put(String key, boolean value) {
        return raw(key, Boolean.toString(value));
    }

    Json put(String key, String value) {
        return raw(key, value == null ? "null" : quote(value));
    }

    Json put(String key, Map<String, ? extends Number> counts) {
        Json inner = new Json();
        for (Map.Entry<String, ? extends Number> e : new TreeMap<>(counts).entrySet()) {
            inner.put(e.getKey(), e.getValue().longValue());
        }
        return raw(key, inner.toString());
    }

    static String quote(String value) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : value.toCharArray()) {
            if (c == '"' || c == '\\') {
                b.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                b.append(String.format("\\u%04x", (int) c));
            } else {
                b.append(c);
            }
        }
        return b.append('"').toString();
    }

    @Override
    public String toString() {
        return text + "}";
    }
}
