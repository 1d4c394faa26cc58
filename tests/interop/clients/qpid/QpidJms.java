// The JMS client of Qpid for AMQP 0-x: one JSON line per check. Arguments: host, port. The version
// is the system property qpid.amqp.version.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.InvalidSelectorException;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;
import javax.jms.Topic;
import org.apache.qpid.client.AMQAnyDestination;
import org.apache.qpid.client.AMQConnection;

public class QpidJms {
  static final long LONG = 10000;
  static final long SHORT = 400;
  static String address;

  interface Act {
    Object on(Connection connection, Session session) throws Exception;
  }

  static Connection connect(String client) throws Exception {
    String url = "amqp://guest:guest@" + client + "/?brokerlist='tcp://" + address + "'";
    Connection connection = new AMQConnection(url);
    connection.start();
    return connection;
  }

  static Object with(String client, int mode, Act act) throws Exception {
    Connection connection = connect(client);
    try {
      boolean transacted = mode == Session.SESSION_TRANSACTED;
      return act.on(connection, connection.createSession(transacted, mode));
    } finally {
      connection.close();
    }
  }

  static Object with(Act act) throws Exception {
    return with("checks", Session.AUTO_ACKNOWLEDGE, act);
  }

  static Queue queue(Session session, String name) throws JMSException {
    return session.createQueue("ADDR:jms0x." + name + "; {create: always}");
  }

  static void send(Session session, Destination to, String... texts) throws JMSException {
    MessageProducer producer = session.createProducer(to);
    for (String text : texts) {
      producer.send(session.createTextMessage(text));
    }
    producer.close();
  }

  static void numbers(Session session, Destination to, int count) throws JMSException {
    MessageProducer producer = session.createProducer(to);
    for (int number = 0; number < count; number++) {
      Message message = session.createTextMessage("n" + number);
      message.setIntProperty("number", number);
      producer.send(message);
    }
    producer.close();
  }

