package compat;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.annotation.ConsumeMode;
import org.apache.rocketmq.spring.annotation.MessageModel;
import org.apache.rocketmq.spring.annotation.RocketMQMessageListener;
import org.apache.rocketmq.spring.annotation.SelectorType;
import org.apache.rocketmq.spring.core.RocketMQListener;
import org.apache.rocketmq.spring.core.RocketMQPushConsumerLifecycleListener;
import org.apache.rocketmq.spring.core.RocketMQReplyListener;

/** What an application does with a message, and the listener beans that differ in their annotation only. */
final class Listening {
    private static final AtomicInteger INSTANCES = new AtomicInteger();

    /** Counts a message, or throws so that it comes again. */
    static class Work {
        final Tally tally;
        final Options o;
        final Map<Integer, Integer> newest = new ConcurrentHashMap<>();
        final Map<Integer, Integer> deliveries = new ConcurrentHashMap<>();
        final Set<Integer> suspended = ConcurrentHashMap.newKeySet();
        final AtomicInteger breaks = new AtomicInteger();
        final AtomicInteger wrongCounts = new AtomicInteger();

        Work(Options o) {
            this.o = o;
            tally = new Tally(o.text("run"));
        }

        boolean isHopeless(int number) {
            return o.number("hopeless", 0) > 0 && number % o.number("hopeless") == 0;
        }

        void take(MessageExt message) {
            int number = tally.numberOf(message);
            int before = deliveries.merge(number, 1, Integer::sum) - 1;
            if (o.has("max_reconsume") && message.getReconsumeTimes() != before) {
                wrongCounts.incrementAndGet();
            }
            if (o.has("max_reconsume") && (isHopeless(number) || before < 1)) {
                throw new IllegalStateException("fails on purpose");
            }
            if (o.has("suspend") && number % o.number("suspend") == 0 && suspended.add(number)) {
                throw new IllegalStateException("fails on purpose, once");
            }
            tally.add(message);
            if (o.has("shards")) {
                Integer older = newest.put(number % o.number("shards"), number);
                if (older != null && older > number) {
                    breaks.incrementAndGet();
                }
            }
        }

        int total() {
            return deliveries.values().stream().mapToInt(Integer::intValue).sum();
        }
    }

    private abstract static class Listener implements RocketMQListener<MessageExt>, RocketMQPushConsumerLifecycleListener {
        private final Work work;

        Listener(Work work) {
            this.work = work;
        }

        @Override
        public void onMessage(MessageExt message) {
            work.take(message);
        }

        @Override
        public void prepareStart(DefaultMQPushConsumer consumer) {
            prepare(consumer, work.o);
        }
    }

    private Listening() { }

    static void prepare(DefaultMQPushConsumer consumer, Options o) {
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setInstanceName("spring@" + INSTANCES.incrementAndGet());
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setPollNameServerInterval(1000);
        consumer.setHeartbeatBrokerInterval(1000);
        if (o.has("max_reconsume")) {
            consumer.setMaxReconsumeTimes(o.number("max_reconsume"));
        }
    }

    @RocketMQMessageListener(topic = "${compat.topic}", consumerGroup = "${compat.group}",
        tlsEnable = "${rocketmq.consumer.tls-enable}", selectorExpression = "${compat.expression}", namespace = "${compat.namespace}")
    public static class Push extends Listener {
        Push(Work work) {
            super(work);
        }
    }

    @RocketMQMessageListener(topic = "${compat.topic}", consumerGroup = "${compat.group}",
        tlsEnable = "${rocketmq.consumer.tls-enable}", selectorExpression = "${compat.expression}", selectorType = SelectorType.SQL92)
    public static class Sql extends Listener {
        Sql(Work work) {
            super(work);
        }
    }

    @RocketMQMessageListener(topic = "${compat.topic}", consumerGroup = "${compat.group}",
        tlsEnable = "${rocketmq.consumer.tls-enable}", consumeMode = ConsumeMode.ORDERLY)
    public static class Orderly extends Listener {
        Orderly(Work work) {
            super(work);
        }
    }

    @RocketMQMessageListener(topic = "${compat.topic}", consumerGroup = "${compat.group}",
        tlsEnable = "${rocketmq.consumer.tls-enable}", messageModel = MessageModel.BROADCASTING)
    public static class Broadcast extends Listener {
        Broadcast(Work work) {
            super(work);
        }
    }

    @RocketMQMessageListener(topic = "${compat.topic}", consumerGroup = "${compat.group}",
        tlsEnable = "${rocketmq.consumer.tls-enable}")
    public static class Reply implements RocketMQReplyListener<String, String>, RocketMQPushConsumerLifecycleListener {
        private final Options o;

        Reply(Options o) {
            this.o = o;
        }

        @Override
        public String onMessage(String question) {
            return "reply to " + question;
        }

        @Override
        public void prepareStart(DefaultMQPushConsumer consumer) {
            prepare(consumer, o);
        }
    }
}
