// RabbitMQ 4's Java client of AMQP 1.0: one JSON line per check. Arguments: host, port. The client
// refuses a server that does not call itself RabbitMQ 4.

import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.BackOffDelayPolicy;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.ConnectionBuilder;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.Requester;
import com.rabbitmq.client.amqp.Resource;
import com.rabbitmq.client.amqp.Responder;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

public class RabbitClient {
  static final int MANY = 200;
  static final long PATIENCE = 30;
  static String host;
  static int port;

  interface Act {
    Object on(Connection connection, String queue) throws Exception;
  }

  static ConnectionBuilder builder(Environment environment) {
    return environment.connectionBuilder().host(host).port(port).username("guest").password("guest");
  }

  static void check(String name, Act act) {
    Lines.report(
        name,
        () -> {
          String queue = "rabbit." + name;
          try (Environment environment = new AmqpEnvironmentBuilder().build();
              Connection connection = builder(environment).build()) {
            connection.management().queue(queue).declare();
            Object found = act.on(connection, queue);
            connection.management().queueDelete(queue);
            return found;
          }
        });
  }

  static Map<String, Object> map(Object... pairs) {
    Map<String, Object> found = new LinkedHashMap<>();
    for (int at = 0; at < pairs.length; at += 2) {
      found.put((String) pairs[at], pairs[at + 1]);
    }
    return found;
  }

  static String text(Message message) {
    return new String(message.body(), StandardCharsets.UTF_8);
  }

  static String publish(Publisher publisher, Message message) throws Exception {
    CompletableFuture<String> outcome = new CompletableFuture<>();
    publisher.publish(message, context -> outcome.complete(context.status().toString()));
    return outcome.get(PATIENCE, TimeUnit.SECONDS);
  }

  static String publish(Publisher publisher, String text) throws Exception {
    return publish(publisher, publisher.message(text.getBytes(StandardCharsets.UTF_8)));
  }

  static Publisher to(Connection connection, String queue) {
    return connection.publisherBuilder().queue(queue).build();
  }

  static Object order(Connection connection, String queue) throws Exception {
    List<String> bodies = Collections.synchronizedList(new ArrayList<>());
    List<String> sent = new ArrayList<>();
    CountDownLatch came = new CountDownLatch(MANY);
    CountDownLatch settled = new CountDownLatch(MANY);
    Consumer consumer =
        connection
            .consumerBuilder()
            .queue(queue)
            .initialCredits(20)
            .messageHandler(
                (context, message) -> {
                  bodies.add(text(message));
                  context.accept();
                  came.countDown();
                })
            .build();
    Publisher publisher = to(connection, queue);
    for (int number = 0; number < MANY; number++) {
      sent.add(String.valueOf(number));
      publisher.publish(
          publisher.message(String.valueOf(number).getBytes()),
          context -> {
            if (context.status() == Publisher.Status.ACCEPTED) {
              settled.countDown();
            }
          });
    }
    boolean all = settled.await(PATIENCE, TimeUnit.SECONDS) && came.await(PATIENCE, TimeUnit.SECONDS);
    consumer.close();
    return map("all", all, "in_order", bodies.equals(sent));
  }

