package compat;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.client.apis.message.MessageView;

/**
 * Which numbers of a run were seen, and how often; what Tally is for the other Java client. Nothing but the run's name and a number determines
 * a message. "waited" is the time from sending to receiving here, as these clients are not told when a message was stored.
 */
final class Views {
    private final String prefix;
    private final BitSet seen = new BitSet();
    private final Map<String, Long> errors = new HashMap<>();
    private long duplicates;
    private long strangers;
    private long corrupt;
    private long waitedMin = Long.MAX_VALUE;
    private long waitedMax = Long.MIN_VALUE;

    Views(String run) {
        prefix = run + "-";
    }

    static String body(String run, int number, int size) {
        StringBuilder body = new StringBuilder(run).append('-').append(number).append('|');
        while (body.length() < size) {
            body.append((char) ('a' + body.length() % 26));
        }
        return body.toString();
    }

    int numberOf(MessageView view) {
        for (String key : view.getKeys()) {
            if (key.startsWith(prefix)) {
                return Integer.parseInt(key.substring(prefix.length()));
            }
        }
        return -1;
    }

    synchronized void add(int number) {
        if (seen.get(number)) {
            duplicates++;
        }
        seen.set(number);
    }

    synchronized int add(MessageView view) {
        int number = numberOf(view);
        if (number < 0) {
            strangers++;
            return -1;
        }
        ByteBuffer body = view.getBody();
        String expected = body(prefix.substring(0, prefix.length() - 1), number, body.remaining());
        if (!StandardCharsets.US_ASCII.decode(body.duplicate()).toString().equals(expected)) {
            corrupt++;
        }
        long waited = System.currentTimeMillis() - view.getBornTimestamp();
        waitedMin = Math.min(waitedMin, waited);
        waitedMax = Math.max(waitedMax, waited);
        add(number);
        return number;
    }

    synchronized void error(Throwable error) {
        String text = String.valueOf(error);
        errors.merge(text.substring(0, Math.min(160, text.length())).replaceAll("[0-9]+", "#"), 1L, Long::sum);
    }

    synchronized int distinct() {
        return seen.cardinality();
    }

    synchronized long total() {
        return seen.cardinality() + duplicates;
    }

    synchronized BitSet numbers() {
        return (BitSet) seen.clone();
    }

    synchronized Json into(Json json, String name) {
        if (waitedMin <= waitedMax) {
            json.put("waited_min_ms", waitedMin).put("waited_max_ms", waitedMax);
        }
        return json.put(name, seen.cardinality()).put("duplicates", duplicates).put("resent", 0).put("strangers", strangers)
            .put("corrupt", corrupt).put("numbers", hex(seen)).put("errors", errors);
    }

    /** Bit n of little-endian bytes, as hex. */
    static String hex(BitSet bits) {
        StringBuilder text = new StringBuilder();
        for (byte each : bits.toByteArray()) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }
}
