import org.apache.rocketmq.logging.ch.qos.logback.classic.spi.ILoggingEvent;
import org.apache.rocketmq.logging.ch.qos.logback.core.UnsynchronizedAppenderBase;

/**
 * Writes nothing, and lets the thread that records decisions in batches rest for a moment. Apache RocketMQ 5.5.0 computes a wait of zero for it
 * whenever the last decision is older than a batch: it then goes round without a pause, and takes a whole core from the first transaction on.
 * Each time round it has one line for the log, which leads here.
 */
public final class Resting extends UnsynchronizedAppenderBase<ILoggingEvent> {
    private static final long REST_MS = 10;

    @Override
    protected void append(ILoggingEvent event) {
        Thread thread = Thread.currentThread();
        if (!thread.getName().endsWith("TransactionalOpBatchService")) {
            return;
        }
        try {
            Thread.sleep(REST_MS);
        } catch (InterruptedException wanted) {
            thread.interrupt();
        }
    }
}