  /** What management declares, tells, binds, unbinds, purges and deletes. */
  static Object management(Connection connection, String queue) throws Exception {
    Management management = connection.management();
    Management.QueueInfo made =
        management
            .queue()
            .name("rabbit.told")
            .type(Management.QueueType.CLASSIC)
            .maxLength(100)
            .messageTtl(Duration.ofHours(1))
            .declare();
    management.exchange("rabbit.exchange").type(Management.ExchangeType.TOPIC).declare();
    management.binding().sourceExchange("rabbit.exchange").destinationQueue(queue).key("a.#").bind();
    Publisher publisher =
        connection.publisherBuilder().exchange("rabbit.exchange").key("a.b").build();
    Publisher nobody = connection.publisherBuilder().exchange("rabbit.exchange").key("b").build();
    List<Object> outcomes = new ArrayList<>();
    outcomes.add(publish(publisher, "one"));
    outcomes.add(publish(nobody, "two"));
    long count = management.queueInfo(queue).messageCount();
    management.queuePurge(queue);
    long left = management.queueInfo(queue).messageCount();
    management.unbind().sourceExchange("rabbit.exchange").destinationQueue(queue).key("a.#").unbind();
    outcomes.add(publish(publisher, "three"));
    publisher.close();
    nobody.close();
    management.exchangeDelete("rabbit.exchange");
    management.queueDelete("rabbit.told");
    String gone = "still there";
    try {
      management.queueInfo("rabbit.told");
    } catch (AmqpException.AmqpEntityDoesNotExistException error) {
      gone = "gone";
    }
    return map(
        "name", made.name(),
        "type", made.type().toString(),
        "durable", made.durable(),
        "length", String.valueOf(made.arguments().get("x-max-length")),
        "members", made.members().size(),
        "leader", made.leader().isEmpty() ? "none" : "some",
        "outcomes", outcomes,
        "counts", List.of(count, left),
        "after", gone);
  }

  static Object inequivalent(Connection connection, String queue) throws Exception {
    try {
      connection.management().queue(queue).autoDelete(true).declare();
      return "not refused";
    } catch (AmqpException error) {
      return error.getMessage().contains("409");
    }
  }

  /** Requeued, requeued with annotations, discarded to the dead letters. */
  static Object outcomes(Connection connection, String queue) throws Exception {
    Management management = connection.management();
    management.queue("rabbit.dead").declare();
    management
        .queue("rabbit.mortal")
        .deadLetterExchange("")
        .deadLetterRoutingKey("rabbit.dead")
        .declare();
    List<Object> seen = Collections.synchronizedList(new ArrayList<>());
    Consumer consumer =
        connection
            .consumerBuilder()
            .queue("rabbit.mortal")
            .messageHandler(
                (context, message) -> {
                  String why = String.valueOf(message.annotation("x-opt-why"));
                  seen.add(List.of(message.deliveryCount(), why));
                  if (seen.size() == 1) {
                    context.requeue();
                  } else if (seen.size() == 2) {
                    context.requeue(Map.of("x-opt-why", "because"));
                  } else {
                    context.discard();
                  }
                })
            .build();
    BlockingQueue<String> dead = new LinkedBlockingQueue<>();
    Consumer burying =
        connection
            .consumerBuilder()
            .queue("rabbit.dead")
            .messageHandler(
                (context, message) -> {
                  context.accept();
                  dead.add(text(message));
                })
            .build();
    publish(to(connection, "rabbit.mortal"), "again");
    String buried = dead.poll(PATIENCE, TimeUnit.SECONDS);
    consumer.close();
    burying.close();
    management.queueDelete("rabbit.mortal");
    management.queueDelete("rabbit.dead");
    return map("seen", seen, "buried", String.valueOf(buried));
  }

  /** A consumer that pauses gets nothing until it goes on, and can be closed in between. */
  static Object paused(Connection connection, String queue) throws Exception {
    BlockingQueue<String> came = new LinkedBlockingQueue<>();
    Consumer consumer =
        connection
            .consumerBuilder()
            .queue(queue)
            .messageHandler(
                (context, message) -> {
                  context.accept();
                  came.add(text(message));
                })
            .build();
    Publisher publisher = to(connection, queue);
    publish(publisher, "one");
    List<Object> seen = new ArrayList<>();
    seen.add(came.poll(PATIENCE, TimeUnit.SECONDS));
    consumer.pause();
    publish(publisher, "two");
    seen.add(connection.management().queueInfo(queue).messageCount());
    consumer.unpause();
    seen.add(came.poll(PATIENCE, TimeUnit.SECONDS));
    consumer.close();
    return seen;
  }

