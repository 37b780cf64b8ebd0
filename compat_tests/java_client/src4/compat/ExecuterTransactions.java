package compat;

import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionCheckListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;

/** The API of 3.x, deprecated and still there up to 4.9: an executer with each send, and a check listener. */
@SuppressWarnings("deprecation")
final class ExecuterTransactions implements TransactionApi {
    private final TransactionMQProducer producer;
    private final Listener listener;

    ExecuterTransactions(Options o, Listener listener) throws Exception {
        this.listener = listener;
        producer = new TransactionMQProducer(o.text("group"), Sending.hook(o));
        producer.setTransactionCheckListener((TransactionCheckListener) listener::check);
        Sending.producer(o, producer);
    }

    @Override
    public boolean send(Message message, int number) throws Exception {
        return producer.sendMessageInTransaction(message, (m, arg) -> listener.execute((Integer) arg), number)
            .getSendStatus() == SendStatus.SEND_OK;
    }

    @Override
    public void shutdown() {
        producer.shutdown();
    }
}
