// Spring AMQP in a plain main program: one JSON line per check. Arguments: host, port.

import java.nio.charset.StandardCharsets;
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
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.springframework.amqp.AmqpAuthenticationException;
import org.springframework.amqp.AmqpException;
import org.springframework.amqp.AmqpRejectAndDontRequeueException;
import org.springframework.amqp.core.AcknowledgeMode;
import org.springframework.amqp.core.AnonymousQueue;
import org.springframework.amqp.core.BindingBuilder;
import org.springframework.amqp.core.Message;
import org.springframework.amqp.core.MessageBuilder;
import org.springframework.amqp.core.MessageListener;
import org.springframework.amqp.core.MessageProperties;
import org.springframework.amqp.core.Queue;
import org.springframework.amqp.core.QueueBuilder;
import org.springframework.amqp.core.TopicExchange;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory.ConfirmType;
import org.springframework.amqp.rabbit.connection.CorrelationData;
import org.springframework.amqp.rabbit.core.RabbitAdmin;
import org.springframework.amqp.rabbit.core.RabbitTemplate;
import org.springframework.amqp.rabbit.listener.AbstractMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.DirectMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.SimpleMessageListenerContainer;
import org.springframework.amqp.rabbit.listener.api.ChannelAwareBatchMessageListener;
import org.springframework.amqp.rabbit.listener.api.ChannelAwareMessageListener;
import org.springframework.amqp.rabbit.transaction.RabbitTransactionManager;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.transaction.support.TransactionTemplate;

public class SpringClient {
  static final int MANY = 200;
  static final long PATIENCE = 60;
  static String host;
  static int port;

  interface Act {
    Object on(CachingConnectionFactory factory, RabbitAdmin admin) throws Exception;
  }

  static CachingConnectionFactory factory() {
    CachingConnectionFactory factory = new CachingConnectionFactory(host, port);
    factory.setUsername("guest");
    factory.setPassword("guest");
    factory.setPublisherConfirmType(ConfirmType.CORRELATED);
    factory.setPublisherReturns(true);
    return factory;
  }

  static Object with(Act act) throws Exception {
    CachingConnectionFactory factory = factory();
    try {
      return act.on(factory, new RabbitAdmin(factory));
    } finally {
      factory.destroy();
    }
  }

  static RabbitTemplate template(CachingConnectionFactory factory) {
    RabbitTemplate template = new RabbitTemplate(factory);
    template.setMandatory(true);
    template.setReplyTimeout(PATIENCE * 1000);
    template.setReceiveTimeout(PATIENCE * 1000);
    return template;
  }

  static String queue(RabbitAdmin admin) {
    return admin.declareQueue(new Queue("spring-" + UUID.randomUUID(), true, false, false));
  }

  static Map<String, Object> map(Object... pairs) {
    Map<String, Object> found = new LinkedHashMap<>();
    for (int at = 0; at < pairs.length; at += 2) {
      found.put((String) pairs[at], pairs[at + 1]);
    }
    return found;
  }

  static String text(Message message) {
    return message == null ? null : new String(message.getBody(), StandardCharsets.UTF_8);
  }

  static Message message(String text) {
    return MessageBuilder.withBody(text.getBytes(StandardCharsets.UTF_8)).build();
  }

  static void run(AbstractMessageListenerContainer container, String queue, MessageListener listener) {
    container.setQueueNames(queue);
    container.setMessageListener(listener);
    container.afterPropertiesSet();
    container.start();
  }

  /** Confirms that are waited for one by one, and a listener container that acknowledges. */
  static Object many(AbstractMessageListenerContainer container, RabbitTemplate template, String queue)
      throws Exception {
    List<String> bodies = Collections.synchronizedList(new ArrayList<>());
    CountDownLatch latch = new CountDownLatch(MANY);
    run(
        container,
        queue,
        message -> {
          bodies.add(text(message));
          latch.countDown();
        });
    List<CorrelationData> pending = new ArrayList<>();
    List<String> sent = new ArrayList<>();
    for (int number = 0; number < MANY; number++) {
      CorrelationData one = new CorrelationData(String.valueOf(number));
      template.send("", queue, message(String.valueOf(number)), one);
      pending.add(one);
      sent.add(String.valueOf(number));
    }
    int confirmed = 0;
    for (CorrelationData one : pending) {
      confirmed += one.getFuture().get(PATIENCE, TimeUnit.SECONDS).ack() ? 1 : 0;
    }
    latch.await(PATIENCE, TimeUnit.SECONDS);
    container.stop();
    // a template that waits for confirms takes another channel each time: the order is not its own
    Collections.sort(bodies);
    Collections.sort(sent);
    return map("count", bodies.size(), "all", bodies.equals(sent), "confirmed", confirmed);
  }

