package compat;

import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;

/** Receives lite topics: {@code consume-lite}. Message n of a run is in the lite topic {@code lite<n % lites>}; they are sent by {@code send-sync lites=}. */
final class GrpcLite {
    private GrpcLite() { }

    static void register(Map<String, Main.Verb> verbs) {
        verbs.put("consume-lite", GrpcLite::consume);
    }

    static String name(int number, int lites) {
        return "lite" + number % lites;
    }

    /**
     * consume-lite lites=N [first_lite=0] [until_lite=N] [suspend=N]: subscribe to the lite topics first_lite to until_lite - 1 of N.
     * Each suspend-th message fails once ("suspended" in all) and must come again before the later ones of its lite topic. "strange_lites" came from
     * a lite topic that was not subscribed to.
     */
    private static void consume(Options o, Json answer) throws Exception {
        Views views = new Views(o.text("run"));
        int lites = o.number("lites");
        int first = o.number("first_lite", 0);
        int until = o.number("until_lite", lites);
        Map<Integer, Integer> newest = new ConcurrentHashMap<>();
        Set<Integer> suspended = ConcurrentHashMap.newKeySet();
        AtomicInteger breaks = new AtomicInteger();
        AtomicInteger wrong = new AtomicInteger();
        AtomicInteger strange = new AtomicInteger();
        LitePushConsumer consumer = GrpcSending.PROVIDER.newLitePushConsumerBuilder().setClientConfiguration(GrpcSending.configuration(o))
            .setConsumerGroup(o.text("group")).bindTopic(o.text("topic")).setConsumptionThreadCount(8)
            .setMessageListener(view -> {
                int number = views.numberOf(view);
                String lite = view.getLiteTopic().orElse("");
                if (number % lites < first || number % lites >= until || !lite.equals(name(number, lites))) {
                    strange.incrementAndGet();
                }
                boolean fails = o.has("suspend") && number / lites % o.number("suspend") == 0 && suspended.add(number);
                if (view.getDeliveryAttempt() != (fails || !suspended.contains(number) ? 1 : 2)) {
                    wrong.incrementAndGet();
                }
                if (fails) {
                    return ConsumeResult.FAILURE;
                }
                views.add(view);
                Integer before = newest.put(number % lites, number);
                if (before != null && before > number) {
                    breaks.incrementAndGet();
                }
                return ConsumeResult.SUCCESS;
            }).build();
        for (int lite = first; lite < until; lite++) {
            consumer.subscribeLite(name(lite, lites));
        }
        GrpcConsuming.await(o, views);
        consumer.close();
        views.into(answer, "received").put("order_breaks", breaks.get()).put("wrong_counts", wrong.get())
            .put("suspended", suspended.size()).put("strange_lites", strange.get());
    }
}
