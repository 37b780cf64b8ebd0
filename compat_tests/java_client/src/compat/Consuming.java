package compat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Receives a run with each of the client's consumers. Common options: ns= topic= run= group= [count=] [deliveries=] [tags=*]
 * [linger_ms=1000] [idle_s=60] [timeout_s=60] [until=NAME] [ledger=NAME] [pull_again_ms=3000 (after a failed pull)] [broker_balances=true (5.x clients: the broker shares out the queues, and says whether
 * they are popped)] [invisible_ms=60000 (of what is popped)]. A verb ends linger_ms after "count" different messages (and "deliveries" in all) were seen (so that
 * duplicates and strangers show), when nothing came for idle_s, or when its time is over. Answer: "received" with their "numbers", "duplicates",
 * "strangers" (messages of other runs), "corrupt" bodies.
 */
final class Consuming {
    /** Offsets are told one-way; so long a broker may take to note them. */
    private static final long COMMITTED_MS = 500;

    private Consuming() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("consume-push", Consuming::concurrently);
        verbs.put("consume-orderly", Consuming::orderly);
        verbs.put("consume-lite-pull", Consuming::litePull);
        verbs.put("consume-pull", Consuming::pull);
        verbs.put("consume-broadcast", Consuming::broadcast);
    }

    /** Waits for the end of a verb: count reached and lingered, told to stop, idle for idle_s, or out of time. */
    static void await(Options o, long end, Tally... tallies) {
        long enough = 0;
        long total = 0;
        long changed = System.nanoTime();
        while (!Main.ended(o, end)) {
            boolean all = o.has("count");
            long now = 0;
            for (Tally tally : tallies) {
                all &= tally.distinct() >= o.number("count", 0);
                now += tally.total();
            }
            all &= now >= o.number("deliveries", 0);
            if (now != total) {
                total = now;
                changed = System.nanoTime();
            } else if (o.has("count") && System.nanoTime() - changed > o.number("idle_s", 60) * 1_000_000_000L) {
                return;
            }
            if (!all) {
                enough = 0;
            } else if (enough == 0) {
                enough = System.nanoTime();
            } else if (System.nanoTime() - enough > o.number("linger_ms", 1000) * 1_000_000L) {
                return;
            }
            Sending.pause(20);
        }
    }

    static DefaultMQPushConsumer consumer(Options o, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(o.text("ns"));
        consumer.setInstanceName(group + "@" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(o.number("threads", 8));
        consumer.setConsumeThreadMax(o.number("threads", 8));
        consumer.setPersistConsumerOffsetInterval(o.number("persist_ms", 500));
        consumer.setPollNameServerInterval(1000);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.getDefaultMQPushConsumerImpl().setPullTimeDelayMillsWhenException(o.number("pull_again_ms", 3000));
        if (o.has("broker_balances")) {
            DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
            DefaultMQPushConsumer.class.getMethod("setPopInvisibleTime", long.class)
                .invoke(consumer, (long) o.number("invisible_ms", 60000));
        }
        consumer.subscribe(o.text("topic"), o.text("tags", "*"));
        return consumer;
    }

    private static int seen(MessageExt message, Tally tally, Ledger ledger) {
        int number = tally.add(message);
        ledger.add(number, message.getQueueId(), message.getQueueOffset());
        return number;
    }

    static void concurrently(Options o, Json answer) throws Exception {
        Tally tally = new Tally(o.text("run"));
        Ledger ledger = Ledger.of(o);
        DefaultMQPushConsumer consumer = consumer(o, o.text("group"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> seen(message, tally, ledger));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(o, Main.end(o), tally);
        consumer.shutdown();
        tally.into(answer, "received");
    }

    /** consume-orderly [shards=16]: "order_breaks" counts messages that came after a later one of their shard. */
    static void orderly(Options o, Json answer) throws Exception {
        Tally tally = new Tally(o.text("run"));
        int shards = o.number("shards", 16);
        Ledger ledger = Ledger.of(o);
        Map<Integer, Integer> newest = new ConcurrentHashMap<>();
        AtomicInteger breaks = new AtomicInteger();
        DefaultMQPushConsumer consumer = consumer(o, o.text("group"));
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                int number = seen(message, tally, ledger);
                Integer before = newest.put(number % shards, number);
                if (before != null && before > number) {
                    breaks.incrementAndGet();
                }
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        await(o, Main.end(o), tally);
        consumer.shutdown();
        tally.into(answer, "received").put("order_breaks", breaks.get());
    }

    /**
     * consume-lite-pull [commit_twice=true]: the client tells the broker its offsets when it is shut down, all at once and mostly for
     * the first time; with the option once more before.
     */
    static void litePull(Options o, Json answer) throws Exception {
        Tally tally = new Tally(o.text("run"));
        Ledger ledger = Ledger.of(o);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(o.text("group"));
        consumer.setNamesrvAddr(o.text("ns"));
        consumer.setInstanceName(o.text("group") + "@" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(32);
        consumer.setAutoCommitIntervalMillis(1000);
        consumer.subscribe(o.text("topic"), o.text("tags", "*"));
        consumer.start();
        long end = Main.end(o);
        AtomicBoolean polling = new AtomicBoolean(true);
        Thread poller = new Thread(() -> {
            while (polling.get()) {
                consumer.poll(200).forEach(message -> seen(message, tally, ledger));
            }
        });
        poller.setDaemon(true);
        poller.start();
        await(o, end, tally);
        polling.set(false);
        poller.join(5000);
        consumer.commitSync();
        if (o.has("commit_twice")) {
            consumer.commit(consumer.assignment(), true);
            Sending.pause(COMMITTED_MS);
        }
        consumer.shutdown();
        tally.into(answer, "received");
    }

    /** consume-pull: every queue from its first offset to its end, with stored offsets checked when commit=true. */
    @SuppressWarnings("deprecation")
    static void pull(Options o, Json answer) throws Exception {
        Tally tally = new Tally(o.text("run"));
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(o.text("group"));
        consumer.setNamesrvAddr(o.text("ns"));
        consumer.setInstanceName(o.text("group") + "@" + System.nanoTime());
        consumer.start();
        long end = Main.end(o);
        List<MessageQueue> queues = queues(o, end, consumer);
        Map<MessageQueue, Long> next = new HashMap<>();
        for (MessageQueue queue : queues) {
            next.put(queue, consumer.minOffset(queue));
        }
        long enough = 0;
        while (!Main.ended(o, end)) {
            boolean found = false;
            for (MessageQueue queue : queues) {
                PullResult result = consumer.pull(queue, o.text("tags", "*"), next.get(queue), 32);
                next.put(queue, result.getNextBeginOffset());
                if (result.getPullStatus() == PullStatus.FOUND) {
                    result.getMsgFoundList().forEach(tally::add);
                    found = true;
                }
            }
            // At every queue's end: done, unless more is expected.
            if (!found && (!o.has("count") || tally.distinct() >= o.number("count"))) {
                if (enough == 0) {
                    enough = System.nanoTime();
                } else if (System.nanoTime() - enough > o.number("linger_ms", 200) * 1_000_000L) {
                    break;
                }
            }
            if (!found) {
                Sending.pause(20);
            }
        }
        consumer.shutdown();
        tally.into(answer, "received").put("queues", queues.size());
    }

    @SuppressWarnings("deprecation")
    private static List<MessageQueue> queues(Options o, long end, DefaultMQPullConsumer consumer) throws Exception {
        while (true) {
            try {
                return new ArrayList<>(consumer.fetchSubscribeMessageQueues(o.text("topic")));
            } catch (org.apache.rocketmq.client.exception.MQClientException e) {
                if (Main.ended(o, end)) {
                    throw e;
                }
                Sending.pause(100);
            }
        }
    }

    /** consume-broadcast [members=2]: each member must receive every message; counts are those of the worst member. */
    static void broadcast(Options o, Json answer) throws Exception {
        int members = o.number("members", 2);
        Tally[] tallies = new Tally[members];
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < members; i++) {
            Tally tally = new Tally(o.text("run"));
            tallies[i] = tally;
            DefaultMQPushConsumer consumer = consumer(o, o.text("group"));
            consumer.setMessageModel(MessageModel.BROADCASTING);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(tally::add);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        await(o, Main.end(o), tallies);
        for (DefaultMQPushConsumer consumer : consumers) {
            consumer.shutdown();
        }
        Tally worst = tallies[0];
        for (Tally tally : tallies) {
            worst = tally.distinct() < worst.distinct() ? tally : worst;
        }
        worst.into(answer, "received");
        long total = 0;
        for (Tally tally : tallies) {
            total += tally.total();
        }
        answer.put("total", total);
    }
}