  static Object simpleContainer() throws Exception {
    return with(
        (factory, admin) ->
            many(new SimpleMessageListenerContainer(factory), template(factory), queue(admin)));
  }

  static Object directContainer() throws Exception {
    return with(
        (factory, admin) -> {
          DirectMessageListenerContainer container = new DirectMessageListenerContainer(factory);
          container.setMessagesPerAck(10);
          return many(container, template(factory), queue(admin));
        });
  }

  /** A batch is gathered by the container and acknowledged at once. */
  static Object batch() throws Exception {
    return with(
        (factory, admin) -> {
          String queue = queue(admin);
          RabbitTemplate template = template(factory);
          for (int number = 0; number < 20; number++) {
            template.send("", queue, message(String.valueOf(number)));
          }
          BlockingQueue<Integer> sizes = new LinkedBlockingQueue<>();
          SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
          container.setConsumerBatchEnabled(true);
          container.setBatchSize(10);
          container.setPrefetchCount(20);
          container.setQueueNames(queue);
          container.setMessageListener(
              (ChannelAwareBatchMessageListener)
                  (messages, channel) -> sizes.add(messages.size()));
          container.afterPropertiesSet();
          container.start();
          int first = sizes.poll(PATIENCE, TimeUnit.SECONDS);
          int second = sizes.poll(PATIENCE, TimeUnit.SECONDS);
          container.stop();
          return map("sizes", List.of(first, second), "left", admin.getQueueInfo(queue).getMessageCount());
        });
  }

  /** A listener that fails gets its message again; one that gives up sends it to the dead letters. */
  static Object failures() throws Exception {
    return with(
        (factory, admin) -> {
          String dead = queue(admin);
          String queue =
              admin.declareQueue(
                  QueueBuilder.durable("spring-" + UUID.randomUUID())
                      .deadLetterExchange("")
                      .deadLetterRoutingKey(dead)
                      .build());
          List<Boolean> redelivered = Collections.synchronizedList(new ArrayList<>());
          SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
          run(
              container,
              queue,
              message -> {
                redelivered.add(message.getMessageProperties().isRedelivered());
                if (redelivered.size() < 3) {
                  throw new IllegalStateException("once more, please");
                }
                throw new AmqpRejectAndDontRequeueException("enough");
              });
          RabbitTemplate template = template(factory);
          template.send("", queue, message("difficult"));
          Message buried = template.receive(dead);
          container.stop();
          List<Map<String, ?>> deaths = buried.getMessageProperties().getXDeathHeader();
          return map(
              "redelivered",
              redelivered,
              "body",
              text(buried),
              "reason",
              String.valueOf(deaths.get(0).get("reason")),
              "queue",
              queue.equals(String.valueOf(deaths.get(0).get("queue"))));
        });
  }

  static Object manualAcknowledge() throws Exception {
    return with(
        (factory, admin) -> {
          String queue = queue(admin);
          BlockingQueue<String> seen = new LinkedBlockingQueue<>();
          SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
          container.setAcknowledgeMode(AcknowledgeMode.MANUAL);
          container.setQueueNames(queue);
          container.setMessageListener(
              (ChannelAwareMessageListener)
                  (message, channel) -> {
                    long tag = message.getMessageProperties().getDeliveryTag();
                    boolean again = message.getMessageProperties().isRedelivered();
                    if (again) {
                      channel.basicAck(tag, false);
                    } else {
                      channel.basicNack(tag, false, true);
                    }
                    seen.add(text(message) + " " + again);
                  });
          container.afterPropertiesSet();
          container.start();
          template(factory).send("", queue, message("x"));
          List<String> found = new ArrayList<>();
          found.add(seen.poll(PATIENCE, TimeUnit.SECONDS));
          found.add(seen.poll(PATIENCE, TimeUnit.SECONDS));
          container.stop();
          return map("seen", found, "left", admin.getQueueInfo(queue).getMessageCount());
        });
  }

  /** What is unroutable comes back with its confirm. */
  static Object returned() throws Exception {
    return with(
        (factory, admin) -> {
          CorrelationData one = new CorrelationData("1");
          template(factory).send("", "spring-nobody", message("back"), one);
          boolean acked = one.getFuture().get(PATIENCE, TimeUnit.SECONDS).ack();
          return map(
              "acked", acked,
              "code", one.getReturned().getReplyCode(),
              "text", one.getReturned().getReplyText(),
              "body", text(one.getReturned().getMessage()));
        });
  }

