// RabbitMQ's Java client reads one message of a queue and says what it sees, a line each.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

public class ReadOne {
  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost(arguments[0]);
    factory.setPort(Integer.parseInt(arguments[1]));
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      GetResponse got = channel.basicGet(arguments[2], true);
      AMQP.BasicProperties properties = got.getProps();
      say("content-type", properties.getContentType());
      say("correlation-id", properties.getCorrelationId());
      say("message-id", properties.getMessageId());
      say("reply-to", properties.getReplyTo());
      say("priority", properties.getPriority());
      say("delivery-mode", properties.getDeliveryMode());
      say("expiration", properties.getExpiration());
      say("timestamp", properties.getTimestamp().getTime());
      Map<String, Object> headers = new TreeMap<>(properties.getHeaders());
      for (Map.Entry<String, Object> header : headers.entrySet()) {
        Object value = header.getValue();
        say(header.getKey(), value.getClass().getSimpleName() + " " + value);
      }
      say("body", new String(got.getBody(), StandardCharsets.UTF_8));
    }
  }

  static void say(String name, Object value) {
    System.out.println(name + "=" + value);
  }
}
