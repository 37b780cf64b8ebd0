package compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A stock RocketMQ client under remote control. Usage:
 *
 *   Main listen PORT              answer requests on a TCP port, one thread a connection, until "exit"
 *   Main run 'VERB k=v …' …       run the verbs in order, print their answers, exit 1 when one failed
 *
 * A request is one line {@code verb key=value …}; its answer is one line of JSON with "verb" and "ok". Every verb ends in
 * bounded time. Several connections may run verbs at once; {@code stop name=N} ends a verb started with {@code until=N}.
 */
public final class Main {
    /** What a verb does. */
    interface Verb {
        void run(Options options, Json answer) throws Exception;
    }

    private static final Map<String, Verb> VERBS = new TreeMap<>();
    private static final Map<String, Boolean> STOPPED = new ConcurrentHashMap<>();

    /** Of a client generation that does not have all APIs only some of these are compiled. */
    private static final List<String> PARTS = List.of("Topics", "Sending", "Consuming", "LitePulling", "Failing", "Looking", "Transacting",
        "RandomTransactions", "Replying", "Filtering", "Offsets", "NewGroups", "Ledger", "Reading", "Timing", "WireVectors",
        "Ending", "GrpcSending", "GrpcConsuming", "GrpcLite", "SpringSending", "SpringConsuming", "OnsMessages");

    static {
        VERBS.put("ping", (o, a) -> a.put("java", System.getProperty("java.version")));
        VERBS.put("stop", (o, a) -> STOPPED.put(o.text("name"), true));
        VERBS.put("exit", (o, a) -> new Thread(() -> Runtime.getRuntime().halt(0)).start());
        PARTS.forEach(Main::register);
    }

    private Main() { }

    private static void register(String part) {
        try {
            Class.forName("compat." + part).getDeclaredMethod("register", Map.class).invoke(null, VERBS);
        } catch (ClassNotFoundException e) {
            return;
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Has "stop" been said to this verb, or is its time over? */
    static boolean ended(Options options, long endNanos) {
        return System.nanoTime() - endNanos > 0 || options.has("until") && STOPPED.containsKey(options.text("until"));
    }

    static boolean isStopped(String name) {
        return STOPPED.containsKey(name);
    }

    static long end(Options options) {
        return System.nanoTime() + options.number("timeout_s", 60) * 1_000_000_000L;
    }

    static String answer(String line) {
        Json answer = new Json();
        long start = System.nanoTime();
        try {
            Options options = new Options(line);
            answer.put("verb", options.verb);
            Verb verb = VERBS.get(options.verb);
            if (verb == null) {
                throw new IllegalArgumentException("unknown verb; there are " + VERBS.keySet());
            }
            verb.run(options, answer);
            answer.put("ok", true);
        } catch (Throwable e) {
            java.io.StringWriter trace = new java.io.StringWriter();
            e.printStackTrace(new java.io.PrintWriter(trace));
            answer.put("ok", false).put("error", trace.toString());
        }
        return answer.put("took_ms", (System.nanoTime() - start) / 1_000_000).toString();
    }

    private static void serve(Socket socket) {
        try (Socket s = socket) {
            BufferedReader in = new BufferedReader(new InputStreamReader(s.getInputStream(), StandardCharsets.UTF_8));
            OutputStream out = s.getOutputStream();
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.write((answer(line) + "\n").getBytes(StandardCharsets.UTF_8));
                out.flush();
            }
        } catch (java.io.IOException e) {
            System.err.println("connection: " + e);
        }
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 1 && args[0].equals("listen")) {
            ServerSocket server = new ServerSocket(Integer.parseInt(args[1]));
            System.out.println("ready");
            while (true) {
                Socket socket = server.accept();
                Thread thread = new Thread(() -> serve(socket), "control");
                thread.setDaemon(true);
                thread.start();
            }
        }
        if (args.length < 2 || !args[0].equals("run")) {
            System.err.println("usage: listen PORT | run 'VERB key=value …' …");
            System.exit(2);
        }
        boolean ok = true;
        for (int i = 1; i < args.length; i++) {
            String answer = answer(args[i]);
            System.out.println(answer);
            ok &= answer.contains("\"ok\": true");
        }
        System.out.flush();
        System.exit(ok ? 0 : 1);
    }
}
