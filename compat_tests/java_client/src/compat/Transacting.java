package compat;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Transactions decided by their number alone: n % 3 = 0 commit, 1 roll back, 2 say unknown and let the check decide,
 * where the check commits when n / 3 is even and rolls back otherwise. A check of the first two kinds repeats the decision.
 *
 * transact ns= topic= run= group= [count=] [threads=8] [all_unknown=true] [no_checks=true] [until=NAME] [timeout_s=60]
 * [ledger=NAME] [wait_checks_s=30] [expect_checks=0 (numbers to be checked before it ends)]. Answer: "acknowledged" half messages, "committed" and "rolled_back" as number sets of the
 * acknowledged, "unknown" those left to checks, "checked" numbers, "checks" made in total, "check_repeats".
 */
final class Transacting {
    private Transacting() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("transact", Transacting::transact);
    }

    static boolean commits(int number) {
        return number % 3 == 0 || number % 3 == 2 && number / 3 % 2 == 0;
    }

    private static LocalTransactionState decision(int number) {
        return commits(number) ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
    }

    static void transact(Options o, Json answer) throws Exception {
        String run = o.text("run");
        Tally acknowledged = new Tally(run);
        Tally checked = new Tally(run);
        Ledger ledger = Ledger.of(o);
        AtomicInteger failed = new AtomicInteger();
        Map<Integer, Boolean> unknown = new ConcurrentHashMap<>();
        boolean allUnknown = o.has("all_unknown");
        TransactionMQProducer producer = new TransactionMQProducer(o.text("group"));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                int number = (Integer) arg;
                if (number % 3 == 2 || allUnknown) {
                    unknown.put(number, true);
                    return LocalTransactionState.UNKNOW;
                }
                return decision(number);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                if (o.has("no_checks")) {
                    return LocalTransactionState.UNKNOW;
                }
                return decision(checked.add(message));
            }
        });
        Sending.producer(o, producer);
        long end = Main.end(o);
        int first = o.number("first", 0);
        int last = first + (o.has("count") ? o.number("count") : Integer.MAX_VALUE / 2);
        int threads = o.number("threads", 8);
        List<Thread> workers = new ArrayList<>();
        for (int t = 0; t < threads; t++) {
            int mine = first + t;
            Thread worker = new Thread(() -> {
                for (int n = mine; n < last && !Main.ended(o, end); n += threads) {
                    try {
                        SendResult r = producer.sendMessageInTransaction(Tally.message(o.text("topic"), run, n, 100), n);
                        if (r.getSendStatus() == SendStatus.SEND_OK) {
                            acknowledged.add(n);
                            ledger.add(n, -1, -1);
                        }
                        Sending.pause(o.number("pause_ms", 0));
                    } catch (Exception e) {
                        failed.incrementAndGet();
                        acknowledged.error(e);
                        ledger.refused(e);
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
        long checksEnd = System.nanoTime() + o.number("wait_checks_s", 30) * 1_000_000_000L;
        int expected = o.number("expect_checks", 0);
        while (System.nanoTime() < checksEnd
            && (!all(unknown, checked.numbers()) || checked.distinct() < expected)) {
            Sending.pause(50);
        }
        // The answers to the last checks are one-way: let them leave.
        Sending.pause(o.number("linger_ms", 300));
        producer.shutdown();
        BitSet committed = new BitSet();
        BitSet rolledBack = new BitSet();
        acknowledged.numbers().stream().forEach(n -> (commits(n) ? committed : rolledBack).set(n));
        BitSet left = new BitSet();
        unknown.keySet().forEach(left::set);
        acknowledged.into(answer, "acknowledged").put("failed", failed.get());
        answer.put("committed", Tally.hex(committed)).put("rolled_back", Tally.hex(rolledBack));
        answer.put("unknown", Tally.hex(left)).put("checked", Tally.hex(checked.numbers()));
        answer.put("checks", checked.total()).put("check_repeats", checked.total() - checked.distinct());
    }

    private static boolean all(Map<Integer, Boolean> wanted, BitSet seen) {
        for (Integer n : wanted.keySet()) {
            if (!seen.get(n)) {
                return false;
            }
        }
        return true;
    }
}
