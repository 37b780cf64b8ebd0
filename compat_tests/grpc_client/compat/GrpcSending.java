package compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Sends with the gRPC client; options and answers are those of {@code Sending}, {@code Timing} and {@code Transacting} beside java_client. */
final class GrpcSending {
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();

    private GrpcSending() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("send-sync", (o, a) -> send(o, a, false));
        verbs.put("send-async", (o, a) -> send(o, a, true));
        verbs.put("send-orderly", (o, a) -> send(o, a, false));
        verbs.put("send-timed", GrpcSending::timed);
        verbs.put("recall", GrpcSending::recall);
        verbs.put("transact", GrpcSending::transact);
    }

    static ClientConfiguration configuration(Options o) {
        return ClientConfiguration.newBuilder().setEndpoints(o.text("ns")).enableSsl(false)
            .setRequestTimeout(java.time.Duration.ofSeconds(10)).build();
    }

    private static Producer producer(Options o) throws ClientException {
        return PROVIDER.newProducerBuilder().setClientConfiguration(configuration(o)).setTopics(o.text("topic")).build();
    }

    private static MessageBuilder message(Options o, int number) {
        String run = o.text("run");
        MessageBuilder message = PROVIDER.newMessageBuilder().setTopic(o.text("topic")).setKeys(run + "-" + number)
            .setBody(Views.body(run, number, o.number("size", 100)).getBytes(StandardCharsets.US_ASCII));
        if (o.has("tags")) {
            String[] tags = o.text("tags").split(",");
            message.setTag(tags[number % tags.length]);
        }
        if (o.has("shards")) {
            message.setMessageGroup("shard" + number % o.number("shards"));
        }
        if (o.has("lites")) {
            message.setLiteTopic(GrpcLite.name(number, o.number("lites")));
        }
        if (o.has("property")) {
            message.addProperty(o.text("property"), Integer.toString(number));
        }
        return message;
    }

    private static void send(Options o, Json answer, boolean async) throws Exception {
        Producer producer = producer(o);
        Views acknowledged = new Views(o.text("run"));
        AtomicInteger started = new AtomicInteger();
        AtomicInteger failed = new AtomicInteger();
        int first = o.number("first", 0);
        int last = first + o.number("count");
        int threads = o.number("threads", 8);
        List<CompletableFuture<?>> sent = new ArrayList<>();
        List<Thread> workers = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int mine = first + t;
            Thread worker = new Thread(() -> {
                // Numbers are dealt out in turn: with threads = shards each shard keeps one thread.
                for (int n = mine; n < last; n += threads) {
                    int number = n;
                    started.incrementAndGet();
                    CompletableFuture<SendReceipt> sending = producer.sendAsync(message(o, number).build());
                    CompletableFuture<?> noted = sending.handle((receipt, error) -> {
                        if (error == null) {
                            acknowledged.add(number);
                        } else {
                            failed.incrementAndGet();
                            acknowledged.error(error);
                        }
                        return null;
                    });
                    if (async) {
                        synchronized (sent) {
                            sent.add(noted);
                        }
                    } else {
                        noted.join();
                    }
                    pause(o.number("pause_ms", 0));
                }
            });
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        CompletableFuture.allOf(sent.toArray(new CompletableFuture[0])).join();
        producer.close();
        acknowledged.into(answer, "acknowledged").put("started", started.get()).put("failed", failed.get()).put("not_ok", 0)
            .put("unanswered", 0).raw("ids", "[]");
    }

    private static void timed(Options o, Json answer) throws Exception {
        Views acknowledged = new Views(o.text("run"));
        List<String> handles = new ArrayList<>();
        List<String> ids = new ArrayList<>();
        int least = o.number("min_ms", 500);
        int span = o.number("max_ms", 3000) - least;
        Producer producer = producer(o);
        for (int n = 0; n < o.number("count"); n++) {
            long at = System.currentTimeMillis() + least + n * 7919L % span;
            SendReceipt receipt = producer.send(message(o, n).setDeliveryTimestamp(at).build());
            acknowledged.add(n);
            handles.add(Json.quote(String.valueOf(receipt.getRecallHandle())));
            ids.add(Json.quote(receipt.getMessageId().toString()));
        }
        producer.close();
        acknowledged.into(answer, "acknowledged").put("failed", 0).raw("handles", handles.toString())
            .raw("message_ids", ids.toString());
    }

    private static void recall(Options o, Json answer) throws Exception {
        List<String> ids = new ArrayList<>();
        Producer producer = producer(o);
        for (String handle : o.text("handles").split(",")) {
            try {
                ids.add(Json.quote(producer.recallMessage(o.text("topic"), handle).getMessageId().toString()));
            } catch (ClientException e) {
                ids.add(Json.quote(e.getMessage()));
            }
        }
        producer.close();
        answer.raw("message_ids", ids.toString());
    }

    private static boolean commits(int number) {
        return number % 3 == 0 || number % 3 == 2 && number / 3 % 2 == 0;
    }

    /** Decided by number alone: n % 3 = 0 commit, 1 roll back, 2 leave it to the check. */
    private static void transact(Options o, Json answer) throws Exception {
        Views acknowledged = new Views(o.text("run"));
        Views checked = new Views(o.text("run"));
        BitSet unknown = new BitSet();
        Set<String> failures = ConcurrentHashMap.newKeySet();
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration(o)).setTopics(o.text("topic"))
            .setTransactionChecker(view ->
                commits(checked.add(view)) ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK).build();
        for (int n = 0; n < o.number("count"); n++) {
            try {
                Transaction transaction = producer.beginTransaction();
                producer.send(message(o, n).build(), transaction);
                acknowledged.add(n);
                if (n % 3 == 2) {
                    unknown.set(n);
                } else if (commits(n)) {
                    transaction.commit();
                } else {
                    transaction.rollback();
                }
            } catch (ClientException e) {
                failures.add(n + ": " + e);
                acknowledged.error(e);
            }
        }
        long end = System.nanoTime() + o.number("wait_checks_s", 35) * 1_000_000_000L;
        while (checked.distinct() < unknown.cardinality() && System.nanoTime() < end) {
            pause(50);
        }
        pause(500);
        producer.close();
        BitSet committed = new BitSet();
        BitSet rolledBack = new BitSet();
        acknowledged.numbers().stream().forEach(n -> (commits(n) ? committed : rolledBack).set(n));
        acknowledged.into(answer, "acknowledged").put("failed", failures.size());
        answer.put("committed", Views.hex(committed)).put("rolled_back", Views.hex(rolledBack));
        answer.put("unknown", Views.hex(unknown)).put("checked", Views.hex(checked.numbers())).put("checks", checked.total());
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
