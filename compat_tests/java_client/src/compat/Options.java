package compat;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** One request line: {@code verb key=value key=value}; values are percent-encoded. */
final class Options {
    final String verb;
    private final Map<String, String> values = new HashMap<>();

    Options(String line) {
        String[] words = line.trim().split(" +");
        verb = words[0];
        for (int i = 1; i < words.length; i++) {
            int eq = words[i].indexOf('=');
            if (eq < 1) {
                throw new IllegalArgumentException("not key=value: " + words[i]);
            }
            values.put(words[i].substring(0, eq), URLDecoder.decode(words[i].substring(eq + 1), StandardCharsets.UTF_8));
        }
    }

    String text(String key) {
        String value = values.get(key);
        if (value == null) {
            throw new IllegalArgumentException(verb + " needs " + key + "=");
        }
        return value;
    }

    String text(String key, String otherwise) {
        return values.getOrDefault(key, otherwise);
    }

    int number(String key) {
        return Integer.parseInt(text(key));
    }

    int number(String key, int otherwise) {
        return values.containsKey(key) ? number(key) : otherwise;
    }

    boolean has(String key) {
        return values.containsKey(key);
    }
}
