package compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Finding stored messages again: by key, by offset message id, by unique id. */
final class Looking {
    private Looking() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("query-key", Looking::queryKeys);
        verbs.put("view-id", Looking::view);
    }

    /** query-key ns= topic= run= count= [threads=8]: asks for each key of the run until it is found once or time is over. */
    static void queryKeys(Options o, Json answer) throws Exception {
        DefaultMQProducer client = Sending.producer(o, new DefaultMQProducer("query_" + System.nanoTime(), Sending.hook(o)));
        String run = o.text("run");
        String topic = o.text("topic");
        Tally tally = new Tally(run);
        long end = Main.end(o);
        int threads = o.number("threads", 8);
        List<Thread> workers = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int mine = t;
            Thread worker = new Thread(() -> {
                for (int n = mine; n < o.number("count"); n += threads) {
                    while (!find(client, topic, run + "-" + n, tally) && !Main.ended(o, end)) {
                        Sending.pause(100);
                    }
                }
            });
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        client.shutdown();
        tally.into(answer, "found");
    }

    private static boolean find(DefaultMQProducer client, String topic, String key, Tally tally) {
        try {
            QueryResult result = client.queryMessage(topic, key, 32, 0, System.currentTimeMillis() + 60_000);
            result.getMessageList().forEach(tally::add);
            return !result.getMessageList().isEmpty();
        } catch (MQClientException e) {
            return false; // the index may be behind the log: the client reports "no message"
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return true;
        }
    }

    /** view-id ns= topic= id= [key=]: one message by offset message id or unique id. */
    static void view(Options o, Json answer) throws Exception {
        DefaultMQProducer client = Sending.producer(o, new DefaultMQProducer("view_" + System.nanoTime(), Sending.hook(o)));
        try {
            long end = Main.end(o);
            MessageExt message = null;
            while (message == null) {
                try {
                    message = client.viewMessage(o.text("topic"), o.text("id"));
                } catch (Exception e) {
                    if (Main.ended(o, end)) {
                        throw e;
                    }
                    Sending.pause(100);
                }
            }
            answer.put("key", message.getKeys()).put("topic", message.getTopic()).put("id", message.getMsgId())
                .put("queue_offset", message.getQueueOffset());
        } finally {
            client.shutdown();
        }
    }
}
