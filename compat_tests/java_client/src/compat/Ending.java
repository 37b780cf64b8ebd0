package compat;

import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Map;

/**
 * Lets clients of 5.x end at once. One that is shut down waits for its thread of events, which looks only each three seconds whether it shall end.
 * An interrupt of such a thread, after it was told to end, makes it look at once, and does nothing else; those of clients that go on are left alone.
 * The tool in the image of Apache RocketMQ (docker/rocketmq/Admin.java) has this class as well. It needs --add-opens java.base/java.lang=ALL-UNNAMED.
 */
public final class Ending {
    private static final long LOOK_MS = 20;

    private Ending() { }

    /** A part of the program without a verb. */
    static void register(Map<?, ?> verbs) throws ReflectiveOperationException {
        hurry();
    }

    /** From now on until the process ends. */
    public static void hurry() throws ReflectiveOperationException {
        Field work = Thread.class.getDeclaredField("target");
        work.setAccessible(true);
        Thread hurrying = new Thread(() -> {
            while (true) {
                interruptWhatEnds(work);
                try {
                    Thread.sleep(LOOK_MS);
                } catch (InterruptedException unwanted) {
                    return;
                }
            }
        }, "hurrying");
        hurrying.setDaemon(true);
        hurrying.start();
    }

    private static void interruptWhatEnds(Field work) {
        Thread[] threads = new Thread[Thread.activeCount() + 64];
        int count = Thread.enumerate(threads);
        for (Thread thread : Arrays.asList(threads).subList(0, count)) {
            if (thread.getName().equals("NettyEventExecutor") && thread.getState() == Thread.State.TIMED_WAITING && isToldToEnd(work, thread)) {
                thread.interrupt();
            }
        }
    }

    /** What such a thread runs is a service, with a public method that tells. */
    private static boolean isToldToEnd(Field work, Thread thread) {
        try {
            Object service = work.get(thread);
            return service != null && (Boolean) service.getClass().getMethod("isStopped").invoke(service);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
