package compat;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;

/**
 * What a running verb was told, place by place: numbers with queue and queue offset, refusals by code, attempts. Verbs with the
 * option ledger=NAME keep one; {@code ledger names=a,b} reads it while they run, and each entry once. Thread safe.
 *
 * An entry is three big-endian ints: number, queue, queue offset (-1, -1 where the client is not told).
 */
final class Ledger {
    private static final Map<String, Ledger> KEPT = new ConcurrentHashMap<>();
    private static final int SAMPLE_CHARS = 300;

    private ByteArrayOutputStream entries = new ByteArrayOutputStream();
    private ByteArrayOutputStream retried = new ByteArrayOutputStream();
    private final Map<Integer, Integer> attempts = new HashMap<>();
    private final Map<String, Integer> refusals = new TreeMap<>();
    private final Map<String, String> samples = new TreeMap<>();
    private final boolean isRead;
    private long total;

    /** One that nobody reads keeps nothing. */
    Ledger(boolean isRead) {
        this.isRead = isRead;
    }

    /** The ledger that a verb was asked to keep, or one that nobody reads. */
    static Ledger of(Options o) {
        return o.has("ledger") ? KEPT.computeIfAbsent(o.text("ledger"), name -> new Ledger(true)) : new Ledger(false);
    }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("ledger", (o, a) -> {
            for (String name : o.text("names").split(",")) {
                a.raw(name, KEPT.computeIfAbsent(name, n -> new Ledger(true)).drain());
            }
        });
    }

    synchronized void add(int number, int queue, long offset) {
        if (!isRead) {
            return;
        }
        write(entries, number, queue, (int) offset);
        attempts.remove(number);
        total++;
    }

    /** Messages of one batch lie one behind the other in one queue. */
    void stored(SendResult result, int first, int count) {
        for (int i = 0; i < count; i++) {
            add(first + i, result.getMessageQueue().getQueueId(), result.getQueueOffset() + i);
        }
    }

    synchronized void refused(Throwable error) {
        String code = error.getClass().getSimpleName();
        if (error instanceof MQBrokerException) {
            code = Integer.toString(((MQBrokerException) error).getResponseCode());
        } else if (error instanceof MQClientException) {
            code = Integer.toString(((MQClientException) error).getResponseCode());
        }
        refusals.merge(code, 1, Integer::sum);
        // What the broker said is one level down when the client gave up after its attempts.
        Throwable reason = error.getCause() instanceof MQBrokerException ? error.getCause() : error;
        String text = String.valueOf(reason.getMessage());
        samples.put(code, text.substring(0, Math.min(SAMPLE_CHARS, text.length())));
    }

    /** Counts how often the client puts each message on the wire: it repeats a send by itself when it gets no answer. */
    void countAttempts(DefaultMQProducer producer, Tally tally) {
        producer.getDefaultMQProducerImpl().registerSendMessageHook(new SendMessageHook() {
            @Override
            public String hookName() {
                return "ledger";
            }

            @Override
            public void sendMessageBefore(SendMessageContext context) {
                int number = tally.numberOf(context.getMessage());
                if (number >= 0) {
                    attempt(number);
                }
            }

            @Override
            public void sendMessageAfter(SendMessageContext context) { }
        });
    }

    private synchronized void attempt(int number) {
        int count = attempts.merge(number, 1, Integer::sum);
        if (count > 1) {
            write(retried, number, count, 0);
        }
    }

    private synchronized String drain() {
        Json samplesJson = new Json();
        samples.forEach(samplesJson::put);
        String text = new Json().put("total", total).put("entries", base64(entries)).put("retried", base64(retried))
            .put("refusals", refusals).raw("samples", samplesJson.toString()).toString();
        entries = new ByteArrayOutputStream();
        retried = new ByteArrayOutputStream();
        samples.clear();
        return text;
    }

    /** The entries so far, of a ledger that only one verb knows. */
    synchronized String base64() {
        return base64(entries);
    }

    private static String base64(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }

    private static void write(ByteArrayOutputStream to, int first, int second, int third) {
        try {
            DataOutputStream out = new DataOutputStream(to);
            out.writeInt(first);
            out.writeInt(second);
            out.writeInt(third);
        } catch (IOException e) {
            throw new IllegalStateException(e);
        }
    }
}
