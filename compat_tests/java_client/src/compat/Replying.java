package compat;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages that are answered: a producer's request() and a consumer that replies. */
final class Replying {
    private Replying() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("request", Replying::request);
        verbs.put("reply-to", Replying::replyTo);
    }

    /**
     * request ns= topic= group= count= [threads=8] [body_bytes=20] [ttl_ms=10000] [replies=true]: each request must get its own reply. The
     * asynchronous form is left out: 5.5.0 calls back when the request is sent, without a reply. Answer: "replied", "wrong" (another's reply, or another body), "timed_out", "failed" and "refused" (replies the broker did not take).
     */
    static void request(Options o, Json answer) throws Exception {
        AtomicInteger refused = new AtomicInteger();
        Map<String, AtomicInteger> counts = new ConcurrentHashMap<>();
        DefaultMQProducer replier = Sending.producer(o, new DefaultMQProducer(o.text("group") + "_replier", Sending.hook(o)));
        DefaultMQPushConsumer consumer = Consuming.consumer(o, o.text("group"));
        consumer.subscribe(o.text("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                try {
                    reply(replier, message, o);
                } catch (Exception e) {
                    refused.incrementAndGet();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        DefaultMQProducer producer = Sending.producer(o, new DefaultMQProducer(o.text("group") + "_requester", Sending.hook(o)));
        try {
            if (!o.text("replies", "true").equals("false")) {
                consumer.start();
            }
            requestAll(o, producer, counts);
        } finally {
            consumer.shutdown();
            producer.shutdown();
            replier.shutdown();
        }
        for (String outcome : List.of("replied", "wrong", "timed_out", "failed")) {
            answer.put(outcome, counts.getOrDefault(outcome, new AtomicInteger()).get());
        }
        answer.put("refused", refused.get());
    }

    private static void reply(DefaultMQProducer replier, MessageExt message, Options o) throws Exception {
        String asked = new String(message.getBody(), StandardCharsets.UTF_8);
        Message reply = MessageUtil.createReplyMessage(message, body("reply to " + asked, o.number("body_bytes", 20)));
        replier.send(reply, 10_000);
    }

    private static byte[] body(String start, int bytes) {
        StringBuilder text = new StringBuilder(start);
        while (text.length() < bytes) {
            text.append('.');
        }
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static void requestAll(Options o, DefaultMQProducer producer, Map<String, AtomicInteger> counts) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(o.number("threads", 8));
        for (int i = 0; i < o.number("count"); i++) {
            String text = "question " + i;
            threads.execute(() -> requestOne(o, producer, text, counts));
        }
        threads.shutdown();
        threads.awaitTermination(o.number("timeout_s", 60), TimeUnit.SECONDS);
    }

    private static void requestOne(Options o, DefaultMQProducer producer, String text, Map<String, AtomicInteger> counts) {
        Message message = new Message(o.text("topic"), text.getBytes(StandardCharsets.UTF_8));
        byte[] expected = body("reply to " + text, o.number("body_bytes", 20));
        long ttl = o.number("ttl_ms", 10_000);
        String outcome;
        try {
            Message reply = producer.request(message, ttl);
            outcome = java.util.Arrays.equals(reply.getBody(), expected) ? "replied" : "wrong";
        } catch (RequestTimeoutException e) {
            outcome = "timed_out";
        } catch (Exception e) {
            outcome = "failed";
        }
        counts.computeIfAbsent(outcome, k -> new AtomicInteger()).incrementAndGet();
    }

    /**
     * reply-to ns= cluster= [client=]: a reply to a client by its id (without one: to nobody). Answer: "code" (0 when taken), "remark" and
     * "message_id".
     */
    static void replyTo(Options o, Json answer) throws Exception {
        DefaultMQProducer producer = Sending.producer(o, new DefaultMQProducer("repliers_" + System.nanoTime(), Sending.hook(o)));
        Message reply = new Message(o.text("cluster") + "_REPLY_TOPIC", "unasked".getBytes(StandardCharsets.UTF_8));
        MessageAccessor.putProperty(reply, MessageConst.PROPERTY_MESSAGE_TYPE, "reply");
        MessageAccessor.putProperty(reply, MessageConst.PROPERTY_CORRELATION_ID, o.text("correlation", "unknown"));
        if (o.has("client")) {
            MessageAccessor.putProperty(reply, MessageConst.PROPERTY_MESSAGE_REPLY_TO_CLIENT, o.text("client"));
        }
        try {
            producer.setRetryTimesWhenSendFailed(0);
            SendResult result = producer.send(reply);
            answer.put("code", 0).put("remark", "").put("message_id", String.valueOf(result.getOffsetMsgId()));
        } catch (MQClientException e) {
            if (!(e.getCause() instanceof MQBrokerException)) {
                throw e;
            }
            MQBrokerException refusal = (MQBrokerException) e.getCause();
            answer.put("code", refusal.getResponseCode()).put("remark", refusal.getErrorMessage()).put("message_id", "");
        } finally {
            producer.shutdown();
        }
    }
}
