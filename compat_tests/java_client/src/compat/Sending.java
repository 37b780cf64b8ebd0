package compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Sends the messages run-0 … run-(count-1). Common options: ns= topic= run= [count=] [first=0] [threads=8] [size=100]
 * [timeout_s=60] [until=NAME] [tags=a,b,c (number modulo)] [retries=2] [pause_ms=0] [delay=LEVEL] [ledger=NAME]
 * [property=NAME (a user property whose value is the number)] [trace=true (since 4.4)] [namespace= (since 4.5)]
 * [attempt_timeout_ms= (of each of the retries)] [access_key= secret_key= (of nearly all verbs)].
 * Answer: "acknowledged" with their "numbers", "not_ok" (stored, but another status than SEND_OK), "failed" and "errors".
 */
final class Sending {
    private static final int IN_FLIGHT = 500;

    /** Sends one message or one group of messages. */
    interface Step {
        void send(DefaultMQProducer producer, List<Message> messages, Outcome outcome) throws Exception;
    }

    /** What became of the sends; the message ids of the first few. */
    static final class Outcome {
        final Tally acknowledged;
        final Ledger ledger;
        final AtomicInteger notOk = new AtomicInteger();
        final AtomicInteger failed = new AtomicInteger();
        final List<String> ids = new ArrayList<>();
        final Semaphore inFlight = new Semaphore(IN_FLIGHT);

        Outcome(String run, Ledger ledger) {
            acknowledged = new Tally(run);
            this.ledger = ledger;
        }

        void answered(SendResult result, List<Message> messages) {
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                notOk.incrementAndGet();
                return;
            }
            for (Message m : messages) {
                acknowledged.add(acknowledged.numberOf(m));
            }
            ledger.stored(result, acknowledged.numberOf(messages.get(0)), messages.size());
            synchronized (ids) {
                if (ids.size() < 20) {
                    ids.add(Json.quote(result.getOffsetMsgId() + "/" + result.getMsgId() + "/" + messages.get(0).getKeys()));
                }
            }
        }

