package compat;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.spring.core.RocketMQTemplate;
import org.springframework.context.ConfigurableApplicationContext;

/** Receives with annotated listeners and with RocketMQTemplate.receive; options and answers are those of {@code Consuming} and {@code Failing}. */
final class SpringConsuming {
    private SpringConsuming() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("consume-push", (o, a) -> listen(o, a, o.has("sql") ? Listening.Sql.class : Listening.Push.class));
        verbs.put("consume-orderly", (o, a) -> listen(o, a, Listening.Orderly.class));
        verbs.put("consume-broadcast", SpringConsuming::broadcast);
        verbs.put("consume-failing", SpringConsuming::failing);
        verbs.put("consume-lite-pull", SpringConsuming::litePull);
        verbs.put("request", SpringConsuming::request);
    }

    private static ConfigurableApplicationContext application(Options o, Listening.Work work, Class<?> listener) {
        return Application.start(o, Map.of(), Map.of("work", work), listener);
    }

    /** Until count is reached and lingered, told to stop, idle for idle_s, or out of time. */
    private static void await(Options o, List<Tally> tallies) {
        long end = Main.end(o);
        long changed = System.nanoTime();
        long enough = 0;
        long before = 0;
        while (!Main.ended(o, end)) {
            long total = tallies.stream().mapToLong(Tally::total).sum();
            boolean all = o.has("count") && tallies.stream().allMatch(tally ->
                tally.distinct() >= o.number("count") && tally.total() >= o.number("deliveries", 0));
            if (total != before) {
                before = total;
                changed = System.nanoTime();
            } else if (!all && o.has("count") && System.nanoTime() - changed > o.number("idle_s", 60) * 1_000_000_000L) {
                return;
            }
            if (!all) {
                enough = 0;
            } else if (enough == 0) {
                enough = System.nanoTime();
            } else if (System.nanoTime() - enough > o.number("linger_ms", 1000) * 1_000_000L) {
                return;
            }
            SpringSending.pause(20);
        }
    }

    private static void listen(Options o, Json answer, Class<?> listener) {
        Listening.Work work = new Listening.Work(o);
        try (ConfigurableApplicationContext context = application(o, work, listener)) {
            await(o, List.of(work.tally));
        }
        work.tally.into(answer, "received").put("order_breaks", work.breaks.get()).put("suspended", work.suspended.size());
    }

    private static void broadcast(Options o, Json answer) {
        List<Tally> tallies = new ArrayList<>();
        List<ConfigurableApplicationContext> members = new ArrayList<>();
        for (int member = 0; member < o.number("members", 2); member++) {
            Listening.Work work = new Listening.Work(o);
            tallies.add(work.tally);
            members.add(application(o, work, Listening.Broadcast.class));
        }
        await(o, tallies);
        members.forEach(ConfigurableApplicationContext::close);
        Tally worst = tallies.get(0);
        long total = 0;
        for (Tally tally : tallies) {
            worst = tally.distinct() < worst.distinct() ? tally : worst;
            total += tally.total();
        }
        worst.into(answer, "received").put("total", total);
    }

    private static void failing(Options o, Json answer) {
        Listening.Work work = new Listening.Work(o);
        int count = o.number("count");
        int want = 2 * count;
        for (int n = 0; n < count; n++) {
            want += work.isHopeless(n) ? o.number("max_reconsume") - 1 : 0;
        }
        try (ConfigurableApplicationContext context = application(o, work, Listening.Push.class)) {
            long end = Main.end(o);
            while (!Main.ended(o, end) && work.total() < want) {
                SpringSending.pause(50);
            }
            SpringSending.pause(1500);
        }
        Map<String, Long> curable = new TreeMap<>();
        Map<String, Long> others = new TreeMap<>();
        work.deliveries.forEach((n, times) -> (work.isHopeless(n) ? others : curable).merge(Integer.toString(times), 1L, Long::sum));
        work.tally.into(answer, "received").put("wrong_counts", work.wrongCounts.get()).put("deliveries", work.total());
        answer.put("attempts", curable).put("hopeless_attempts", others);
    }

    private static void litePull(Options o, Json answer) {
        Tally tally = new Tally(o.text("run"));
        Map<String, Object> properties = new HashMap<>();
        properties.put("rocketmq.pull-consumer.group", o.text("group"));
        properties.put("rocketmq.pull-consumer.topic", o.text("topic"));
        try (ConfigurableApplicationContext context = Application.start(o, properties, Map.of())) {
            RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
            long end = Main.end(o);
            while (tally.distinct() < o.number("count") && !Main.ended(o, end)) {
                List<MessageExt> received = template.receive(MessageExt.class, 500);
                received.forEach(tally::add);
            }
            template.receive(MessageExt.class, 500).forEach(tally::add);
        }
        tally.into(answer, "received");
    }

    private static void request(Options o, Json answer) throws Exception {
        AtomicInteger replied = new AtomicInteger();
        AtomicInteger wrong = new AtomicInteger();
        AtomicInteger failed = new AtomicInteger();
        try (ConfigurableApplicationContext context =
                 Application.start(o, Application.producing(o, "asking_" + o.text("group")), Map.of(), Listening.Reply.class)) {
            RocketMQTemplate template = context.getBean(RocketMQTemplate.class);
            ExecutorService threads = Executors.newFixedThreadPool(o.number("threads", 8));
            for (int i = 0; i < o.number("count"); i++) {
                String question = "question " + i;
                threads.execute(() -> {
                    try {
                        String reply = template.sendAndReceive(o.text("topic"), question, String.class, 10_000L);
                        (reply.equals("reply to " + question) ? replied : wrong).incrementAndGet();
                    } catch (RuntimeException e) {
                        failed.incrementAndGet();
                    }
                });
            }
            threads.shutdown();
            threads.awaitTermination(o.number("timeout_s", 60), TimeUnit.SECONDS);
        }
        answer.put("replied", replied.get()).put("wrong", wrong.get()).put("timed_out", 0).put("failed", failed.get()).put("refused", 0);
    }
}