  static Object requestReply(Connection connection, String queue) throws Exception {
    Responder responder =
        connection
            .responderBuilder()
            .requestQueue(queue)
            .handler(
                (context, request) ->
                    context.message(text(request).toUpperCase().getBytes(StandardCharsets.UTF_8)))
            .build();
    Requester requester =
        connection.requesterBuilder().requestAddress().queue(queue).requester().build();
    List<Object> seen = new ArrayList<>();
    for (String word : List.of("one", "two")) {
      Message request = requester.message(word.getBytes(StandardCharsets.UTF_8));
      seen.add(text(requester.publish(request).get(PATIENCE, TimeUnit.SECONDS)));
    }
    requester.close();
    responder.close();
    return seen;
  }

  static Message receive(Connection connection, String queue) throws Exception {
    BlockingQueue<Message> came = new LinkedBlockingQueue<>();
    Consumer consumer =
        connection
            .consumerBuilder()
            .queue(queue)
            .messageHandler(
                (context, message) -> {
                  context.accept();
                  came.add(message);
                })
            .build();
    Message found = came.poll(PATIENCE, TimeUnit.SECONDS);
    consumer.close();
    if (found == null) {
      throw new IllegalStateException("nothing came");
    }
    return found;
  }

  static Object large(Connection connection, String queue) throws Exception {
    byte[] body = new byte[(8 << 20) + 17];
    for (int at = 0; at < body.length; at++) {
      body[at] = (byte) (at % 251);
    }
    Publisher publisher = to(connection, queue);
    String outcome = publish(publisher, publisher.message(body));
    byte[] found = receive(connection, queue).body();
    return map("outcome", outcome, "size", found.length, "same", Arrays.equals(body, found));
  }

  static Object values(Connection connection, String queue) throws Exception {
    UUID uuid = new UUID(1, -1);
    Publisher publisher = to(connection, queue);
    Message sent = publisher.message("x".getBytes());
    sent.property("boolean", true).property("byte", (byte) -128).property("short", (short) -32768);
    sent.property("int", Integer.MIN_VALUE).property("long", Long.MIN_VALUE);
    sent.propertyUnsigned("ubyte", (byte) 255).propertyUnsigned("ushort", (short) 65535);
    sent.propertyUnsigned("uint", -1).propertyUnsigned("ulong", -1L);
    sent.property("float", 0.5f).property("double", 1e300).property("char", 'ü');
    sent.propertyTimestamp("timestamp", 1234567890123L).property("uuid", uuid);
    sent.property("binary", new byte[] {0, -1, 10}).property("string", "grün ✓");
    sent.propertySymbol("symbol", "symbol");
    sent.messageId(uuid).correlationId(77).subject("subject").replyTo("/queues/reply");
    sent.userId("guest".getBytes()).contentType("text/plain").contentEncoding("utf-8");
    sent.absoluteExpiryTime(4102444800000L).creationTime(1700000000000L).groupId("group");
    sent.groupSequence(4).replyToGroupId("other").priority((byte) 7).ttl(Duration.ofHours(1));
    sent.durable(true).annotation("x-opt-text", "annotation");
    Map<String, String> wanted = told(sent);
    publish(publisher, sent);
    Map<String, String> found = told(receive(connection, queue));
    List<String> other = new ArrayList<>();
    wanted.forEach(
        (name, value) -> {
          if (!value.equals(found.get(name))) {
            other.add(name + ": " + found.get(name) + " for " + value);
          }
        });
    return map("other", other, "count", wanted.size());
  }

  /** Each value with its type. */
  static Map<String, String> told(Message message) {
    Map<String, String> found = new TreeMap<>();
    message.forEachProperty(
        (name, told) -> {
          // a timestamp goes in as a date and comes out as a number here
          Object value = told instanceof Date date ? (Object) date.getTime() : told;
          String text = value instanceof byte[] octets ? Arrays.toString(octets) : value.toString();
          found.put(name, value.getClass().getSimpleName() + " " + text);
        });
    found.put("message-id", message.messageIdAsUuid().toString());
    found.put("correlation-id", String.valueOf(message.correlationIdAsLong()));
    found.put("subject", message.subject());
    found.put("reply-to", message.replyTo());
    found.put("user-id", new String(message.userId()));
    found.put("content-type", message.contentType());
    found.put("content-encoding", message.contentEncoding());
    found.put("absolute-expiry-time", String.valueOf(message.absoluteExpiryTime()));
    found.put("creation-time", String.valueOf(message.creationTime()));
    found.put("group-id", message.groupId());
    found.put("group-sequence", String.valueOf(message.groupSequence()));
    found.put("reply-to-group-id", message.replyToGroupId());
    found.put("priority", String.valueOf(message.priority()));
    found.put("durable", String.valueOf(message.durable()));
    found.put("annotation", String.valueOf(message.annotation("x-opt-text")));
    return found;
  }

