package compat;

import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/** Receives a run with the lite pull consumer, which came with 4.6; options and answer as in {@link Consuming}. */
final class LitePulling {
    /** Offsets are told one-way; so long a broker may take to note them. */
    private static final long COMMITTED_MS = 500;

    private LitePulling() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("consume-lite-pull", LitePulling::litePull);
    }

    /**
     * consume-lite-pull [commit_twice=true]: the client tells the broker its offsets when it is shut down, all at once and mostly for
     * the first time; with the option once more before.
     */
    static void litePull(Options o, Json answer) throws Exception {
        Tally tally = new Tally(o.text("run"));
        Ledger ledger = Ledger.of(o);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(o.text("group"), Sending.hook(o));
        Sending.configure(o, consumer);
        consumer.setInstanceName(o.text("group") + "@" + System.nanoTime());
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(32);
        consumer.setAutoCommitIntervalMillis(1000);
        consumer.subscribe(o.text("topic"), o.text("tags", "*"));
        consumer.start();
        long end = Main.end(o);
        AtomicBoolean polling = new AtomicBoolean(true);
        Thread poller = new Thread(() -> {
            while (polling.get()) {
                consumer.poll(200).forEach(message -> Consuming.seen(message, tally, ledger));
            }
        });
        poller.setDaemon(true);
        poller.start();
        Consuming.await(o, end, tally);
        polling.set(false);
        poller.join(5000);
        consumer.commitSync();
        if (o.has("commit_twice")) {
            consumer.commit(consumer.assignment(), true);
            Sending.pause(COMMITTED_MS);
        }
        consumer.shutdown();
        tally.into(answer, "received");
    }
}
