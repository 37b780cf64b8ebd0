package compat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageBatch;

/**
 * Transactions decided by their number alone: n % 3 = 0 commit, 1 roll back, 2 say unknown and let the check decide,
 * where the check commits when n / 3 is even and rolls back otherwise. A check of the first two kinds repeats the decision.
 *
 * transact ns= topic= run= group= [api=new (see {@link TransactionApi})] [count=] [threads=8] [size=100] [all_unknown=true] [no_checks=true]
 * [until=NAME] [timeout_s=60] [ledger=NAME] [wait_checks_s=30] [expect_checks=0 (numbers to be checked before it ends)] [hang=true (between half
 * message and outcome, until it is killed)] [tags=a,b,c (number modulo)] [properties_bytes=0 (of one property more)] [delay=LEVEL]
 * [deliver_in_ms=] [batch=true] [compress_over=4096]. Answer: "acknowledged" half messages, "committed" and "rolled_back" as number sets
 * of the acknowledged, "unknown" those left to checks, "checked" numbers, "checks" made in total, "check_repeats", "failed" and "errors".
 */
final class Transacting {
    private static final Map<String, AtomicInteger> EXECUTED = new ConcurrentHashMap<>();

    private Transacting() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("transact", Transacting::transact);
        // executed run=: how many half messages of a running verb have been stored
        verbs.put("executed", (o, a) -> a.put("executed", executed(o.text("run")).get()));
    }

    private static AtomicInteger executed(String run) {
        return EXECUTED.computeIfAbsent(run, name -> new AtomicInteger());
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
        AtomicInteger executed = executed(run);
        Map<Integer, Boolean> unknown = new ConcurrentHashMap<>();
        boolean allUnknown = o.has("all_unknown");
        TransactionApi api = TransactionApi.of(o, new TransactionApi.Listener() {
            @Override
            public LocalTransactionState execute(int number) {
                executed.incrementAndGet();
                if (o.has("hang")) {
                    Sending.pause(Long.MAX_VALUE);
                }
                if (number % 3 == 2 || allUnknown) {
                    unknown.put(number, true);
                    return LocalTransactionState.UNKNOW;
                }
                return decision(number);
            }

            @Override
            public LocalTransactionState check(Message message) {
                return o.has("no_checks") ? LocalTransactionState.UNKNOW : decision(checked.add(message));
            }
        });
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
                        if (api.send(message(o, run, n), n)) {
                            acknowledged.add(n);
                            ledger.add(n, -1, -1);
                        }
                        Sending.pause(o.number("pause_ms", 0));
                    } catch (Exception e) {
                        failed.incrementAndGet();
                        acknowledged.error(reason(e));
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
        api.shutdown();
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

    /** The clients wrap what happened into "send message Exception", once or twice. */
    private static Throwable reason(Throwable error) {
        return error.getCause() == null ? error : reason(error.getCause());
    }

    private static Message message(Options o, String run, int number) throws Exception {
        Message message = Tally.message(o.text("topic"), run, number, o.number("size", 100));
        if (o.has("tags")) {
            String[] tags = o.text("tags").split(",");
            message.setTags(tags[number % tags.length]);
        }
        if (o.has("delay")) {
            message.setDelayTimeLevel(o.number("delay"));
        }
        if (o.has("deliver_in_ms")) {
            message.putUserProperty("TIMER_DELAY_MS", o.text("deliver_in_ms"));
        }
        if (o.has("properties_bytes")) {
            message.putUserProperty("filler", "x".repeat(o.number("properties_bytes")));
        }
        if (o.has("batch")) {
            MessageBatch batch = MessageBatch.generateFromList(Arrays.asList(message, message));
            batch.setBody(batch.encode());
            return batch;
        }
        return message;
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
