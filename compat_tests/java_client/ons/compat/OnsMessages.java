package compat;

import com.aliyun.openservices.ons.api.Action;
import com.aliyun.openservices.ons.api.Consumer;
import com.aliyun.openservices.ons.api.Message;
import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.Producer;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import java.util.Map;
import java.util.Properties;

/** send-sync and consume-push by Alibaba's ons-client, for api=ons; options and answers are those of {@code Sending} and {@code Consuming}. */
final class OnsMessages {
    private OnsMessages() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.compute("send-sync", (name, stock) -> either(OnsMessages::send, stock));
        verbs.compute("consume-push", (name, stock) -> either(OnsMessages::consume, stock));
    }

    private static Main.Verb either(Main.Verb ons, Main.Verb stock) {
        return (o, a) -> (o.text("api", "").equals("ons") ? ons : stock).run(o, a);
    }

    /** What every client of ons-client is told. */
    static Properties properties(Options o, String group) {
        Properties properties = new Properties();
        properties.setProperty(PropertyKeyConst.NAMESRV_ADDR, o.text("ns"));
        properties.setProperty(PropertyKeyConst.GROUP_ID, group);
        properties.setProperty(PropertyKeyConst.AccessKey, o.text("access_key", "nobody"));
        properties.setProperty(PropertyKeyConst.SecretKey, o.text("secret_key", "nothing"));
        properties.setProperty(PropertyKeyConst.InstanceName, group + "@" + System.nanoTime());
        properties.setProperty(PropertyKeyConst.SendMsgTimeoutMillis, o.text("send_timeout_ms", "10000"));
        return properties;
    }

    private static void send(Options o, Json answer) {
        Tally acknowledged = new Tally(o.text("run"));
        int failed = 0;
        Producer producer = ONSFactory.createProducer(properties(o, "p_" + o.text("run")));
        producer.start();
        for (int n = 0; n < o.number("count"); n++) {
            org.apache.rocketmq.common.message.Message made = Tally.message(o.text("topic"), o.text("run"), n, o.number("size", 100));
            try {
                producer.send(new Message(made.getTopic(), "", made.getKeys(), made.getBody()));
                acknowledged.add(n);
            } catch (RuntimeException e) {
                failed++;
                acknowledged.error(e);
            }
        }
        producer.shutdown();
        acknowledged.into(answer, "acknowledged").put("started", o.number("count")).put("failed", failed).put("not_ok", 0)
            .put("unanswered", 0).raw("ids", "[]");
    }

    private static void consume(Options o, Json answer) {
        Tally tally = new Tally(o.text("run"));
        Consumer consumer = ONSFactory.createConsumer(properties(o, o.text("group")));
        consumer.subscribe(o.text("topic"), "*", (message, context) -> {
            org.apache.rocketmq.common.message.Message received = new org.apache.rocketmq.common.message.Message(
                message.getTopic(), message.getTag(), message.getKey(), message.getBody());
            tally.add(received);
            return Action.CommitMessage;
        });
        consumer.start();
        Consuming.await(o, Main.end(o), tally);
        consumer.shutdown();
        tally.into(answer, "received");
    }
}
