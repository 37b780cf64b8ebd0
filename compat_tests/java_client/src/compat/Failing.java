package compat;

import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer whose listener fails on purpose, to drive delayed retries and the dead-letter topic.
 *
 * consume-failing count= [fail_times=1] [hopeless=10] [max_reconsume=2]: each message fails fail_times times; every
 * "hopeless"th (0: none) always fails, until the broker gives it up. Answer: "received" (succeeded in the end), "attempts" → how
 * many messages had that many deliveries among the curable, "hopeless_attempts" the same among the others,
 * "wrong_counts": deliveries whose reconsumeTimes was not the number of earlier failures.
 */
final class Failing {
    private Failing() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("consume-failing", Failing::failing);
    }

    static void failing(Options o, Json answer) throws Exception {
        int count = o.number("count");
        int hopeless = o.number("hopeless", 10);
        int failTimes = o.number("fail_times", 1);
        int maxReconsume = o.number("max_reconsume", 2);
        Tally tally = new Tally(o.text("run"));
        AtomicIntegerArray deliveries = new AtomicIntegerArray(count);
        AtomicInteger wrongCounts = new AtomicInteger();
        DefaultMQPushConsumer consumer = Consuming.consumer(o, o.text("group"));
        consumer.setMaxReconsumeTimes(maxReconsume);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            int number = tally.numberOf(message);
            int before = deliveries.getAndIncrement(number);
            if (message.getReconsumeTimes() != before) {
                wrongCounts.incrementAndGet();
            }
            if (isHopeless(number, hopeless) || before < failTimes) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            tally.add(message);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        long end = Main.end(o);
        long want = (long) count * (failTimes + 1);
        for (int i = 0; i < count; i++) {
            want += isHopeless(i, hopeless) ? maxReconsume - failTimes : 0;
        }
        while (!Main.ended(o, end) && sum(deliveries) < want) {
            Sending.pause(50);
        }
        Sending.pause(o.number("linger_ms", 1500));
        consumer.shutdown();
        tally.into(answer, "received").put("wrong_counts", wrongCounts.get()).put("deliveries", sum(deliveries));
        answer.put("attempts", histogram(deliveries, hopeless, false));
        answer.put("hopeless_attempts", histogram(deliveries, hopeless, true));
    }

    private static boolean isHopeless(int number, int hopeless) {
        return hopeless > 0 && number % hopeless == 0;
    }

    private static long sum(AtomicIntegerArray values) {
        long total = 0;
        for (int i = 0; i < values.length(); i++) {
            total += values.get(i);
        }
        return total;
    }

    private static Map<String, Long> histogram(AtomicIntegerArray values, int hopeless, boolean ofHopeless) {
        Map<String, Long> counts = new java.util.HashMap<>();
        for (int i = 0; i < values.length(); i++) {
            if (isHopeless(i, hopeless) == ofHopeless) {
                counts.merge(Integer.toString(values.get(i)), 1L, Long::sum);
            }
        }
        return counts;
    }
}