  static Object refused() throws Exception {
    List<Object> seen = new ArrayList<>();
    try (Environment environment = new AmqpEnvironmentBuilder().build()) {
      try {
        builder(environment).password("wrong").build();
      } catch (AmqpException.AmqpSecurityException error) {
        seen.add("security");
      }
      try (Connection connection = builder(environment).build()) {
        connection.publisherBuilder().queue("rabbit.none").build();
      } catch (AmqpException.AmqpEntityDoesNotExistException error) {
        seen.add("does not exist");
      }
    }
    return seen;
  }

  /** The server dies and comes back; the client's recovery brings connection, topology, consumer. */
  static Object recovery() throws Exception {
    CountDownLatch recovered = new CountDownLatch(1);
    List<Object> seen = new ArrayList<>();
    try (Environment environment = new AmqpEnvironmentBuilder().build();
        Connection connection =
            builder(environment)
                .recovery()
                .activated(true)
                .topology(true)
                .backOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(300)))
                .connectionBuilder()
                .listeners(
                    context -> {
                      if (context.previousState() == Resource.State.RECOVERING
                          && context.currentState() == Resource.State.OPEN) {
                        recovered.countDown();
                      }
                    })
                .build()) {
      Management management = connection.management();
      management.queue("rabbit.kept").declare();
      publish(to(connection, "rabbit.kept"), "kept");
      String lost = management.queue().exclusive(true).autoDelete(true).declare().name();
      management.exchange("rabbit.lasting").type(Management.ExchangeType.DIRECT).declare();
      management.binding().sourceExchange("rabbit.lasting").destinationQueue(lost).key("k").bind();
      BlockingQueue<String> came = new LinkedBlockingQueue<>();
      Consumer consumer =
          connection
              .consumerBuilder()
              .queue(lost)
              .messageHandler(
                  (context, message) -> {
                    context.accept();
                    came.add(text(message));
                  })
              .build();
      Publisher publisher =
          connection.publisherBuilder().exchange("rabbit.lasting").key("k").build();
      seen.add(publish(publisher, "before"));
      seen.add(came.poll(PATIENCE, TimeUnit.SECONDS));
      System.out.println("{\"ask\": \"restart\"}");
      String line = new java.io.BufferedReader(new java.io.InputStreamReader(System.in)).readLine();
      if (!"restarted".equals(line)) {
        throw new IllegalStateException(line);
      }
      if (!recovered.await(PATIENCE, TimeUnit.SECONDS)) {
        throw new IllegalStateException("it did not recover");
      }
      seen.add(publish(publisher, "after"));
      seen.add(came.poll(PATIENCE, TimeUnit.SECONDS));
      consumer.close();
      seen.add(text(receive(connection, "rabbit.kept")));
      management.queueDelete("rabbit.kept");
      management.exchangeDelete("rabbit.lasting");
    }
    return seen;
  }

  public static void main(String[] arguments) {
    host = arguments[0];
    port = Integer.parseInt(arguments[1]);
    check("order", RabbitClient::order);
    check("management", RabbitClient::management);
    check("inequivalent", RabbitClient::inequivalent);
    check("outcomes", RabbitClient::outcomes);
    check("paused", RabbitClient::paused);
    check("request_reply", RabbitClient::requestReply);
    check("large", RabbitClient::large);
    check("values", RabbitClient::values);
    Lines.report("refused", RabbitClient::refused);
    Lines.report("recovery", RabbitClient::recovery);
    System.exit(0);
  }
}
