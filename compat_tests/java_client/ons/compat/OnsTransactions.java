package compat;

import com.aliyun.openservices.ons.api.ONSFactory;
import com.aliyun.openservices.ons.api.PropertyKeyConst;
import com.aliyun.openservices.ons.api.transaction.TransactionProducer;
import com.aliyun.openservices.ons.api.transaction.TransactionStatus;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;

/** Alibaba's ons-client: its own names, requests signed with any key, a time before the first check in each message. */
final class OnsTransactions implements TransactionApi {
    private final TransactionProducer producer;
    private final Listener listener;
    private final int immunityS;

    OnsTransactions(Options o, Listener listener) {
        this.listener = listener;
        immunityS = o.number("immunity_s", 1);
        producer = ONSFactory.createTransactionProducer(OnsMessages.properties(o, o.text("group")),
            message -> status(listener.check(message(message))));
        producer.start();
    }

    private static Message message(com.aliyun.openservices.ons.api.Message message) {
        return new Message(message.getTopic(), message.getTag(), message.getKey(), message.getBody());
    }

    private static TransactionStatus status(LocalTransactionState state) {
        switch (state) {
            case COMMIT_MESSAGE:
                return TransactionStatus.CommitTransaction;
            case ROLLBACK_MESSAGE:
                return TransactionStatus.RollbackTransaction;
            default:
                return TransactionStatus.Unknow;
        }
    }

    @Override
    public boolean send(Message message, int number) {
        com.aliyun.openservices.ons.api.Message sent = new com.aliyun.openservices.ons.api.Message(
            message.getTopic(), message.getTags(), message.getKeys(), message.getBody());
        message.getProperties().forEach((name, value) -> {
            if (!MessageConst.STRING_HASH_SET.contains(name)) {
                sent.putUserProperties(name, value);
            }
        });
        sent.putUserProperties(PropertyKeyConst.CheckImmunityTimeInSeconds, Integer.toString(immunityS));
        AtomicReference<LocalTransactionState> state = new AtomicReference<>();
        try {
            return producer.send(sent, (m, arg) -> {
                state.set(listener.execute((Integer) arg));
                return status(state.get());
            }, number).getMessageId() != null;
        } catch (RuntimeException e) {
            // This client throws when the program itself has rolled back: the half message was stored all the same.
            if (state.get() == LocalTransactionState.ROLLBACK_MESSAGE) {
                return true;
            }
            throw e;
        }
    }

    @Override
    public void shutdown() {
        producer.shutdown();
    }
}
