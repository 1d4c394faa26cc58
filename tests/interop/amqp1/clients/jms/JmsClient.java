// Qpid JMS: one JSON line per check. Arguments: host, port, pattern of queue addresses, pattern of
// topic addresses ({} stands for the name), checks (default: all). A queue is named after its check.

import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.DeliveryMode;
import jakarta.jms.InvalidDestinationException;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnectionFactory;

public class JmsClient {
  static final int MANY = 200;
  static final long LONG = 10000;
  static final long SHORT = 500;
  static String host;
  static int port;
  static String queuePattern;
  static String topicPattern;

  interface Check {
    Object run(String name) throws Exception;
  }

  interface Act {
    Object on(Connection connection, Session session) throws Exception;
  }

  // --- words -----------------------------------------------------------------------------------

  static Connection connect(int at, String options) throws JMSException {
    String url = "amqp://" + host + ":" + at + "?amqp.idleTimeout=30000" + options;
    ConnectionFactory factory = new JmsConnectionFactory("guest", "guest", url);
    return factory.createConnection();
  }

  static Object with(int mode, String options, Act act) throws Exception {
    try (Connection connection = connect(port, options)) {
      connection.start();
      return act.on(connection, connection.createSession(mode));
    }
  }

  static Object with(Act act) throws Exception {
    return with(Session.AUTO_ACKNOWLEDGE, "", act);
  }

  static Queue queue(Session session, String name) throws JMSException {
    return session.createQueue(queuePattern.replace("{}", name));
  }

  static Topic topic(Session session, String name) throws JMSException {
    return session.createTopic(topicPattern.replace("{}", name));
  }

  static void send(Session session, jakarta.jms.Destination to, String... texts)
      throws JMSException {
    try (MessageProducer producer = session.createProducer(to)) {
      for (String text : texts) {
        producer.send(session.createTextMessage(text));
      }
    }
  }

  static String text(Message message) throws JMSException {
    return message == null ? null : message.getBody(String.class);
  }

  /** Texts of what comes until nothing comes. */
  static List<String> texts(MessageConsumer consumer, int atLeast) throws JMSException {
    List<String> found = new ArrayList<>();
    while (true) {
      Message message = consumer.receive(found.size() < atLeast ? LONG : SHORT);
      if (message == null) {
        return found;
      }
      found.add(text(message));
    }
  }

  static Map<String, Object> map(Object... pairs) {
    Map<String, Object> found = new LinkedHashMap<>();
    for (int at = 0; at < pairs.length; at += 2) {
      found.put((String) pairs[at], pairs[at + 1]);
    }
    return found;
  }

  static List<String> sorted(List<String> texts) {
    Collections.sort(texts);
    return texts;
  }

  // --- queues ----------------------------------------------------------------------------------

  static Object order(String name) throws Exception {
    return with(
        (connection, session) -> {
          List<String> bodies = Collections.synchronizedList(new ArrayList<>());
          CountDownLatch latch = new CountDownLatch(MANY);
          Session consuming = connection.createSession(Session.AUTO_ACKNOWLEDGE);
          consuming
              .createConsumer(queue(consuming, name))
              .setMessageListener(
                  message -> {
                    try {
                      bodies.add(text(message));
                    } catch (JMSException error) {
                      bodies.add(error.toString());
                    }
                    latch.countDown();
                  });
          List<String> sent = new ArrayList<>();
          for (int number = 0; number < MANY; number++) {
            sent.add(String.valueOf(number));
          }
          send(session, queue(session, name), sent.toArray(new String[0]));
          latch.await(LONG, TimeUnit.MILLISECONDS);
          return map("count", bodies.size(), "in_order", bodies.equals(sent));
        });
  }

  static Object asynchronousSend(String name) throws Exception {
    return with(
        (connection, session) -> {
          CountDownLatch completed = new CountDownLatch(20);
          MessageProducer producer = session.createProducer(queue(session, name));
          for (int number = 0; number < 20; number++) {
            producer.send(
                session.createTextMessage("x"),
                new CompletionListener() {
                  @Override
                  public void onCompletion(Message message) {
                    completed.countDown();
                  }

                  @Override
                  public void onException(Message message, Exception error) {
                    error.printStackTrace();
                  }
                });
          }
          boolean all = completed.await(LONG, TimeUnit.MILLISECONDS);
          int found = texts(session.createConsumer(queue(session, name)), 20).size();
          return map("completed", all, "count", found);
        });
  }

