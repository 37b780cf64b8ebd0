package compat;

import java.util.Set;
import org.apache.rocketmq.spring.core.RocketMQLocalTransactionState;

/** Decided by number alone: n % 3 = 0 commit, 1 roll back, 2 say unknown and let the check decide. */
final class TransactionDecisions {
    private final String prefix;
    private final Tally checked;
    private final Set<Integer> unknown;

    TransactionDecisions(String run, Tally checked, Set<Integer> unknown) {
        prefix = run + "-";
        this.checked = checked;
        this.unknown = unknown;
    }

    static boolean commits(int number) {
        return number % 3 == 0 || number % 3 == 2 && number / 3 % 2 == 0;
    }

    private static RocketMQLocalTransactionState decision(int number) {
        return commits(number) ? RocketMQLocalTransactionState.COMMIT : RocketMQLocalTransactionState.ROLLBACK;
    }

    RocketMQLocalTransactionState execute(int number) {
        if (number % 3 == 2) {
            unknown.add(number);
            return RocketMQLocalTransactionState.UNKNOWN;
        }
        return decision(number);
    }

    RocketMQLocalTransactionState check(String key) {
        int number = Integer.parseInt(key.substring(prefix.length()));
        checked.add(number);
        return decision(number);
    }
}
