// RabbitMQ's Java client: confirms, transactions, consumers, errors. One JSON line per check.

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.ShutdownSignalException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

public class JavaClient {
  static final int MANY = 200;
  static String host;
  static int port;

  interface Act {
    void on(Channel channel) throws Exception;
  }

  static String unique(String prefix) {
    return prefix + "-" + UUID.randomUUID().toString().substring(0, 12);
  }

  static ConnectionFactory factory() {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost(host);
    factory.setPort(port);
    factory.setConnectionTimeout(10000);
    factory.setAutomaticRecoveryEnabled(false);
    return factory;
  }

  static Integer code(Throwable error) {
    for (Throwable at = error; at != null; at = at.getCause()) {
      if (at instanceof ShutdownSignalException) {
        Object reason = ((ShutdownSignalException) at).getReason();
        if (reason instanceof AMQP.Channel.Close) {
          return ((AMQP.Channel.Close) reason).getReplyCode();
        }
        if (reason instanceof AMQP.Connection.Close) {
          return ((AMQP.Connection.Close) reason).getReplyCode();
        }
      }
    }
    return null;
  }

  static String refused(Act act) throws Exception {
    try (Connection connection = factory().newConnection()) {
      Channel channel = connection.createChannel();
      Integer seen = null;
      try {
        act.on(channel);
      } catch (java.io.IOException | AlreadyClosedException error) {
        seen = code(error);
      }
      connection.createChannel().queueDeclare();
      return "{\"code\": " + seen + ", \"alive\": true}";
    }
  }

  static String order() throws Exception {
    try (Connection connection = factory().newConnection()) {
      Channel channel = connection.createChannel();
      String queue = channel.queueDeclare().getQueue();
      List<String> bodies = new ArrayList<>();
      CountDownLatch latch = new CountDownLatch(MANY);
      channel.basicQos(20);
      channel.basicConsume(
          queue,
          false,
          (tag, message) -> {
            bodies.add(new String(message.getBody()));
            channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
            latch.countDown();
          },
          tag -> {});
      Channel publishing = connection.createChannel();
      publishing.confirmSelect();
      for (int number = 0; number < MANY; number++) {
        publishing.basicPublish("", queue, null, String.valueOf(number).getBytes());
      }
      boolean confirmed = publishing.waitForConfirms(10000);
      latch.await(10, TimeUnit.SECONDS);
      boolean inOrder = true;
      for (int number = 0; number < bodies.size(); number++) {
        inOrder &= bodies.get(number).equals(String.valueOf(number));
      }
      return String.format(
          "{\"count\": %d, \"in_order\": %b, \"confirmed\": %b}",
          bodies.size(), inOrder, confirmed);
    }
  }

  static String tx() throws Exception {
    try (Connection connection = factory().newConnection()) {
      Channel channel = connection.createChannel();
      Channel observer = connection.createChannel();
      String queue = channel.queueDeclare(unique("java"), false, false, false, null).getQueue();
      List<Long> counts = new ArrayList<>();
      channel.txSelect();
      for (boolean commit : new boolean[] {true, false}) {
        channel.basicPublish("", queue, null, "x".getBytes());
        counts.add(observer.messageCount(queue));
        if (commit) {
          channel.txCommit();
        } else {
          channel.txRollback();
        }
        counts.add(observer.messageCount(queue));
      }
      observer.queueDelete(queue);
      return "{\"counts\": " + counts + "}";
    }
  }

  static String returned() throws Exception {
    try (Connection connection = factory().newConnection()) {
      Channel channel = connection.createChannel();
      CompletableFuture<String> back = new CompletableFuture<>();
      channel.addReturnListener(
          message ->
              back.complete(
                  String.format(
                      "{\"code\": %d, \"text\": \"%s\", \"body\": \"%s\"}",
                      message.getReplyCode(),
                      message.getReplyText(),
                      new String(message.getBody()))));
      channel.basicPublish("", unique("nobody"), true, null, "come back".getBytes());
      return back.get(10, TimeUnit.SECONDS);
    }
  }

  static String badCredentials() throws Exception {
    ConnectionFactory factory = factory();
    factory.setPassword("wrong");
    try (Connection connection = factory.newConnection()) {
      return "{\"refused\": false}";
    } catch (AuthenticationFailureException error) {
      return "{\"refused\": true}";
    }
  }

  static String unknownVhost() throws Exception {
    ConnectionFactory factory = factory();
    factory.setVirtualHost("/no-such-host");
    try (Connection connection = factory.newConnection()) {
      return "{\"refused\": false}";
    } catch (java.io.IOException error) {
      return "{\"refused\": true, \"code\": " + code(error) + "}";
    }
  }

  static String exclusive() throws Exception {
    try (Connection owner = factory().newConnection()) {
      String queue = owner.createChannel().queueDeclare().getQueue();
      return refused(channel -> channel.queueDeclarePassive(queue));
    }
  }

  static void doubleAck(Channel channel) throws Exception {
    String queue = channel.queueDeclare().getQueue();
    channel.basicPublish("", queue, null, "x".getBytes());
    GetResponse message = channel.basicGet(queue, false);
    channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
    channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
    channel.queueDeclare();
  }

  public static void main(String[] arguments) {
    host = arguments[0];
    port = Integer.parseInt(arguments[1]);
    Map<String, Callable<String>> checks = new LinkedHashMap<>();
    checks.put("order", JavaClient::order);
    checks.put("tx", JavaClient::tx);
    checks.put("returned", JavaClient::returned);
    checks.put(
        "missing_queue", () -> refused(channel -> channel.queueDeclarePassive(unique("none"))));
    checks.put(
        "inequivalent",
        () ->
            refused(
                channel -> {
                  String queue = unique("java");
                  channel.queueDeclare(queue, false, false, true, null);
                  channel.queueDeclare(queue, true, false, true, null);
                }));
    checks.put("exclusive", JavaClient::exclusive);
    checks.put(
        "missing_exchange",
        () ->
            refused(
                channel -> {
                  channel.basicPublish(unique("none"), "k", null, new byte[0]);
                  channel.queueDeclare();
                }));
    checks.put("double_ack", () -> refused(JavaClient::doubleAck));
    checks.put("bad_credentials", JavaClient::badCredentials);
    checks.put("unknown_vhost", JavaClient::unknownVhost);
    for (Map.Entry<String, Callable<String>> check : checks.entrySet()) {
      String line;
      try {
        line = "\"got\": " + check.getValue().call();
      } catch (Exception error) {
        line = "\"error\": \"" + error.toString().replace("\"", "'").replace("\n", " ") + "\"";
      }
      System.out.println("{\"check\": \"" + check.getKey() + "\", " + line + "}");
    }
    System.exit(0);
  }
}