  static Object anonymousProducer(String name) throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, name);
          MessageProducer producer = session.createProducer(null);
          producer.send(queue, session.createTextMessage("to whom it concerns"));
          return text(session.createConsumer(queue).receive(LONG));
        });
  }

  static Object selector(String name) throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, name);
          MessageProducer producer = session.createProducer(queue);
          String[] colours = {"red", "green", "blue", "green"};
          for (int number = 0; number < colours.length; number++) {
            Message message = session.createTextMessage(colours[number] + number);
            message.setStringProperty("colour", colours[number]);
            message.setIntProperty("number", number);
            message.setJMSType(number % 2 == 0 ? "even" : "odd");
            producer.send(message);
          }
          Map<String, Object> found = new LinkedHashMap<>();
          String[] selectors = {
            "colour = 'green' AND number BETWEEN 1 AND 2",
            "JMSType = 'even' AND colour LIKE 'b%'",
            "colour IN ('red', 'yellow') OR nothing IS NOT NULL",
            "number * 2 + 1 > 6.5",
          };
          for (String selector : selectors) {
            try (MessageConsumer consumer = session.createConsumer(queue, selector)) {
              found.put(selector, texts(consumer, 1));
            }
          }
          String left = texts(session.createConsumer(queue), 0).toString();
          found.put("left", left);
          return found;
        });
  }

  static Object browser(String name) throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, name);
          send(session, queue, "a", "b", "c");
          List<List<String>> seen = new ArrayList<>();
          for (int time = 0; time < 2; time++) {
            List<String> texts = new ArrayList<>();
            var found = session.createBrowser(queue).getEnumeration();
            while (found.hasMoreElements()) {
              texts.add(text((Message) found.nextElement()));
            }
            seen.add(texts);
          }
          return map("browsed", seen, "left", texts(session.createConsumer(queue), 3));
        });
  }

  static Object requestReply(String name) throws Exception {
    return with(
        (connection, session) -> {
          Session serving = connection.createSession(Session.AUTO_ACKNOWLEDGE);
          MessageProducer replies = serving.createProducer(null);
          serving
              .createConsumer(queue(serving, name))
              .setMessageListener(
                  request -> {
                    try {
                      TextMessage reply =
                          serving.createTextMessage(text(request).toUpperCase());
                      reply.setJMSCorrelationID(request.getJMSMessageID());
                      replies.send(request.getJMSReplyTo(), reply);
                    } catch (JMSException error) {
                      error.printStackTrace();
                    }
                  });
          Queue temporary = session.createTemporaryQueue();
          MessageConsumer answers = session.createConsumer(temporary);
          MessageProducer asking = session.createProducer(queue(session, name));
          List<Object> found = new ArrayList<>();
          for (String word : new String[] {"one", "two"}) {
            Message request = session.createTextMessage(word);
            request.setJMSReplyTo(temporary);
            asking.send(request);
            Message answer = answers.receive(LONG);
            boolean matches =
                answer != null && request.getJMSMessageID().equals(answer.getJMSCorrelationID());
            found.add(List.of(String.valueOf(text(answer)), matches));
          }
          return found;
        });
  }

  static Object expiry(String name) throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, name);
          MessageProducer producer = session.createProducer(queue);
          Message brief = session.createTextMessage("brief");
          producer.send(brief, DeliveryMode.PERSISTENT, 4, 100);
          boolean noted = brief.getJMSExpiration() > brief.getJMSTimestamp();
          producer.send(session.createTextMessage("lasting"));
          Thread.sleep(1500);
          return map("noted", noted, "left", texts(session.createConsumer(queue), 1));
        });
  }

  static Object prefetch(String name) throws Exception {
    return with(
        Session.CLIENT_ACKNOWLEDGE,
        "&jms.prefetchPolicy.all=1",
        (connection, session) -> {
          Queue queue = queue(session, name);
          send(session, queue, "1", "2", "3", "4");
          MessageConsumer hoarder = session.createConsumer(queue);
          String first = text(hoarder.receive(LONG));
          Session other = connection.createSession(Session.AUTO_ACKNOWLEDGE);
          int others = texts(other.createConsumer(queue), 2).size();
          return map("first", first, "others", others >= 2);
        });
  }

  static Object pull(String name) throws Exception {
    return with(
        Session.AUTO_ACKNOWLEDGE,
        "&jms.prefetchPolicy.all=0",
        (connection, session) -> {
          Queue queue = queue(session, name);
          MessageConsumer consumer = session.createConsumer(queue);
          String none = text(consumer.receiveNoWait());
          send(session, queue, "a", "b");
          String first = text(consumer.receive(LONG));
          String second = text(consumer.receiveNoWait());
          List<String> found = new ArrayList<>();
          Collections.addAll(found, none, first, second, text(consumer.receive(SHORT)));
          return found;
        });
  }

  // --- refusals ----------------------------------------------------------------------------------

  static Object badLogin(String name) throws Exception {
    String url = "amqp://" + host + ":" + port;
    try (Connection connection =
        new JmsConnectionFactory("guest", "wrong", url).createConnection()) {
      connection.start();
      return map("refused", false);
    } catch (JMSSecurityException error) {
      return map("refused", true);
    }
  }

  static Object missingQueue(String name) throws Exception {
    return with(
        (connection, session) -> {
          try {
            session.createConsumer(queue(session, "none-" + UUID.randomUUID()));
            return map("refused", false);
          } catch (InvalidDestinationException error) {
            return map("refused", true);
          }
        });
  }

  public static void main(String[] arguments) {
    host = arguments[0];
    port = Integer.parseInt(arguments[1]);
    queuePattern = arguments[2];
    topicPattern = arguments[3];
    Map<String, Check> checks = new LinkedHashMap<>();
    checks.put("order", JmsClient::order);
    checks.put("asynchronous_send", JmsClient::asynchronousSend);
    checks.put("anonymous_producer", JmsClient::anonymousProducer);
    checks.put("selector", JmsClient::selector);
    checks.put("browser", JmsClient::browser);
    checks.put("request_reply", JmsClient::requestReply);
    checks.put("expiry", JmsClient::expiry);
    checks.put("prefetch", JmsClient::prefetch);
    checks.put("pull", JmsClient::pull);
    checks.put("bad_login", JmsClient::badLogin);
    checks.put("missing_queue", JmsClient::missingQueue);
    Transactions.checks(checks);
    Messages.checks(checks);
    Topics.checks(checks);
    for (int at = 4; at < arguments.length; at++) {
      if (!checks.containsKey(arguments[at])) {
        throw new IllegalArgumentException(arguments[at]);
      }
    }
    List<String> wanted = List.of(arguments).subList(4, arguments.length);
    for (Map.Entry<String, Check> check : checks.entrySet()) {
      if (wanted.isEmpty() || wanted.contains(check.getKey())) {
        Lines.report(check.getKey(), () -> check.getValue().run("jms." + check.getKey()));
      }
    }
    System.exit(0);
  }
}
