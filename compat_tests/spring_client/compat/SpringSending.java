package compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.apache.rocketmq.spring.support.RocketMQHeaders;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.messaging.Message;
import org.springframework.messaging.support.MessageBuilder;

/** Sends with RocketMQTemplate; options and answers are those of {@code Sending}, {@code Timing} and {@code Transacting} of java_client. */
final class SpringSending {
    private static final long TIMEOUT_MS = 10_000;

    /** What is sent in one call, and what became of it. */
    interface Step {
        void send(RocketMQTemplate template, int number, List<Message<byte[]>> messages, Outcome out) throws Exception;
    }

    /** Counts of a run; "open" are sends whose callback is awaited. */
    static final class Outcome {
        final Tally acknowledged;
        final AtomicInteger failed = new AtomicInteger();
        final AtomicInteger notOk = new AtomicInteger();
        final AtomicInteger open = new AtomicInteger();

        Outcome(String run) {
            acknowledged = new Tally(run);
        }

        void answered(SendResult result, int first, int count) {
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                notOk.incrementAndGet();
                return;
            }
            for (int n = first; n < first + count; n++) {
                acknowledged.add(n);
            }
        }

        void failed(Throwable error) {
            failed.incrementAndGet();
            acknowledged.error(error);
        }
    }

    private SpringSending() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("send-sync", (o, a) -> send(o, a, 1, (t, n, m, out) -> out.answered(
            t.syncSend(destination(o, n), m.get(0), TIMEOUT_MS, o.number("delay", 0)), n, 1)));
        verbs.put("send-batch", (o, a) -> send(o, a, o.number("batch", 20), (t, n, m, out) -> out.answered(
            t.syncSend(destination(o, n), m, TIMEOUT_MS), n, m.size())));
        verbs.put("send-orderly", (o, a) -> send(o, a, 1, (t, n, m, out) -> out.answered(
            t.syncSendOrderly(destination(o, n), m.get(0), Integer.toString(n % o.number("shards", 16)), TIMEOUT_MS), n, 1)));
        verbs.put("send-oneway", (o, a) -> send(o, a, 1, (t, n, m, out) -> t.sendOneWay(destination(o, n), m.get(0))));
        verbs.put("send-async", (o, a) -> send(o, a, 1, (t, n, m, out) -> async(o, t, n, m.get(0), out)));
        verbs.put("send-timed", SpringSending::timed);
        verbs.put("transact", SpringSending::transact);
    }

    private static String destination(Options o, int number) {
        if (!o.has("tags")) {
            return o.text("topic");
        }
        String[] tags = o.text("tags").split(",");
        return o.text("topic") + ":" + tags[number % tags.length];
    }

    private static Message<byte[]> message(Options o, int number) {
        byte[] body = Tally.message(o.text("topic"), o.text("run"), number, o.number("size", 100)).getBody();
        MessageBuilder<byte[]> message = MessageBuilder.withPayload(body).setHeader(RocketMQHeaders.KEYS, o.text("run") + "-" + number);
        if (o.has("property")) {
            message.setHeader(o.text("property"), Integer.toString(number));
        }
        return message.build();
    }

    private static void async(Options o, RocketMQTemplate template, int number, Message<byte[]> message, Outcome out) {
        out.open.incrementAndGet();
        template.asyncSend(destination(o, number), message, new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                out.answered(result, number, 1);
                out.open.decrementAndGet();
            }

            @Override
            public void onException(Throwable error) {
                out.failed(error);
                out.open.decrementAndGet();
            }
        }, TIMEOUT_MS);
    }

    private static void send(Options o, Json answer, int group, Step step) throws Exception {
        Outcome out = new Outcome(o.text("run"));
        AtomicInteger started = new AtomicInteger();
        try (ConfigurableApplicationContext context = Application.start(o, Application.producing(o, "p_" + o.text("run")), Map.of())) {
            RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
            int first = o.number("first", 0);
            int last = first + o.number("count");
            int threads = o.number("threads", 8);
            CountDownLatch done = new CountDownLatch(threads);
            for (int t = 0; t < threads; t++) {
                int mine = first + t * group;
                new Thread(() -> {
                    // Numbers are dealt out in turn: with threads = shards each shard keeps one thread.
                    for (int n = mine; n < last; n += threads * group) {
                        List<Message<byte[]>> messages = new ArrayList<>();
                        for (int number = n; number < Math.min(n + group, last); number++) {
                            messages.add(message(o, number));
                        }
                        started.addAndGet(messages.size());
                        try {
                            step.send(template, n, messages, out);
                        } catch (Exception e) {
                            out.failed(e);
                        }
                        pause(o.number("pause_ms", 0));
                    }
                    done.countDown();
                }).start();
            }
            done.await(o.number("timeout_s", 60), TimeUnit.SECONDS);
            for (int waited = 0; out.open.get() > 0 && waited < 1000; waited++) {
                pause(10);
            }
            pause(o.number("linger_ms", 300));
        }
        out.acknowledged.into(answer, "acknowledged").put("started", started.get()).put("failed", out.failed.get())
            .put("not_ok", out.notOk.get()).put("unanswered", out.open.get()).raw("ids", "[]");
    }

    private static void timed(Options o, Json answer) throws Exception {
        Outcome out = new Outcome(o.text("run"));
        int least = o.number("min_ms", 500);
        int span = o.number("max_ms", 3000) - least;
        try (ConfigurableApplicationContext context = Application.start(o, Application.producing(o, "p_" + o.text("run")), Map.of())) {
            RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
            for (int n = 0; n < o.number("count"); n++) {
                long at = System.currentTimeMillis() + least + n * 7919L % span;
                out.answered(template.syncSendDeliverTimeMills(o.text("topic"), message(o, n), at), n, 1);
            }
        }
        out.acknowledged.into(answer, "acknowledged").put("failed", out.failed.get());
    }

    private static void transact(Options o, Json answer) throws Exception {
        String run = o.text("run");
        Outcome out = new Outcome(run);
        Tally checked = new Tally(run);
        Set<Integer> unknown = ConcurrentHashMap.newKeySet();
        Map<String, Object> beans = Map.of("decisions", new TransactionDecisions(run, checked, unknown));
        try (ConfigurableApplicationContext context =
                 Application.start(o, Application.producing(o, o.text("group")), beans, TransactionListenerBean.class)) {
            RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
            for (int n = 0; n < o.number("count"); n++) {
                try {
                    out.answered(template.sendMessageInTransaction(o.text("topic"), message(o, n), n), n, 1);
                } catch (RuntimeException e) {
                    out.failed(e);
                }
            }
            long end = System.nanoTime() + o.number("wait_checks_s", 30) * 1_000_000_000L;
            while (checked.distinct() < unknown.size() && System.nanoTime() < end) {
                pause(50);
            }
            pause(300);
        }
        BitSet committed = new BitSet();
        BitSet rolledBack = new BitSet();
        BitSet left = new BitSet();
        unknown.forEach(left::set);
        out.acknowledged.numbers().stream().forEach(n -> (TransactionDecisions.commits(n) ? committed : rolledBack).set(n));
        out.acknowledged.into(answer, "acknowledged").put("failed", out.failed.get());
        answer.put("committed", Tally.hex(committed)).put("rolled_back", Tally.hex(rolledBack)).put("unknown", Tally.hex(left));
        answer.put("checked", Tally.hex(checked.numbers())).put("checks", checked.total());
    }

    static String text(byte[] body) {
        return new String(body, StandardCharsets.UTF_8);
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
