package compat;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Collections;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;

/** Creating topics through the client's API. */
final class Topics {
    private static final int NO_ROUTE = 17;

    private Topics() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("create-topic", Topics::create);
    }

    /**
     * create-topic ns= topic= [queues=4] [template=TBW102]: waits until the name server routes to all queues. A broker that has just
     * started may not have registered the template yet: then it is asked for again.
     */
    static void create(Options o, Json answer) throws Exception {
        DefaultMQProducer producer = Sending.producer(o, new DefaultMQProducer("topics_" + System.nanoTime(), Sending.hook(o)));
        try {
            int queues = o.number("queues", 4);
            long end = Main.end(o);
            while (!isCreated(producer, o, queues) && !Main.ended(o, end)) {
                Thread.sleep(100);
            }
            int seen = 0;
            while (seen != queues && !Main.ended(o, end)) {
                try {
                    seen = producer.fetchPublishMessageQueues(o.text("topic")).size();
                } catch (MQClientException e) {
                    Thread.sleep(50);
                }
            }
            answer.put("queues", seen);
        } finally {
            producer.shutdown();
        }
    }

    private static boolean isCreated(DefaultMQProducer producer, Options o, int queues) throws Exception {
        try {
            create(producer, o.text("template", "TBW102"), o.text("topic"), queues);
            return true;
        } catch (MQClientException e) {
            if (e.getCause() instanceof MQClientException
                && ((MQClientException) e.getCause()).getResponseCode() == NO_ROUTE) {
                return false;
            }
            throw e;
        }
    }

    /** The method's last parameter, topic attributes, came with 5.x. */
    private static void create(DefaultMQProducer producer, String template, String topic, int queues) throws Exception {
        try {
            try {
                Method m = DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class, Map.class);
                m.invoke(producer, template, topic, queues, Collections.emptyMap());
            } catch (NoSuchMethodException e) {
                Method m = DefaultMQProducer.class.getMethod("createTopic", String.class, String.class, int.class);
                m.invoke(producer, template, topic, queues);
            }
        } catch (InvocationTargetException e) {
            throw (Exception) e.getCause();
        }
    }
}