  static String text(Message message) throws JMSException {
    return message == null ? null : ((TextMessage) message).getText();
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

  static Object properties() throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, "properties");
          MessageConsumer consumer = session.createConsumer(queue);
          MessageProducer producer = session.createProducer(queue);
          producer.setPriority(7);
          producer.setTimeToLive(60000);
          TextMessage message = session.createTextMessage("grün ✓");
          message.setStringProperty("text", "red");
          message.setIntProperty("int", -5);
          message.setLongProperty("long", 5000000000L);
          message.setShortProperty("short", (short) -3);
          message.setByteProperty("byte", (byte) -2);
          message.setBooleanProperty("yes", true);
          message.setDoubleProperty("double", 1.5);
          message.setFloatProperty("float", 0.5f);
          message.setJMSType("kind");
          message.setJMSCorrelationID("c-1");
          producer.send(message);
          Message got = consumer.receive(LONG);
          Map<String, Object> seen = new LinkedHashMap<>();
          seen.put("text", text(got));
          for (String name :
              Arrays.asList("text", "int", "long", "short", "byte", "yes", "double", "float")) {
            Object value = got.getObjectProperty(name);
            seen.put("a " + name, value.getClass().getSimpleName() + " " + value);
          }
          seen.put("type", got.getJMSType());
          seen.put("correlation", got.getJMSCorrelationID());
          seen.put("priority", got.getJMSPriority());
          seen.put("expires", got.getJMSExpiration() > System.currentTimeMillis());
          seen.put("id", got.getJMSMessageID().equals(message.getJMSMessageID()));
          return seen;
        });
  }

  static Object kinds() throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, "kinds");
          MessageConsumer consumer = session.createConsumer(queue);
          MessageProducer producer = session.createProducer(queue);
          BytesMessage bytes = session.createBytesMessage();
          bytes.writeInt(7);
          producer.send(bytes);
          MapMessage map = session.createMapMessage();
          map.setInt("i", 3);
          map.setString("s", "t");
          producer.send(map);
          StreamMessage stream = session.createStreamMessage();
          stream.writeInt(9);
          stream.writeString("z");
          producer.send(stream);
          producer.send(session.createObjectMessage(new ArrayList<>(Arrays.asList("o"))));
          producer.send(session.createTextMessage(""));
          List<Object> seen = new ArrayList<>();
          seen.add(((BytesMessage) consumer.receive(LONG)).readInt());
          MapMessage mapped = (MapMessage) consumer.receive(LONG);
          seen.add(mapped.getInt("i") + mapped.getString("s"));
          StreamMessage streamed = (StreamMessage) consumer.receive(LONG);
          seen.add(streamed.readInt() + streamed.readString());
          seen.add(((ObjectMessage) consumer.receive(LONG)).getObject().toString());
          seen.add("" + text(consumer.receive(LONG)));
          return seen;
        });
  }

  static Object browser() throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, "browser");
          session.createConsumer(queue).close();
          send(session, queue, "a", "b", "c");
          List<Object> seen = new ArrayList<>();
          for (String selector : new String[] {null, "JMSPriority > 7"}) {
            QueueBrowser browser = session.createBrowser(queue, selector);
            List<String> found = new ArrayList<>();
            Enumeration<?> messages = browser.getEnumeration();
            while (messages.hasMoreElements()) {
              found.add(text((Message) messages.nextElement()));
            }
            browser.close();
            seen.add(found);
          }
          seen.add(texts(session.createConsumer(queue), 3));
          return seen;
        });
  }

  static Object selector() throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, "selector");
          MessageConsumer some = session.createConsumer(queue, "number > 1 AND number <> 3");
          numbers(session, queue, 5);
          List<Object> seen = new ArrayList<>();
          seen.add(texts(some, 2));
          some.close();
          seen.add(texts(session.createConsumer(queue), 3));
          return seen;
        });
  }

  static Object wrongSelector() throws Exception {
    return with(
        (connection, session) -> {
          try {
            session.createConsumer(queue(session, "wrong"), "number >");
            return "accepted";
          } catch (InvalidSelectorException error) {
            return "refused";
          }
        });
  }

  static Object topic() throws Exception {
    return with(
        (connection, session) -> {
          // Each consumer has a topic object of its own: the client keeps the queue's name in it.
          String name = "news.sport";
          MessageConsumer all = session.createConsumer(session.createTopic(name));
          MessageConsumer others = session.createConsumer(session.createTopic(name), null, true);
          MessageConsumer some = session.createConsumer(session.createTopic(name), "number = 1");
          numbers(session, session.createTopic(name), 3);
          return Arrays.asList(texts(all, 3), texts(others, 0), texts(some, 1));
        });
  }

  static Object durableSubscription() throws Exception {
    List<Object> seen = new ArrayList<>();
    for (String selector : new String[] {null, "number = 2"}) {
      String name = selector == null ? "plain" : "selecting";
      with(
          "durable",
          Session.AUTO_ACKNOWLEDGE,
          (connection, session) -> {
            Topic topic = session.createTopic("news." + name);
            session.createDurableSubscriber(topic, name, selector, false).close();
            return null;
          });
      with((connection, session) -> {
        numbers(session, session.createTopic("news." + name), 3);
        return null;
      });
      seen.add(
          with(
              "durable",
              Session.AUTO_ACKNOWLEDGE,
              (connection, session) -> {
                Topic topic = session.createTopic("news." + name);
                MessageConsumer consumer =
                    session.createDurableSubscriber(topic, name, selector, false);
                List<String> found = texts(consumer, 1);
                consumer.close();
                session.unsubscribe(name);
                return found;
              }));
    }
    return seen;
  }

  static Object transactions() throws Exception {
    return with(
        "checks",
        Session.SESSION_TRANSACTED,
        (connection, session) -> {
          Queue queue = queue(session, "transactions");
          MessageConsumer consumer = session.createConsumer(queue);
          send(session, queue, "lost");
          session.rollback();
          send(session, queue, "kept", "too");
          session.commit();
          List<Object> seen = new ArrayList<>();
          seen.add(text(consumer.receive(LONG)));
          session.rollback();
          Message again = consumer.receive(LONG);
          seen.add(text(again) + " " + again.getJMSRedelivered());
          seen.add(text(consumer.receive(LONG)));
          session.commit();
          seen.add(text(consumer.receive(SHORT)));
          return seen;
        });
  }

  static Object clientAcknowledge() throws Exception {
    return with(
        "checks",
        Session.CLIENT_ACKNOWLEDGE,
        (connection, session) -> {
          Queue queue = queue(session, "acknowledge");
          MessageConsumer consumer = session.createConsumer(queue);
          send(session, queue, "a", "b");
          List<Object> seen = new ArrayList<>();
          seen.add(text(consumer.receive(LONG)));
          session.recover();
          Message again = consumer.receive(LONG);
          seen.add(text(again) + " " + again.getJMSRedelivered());
          Message last = consumer.receive(LONG);
          seen.add(text(last));
          last.acknowledge();
          session.recover();
          seen.add(text(consumer.receive(SHORT)));
          return seen;
        });
  }

  static Object requestReply() throws Exception {
    return with(
        (connection, session) -> {
          List<Object> seen = new ArrayList<>();
          Queue queue = queue(session, "requests");
          MessageConsumer server = session.createConsumer(queue);
          List<Destination> replies = new ArrayList<>();
          TemporaryQueue temporary = session.createTemporaryQueue();
          replies.add(temporary);
          replies.add(session.createTemporaryTopic());
          for (Destination reply : replies) {
            MessageConsumer client = session.createConsumer(reply);
            TextMessage request = session.createTextMessage("ask");
            request.setJMSReplyTo(reply);
            session.createProducer(queue).send(request);
            Message got = server.receive(LONG);
            TextMessage answer = session.createTextMessage("answer");
            answer.setJMSCorrelationID(got.getJMSMessageID());
            session.createProducer(got.getJMSReplyTo()).send(answer);
            Message answered = client.receive(LONG);
            seen.add(answered.getJMSCorrelationID().equals(request.getJMSMessageID()));
          }
          return seen;
        });
  }

  static Object addresses() throws Exception {
    return with(
        (connection, session) -> {
          List<Object> seen = new ArrayList<>();
          for (String address :
              Arrays.asList(
                  "ADDR:jms0x.addressed; {create: always, node: {type: queue}}",
                  "BURL:direct://amq.direct/jms0x.bound/jms0x.bound?routingkey='jms0x-key'",
                  "ADDR:amq.topic/jms0x.subject")) {
            Destination destination = new AMQAnyDestination(address);
            MessageConsumer consumer = session.createConsumer(destination);
            send(session, destination, "x");
            seen.add(text(consumer.receive(LONG)));
          }
          return seen;
        });
  }

  static Object many() throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, "many");
          List<String> sent = new ArrayList<>();
          for (int number = 0; number < 300; number++) {
            sent.add("m" + number);
          }
          MessageConsumer consumer = session.createConsumer(queue);
          send(session, queue, sent.toArray(new String[0]));
          return texts(consumer, sent.size()).equals(sent);
        });
  }

  /** A queue with an argument of Qpid. */
  static Queue shaped(Session session, String name, String arguments) throws JMSException {
    String node = "node: {x-declare: {arguments: {" + arguments + "}}}";
    return session.createQueue("ADDR:jms0x." + name + "; {create: always, " + node + "}");
  }

  static void keyed(Session session, Destination to, String header, String... texts)
      throws JMSException {
    MessageProducer producer = session.createProducer(to);
    for (String text : texts) {
      Message message = session.createTextMessage(text);
      message.setStringProperty(header, text.substring(0, 1));
      producer.send(message);
    }
    producer.close();
  }

  static List<String> browsed(Session session, Queue queue) throws JMSException {
    List<String> found = new ArrayList<>();
    QueueBrowser browser = session.createBrowser(queue);
    Enumeration<?> messages = browser.getEnumeration();
    while (messages.hasMoreElements()) {
      found.add(text((Message) messages.nextElement()));
    }
    browser.close();
    return found;
  }

  static Object lastValue() throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = shaped(session, "last", "'qpid.last_value_queue_key': 'key'");
          session.createConsumer(queue).close();
          keyed(session, queue, "key", "a1", "b1", "a2", "c1", "b2");
          List<Object> seen = new ArrayList<>();
          seen.add(browsed(session, queue));
          seen.add(texts(session.createConsumer(queue), 3));
          return seen;
        });
  }

  static Object groups() throws Exception {
    return with(
        "checks",
        Session.SESSION_TRANSACTED,
        (connection, session) -> {
          String arguments = "'qpid.group_header_key': 'group', 'qpid.shared_msg_group': 1";
          Queue queue = shaped(session, "groups", arguments);
          Session other = connection.createSession(true, Session.SESSION_TRANSACTED);
          MessageConsumer one = session.createConsumer(queue);
          MessageConsumer two = other.createConsumer(queue);
          Session third = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
          keyed(third, queue, "group", "a1", "b1", "a2", "c1", "b2", "a3", "d1", "c2");
          List<String> all = new ArrayList<>();
          for (MessageConsumer consumer : new MessageConsumer[] {one, two}) {
            List<String> texts = texts(consumer, 1);
            texts.sort((x, y) -> x.charAt(0) - y.charAt(0)); // stable: the order of each group
            all.addAll(texts);
          }
          all.sort((x, y) -> x.charAt(0) - y.charAt(0));
          session.commit();
          other.commit();
          return all;
        });
  }

  static Object longBrowser() throws Exception {
    return with(
        (connection, session) -> {
          Queue queue = queue(session, "long");
          MessageConsumer consumer = session.createConsumer(queue);
          consumer.close();
          List<String> sent = new ArrayList<>();
          for (int number = 0; number < 1200; number++) {
            sent.add("m" + number);
          }
          send(session, queue, sent.toArray(new String[0]));
          List<Object> seen = new ArrayList<>();
          seen.add(browsed(session, queue).equals(sent));
          seen.add(browsed(session, queue).equals(sent));
          seen.add(texts(session.createConsumer(queue), sent.size()).equals(sent));
          return seen;
        });
  }

  public static void main(String[] arguments) throws Exception {
    address = arguments[0] + ":" + arguments[1];
    Lines.report("properties", QpidJms::properties);
    Lines.report("kinds", QpidJms::kinds);
    Lines.report("browser", QpidJms::browser);
    Lines.report("selector", QpidJms::selector);
    Lines.report("wrong_selector", QpidJms::wrongSelector);
    Lines.report("topic", QpidJms::topic);
    Lines.report("durable_subscription", QpidJms::durableSubscription);
    Lines.report("transactions", QpidJms::transactions);
    Lines.report("client_acknowledge", QpidJms::clientAcknowledge);
    Lines.report("request_reply", QpidJms::requestReply);
    Lines.report("addresses", QpidJms::addresses);
    Lines.report("many", QpidJms::many);
    Lines.report("last_value", QpidJms::lastValue);
    Lines.report("groups", QpidJms::groups);
    Lines.report("long_browser", QpidJms::longBrowser);
    System.exit(0);
  }
}