  /** Request and reply over amq.rabbitmq.reply-to, which the template takes where it can. */
  static Object requestReply() throws Exception {
    return with(
        (factory, admin) -> {
          String queue = queue(admin);
          RabbitTemplate template = template(factory);
          List<Boolean> direct = Collections.synchronizedList(new ArrayList<>());
          SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
          run(
              container,
              queue,
              request -> {
                String to = request.getMessageProperties().getReplyTo();
                direct.add(to.startsWith("amq.rabbitmq.reply-to."));
                Message answer = message(text(request).toUpperCase());
                String correlation = request.getMessageProperties().getCorrelationId();
                answer.getMessageProperties().setCorrelationId(correlation);
                template.send("", to, answer);
              });
          List<Object> found = new ArrayList<>();
          for (String word : List.of("one", "two")) {
            found.add(text(template.sendAndReceive("", queue, message(word))));
          }
          container.stop();
          return map("answers", found, "direct", direct);
        });
  }

  /** Transactions of Spring: what is received and what is sent, or neither. */
  static Object transactions() throws Exception {
    CachingConnectionFactory factory = factory();
    factory.setPublisherConfirmType(ConfirmType.NONE);
    factory.setPublisherReturns(false);
    try {
      RabbitAdmin admin = new RabbitAdmin(factory);
      String from = queue(admin);
      String to = queue(admin);
      RabbitTemplate template = new RabbitTemplate(factory);
      template.setReceiveTimeout(PATIENCE * 1000);
      template.send("", from, message("moved"));
      template.setChannelTransacted(true);
      TransactionTemplate within = new TransactionTemplate(new RabbitTransactionManager(factory));
      List<Object> counts = new ArrayList<>();
      try {
        within.executeWithoutResult(
            status -> {
              template.send("", to, template.receive(from));
              throw new IllegalStateException("not now");
            });
      } catch (IllegalStateException expected) {
        counts.add(admin.getQueueInfo(from).getMessageCount());
        counts.add(admin.getQueueInfo(to).getMessageCount());
      }
      within.executeWithoutResult(status -> template.send("", to, template.receive(from)));
      counts.add(admin.getQueueInfo(from).getMessageCount());
      counts.add(admin.getQueueInfo(to).getMessageCount());
      return map("counts", counts, "body", text(template.receive(to)));
    } finally {
      factory.destroy();
    }
  }

  static Object large() throws Exception {
    return with(
        (factory, admin) -> {
          String queue = queue(admin);
          byte[] body = new byte[8 * 1024 * 1024 + 17];
          for (int at = 0; at < body.length; at++) {
            body[at] = (byte) (at % 251);
          }
          RabbitTemplate template = template(factory);
          template.send("", queue, MessageBuilder.withBody(body).build());
          byte[] came = template.receive(queue).getBody();
          return map("size", came.length, "same", Arrays.equals(came, body));
        });
  }

  static Object headers() throws Exception {
    return with(
        (factory, admin) -> {
          String queue = queue(admin);
          RabbitTemplate template = template(factory);
          MessageProperties properties = new MessageProperties();
          Map<String, Object> sent = new TreeMap<>();
          sent.put("boolean", true);
          sent.put("byte", (byte) -128);
          sent.put("short", (short) -32768);
          sent.put("integer", Integer.MIN_VALUE);
          sent.put("long", Long.MIN_VALUE);
          sent.put("float", 0.5f);
          sent.put("double", 1e300);
          sent.put("string", "grün ✓");
          sent.put("date", new Date(1234567890000L));
          sent.put("list", List.of(1, "two", List.of(3L)));
          sent.put("map", Map.of("deep", Map.of("number", 4)));
          sent.forEach(properties::setHeader);
          properties.setContentType("text/plain");
          properties.setContentEncoding("UTF-8");
          properties.setPriority(3);
          properties.setCorrelationId("c-1");
          properties.setReplyTo("somewhere");
          properties.setExpiration("60000");
          properties.setMessageId("m-1");
          properties.setTimestamp(new Date(1700000000000L));
          properties.setType("kind");
          properties.setUserId("guest");
          properties.setAppId("spring");
          template.send("", queue, new Message("x".getBytes(), properties));
          MessageProperties came = template.receive(queue).getMessageProperties();
          List<String> other = new ArrayList<>();
          sent.forEach(
              (name, value) -> {
                Object saw = came.getHeaders().get(name);
                if (!value.equals(saw)) {
                  other.add(name + ": " + saw);
                }
              });
          return map(
              "other",
              other,
              "properties",
              List.of(
                  came.getContentType(),
                  came.getContentEncoding(),
                  came.getReceivedDeliveryMode().toString(),
                  came.getPriority(),
                  came.getCorrelationId(),
                  came.getReplyTo(),
                  came.getExpiration(),
                  came.getMessageId(),
                  came.getTimestamp().getTime(),
                  came.getType(),
                  came.getReceivedUserId(),
                  came.getAppId()));
        });
  }

