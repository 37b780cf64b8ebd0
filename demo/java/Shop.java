import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A shop whose orders are transactions: NAMESERVER TOPIC GROUP..., a producer for each group.
 *
 * Says "ready" when its producers have started. A line "trade SECONDS" on standard input has each place orders for so long, then it says
 * "traded". Of each order it says "committed ID", "rolled_back ID" or "forgotten ID committed|rolled_back" before the broker is told, and
 * "checked ID committed|rolled_back" when the broker asked. At the end of standard input it ends: then whoever started it is gone.
 */
public final class Shop implements TransactionListener {
    private static final String[] CUSTOMERS = {"ada", "bell", "curie", "darwin"};
    private static final double ROLLED_BACK = 0.15;
    private static final double FORGOTTEN = 0.1;
    /** Between two orders of a producer: this shows what happens, not how fast. */
    private static final long PAUSE_MS = 4;

    private final Map<String, Boolean> outcomes = new ConcurrentHashMap<>();
    private final AtomicInteger count = new AtomicInteger();
    private final Random chance = new Random(7);
    private final String topic;

    private Shop(String topic) {
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        Shop shop = new Shop(arguments[1]);
        List<TransactionMQProducer> producers = new ArrayList<>();
        for (String group : Arrays.asList(arguments).subList(2, arguments.length)) {
            TransactionMQProducer producer = new TransactionMQProducer(group);
            producer.setNamesrvAddr(arguments[0]);
            producer.setInstanceName(group);
            producer.setTransactionListener(shop);
            producer.start();
            producer.fetchPublishMessageQueues(shop.topic); // fails where nothing answers
            producers.add(producer);
        }
        say("ready");
        try (BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = orders.readLine(); line != null; line = orders.readLine()) {
                shop.trade(producers, Double.parseDouble(line.split(" ")[1]));
                say("traded");
            }
        }
        System.exit(0);
    }

    private void trade(List<TransactionMQProducer> producers, double seconds) throws InterruptedException {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        List<Thread> threads = new ArrayList<>();
        for (TransactionMQProducer producer : producers) {
            Thread thread = new Thread(() -> trade(producer, end));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void trade(TransactionMQProducer producer, long end) {
        try {
            do {
                producer.sendMessageInTransaction(newOrder(), null);
                Thread.sleep(PAUSE_MS);
            } while (System.nanoTime() < end);
        } catch (Exception error) {
            say("failed " + error);
            System.exit(1);
        }
    }

    private Message newOrder() {
        String id = "order-" + count.incrementAndGet();
        String body = String.format(Locale.ROOT, "{\"order_id\": \"%s\", \"customer\": \"%s\", \"total\": %.2f}",
            id, CUSTOMERS[chance.nextInt(CUSTOMERS.length)], 1 + 199 * chance.nextDouble());
        return new Message(topic, "new", id, body.getBytes(StandardCharsets.UTF_8));
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object unused) {
        String id = MessageClientIDSetter.getUniqID(message);
        double draw = chance.nextDouble();
        boolean isForgotten = draw < FORGOTTEN;
        boolean isCommitted = isForgotten ? draw < FORGOTTEN / 2 : draw >= FORGOTTEN + ROLLED_BACK;
        outcomes.put(id, isCommitted);
        say(isForgotten ? "forgotten " + id + " " + name(isCommitted) : name(isCommitted) + " " + id);
        return isForgotten ? LocalTransactionState.UNKNOW : state(isCommitted);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        String id = MessageClientIDSetter.getUniqID(message);
        boolean isCommitted = outcomes.getOrDefault(id, false);
        say("checked " + id + " " + name(isCommitted));
        return state(isCommitted);
    }

    private static LocalTransactionState state(boolean isCommitted) {
        return isCommitted ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
    }

    private static String name(boolean isCommitted) {
        return isCommitted ? "committed" : "rolled_back";
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
