// One half of a conversation over JMS, for both clients of Qpid: PACKAGE becomes javax.jms or
// jakarta.jms. Arguments: host, port, one of send, receive, answer and ask, a queue.

import PACKAGE.BytesMessage;
import PACKAGE.Connection;
import PACKAGE.Destination;
import PACKAGE.JMSException;
import PACKAGE.MapMessage;
import PACKAGE.Message;
import PACKAGE.MessageConsumer;
import PACKAGE.MessageEOFException;
import PACKAGE.MessageProducer;
import PACKAGE.ObjectMessage;
import PACKAGE.Session;
import PACKAGE.StreamMessage;
import PACKAGE.TextMessage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

public class JmsPeer {
  static final long LONG = 15000;
  static final String LAST = "last";
  static Session session;

  /** A value with its type. */
  static String typed(Object value) {
    if (value instanceof byte[]) {
      return "byte[] " + Arrays.toString((byte[]) value);
    }
    return value == null ? "null" : value.getClass().getSimpleName() + " " + value;
  }

  // --- messages --------------------------------------------------------------------------------

  static void fill(Message message, String name) throws JMSException {
    message.setStringProperty("check", name);
    message.setBooleanProperty("aBoolean", true);
    message.setByteProperty("aByte", (byte) -128);
    message.setShortProperty("aShort", (short) -32768);
    message.setIntProperty("anInt", Integer.MIN_VALUE);
    message.setLongProperty("aLong", Long.MIN_VALUE);
    message.setFloatProperty("aFloat", 0.5f);
    message.setDoubleProperty("aDouble", 1e300);
    message.setStringProperty("aString", "grün ✓");
    message.setJMSType("kind");
  }

  static MapMessage map() throws JMSException {
    MapMessage message = session.createMapMessage();
    message.setBoolean("boolean", true);
    message.setByte("byte", (byte) -1);
    message.setShort("short", (short) -2);
    message.setInt("int", 3);
    message.setLong("long", 4L);
    message.setFloat("float", 0.5f);
    message.setDouble("double", 1e300);
    message.setString("string", "grün");
    message.setBytes("bytes", new byte[] {0, -1});
    return message;
  }

  static StreamMessage stream() throws JMSException {
    StreamMessage message = session.createStreamMessage();
    message.writeBoolean(true);
    message.writeByte((byte) -1);
    message.writeShort((short) -2);
    message.writeInt(3);
    message.writeLong(4L);
    message.writeFloat(0.5f);
    message.writeDouble(1e300);
    message.writeString("grün");
    message.writeBytes(new byte[] {0, -1});
    message.writeChar('ü');
    return message;
  }

  static Map<String, Message> messages() throws JMSException {
    Map<String, Message> all = new LinkedHashMap<>();
    all.put("text", session.createTextMessage("grün ✓"));
    all.put("text empty", session.createTextMessage(""));
    all.put("text null", session.createTextMessage());
    BytesMessage bytes = session.createBytesMessage();
    bytes.writeBytes(new byte[] {0, -1, 65});
    all.put("bytes", bytes);
    all.put("bytes empty", session.createBytesMessage());
    all.put("map", map());
    all.put("map empty", session.createMapMessage());
    all.put("stream", stream());
    all.put("stream empty", session.createStreamMessage());
    all.put("object", session.createObjectMessage(new ArrayList<>(Arrays.asList("o", 5))));
    all.put("plain", session.createMessage());
    all.put("correlation", session.createTextMessage("c"));
    all.get("correlation").setJMSCorrelationID("c-1");
    all.put("correlation bytes", session.createTextMessage("c"));
    all.get("correlation bytes").setJMSCorrelationIDAsBytes(new byte[] {0, -1, -2, 10});
    all.put("group", session.createTextMessage("c"));
    all.get("group").setStringProperty("JMSXGroupID", "g");
    all.get("group").setIntProperty("JMSXGroupSeq", 7);
    all.put(LAST, session.createTextMessage(""));
    for (Map.Entry<String, Message> one : all.entrySet()) {
      fill(one.getValue(), one.getKey());
    }
    return all;
  }

  static Object body(Message message) throws JMSException {
    if (message instanceof TextMessage) {
      return ((TextMessage) message).getText();
    }
    if (message instanceof BytesMessage) {
      byte[] octets = new byte[(int) ((BytesMessage) message).getBodyLength()];
      ((BytesMessage) message).readBytes(octets);
      return typed(octets);
    }
    if (message instanceof MapMessage) {
      Map<String, Object> found = new TreeMap<>();
      Enumeration<?> names = ((MapMessage) message).getMapNames();
      while (names.hasMoreElements()) {
        String name = (String) names.nextElement();
        found.put(name, typed(((MapMessage) message).getObject(name)));
      }
      return found;
    }
    if (message instanceof StreamMessage) {
      List<Object> found = new ArrayList<>();
      try {
        while (true) {
          found.add(typed(((StreamMessage) message).readObject()));
        }
      } catch (MessageEOFException end) {
        return found;
      }
    }
    return String.valueOf(((ObjectMessage) message).getObject());
  }