  static Object refused() throws Exception {
    List<Object> found = new ArrayList<>();
    try {
      with((factory, admin) -> template(factory).receive("spring-none"));
    } catch (AmqpException error) {
      found.add(String.valueOf(error.getCause().getCause()).contains("reply-code=404"));
    }
    found.add(with((factory, admin) -> String.valueOf(admin.getQueueInfo("spring-none"))));
    CachingConnectionFactory wrong = factory();
    wrong.setPassword("wrong");
    try {
      wrong.createConnection();
    } catch (AmqpAuthenticationException error) {
      found.add("authentication");
    } finally {
      wrong.destroy();
    }
    return found;
  }

  /** The server dies and comes back; the admin declares anew, the container consumes again. */
  static Object recovery() throws Exception {
    CachingConnectionFactory factory = factory();
    GenericApplicationContext context = new GenericApplicationContext();
    RabbitAdmin admin = new RabbitAdmin(factory);
    TopicExchange exchange = new TopicExchange("spring.lost", false, true);
    Queue lost = new AnonymousQueue();
    Queue kept = new Queue("spring-kept", true);
    context.registerBean("factory", CachingConnectionFactory.class, () -> factory);
    context.registerBean("exchange", TopicExchange.class, () -> exchange);
    context.registerBean("lost", Queue.class, () -> lost);
    context.registerBean("kept", Queue.class, () -> kept);
    context.registerBean(
        "binding",
        org.springframework.amqp.core.Binding.class,
        () -> BindingBuilder.bind(lost).to(exchange).with("key.*"));
    context.registerBean("admin", RabbitAdmin.class, () -> admin);
    context.refresh();
    BlockingQueue<String> bodies = new LinkedBlockingQueue<>();
    SimpleMessageListenerContainer container = new SimpleMessageListenerContainer(factory);
    container.setApplicationContext(context);
    container.setRecoveryInterval(300);
    RabbitTemplate template = template(factory);
    try {
      template.send("", "spring-kept", message("kept"));
      run(container, lost.getName(), message -> bodies.add(text(message)));
      boolean first = sent(template, "before");
      List<String> found = new ArrayList<>();
      found.add(bodies.poll(PATIENCE, TimeUnit.SECONDS));
      System.out.println("{\"ask\": \"restart\"}");
      String line = new java.io.BufferedReader(new java.io.InputStreamReader(System.in)).readLine();
      if (!"restarted".equals(line)) {
        throw new IllegalStateException(line);
      }
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE);
      while (!sent(template, "after") && System.nanoTime() < deadline) {
        Thread.sleep(200);
      }
      found.add(bodies.poll(PATIENCE, TimeUnit.SECONDS));
      return map("first", first, "bodies", found, "kept", text(template.receive("spring-kept")));
    } finally {
      container.stop();
      admin.deleteQueue("spring-kept");
      context.close();
      factory.destroy();
    }
  }

  /** Whether it was confirmed and did not come back. */
  static boolean sent(RabbitTemplate template, String text) throws Exception {
    CorrelationData one = new CorrelationData(text);
    try {
      template.send("spring.lost", "key.1", message(text), one);
      return one.getFuture().get(PATIENCE, TimeUnit.SECONDS).ack() && one.getReturned() == null;
    } catch (AmqpException error) {
      return false;
    }
  }

  public static void main(String[] arguments) {
    host = arguments[0];
    port = Integer.parseInt(arguments[1]);
    Lines.report("simple_container", SpringClient::simpleContainer);
    Lines.report("direct_container", SpringClient::directContainer);
    Lines.report("batch", SpringClient::batch);
    Lines.report("failures", SpringClient::failures);
    Lines.report("manual_acknowledge", SpringClient::manualAcknowledge);
    Lines.report("returned", SpringClient::returned);
    Lines.report("request_reply", SpringClient::requestReply);
    Lines.report("transactions", SpringClient::transactions);
    Lines.report("large", SpringClient::large);
    Lines.report("headers", SpringClient::headers);
    Lines.report("refused", SpringClient::refused);
    Lines.report("recovery", SpringClient::recovery);
    System.exit(0);
  }
}
