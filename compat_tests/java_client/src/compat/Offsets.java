package compat;

import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.common.message.MessageQueue;

/** What the broker says about a topic's queues and a group's progress. */
final class Offsets {
    private Offsets() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("offsets", Offsets::offsets);
    }

    /** offsets ns= topic= group=: sums over the queues of "min", "max" and "committed" (-1 a queue where there is none). */
    @SuppressWarnings("deprecation")
    static void offsets(Options o, Json answer) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(o.text("group"));
        consumer.setNamesrvAddr(o.text("ns"));
        consumer.setInstanceName(o.text("group") + "@" + System.nanoTime());
        consumer.start();
        try {
            long min = 0;
            long max = 0;
            long committed = 0;
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(o.text("topic"))) {
                min += consumer.minOffset(queue);
                max += consumer.maxOffset(queue);
                committed += consumer.fetchConsumeOffset(queue, true);
            }
            answer.put("min", min).put("max", max).put("committed", committed);
        } finally {
            consumer.shutdown();
        }
    }
}
