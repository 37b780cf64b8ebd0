package compat;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Reading what is stored, place by place. */
final class Reading {
    /** A message that its queue counts and nobody can read is given up after this. */
    private static final long STUCK_NANOS = 2_000_000_000L;

    private Reading() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("read-queues", Reading::read);
    }

    /**
     * read-queues ns= group= topics=a,b runs=ra,rb [from=a/0:17,a/1:5 (else the first)] [timeout_s=60]: each queue from there to
     * where it ended when asked. Answer: per topic its entries as in {@link Ledger}; "ranges" a/0 → [min afterwards, first asked, end];
     * "stuck" the places that could not be read; "corrupt", "strangers".
     */
    @SuppressWarnings("deprecation")
    static void read(Options o, Json answer) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(o.text("group"));
        consumer.setNamesrvAddr(o.text("ns"));
        consumer.setInstanceName(o.text("group") + "@" + System.nanoTime());
        consumer.start();
        try {
            Map<String, Long> from = positions(o.text("from", ""));
            String[] runs = o.text("runs").split(",");
            String[] topics = o.text("topics").split(",");
            long end = Main.end(o);
            Json ranges = new Json();
            Json entries = new Json();
            List<String> stuck = new ArrayList<>();
            long corrupt = 0;
            long strangers = 0;
            for (int i = 0; i < topics.length; i++) {
                Tally tally = new Tally(runs[i]);
                Ledger ledger = new Ledger(true);
                for (MessageQueue queue : queues(consumer, topics[i], end)) {
                    String name = topics[i] + "/" + queue.getQueueId();
                    long min = consumer.minOffset(queue);
                    long max = consumer.maxOffset(queue);
                    long start = Math.max(min, from.getOrDefault(name, min));
                    readQueue(consumer, queue, start, max, tally, ledger, stuck);
                    // Asked once more: what was deleted meanwhile is not missing.
                    ranges.raw(name, "[" + consumer.minOffset(queue) + ", " + start + ", " + max + "]");
                }
                entries.put(topics[i], ledger.base64());
                corrupt += tally.corruptCount();
                strangers += tally.strangerCount();
            }
            answer.raw("entries", entries.toString()).raw("ranges", ranges.toString());
            answer.put("stuck", String.join(",", stuck)).put("corrupt", corrupt).put("strangers", strangers);
        } finally {
            consumer.shutdown();
        }
    }

    private static void readQueue(DefaultMQPullConsumer consumer, MessageQueue queue, long start, long max, Tally tally,
        Ledger ledger, List<String> stuck) throws Exception {
        long next = start;
        long moved = System.nanoTime();
        while (next < max) {
            PullResult result = consumer.pull(queue, "*", next, 32);
            if (result.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : result.getMsgFoundList()) {
                    ledger.add(tally.add(message), message.getQueueId(), message.getQueueOffset());
                }
            }
            if (result.getNextBeginOffset() > next) {
                next = result.getNextBeginOffset();
                moved = System.nanoTime();
            } else if (System.nanoTime() - moved > STUCK_NANOS) {
                stuck.add(queue.getTopic() + "/" + queue.getQueueId() + ":" + next);
                next++;
                moved = System.nanoTime();
            } else {
                Sending.pause(20);
            }
        }
    }

    @SuppressWarnings("deprecation")
    private static Collection<MessageQueue> queues(DefaultMQPullConsumer consumer, String topic, long end) throws Exception {
        while (true) {
            try {
                return consumer.fetchSubscribeMessageQueues(topic);
            } catch (org.apache.rocketmq.client.exception.MQClientException e) {
                if (System.nanoTime() - end > 0) {
                    throw e;
                }
                Sending.pause(100);
            }
        }
    }

    private static Map<String, Long> positions(String text) {
        Map<String, Long> positions = new HashMap<>();
        for (String part : text.isEmpty() ? new String[0] : text.split(",")) {
            int colon = part.lastIndexOf(':');
            positions.put(part.substring(0, colon), Long.parseLong(part.substring(colon + 1)));
        }
        return positions;
    }
}
