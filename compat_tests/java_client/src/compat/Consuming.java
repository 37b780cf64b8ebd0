package compat;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;

/**
 * Receives a run with each of the client's consumers. Common options: ns= topic= run= group= [count=] [deliveries=] [tags=*]
 * [linger_ms=1000] [idle_s=60] [timeout_s=60] [until=NAME] [ledger=NAME] [sql= (instead of tags)] [namespace=] [pull_again_ms=3000 (after a failed pull; since 4.7)] [heartbeat_ms=1000] [broker_balances=true (5.x clients: the broker shares out the queues, and says whether
 * they are popped)] [invisible_ms=60000 (of what is popped)]. A verb ends linger_ms after "count" different messages (and "deliveries" in all) were seen (so that
 * duplicates and strangers show), when nothing came for idle_s, or when its time is over. Answer: "received" with their "numbers", "duplicates",
 * "strangers" (messages of other runs), "corrupt" bodies, and of messages that waited at the broker by how many milliseconds they were stored after
 * they were sent: "waited_min_ms", "waited_max_ms"; by how many they came at most: "arrived_max_ms"; and "delay_levels": those that messages show, as in [3].
 */
final class Consuming {
    private Consuming() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("consume-push", Consuming::concurrently);
        verbs.put("consume-orderly", Consuming::orderly);
        verbs.put("consume-pull", Consuming::pull);
        verbs.put("consume-broadcast", Consuming::broadcast);
        verbs.put("consume-together", Consuming::together);
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
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, Sending.hook(o), new AllocateMessageQueueAveragely());
        Sending.configure(o, consumer);
        consumer.setInstanceName(group + "@" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeThreadMin(o.number("threads", 8));
        consumer.setConsumeThreadMax(o.number("threads", 8));
        consumer.setPersistConsumerOffsetInterval(o.number("persist_ms", 500));
        consumer.setPollNameServerInterval(1000);
        consumer.setHeartbeatBrokerInterval(o.number("heartbeat_ms", 1000));
        if (o.has("pull_again_ms")) {
            DefaultMQPushConsumerImpl impl = consumer.getDefaultMQPushConsumerImpl();
            DefaultMQPushConsumerImpl.class.getMethod("setPullTimeDelayMillsWhenException", long.class)
                .invoke(impl, (long) o.number("pull_again_ms"));
        }
        if (o.has("broker_balances")) {
            DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
            DefaultMQPushConsumer.class.getMethod("setPopInvisibleTime", long.class)
                .invoke(consumer, (long) o.number("invisible_ms", 60000));
        }
        if (o.has("sql")) {
            consumer.subscribe(o.text("topic"), MessageSelector.bySql(o.text("sql")));
        } else {
            consumer.subscribe(o.text("topic"), o.text("tags", "*"));
        }
        return consumer;
    }

    static int seen(MessageExt message, Tally tally, Ledger ledger) {
        int number = tally.add(message);
        ledger.add(number, message.getQueueId(), message.getQueueOffset());
        return number;
    }

    /**
     * consume-push [holds_heartbeats=true]: "first_ms" is the time from the start of the consumer to its first message. With holds_heartbeats the
     * client sends no heartbeat after its start, as while another of its threads sends one: its pulls name a newer subscription than brokers know.
     */
    static void concurrently(Options o, Json answer) throws Exception {
        Tally tally = new Tally(o.text("run"));
        Ledger ledger = Ledger.of(o);
        AtomicLong first = new AtomicLong();
        DefaultMQPushConsumer consumer = consumer(o, o.text("group"));
        long begun = System.nanoTime();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            first.compareAndSet(0, System.nanoTime() - begun);
            messages.forEach(message -> seen(message, tally, ledger));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (o.has("holds_heartbeats")) {
            holdHeartbeats(consumer);
        }
        await(o, Main.end(o), tally);
        consumer.shutdown();
        tally.into(answer, "received").put("first_ms", first.get() / 1_000_000);
    }

    private static void holdHeartbeats(DefaultMQPushConsumer consumer) throws Exception {
        MQClientInstance client = consumer.getDefaultMQPushConsumerImpl().getmQClientFactory();
        Field lock = MQClientInstance.class.getDeclaredField("lockHeartbeat");
        lock.setAccessible(true);
        ((Lock) lock.get(client)).lock();
    }

    /**
     * consume-orderly [shards=16] [suspend=N]: "order_breaks" counts messages that came after a later one of their shard; each Nth is first
     * answered SUSPEND_CURRENT_QUEUE_A_MOMENT, "suspended" times in all.
     */
    static void orderly(Options o, Json answer) throws Exception {
        Tally tally = new Tally(o.text("run"));
        int shards = o.number("shards", 16);
        Ledger ledger = Ledger.of(o);
        Map<Integer, Integer> newest = new ConcurrentHashMap<>();
        AtomicInteger breaks = new AtomicInteger();
        Set<Integer> suspended = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer consumer = consumer(o, o.text("group"));
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                int waiting = tally.numberOf(message);
                if (o.has("suspend") && waiting % o.number("suspend") == 0 && suspended.add(waiting)) {
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
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
        tally.into(answer, "received").put("order_breaks", breaks.get()).put("suspended", suspended.size());
    }

    /**
     * consume-together other= other_group=: two consumers of one client, which sends one heartbeat for both; the other starts first. Answer: of the
     * first what consume-push answers, and "other_received".
     */
    static void together(Options o, Json answer) throws Exception {
        Tally mine = new Tally(o.text("run"));
        Tally others = new Tally(o.text("run"));
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (Tally tally : List.of(others, mine)) {
            DefaultMQPushConsumer consumer = consumer(o, o.text(tally == mine ? "group" : "other_group"));
            consumer.setInstanceName(o.text("group") + "@" + o.text("run"));
            if (tally == others) {
                consumer.unsubscribe(o.text("topic"));
                consumer.subscribe(o.text("other"), "*");
            }
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                messages.forEach(tally::add);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        await(o, Main.end(o), mine);
        consumers.forEach(DefaultMQPushConsumer::shutdown);
        mine.into(answer, "received").put("other_received", others.distinct());
    }

    /** consume-pull: every queue from its first offset to its end, with stored offsets checked when commit=true. */
    @SuppressWarnings("deprecation")
    static void pull(Options o, Json answer) throws Exception {
        Tally tally = new Tally(o.text("run"));
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(o.text("group"), Sending.hook(o));
        Sending.configure(o, consumer);
        consumer.setInstanceName(o.text("group") + "@" + System.nanoTime());
        consumer.start();
        try {
            pullAll(o, consumer, tally, answer);
        } finally {
            consumer.shutdown();
        }
    }

    @SuppressWarnings("deprecation")
    private static void pullAll(Options o, DefaultMQPullConsumer consumer, Tally tally, Json answer) throws Exception {
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
