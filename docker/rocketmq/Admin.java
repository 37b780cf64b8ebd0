import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * mqadmin commands in one JVM, as starting one for each takes seconds: listens on a port, reads a line of percent-encoded words, answers with
 * what the command printed (without words: the commands there are), and closes the connection. One command at a time, since all print to the same place.
 */
public final class Admin {
    private Admin() { }

    /**
     * A client of 5.x that ends waits for its thread of events, which looks only each three seconds whether it shall end: each second command would
     * take so long. An interrupt while it waits for an event makes it look at once, and does nothing else.
     */
    private static void hurry(Thread commands) {
        Thread hurrying = new Thread(() -> {
            while (true) {
                if (commands.getState() == Thread.State.TIMED_WAITING && isEndingClient(commands)) {
                    for (Thread thread : Thread.getAllStackTraces().keySet()) {
                        if (thread.getName().equals("NettyEventExecutor") && thread.getState() == Thread.State.TIMED_WAITING) {
                            thread.interrupt();
                        }
                    }
                }
                try {
                    Thread.sleep(50);
                } catch (InterruptedException unwanted) {
                    return;
                }
            }
        });
        hurrying.setDaemon(true);
        hurrying.start();
    }

    private static boolean isEndingClient(Thread thread) {
        for (StackTraceElement frame : thread.getStackTrace()) {
            if (frame.getClassName().endsWith("NettyRemotingClient") && frame.getMethodName().equals("shutdown")) {
                return true;
            }
        }
        return false;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        // Its first logger tells how it was configured, which is no answer of a command.
        org.apache.rocketmq.logging.org.slf4j.LoggerFactory.getLogger("admin");
        ServerSocket server = new ServerSocket(Integer.parseInt(args[0]));
        hurry(Thread.currentThread());
        out.println("ready");
        while (true) {
            try (Socket socket = server.accept()) {
                BufferedReader in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
                String line = in.readLine();
                String[] words = line.isEmpty() ? new String[0] : line.split(" ");
                for (int i = 0; i < words.length; i++) {
                    words[i] = URLDecoder.decode(words[i], StandardCharsets.UTF_8);
                }
                ByteArrayOutputStream printed = new ByteArrayOutputStream();
                System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
                System.setErr(System.out);
                MQAdminStartup.main0(words, null);
                OutputStream answer = socket.getOutputStream();
                answer.write(printed.toByteArray());
                answer.flush();
            } catch (Throwable e) {
                out.println("command failed: " + e);
            }
        }
    }
}
