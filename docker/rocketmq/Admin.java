import compat.Ending;
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

    /** The first logger of 5.x tells how it was configured, which is no answer of a command. */
    private static void tellOfLogging() throws ReflectiveOperationException {
        try {
            Class.forName("org.apache.rocketmq.logging.org.slf4j.LoggerFactory").getMethod("getLogger", String.class).invoke(null, "admin");
        } catch (ClassNotFoundException e) {
            return;
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        tellOfLogging();
        ServerSocket server = new ServerSocket(Integer.parseInt(args[0]));
        Ending.hurry();  // nearly each command starts a client and ends it
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
