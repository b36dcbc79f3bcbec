// An HTTP server and a client by Java's own modules: `Pages server PORT`, `Pages client PORT`.

import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.stream.IntStream;

public class Pages {
    private final HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String address;

    Pages(int port) {
        address = "http://127.0.0.1:" + port;
    }

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[1]);
        if (words[0].equals("server")) serve(port);
        else new Pages(port).converse();
    }

    static void serve(int port) throws Exception {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 64);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            if (body.length == 0) body = "hello\n".getBytes();
            exchange.sendResponseHeaders(200, body.length);
            try (var out = exchange.getResponseBody()) {
                out.write(body);
            }
        });
        server.start();
    }

    void converse() throws Exception {
        hold();
        int sum = 0;
        for (int i = 0; i < 300; i++) sum += ask(new byte[0]).get().length;
        System.out.println("in turn " + sum);
        byte[][] bodies = IntStream.range(0, 40).mapToObj(Pages::body).toArray(byte[][]::new);
        var answers = Arrays.stream(bodies).map(this::ask).toList();
        boolean equal = true;
        for (int i = 0; i < bodies.length; i++) equal &= Arrays.equals(answers.get(i).get(), bodies[i]);
        System.out.println("at once " + equal);
    }

    /** Keeps a connection in use until the case has looked at it. */
    void hold() throws Exception {
        Path marks = Path.of(System.getenv("MARKS"));
        ask(new byte[0]).get();
        Files.createFile(marks.resolve("connected"));
        while (!Files.exists(marks.resolve("looked"))) {
            ask(new byte[0]).get();
            Thread.sleep(10);
        }
    }

    static byte[] body(int number) {
        byte[] body = new byte[number * 20011 + 1];
        Arrays.fill(body, (byte) number);
        return body;
    }

    CompletableFuture<byte[]> ask(byte[] body) {
        var request = HttpRequest.newBuilder(URI.create(address + "/echo")).timeout(Duration.ofSeconds(30));
        request.POST(HttpRequest.BodyPublishers.ofByteArray(body));
        return client.sendAsync(request.build(), HttpResponse.BodyHandlers.ofByteArray()).thenApply(HttpResponse::body);
    }
}