  static String kind(Message message) {
    Class<?>[] kinds = {
      TextMessage.class, BytesMessage.class, MapMessage.class, StreamMessage.class,
      ObjectMessage.class
    };
    for (Class<?> one : kinds) {
      if (one.isInstance(message)) {
        return one.getSimpleName();
      }
    }
    return "Message";
  }

  static Object seen(Message message) throws Exception {
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("kind", kind(message));
    found.put("body", kind(message).equals("Message") ? null : body(message));
    Map<String, Object> properties = new TreeMap<>();
    Enumeration<?> names = message.getPropertyNames();
    while (names.hasMoreElements()) {
      String name = (String) names.nextElement();
      properties.put(name, typed(message.getObjectProperty(name)));
    }
    found.put("properties", properties);
    found.put("type", message.getJMSType());
    String correlation = message.getJMSCorrelationID();
    if (message.getStringProperty("check").endsWith("bytes")) {
      correlation = typed(message.getJMSCorrelationIDAsBytes());
    }
    found.put("correlation", correlation);
    found.put("id", message.getJMSMessageID().startsWith("ID:"));
    found.put("mode", message.getJMSDeliveryMode());
    found.put("priority", message.getJMSPriority());
    found.put("redelivered", message.getJMSRedelivered());
    found.put("timestamp", message.getJMSTimestamp() > 0);
    found.put("expires", message.getJMSExpiration() > 0);
    return found;
  }

  // --- roles of a peer -------------------------------------------------------------------------

  static void send(Destination queue) throws JMSException {
    MessageProducer producer = session.createProducer(queue);
    producer.setPriority(7);
    producer.setTimeToLive(600000);
    for (Message message : messages().values()) {
      producer.send(message);
    }
  }

  static void receive(Destination queue) throws JMSException {
    MessageConsumer consumer = session.createConsumer(queue);
    while (true) {
      Message message = consumer.receive(LONG);
      if (message == null || message.getStringProperty("check").equals(LAST)) {
        return;
      }
      Lines.report(message.getStringProperty("check"), () -> seen(message));
    }
  }

  static void answer(Destination queue) throws JMSException {
    MessageConsumer consumer = session.createConsumer(queue);
    while (true) {
      Message request = consumer.receive(LONG);
      String text = request == null ? LAST : ((TextMessage) request).getText();
      if (text.equals(LAST)) {
        return;
      }
      MessageProducer producer = session.createProducer(request.getJMSReplyTo());
      TextMessage answer = session.createTextMessage(text + " answered");
      answer.setJMSCorrelationID(request.getJMSMessageID());
      producer.send(answer);
      producer.close();
    }
  }

  static Object ask(Destination queue, String text, Destination reply) throws JMSException {
    MessageConsumer consumer = session.createConsumer(reply);
    MessageProducer producer = session.createProducer(queue);
    TextMessage request = session.createTextMessage(text);
    request.setJMSReplyTo(reply);
    producer.send(request);
    TextMessage answer = (TextMessage) consumer.receive(LONG);
    consumer.close();
    producer.close();
    boolean same = request.getJMSMessageID().equals(answer.getJMSCorrelationID());
    return Arrays.asList(answer.getText(), same);
  }

  static void ask(Destination queue, String name) throws JMSException {
    Map<String, Destination> replies = new LinkedHashMap<>();
    replies.put("temporary queue", session.createTemporaryQueue());
    replies.put("temporary topic", session.createTemporaryTopic());
    replies.put("queue", Dial.queue(session, name + ".replies"));
    replies.put("topic", Dial.topic(session, name + ".topic"));
    for (Map.Entry<String, Destination> reply : replies.entrySet()) {
      Lines.report(reply.getKey(), () -> ask(queue, reply.getKey(), reply.getValue()));
    }
    session.createProducer(queue).send(session.createTextMessage(LAST));
  }

  public static void main(String[] arguments) throws Exception {
    Connection connection = Dial.connect(arguments[0], arguments[1]);
    connection.start();
    session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    Destination queue = Dial.queue(session, arguments[3]);
    switch (arguments[2]) {
      case "send" -> send(queue);
      case "receive" -> receive(queue);
      case "answer" -> answer(queue);
      default -> ask(queue, arguments[3]);
    }
    connection.close();
    System.exit(0);
  }
}
