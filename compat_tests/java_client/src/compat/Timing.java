package compat;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages that are delivered at a time, and taken back before it. */
final class Timing {
    /** User property: when the message is due, by this machine's clock. */
    private static final String DUE = "due";

    private Timing() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("send-timed", Timing::send);
        verbs.put("consume-timed", Timing::consume);
        verbs.put("recall", Timing::recall);
    }

    /**
     * send-timed ns= topic= run= count= [first=0] [min_ms=500] [max_ms=3000] [group=]: messages due at times between, asked for in turn by
     * setDeliverTimeMs, setDelayTimeMs and setDelayTimeSec. Answer: "acknowledged", "failed", and of the first 100 the "handles" that
     * take them back, the "message_ids" and the "due" times.
     */
    static void send(Options o, Json answer) throws Exception {
        int count = o.number("count");
        int first = o.number("first", 0);
        int least = o.number("min_ms", 500);
        int most = o.number("max_ms", 3000);
        List<String> handles = new ArrayList<>();
        List<String> ids = new ArrayList<>();
        List<String> due = new ArrayList<>();
        AtomicInteger failed = new AtomicInteger();
        Tally acknowledged = new Tally(o.text("run"));
        DefaultMQProducer producer = Sending.producer(o, new DefaultMQProducer(o.text("group", "p_" + o.text("run")), Sending.hook(o)));
        for (int n = first; n < first + count; n++) {
            Message message = Tally.message(o.text("topic"), o.text("run"), n, o.number("size", 100));
            int delayMs = least + (int) ((n * 7919L) % (most - least));
            long at = System.currentTimeMillis() + delayMs;
            if (n % 3 == 0) {
                message.setDeliverTimeMs(at);
            } else if (n % 3 == 1) {
                message.setDelayTimeMs(delayMs);
            } else {
                int seconds = delayMs / 1000 + 1;
                at = System.currentTimeMillis() + seconds * 1000L;
                message.setDelayTimeSec(seconds);
            }
            message.putUserProperty(DUE, Long.toString(at));
            try {
                SendResult result = producer.send(message);
                acknowledged.add(n);
                if (handles.size() < 100) {
                    handles.add(Json.quote(String.valueOf(result.getRecallHandle())));
                    ids.add(Json.quote(result.getMsgId()));
                    due.add(Long.toString(at));
                }
            } catch (Exception e) {
                failed.incrementAndGet();
                acknowledged.error(e);
            }
        }
        producer.shutdown();
        acknowledged.into(answer, "acknowledged").put("failed", failed.get()).raw("handles", handles.toString())
            .raw("message_ids", ids.toString()).raw("due", due.toString());
    }

    /**
     * consume-timed ns= topic= run= group= count= [linger_ms=1000] [timeout_s=60]: until so many different messages came. Answer: what a
     * Tally says, and by how many milliseconds the broker stored them later than they were due: "late_p50", "late_p99", "late_max",
     * and "earliest", which is negative when one came before its time.
     */
    static void consume(Options o, Json answer) throws Exception {
        Tally tally = new Tally(o.text("run"));
        List<Long> late = Collections.synchronizedList(new ArrayList<>());
        DefaultMQPushConsumer consumer = Consuming.consumer(o, o.text("group"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                tally.add(message);
                late.add(message.getStoreTimestamp() - Long.parseLong(message.getUserProperty(DUE)));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long end = Main.end(o);
        while (tally.distinct() < o.number("count") && !Main.ended(o, end)) {
            Sending.pause(20);
        }
        Sending.pause(o.number("linger_ms", 1000));
        consumer.shutdown();
        List<Long> sorted = new ArrayList<>(late);
        Collections.sort(sorted);
        if (!sorted.isEmpty()) {
            answer.put("earliest", sorted.get(0)).put("late_p50", sorted.get(sorted.size() / 2))
                .put("late_p99", sorted.get(Math.min(sorted.size() - 1, sorted.size() * 99 / 100)))
                .put("late_max", sorted.get(sorted.size() - 1));
        }
        tally.into(answer, "received");
    }

    /** recall ns= topic= handles= (separated by commas): "message_ids"; of refused ones the code and the remark. */
    static void recall(Options o, Json answer) throws Exception {
        List<String> ids = new ArrayList<>();
        DefaultMQProducer producer = Sending.producer(o, new DefaultMQProducer("recalling", Sending.hook(o)));
        for (String handle : o.text("handles").split(",")) {
            try {
                ids.add(Json.quote(producer.recallMessage(o.text("topic"), handle)));
            } catch (MQBrokerException e) {
                ids.add(Json.quote(e.getResponseCode() + " " + e.getErrorMessage()));
            }
        }
        producer.shutdown();
        answer.raw("message_ids", ids.toString());
    }
}
