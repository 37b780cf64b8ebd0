package compat;

import org.apache.rocketmq.spring.annotation.RocketMQTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionListener;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;
import org.apache.rocketmq.spring.support.RocketMQHeaders;
import org.springframework.messaging.Message;

/** The application's own transactions. */
@RocketMQTransactionListener
public class TransactionListenerBean implements RocketMQLocalTransactionListener {
    private final TransactionDecisions decisions;

    TransactionListenerBean(TransactionDecisions decisions) {
        this.decisions = decisions;
    }

    @Override
    public RocketMQLocalTransactionState executeLocalTransaction(Message message, Object number) {
        return decisions.execute((Integer) number);
    }

    @Override
    public RocketMQLocalTransactionState checkLocalTransaction(Message message) {
        return decisions.check(String.valueOf(message.getHeaders().get(RocketMQHeaders.PREFIX + RocketMQHeaders.KEYS)));
    }
}
