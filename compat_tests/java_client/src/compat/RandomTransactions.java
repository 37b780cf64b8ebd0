package compat;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Transactions as a database would answer for them: what becomes of a number is drawn from it once and for all, when that is said is
 * random. Any producer of the group, in any process, can answer for all numbers.
 *
 * transact-random ns= topic= run= group= first= ledger=NAME epoch_ms= [threads=4] [pause_ms=0] [until=NAME] [timeout_s=60] [unknown_percent=30 (of the
 * answers)] [undecided=true (every first answer is unknown, so that only checks decide)]: sends first, first + 1, …
 * until it is told to stop, and then goes on answering checks until "NAME-checks" is stopped too. The ledger holds what happened: number, {@link Event}, milliseconds since epoch_ms.
 */
final class RandomTransactions {
    /** The second int of an entry; the other side knows these numbers. */
    enum Event { STORED, COMMIT_SENT, ROLLBACK_SENT, UNKNOWN_SENT, CHECKED }

    private static final int NEVER_PERCENT = 1;

    private RandomTransactions() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("transact-random", RandomTransactions::transact);
    }

    private static int percent(int number, long salt) {
        long x = number * 0x9E3779B97F4A7C15L + salt * 0xBF58476D1CE4E5B9L;
        x = (x ^ x >>> 32) * 0xD6E8FEB86659FD93L;
        x = (x ^ x >>> 32) * 0xD6E8FEB86659FD93L;
        return (int) ((x >>> 33) % 100);
    }

    /** UNKNOW for the few that nobody ever decides. */
    private static LocalTransactionState fate(int number) {
        int drawn = percent(number, 1);
        if (drawn < NEVER_PERCENT) {
            return LocalTransactionState.UNKNOW;
        }
        return drawn < 60 ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
    }

    private static LocalTransactionState answer(int number, int unknownPercent) {
        boolean unknown = ThreadLocalRandom.current().nextInt(100) < unknownPercent;
        return unknown ? LocalTransactionState.UNKNOW : fate(number);
    }

    private static Event sent(LocalTransactionState state) {
        switch (state) {
            case COMMIT_MESSAGE:
                return Event.COMMIT_SENT;
            case ROLLBACK_MESSAGE:
                return Event.ROLLBACK_SENT;
            default:
                return Event.UNKNOWN_SENT;
        }
    }

    static void transact(Options o, Json answer) throws Exception {
        String run = o.text("run");
        Tally tally = new Tally(run);
        Ledger ledger = Ledger.of(o);
        int unknownPercent = o.number("unknown_percent", 30);
        long epochMs = Long.parseLong(o.text("epoch_ms"));
        TransactionMQProducer producer = new TransactionMQProducer(o.text("group"));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                int number = (Integer) arg;
                LocalTransactionState state = answer(number, o.has("undecided") ? 100 : unknownPercent);
                note(number, Event.STORED);
                note(number, sent(state));
                return state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                int number = tally.numberOf(message);
                LocalTransactionState state = answer(number, unknownPercent);
                note(number, Event.CHECKED);
                note(number, sent(state));
                return state;
            }

            private void note(int number, Event event) {
                ledger.add(number, event.ordinal(), System.currentTimeMillis() - epochMs);
            }
        });
        Sending.producer(o, producer);
        long end = Main.end(o);
        AtomicInteger next = new AtomicInteger(o.number("first"));
        List<Thread> workers = new ArrayList<>();
        for (int t = 0; t < o.number("threads", 4); t++) {
            Thread worker = new Thread(() -> {
                while (!Main.ended(o, end)) {
                    int number = next.getAndIncrement();
                    try {
                        producer.sendMessageInTransaction(Tally.message(o.text("topic"), run, number, 100), number);
                        Sending.pause(o.number("pause_ms", 0));
                    } catch (Exception e) {
                        ledger.refused(e.getCause() instanceof MQBrokerException ? e.getCause() : e);
                        Sending.pause(20);
                    }
                }
            });
            worker.start();
            workers.add(worker);
        }
        for (Thread worker : workers) {
            worker.join();
        }
        answer.put("next", next.get());
        while (!Main.isStopped(o.text("until") + "-checks") && System.nanoTime() < end) {
            Sending.pause(50);
        }
        producer.shutdown();
    }
}
