package compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * new-groups topic=PREFIX starts=N [at_once=8] [spread_ms=400] [wait_s=30] [for_s= (begin none after so long)] [seed=1]: the topics PREFIX0 to
 * PREFIX(N-1) are there and empty. A new group begins in each, as programs do that set nothing (from the last offset); while it asks its broker where to
 * begin, each queue gets its first message, at a moment of its own within spread_ms. Answer: "starts" (that were begun), "messages" (that were sent),
 * "missed" (those not received within wait_s of the last send), "first" (some of them), "longest_ms" (of a start, to its last message).
 */
final class NewGroups {
    private NewGroups() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("new-groups", NewGroups::run);
    }

    static void run(Options o, Json answer) throws Exception {
        int starts = o.number("starts");
        long last = System.nanoTime() + o.number("for_s", 3600) * 1_000_000_000L;
        List<String> missed = Collections.synchronizedList(new ArrayList<>());
        AtomicInteger begun = new AtomicInteger();
        AtomicInteger messages = new AtomicInteger();
        AtomicLong longest = new AtomicLong();
        DefaultMQProducer producer = Sending.producer(o, new DefaultMQProducer("new-groups"));
        ScheduledExecutorService senders = Executors.newScheduledThreadPool(8);
        ExecutorService starters = Executors.newFixedThreadPool(o.number("at_once", 8));
        List<Throwable> errors = Collections.synchronizedList(new ArrayList<>());
        for (int i = 0; i < starts; i++) {
            int number = i;
            starters.submit(() -> {
                if (System.nanoTime() > last || !errors.isEmpty()) {
                    return;
                }
                begun.incrementAndGet();
                try {
                    one(o, number, producer, senders, messages, missed, longest);
                } catch (Throwable e) {
                    errors.add(e);
                }
            });
        }
        starters.shutdown();
        starters.awaitTermination(o.number("timeout_s", 60), TimeUnit.SECONDS);
        senders.shutdownNow();
        producer.shutdown();
        if (!errors.isEmpty()) {
            throw new IllegalStateException("of " + begun + " starts", errors.get(0));
        }
        answer.put("starts", begun.get()).put("messages", messages.get()).put("missed", missed.size())
            .put("first", missed.subList(0, Math.min(8, missed.size())).toString()).put("longest_ms", longest.get());
    }

    private static void one(Options o, int number, DefaultMQProducer producer, ScheduledExecutorService senders, AtomicInteger messages,
        List<String> missed, AtomicLong longest) throws Exception {
        String topic = o.text("topic") + number;
        Random chance = new Random(o.number("seed", 1) * 1_000_003L + number);
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(topic);
        List<String> expected = Collections.synchronizedList(new ArrayList<>());
        queues.forEach(queue -> expected.add(queue.getBrokerName() + "/" + queue.getQueueId()));
        CountDownLatch sent = new CountDownLatch(queues.size());
        CountDownLatch received = new CountDownLatch(queues.size());
        List<Throwable> failed = Collections.synchronizedList(new ArrayList<>());

        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("g_" + topic);
        Sending.configure(o, consumer);
        consumer.setInstanceName(topic + "@" + System.nanoTime());
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (batch, context) -> {
            batch.forEach(message -> {
                if (expected.remove(new String(message.getBody(), StandardCharsets.UTF_8))) {
                    received.countDown();
                }
            });
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });

        long start = System.nanoTime();
        for (MessageQueue queue : queues) {
            byte[] body = (queue.getBrokerName() + "/" + queue.getQueueId()).getBytes(StandardCharsets.UTF_8);
            senders.schedule(() -> {
                try {
                    producer.send(new Message(topic, body), queue);
                    messages.incrementAndGet();
                } catch (Exception e) {
                    failed.add(e);
                } finally {
                    sent.countDown();
                }
            }, chance.nextInt(o.number("spread_ms", 400)) * 1000L + chance.nextInt(1000), TimeUnit.MICROSECONDS);
        }
        consumer.start();
        try {
            if (!sent.await(60, TimeUnit.SECONDS) || !failed.isEmpty()) {
                throw new IllegalStateException(topic + " was not sent to", failed.isEmpty() ? null : failed.get(0));
            }
            received.await(o.number("wait_s", 30), TimeUnit.SECONDS);
            longest.accumulateAndGet((System.nanoTime() - start) / 1_000_000, Math::max);
            synchronized (expected) {
                expected.forEach(name -> missed.add(topic + "/" + name));
            }
        } finally {
            consumer.shutdown();
        }
    }
}