        void failed(Throwable error) {
            failed.incrementAndGet();
            acknowledged.error(refusal(error));
            ledger.refused(error);
        }
    }

    private Sending() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("send-sync", (o, a) -> send(o, a, 1, (p, m, out) -> out.answered(p.send(m.get(0)), m)));
        verbs.put("send-oneway", (o, a) -> send(o, a, 1, (p, m, out) -> p.sendOneway(m.get(0))));
        verbs.put("send-batch", (o, a) -> send(o, a, o.number("batch", 20), (p, m, out) -> out.answered(p.send(m), m)));
        verbs.put("send-async", (o, a) -> send(o, a, 1, Sending::async));
        verbs.put("send-orderly", (o, a) -> {
            int shards = o.number("shards", 16);
            // One thread a shard at most, or the order of sending itself would be undefined.
            send(o, a, 1, (p, m, out) -> out.answered(p.send(m.get(0),
                (queues, message, arg) -> queues.get((Integer) arg % queues.size()),
                out.acknowledged.numberOf(m.get(0)) % shards), m));
        });
    }

    /** What every client is told: name servers and, where this version knows them, the namespace. */
    static void configure(Options o, ClientConfig client) throws ReflectiveOperationException {
        client.setNamesrvAddr(o.text("ns"));
        if (o.has("namespace")) {
            ClientConfig.class.getMethod("setNamespace", String.class).invoke(client, o.text("namespace"));
        }
    }

    /** What signs each request of a client, with access_key= and secret_key= (since 4.4); null without. */
    static RPCHook hook(Options o) throws ReflectiveOperationException {
        if (!o.has("access_key")) {
            return null;
        }
        Class<?> keys = Class.forName("org.apache.rocketmq.acl.common.SessionCredentials");
        Object pair = keys.getConstructor(String.class, String.class).newInstance(o.text("access_key"), o.text("secret_key"));
        return (RPCHook) Class.forName("org.apache.rocketmq.acl.common.AclClientRPCHook").getConstructor(keys).newInstance(pair);
    }

    private static DefaultMQProducer made(Options o, String group) throws ReflectiveOperationException {
        if (!o.has("trace")) {
            return new DefaultMQProducer(group, hook(o));
        }
        return DefaultMQProducer.class.getConstructor(String.class, RPCHook.class, boolean.class, String.class)
            .newInstance(group, hook(o), true, null);
    }

    static <P extends DefaultMQProducer> P producer(Options o, P producer) throws Exception {
        configure(o, producer);
        producer.setInstanceName(producer.getProducerGroup() + "@" + System.nanoTime());
        producer.setRetryTimesWhenSendFailed(o.number("retries", 2));
        producer.setRetryTimesWhenSendAsyncFailed(o.number("retries", 2));
        producer.setSendMsgTimeout(o.number("send_timeout_ms", 10000));
        producer.setCompressMsgBodyOverHowmuch(o.number("compress_over", producer.getCompressMsgBodyOverHowmuch()));
        if (o.has("attempt_timeout_ms")) {
            limitAttempts(producer, o.number("attempt_timeout_ms"));
        }
        producer.setPollNameServerInterval(1000);
        producer.setHeartbeatBrokerInterval(1000);
        producer.start();
        return producer;
    }

    /** Lets a send be repeated when an answer is late, not only when the connection breaks; 4.x clients cannot. */
    private static void limitAttempts(DefaultMQProducer producer, int timeoutMs) throws ReflectiveOperationException {
        try {
            DefaultMQProducer.class.getMethod("setSendMsgMaxTimeoutPerRequest", int.class).invoke(producer, timeoutMs);
        } catch (NoSuchMethodException e) {
            return;
        }
    }

    /** What a broker answered, where the client tells only that it has given up. */
    static Throwable refusal(Throwable error) {
        return error.getCause() instanceof MQBrokerException ? error.getCause() : error;
    }

    private static void async(DefaultMQProducer producer, List<Message> messages, Outcome out) throws Exception {
        out.inFlight.acquire();
        try {
            producer.send(messages.get(0), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    out.answered(result, messages);
                    out.inFlight.release();
                }

                @Override
                public void onException(Throwable e) {
                    out.failed(e);
                    out.inFlight.release();
                }
            });
        } catch (Exception e) {
            out.inFlight.release();
            throw e;
        }
    }

    static void send(Options o, Json answer, int group, Step step) throws Exception {
        String run = o.text("run");
        Outcome out = new Outcome(run, Ledger.of(o));
        DefaultMQProducer producer = producer(o, made(o, "p_" + run + "_" + System.nanoTime()));
        if (o.has("ledger")) {
            out.ledger.countAttempts(producer, out.acknowledged);
        }
        long end = Main.end(o);
        int first = o.number("first", 0);
        int last = first + (o.has("count") ? o.number("count") : Integer.MAX_VALUE / 2);
        int threads = o.number("threads", 8);
        AtomicInteger started = new AtomicInteger();
        List<Thread> workers = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int mine = first + t * group;
            Thread worker = new Thread(() -> {
                // Numbers are dealt out in turn: with threads = shards each shard keeps one thread.
                for (int n = mine; n < last && !Main.ended(o, end); n += threads * group) {
                    List<Message> messages = messages(o, run, n, Math.min(group, last - n));
                    started.addAndGet(messages.size());
                    try {
                        step.send(producer, messages, out);
                        pause(o.number("pause_ms", 0));
                    } catch (Exception e) {
                        out.failed(e);
                        pause(20);
                    }
                }
            });
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        boolean drained = out.inFlight.tryAcquire(IN_FLIGHT, 30, TimeUnit.SECONDS);
        // A one-way send is over when it is in the socket's buffer of Netty; closing at once would drop it, and traces.
        pause(o.number("linger_ms", o.verb.equals("send-oneway") || o.has("trace") ? 300 : 0));
        producer.shutdown();
        out.acknowledged.into(answer, "acknowledged").put("started", started.get()).put("failed", out.failed.get())
            .put("not_ok", out.notOk.get()).put("unanswered", drained ? 0 : IN_FLIGHT - out.inFlight.availablePermits())
            .raw("ids", out.ids.toString());
    }

    private static List<Message> messages(Options o, String run, int from, int count) {
        List<Message> messages = new ArrayList<>(count);
        String[] tags = o.has("tags") ? o.text("tags").split(",") : new String[0];
        for (int n = from; n < from + count; n++) {
            Message message = Tally.message(o.text("topic"), run, n, o.number("size", 100));
            if (tags.length > 0) {
                message.setTags(tags[n % tags.length]);
            }
            if (o.has("delay")) {
                message.setDelayTimeLevel(o.number("delay"));
            }
            if (o.has("property")) {
                message.putUserProperty(o.text("property"), Integer.toString(n));
            }
            messages.add(message);
        }
        return messages;
    }

    static void pause(long ms) {
        try {
            if (ms > 0) {
                Thread.sleep(ms);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
