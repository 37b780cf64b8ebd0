package compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Messages that differ in their properties, and SQL92 expressions over them. A message's body is its number. Lists are lines: of
 * expressions, or of messages, each a row of {@code name=value} with tabs between.
 */
final class Filtering {
    private Filtering() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("filter-send", Filtering::send);
        verbs.put("filter-table", Filtering::table);
        verbs.put("filter-check", Filtering::check);
        verbs.put("filter-consume", Filtering::consume);
    }

    /** filter-send ns= topic= group= messages=: all to the first queue. */
    static void send(Options o, Json answer) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(o.text("group"));
        producer.setNamesrvAddr(o.text("ns"));
        producer.setInstanceName("send@" + System.nanoTime());
        producer.start();
        try {
            int number = 0;
            for (String line : lines(o.text("messages"))) {
                producer.send(message(o.text("topic"), number++, line), (queues, sent, none) -> queues.get(0), null);
            }
            answer.put("sent", number);
        } finally {
            producer.shutdown();
        }
    }

    private static Message message(String topic, int number, String line) {
        Message message = new Message(topic, Integer.toString(number).getBytes(StandardCharsets.UTF_8));
        for (String pair : line.isEmpty() ? new String[0] : line.split("\t")) {
            int at = pair.indexOf('=');
            String name = pair.substring(0, at);
            String value = pair.substring(at + 1);
            if (name.equals("TAGS")) {
                message.setTags(value);
            } else {
                message.putUserProperty(name, value);
            }
        }
        return message;
    }

    /** filter-table ns= topic= group= expressions=: what pulls with each of them get of the first queue. "table": per line numbers, or !code. */
    @SuppressWarnings("deprecation")
    static void table(Options o, Json answer) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(o.text("group"));
        consumer.setNamesrvAddr(o.text("ns"));
        consumer.setInstanceName("table@" + System.nanoTime());
        consumer.start();
        try {
            MessageQueue queue = firstQueue(consumer, o.text("topic"), Main.end(o));
            MQClientInstance client = consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory();
            client.updateTopicRouteInfoFromNameServer(o.text("topic"));
            client.sendHeartbeatToAllBrokerWithLock();  // the client asks for the broker's version before it filters
            List<String> rows = new ArrayList<>();
            for (String expression : lines(o.text("expressions"))) {
                rows.add(row(consumer, queue, expression));
            }
            answer.put("table", String.join("\n", rows));
        } finally {
            consumer.shutdown();
        }
    }

    @SuppressWarnings("deprecation")
    private static String row(DefaultMQPullConsumer consumer, MessageQueue queue, String expression) throws Exception {
        List<String> numbers = new ArrayList<>();
        long max = consumer.maxOffset(queue);
        try {
            for (long next = 0; next < max; ) {
                PullResult result = consumer.pull(queue, MessageSelector.bySql(expression), next, 32);
                if (result.getPullStatus() == PullStatus.FOUND) {
                    result.getMsgFoundList().forEach(message -> numbers.add(body(message)));
                }
                if (result.getNextBeginOffset() <= next) {
                    return "stuck at " + next + ": " + result.getPullStatus();
                }
                next = result.getNextBeginOffset();
            }
        } catch (MQBrokerException e) {
            return "!" + e.getResponseCode();
        }
        return String.join(",", numbers);
    }

    @SuppressWarnings("deprecation")
    private static MessageQueue firstQueue(DefaultMQPullConsumer consumer, String topic, long end) throws Exception {
        while (true) {
            try {
                return Collections.min(consumer.fetchSubscribeMessageQueues(topic));
            } catch (MQClientException e) {
                if (System.nanoTime() - end > 0) {
                    throw e;
                }
                Sending.pause(100);
            }
        }
    }

    /** filter-check ns= topic= group= expressions=: start a push consumer with each. "codes": per line 0 or its refusal; "texts" likewise. */
    static void check(Options o, Json answer) {
        List<String> codes = new ArrayList<>();
        List<String> texts = new ArrayList<>();
        for (String expression : lines(o.text("expressions"))) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(o.text("group") + "_" + codes.size());
            consumer.setNamesrvAddr(o.text("ns"));
            consumer.setInstanceName("check@" + System.nanoTime());
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                ConsumeConcurrentlyStatus.CONSUME_SUCCESS);
            try {
                consumer.subscribe(o.text("topic"), MessageSelector.bySql(expression));
                consumer.start();
                codes.add("0");
                texts.add("");
            } catch (MQClientException e) {
                codes.add(Integer.toString(e.getResponseCode()));
                texts.add(String.valueOf(e.getMessage()).replace('\n', ' ').replace('\r', ' '));
            } finally {
                consumer.shutdown();
            }
        }
        answer.put("codes", String.join("\n", codes)).put("texts", String.join("\n", texts));
    }

    /**
     * filter-consume ns= topic= group= expression= api=push|lite count= [failing=true] [linger_ms=500]: until so many deliveries and a
     * while longer. failing: a message's first delivery is answered RECONSUME_LATER. "numbers": number → deliveries.
     */
    static void consume(Options o, Json answer) throws Exception {
        Map<String, Integer> seen = Collections.synchronizedMap(new TreeMap<>());
        if (o.text("api").equals("lite")) {
            lite(o, seen);
        } else {
            push(o, seen);
        }
        answer.put("numbers", new HashMap<>(seen));
    }

    private static void push(Options o, Map<String, Integer> seen) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(o.text("group"));
        consumer.setNamesrvAddr(o.text("ns"));
        consumer.setInstanceName("push@" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(o.text("topic"), MessageSelector.bySql(o.text("expression")));
        consumer.setPollNameServerInterval(500);
        boolean failing = Boolean.parseBoolean(o.text("failing", "false"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            boolean again = false;
            for (MessageExt message : messages) {
                again |= seen.merge(body(message), 1, Integer::sum) == 1 && failing;
            }
            return again ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        MQClientInstance client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        try {
            waitFor(o, seen, client::rebalanceImmediately);  // the retry topic's route comes after the start
        } finally {
            consumer.shutdown();
        }
    }

    private static void lite(Options o, Map<String, Integer> seen) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(o.text("group"));
        consumer.setNamesrvAddr(o.text("ns"));
        consumer.setInstanceName("lite@" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(o.text("topic"), MessageSelector.bySql(o.text("expression")));
        consumer.start();
        Thread polling = new Thread(() -> {
            while (!Thread.currentThread().isInterrupted()) {
                consumer.poll(200).forEach(message -> seen.merge(body(message), 1, Integer::sum));
            }
        });
        polling.start();
        try {
            waitFor(o, seen, () -> { });
        } finally {
            polling.interrupt();
            polling.join(5_000);
            consumer.shutdown();
        }
    }

    private static void waitFor(Options o, Map<String, Integer> seen, Runnable meanwhile) {
        long end = Main.end(o);
        while (deliveries(seen) < o.number("count") && !Main.ended(o, end)) {
            meanwhile.run();
            Sending.pause(250);
        }
        Sending.pause(o.number("linger_ms", 500));
    }

    private static int deliveries(Map<String, Integer> seen) {
        synchronized (seen) {
            return seen.values().stream().mapToInt(Integer::intValue).sum();
        }
    }

    private static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static String[] lines(String text) {
        return text.split("\n", -1);
    }
}
