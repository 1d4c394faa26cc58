// Java's own HTTP client, as it comes: it offers h2c with every request in the clear.
// Arguments: host, HTTP port, path. Prints the status of each of five publishes.

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Base64;

public class HttpPublisher {
  public static void main(String[] arguments) throws Exception {
    var client = HttpClient.newHttpClient();
    var target = URI.create("http://" + arguments[0] + ":" + arguments[1] + arguments[2]);
    var secret = Base64.getEncoder().encodeToString("guest:guest".getBytes());
    for (int i = 0; i < 5; i++) {
      var octets = ("java " + i).getBytes();
      var body =
          i % 2 == 0
              ? BodyPublishers.ofByteArray(octets)
              : BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(octets));
      var request =
          HttpRequest.newBuilder(target).header("Authorization", "Basic " + secret).POST(body);
      System.out.println(client.send(request.build(), BodyHandlers.ofString()).statusCode());
    }
  }
}
