package compat;

import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Which numbers of a run were seen, and how often. Messages are made so that nothing but the run's name and a number
 * determines them: key "run-number", body "run-number|xxxx…". Thread safe.
 *
 * A transactional message that comes again from another half message is "resent": its producer sent it again because
 * its connection broke (4.x clients close one of two connections that their threads open at once). Otherwise it is a
 * duplicate.
 */
final class Tally {
    private final String prefix;
    private final BitSet seen = new BitSet();
    private final Map<Integer, Set<Long>> halves = new HashMap<>();
    private long duplicates;
    private long resent;
    private long strangers;
    private long corrupt;
    private long waitedMin = Long.MAX_VALUE;
    private long waitedMax = Long.MIN_VALUE;
    private long arrivedMax = Long.MIN_VALUE;
    private final Set<Integer> levels = new TreeSet<>();
    private final Map<String, Long> errors = new HashMap<>();

    Tally(String run) {
        prefix = run + "-";
    }

    static Message message(String topic, String run, int number, int size) {
        String key = run + "-" + number;
        StringBuilder body = new StringBuilder(key).append('|');
        while (body.length() < size) {
            body.append((char) ('a' + body.length() % 26));
        }
        Message message = new Message(topic, body.toString().getBytes(StandardCharsets.US_ASCII));
        message.setKeys(key);
        return message;
    }

    /** The number of a message of this run, or -1. */
    int numberOf(Message message) {
        String key = message.getKeys();
        return key != null && key.startsWith(prefix) ? Integer.parseInt(key.substring(prefix.length())) : -1;
    }

    synchronized void add(int number) {
        if (seen.get(number)) {
            duplicates++;
        } else {
            seen.set(number);
        }
    }

    /** Counts a received message after comparing its body; returns its number, or -1 for another run's message. */
    synchronized int add(Message message) {
        int number = numberOf(message);
        if (number < 0) {
            strangers++;
            return -1;
        }
        Message expected = message(message.getTopic(), prefix.substring(0, prefix.length() - 1), number,
            message.getBody().length);
        if (!java.util.Arrays.equals(expected.getBody(), message.getBody())) {
            corrupt++;
        }
        if (message instanceof MessageExt) {
            long waited = ((MessageExt) message).getStoreTimestamp() - ((MessageExt) message).getBornTimestamp();
            waitedMin = Math.min(waitedMin, waited);
            waitedMax = Math.max(waitedMax, waited);
            arrivedMax = Math.max(arrivedMax, System.currentTimeMillis() - ((MessageExt) message).getBornTimestamp());
            levels.add(message.getDelayTimeLevel());
        }
        if (isResent(number, message)) {
            resent++;
        } else {
            add(number);
        }
        return number;
    }

    private boolean isResent(int number, Message message) {
        if (message.getProperty(MessageConst.PROPERTY_PRODUCER_GROUP) == null || !(message instanceof MessageExt)) {
            return false;
        }
        long half = ((MessageExt) message).getPreparedTransactionOffset();
        return halves.computeIfAbsent(number, none -> new HashSet<>()).add(half) && seen.get(number);
    }

    synchronized void corrupt() {
        corrupt++;
    }

    synchronized void error(Throwable error) {
        String text = error.getClass().getSimpleName() + ": " + error.getMessage();
        errors.merge(text.substring(0, Math.min(160, text.length())).replaceAll("[0-9]+", "#"), 1L, Long::sum);
    }

    synchronized long corruptCount() {
        return corrupt;
    }

    synchronized long strangerCount() {
        return strangers;
    }

    synchronized int distinct() {
        return seen.cardinality();
    }

    synchronized long total() {
        return seen.cardinality() + duplicates + resent;
    }

    synchronized BitSet numbers() {
        return (BitSet) seen.clone();
    }

    synchronized Json into(Json json, String name) {
        if (waitedMin <= waitedMax) {
            json.put("waited_min_ms", waitedMin).put("waited_max_ms", waitedMax).put("arrived_max_ms", arrivedMax)
                .put("delay_levels", levels.toString());
        }
        return json.put(name, seen.cardinality()).put("duplicates", duplicates).put("resent", resent)
            .put("strangers", strangers).put("corrupt", corrupt).put("numbers", hex(seen)).put("errors", errors);
    }

    /** Bit n of little-endian bytes, as hex. */
    static String hex(BitSet bits) {
        StringBuilder b = new StringBuilder();
        for (byte x : bits.toByteArray()) {
            b.append(Character.forDigit((x >> 4) & 15, 16)).append(Character.forDigit(x & 15, 16));
        }
        return b.toString();
    }
}
