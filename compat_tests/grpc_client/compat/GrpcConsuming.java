package compat;

import java.time.Duration;
import java.util.Collections;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/** Receives a run with the gRPC client's consumers; options and answers are those of {@code Consuming} and {@code Failing} beside java_client. */
final class GrpcConsuming {
    private GrpcConsuming() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("consume-push", GrpcConsuming::push);
        verbs.put("consume-orderly", GrpcConsuming::orderly);
        verbs.put("consume-failing", GrpcConsuming::failing);
        verbs.put("consume-simple", GrpcConsuming::simple);
    }

    private static FilterExpression filter(Options o) {
        return o.has("sql") ? new FilterExpression(o.text("sql"), FilterExpressionType.SQL92)
            : new FilterExpression(o.text("tags", "*"), FilterExpressionType.TAG);
    }

    private static PushConsumer consumer(Options o, MessageListener listener) throws ClientException {
        return GrpcSending.PROVIDER.newPushConsumerBuilder().setClientConfiguration(GrpcSending.configuration(o))
            .setConsumerGroup(o.text("group")).setSubscriptionExpressions(Collections.singletonMap(o.text("topic"), filter(o)))
            .setConsumptionThreadCount(8).setMessageListener(listener).build();
    }

    /** Until count is reached and lingered, told to stop, idle for idle_s, or out of time. */
    static void await(Options o, Views views) {
        long end = Main.end(o);
        long changed = System.nanoTime();
        long enough = 0;
        long before = 0;
        while (!Main.ended(o, end)) {
            boolean all = o.has("count") && views.distinct() >= o.number("count") && views.total() >= o.number("deliveries", 0);
            if (views.total() != before) {
                before = views.total();
                changed = System.nanoTime();
            } else if (!all && o.has("count") && System.nanoTime() - changed > o.number("idle_s", 60) * 1_000_000_000L) {
                return;
            }
            if (!all) {
                enough = 0;
            } else if (enough == 0) {
                enough = System.nanoTime();
            } else if (System.nanoTime() - enough > o.number("linger_ms", 1000) * 1_000_000L) {
                return;
            }
            GrpcSending.pause(20);
        }
    }

    private static void push(Options o, Json answer) throws Exception {
        Views views = new Views(o.text("run"));
        PushConsumer consumer = consumer(o, view -> {
            views.add(view);
            return ConsumeResult.SUCCESS;
        });
        await(o, views);
        consumer.close();
        views.into(answer, "received");
    }

    private static void orderly(Options o, Json answer) throws Exception {
        Views views = new Views(o.text("run"));
        int shards = o.number("shards", 16);
        Map<Integer, Integer> newest = new ConcurrentHashMap<>();
        Set<Integer> suspended = ConcurrentHashMap.newKeySet();
        AtomicInteger breaks = new AtomicInteger();
        PushConsumer consumer = consumer(o, view -> {
            int number = views.numberOf(view);
            if (o.has("suspend") && number % o.number("suspend") == 0 && suspended.add(number)) {
                return ConsumeResult.FAILURE;
            }
            views.add(view);
            Integer before = newest.put(number % shards, number);
            if (before != null && before > number) {
                breaks.incrementAndGet();
            }
            return ConsumeResult.SUCCESS;
        });
        await(o, views);
        consumer.close();
        views.into(answer, "received").put("order_breaks", breaks.get()).put("suspended", suspended.size());
    }

    private static boolean isHopeless(int number, int hopeless) {
        return hopeless > 0 && number % hopeless == 0;
    }

    private static void failing(Options o, Json answer) throws Exception {
        int count = o.number("count");
        int hopeless = o.number("hopeless", 10);
        Views views = new Views(o.text("run"));
        AtomicIntegerArray deliveries = new AtomicIntegerArray(count);
        AtomicInteger total = new AtomicInteger();
        AtomicInteger wrong = new AtomicInteger();
        PushConsumer consumer = consumer(o, view -> {
            int number = views.numberOf(view);
            int before = deliveries.getAndIncrement(number);
            total.incrementAndGet();
            if (view.getDeliveryAttempt() != before + 1) {
                wrong.incrementAndGet();
            }
            if (isHopeless(number, hopeless) || before < 1) {
                return ConsumeResult.FAILURE;
            }
            views.add(view);
            return ConsumeResult.SUCCESS;
        });
        int want = 2 * count;
        for (int n = 0; n < count; n++) {
            want += isHopeless(n, hopeless) ? o.number("max_reconsume", 2) - 1 : 0;
        }
        long end = Main.end(o);
        while (!Main.ended(o, end) && total.get() < want) {
            GrpcSending.pause(50);
        }
        GrpcSending.pause(1500);
        consumer.close();
        Map<String, Long> curable = new TreeMap<>();
        Map<String, Long> others = new TreeMap<>();
        for (int n = 0; n < count; n++) {
            (isHopeless(n, hopeless) ? others : curable).merge(Integer.toString(deliveries.get(n)), 1L, Long::sum);
        }
        views.into(answer, "received").put("wrong_counts", wrong.get()).put("deliveries", total.get());
        answer.put("attempts", curable).put("hopeless_attempts", others);
    }

    /** consume-simple [invisible_ms=10000] [skip=N]: each Nth is not acknowledged the first time, "skipped" in all; it must come again. */
    private static void simple(Options o, Json answer) throws Exception {
        Views views = new Views(o.text("run"));
        Set<Integer> skipped = new HashSet<>();
        SimpleConsumer consumer = GrpcSending.PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(GrpcSending.configuration(o))
            .setConsumerGroup(o.text("group")).setAwaitDuration(Duration.ofSeconds(2))
            .setSubscriptionExpressions(Collections.singletonMap(o.text("topic"), filter(o))).build();
        Duration invisible = Duration.ofMillis(o.number("invisible_ms", 10_000));
        long end = Main.end(o);
        while (views.distinct() < o.number("count") && !Main.ended(o, end)) {
            for (MessageView view : consumer.receive(16, invisible)) {
                int number = views.numberOf(view);
                if (number % o.number("skip", 10) == 0 && view.getDeliveryAttempt() == 1) {
                    skipped.add(number);
                    if (number % 2 == 0) {
                        consumer.changeInvisibleDuration(view, invisible);
                    }
                } else {
                    views.add(view);
                    consumer.ack(view);
                }
            }
        }
        for (MessageView view : consumer.receive(16, invisible)) {
            views.add(view);
        }
        consumer.close();
        views.into(answer, "received").put("skipped", skipped.size());
    }
}
