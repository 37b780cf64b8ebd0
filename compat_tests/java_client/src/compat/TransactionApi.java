package compat;

import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionCheckListener;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** One of the ways in which Java programs make transactions: each client generation has its own. */
interface TransactionApi {
    /** What a program says about its transactions. */
    interface Listener {
        LocalTransactionState execute(int number);

        LocalTransactionState check(Message message);
    }

    /** Sends a half message and has the listener decide; whether it was stored. */
    boolean send(Message message, int number) throws Exception;

    void shutdown();

    /**
     * api=new: TransactionListener, in all versions since 4.3. api=check-listener: the old TransactionCheckListener is asked, where it
     * can still be set. api=old: that one, and LocalTransactionExecuter, up to 4.9. api=ons: ons-client.
     */
    static TransactionApi of(Options o, Listener listener) throws Exception {
        switch (o.text("api", "new")) {
            case "new":
                return current(o, listener, listener);
            case "check-listener":
                return withCheckListener(o, listener);
            case "old":
                return made("compat.ExecuterTransactions", o, listener);
            case "ons":
                return made("compat.OnsTransactions", o, listener);
            default:
                throw new IllegalArgumentException("no such api: " + o.text("api"));
        }
    }

    /** Only some client versions have what these classes are compiled against. */
    private static TransactionApi made(String name, Options o, Listener listener) throws Exception {
        return (TransactionApi) Class.forName(name).getDeclaredConstructor(Options.class, Listener.class).newInstance(o, listener);
    }

    private static TransactionApi withCheckListener(Options o, Listener listener) throws Exception {
        Listener unasked = new Listener() {
            @Override
            public LocalTransactionState execute(int number) {
                return listener.execute(number);
            }

            @Override
            public LocalTransactionState check(Message message) {
                throw new IllegalStateException("the check listener was to be asked");
            }
        };
        return current(o, unasked, listener);
    }

    private static TransactionApi current(Options o, Listener listener, Listener checked) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(o.text("group"), Sending.hook(o));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object arg) {
                return listener.execute((Integer) arg);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return listener.check(message);
            }
        });
        if (listener != checked) {
            producer.setTransactionCheckListener((TransactionCheckListener) checked::check);
        }
        Sending.producer(o, producer);
        return new TransactionApi() {
            @Override
            public boolean send(Message message, int number) throws Exception {
                return producer.sendMessageInTransaction(message, number).getSendStatus() == SendStatus.SEND_OK;
            }

            @Override
            public void shutdown() {
                producer.shutdown();
            }
        };
    }
}
