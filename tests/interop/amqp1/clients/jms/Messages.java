// Checks of messages: every kind of body, every header, every type of property.

import jakarta.jms.BytesMessage;
import jakarta.jms.DeliveryMode;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageEOFException;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

class Messages {
  static final byte[] OCTETS = {0, -1, -2, 10};
  static final Object[] VALUES = {
    true,
    (byte) -128,
    (short) -32768,
    'ü',
    Integer.MIN_VALUE,
    Long.MIN_VALUE,
    0.5f,
    1e300,
    "grün ✓"
  };

  interface Make {
    Message from(Session session) throws Exception;
  }

  static Message crossed(Session session, String name, Make make) throws Exception {
    Queue queue = JmsClient.queue(session, name);
    try (MessageProducer producer = session.createProducer(queue);
        var consumer = session.createConsumer(queue)) {
      producer.send(make.from(session));
      Message found = consumer.receive(JmsClient.LONG);
      if (found == null) {
        throw new IllegalStateException("nothing came");
      }
      return found;
    }
  }

  static String seen(Object value) {
    String text = value instanceof byte[] octets ? Arrays.toString(octets) : String.valueOf(value);
    String kind = value == null ? "null" : value.getClass().getSimpleName();
    return kind + " " + text;
  }

  static Object bodies(String name) throws Exception {
    return JmsClient.with(
        (connection, session) -> {
          List<Object> found = new ArrayList<>();
          Message plain = crossed(session, name, Session::createMessage);
          found.add(plain instanceof TextMessage ? "text" : "no body");
          Message text = crossed(session, name, one -> one.createTextMessage("grün ✓"));
          found.add(((TextMessage) text).getText());
          Message none = crossed(session, name, one -> one.createTextMessage(null));
          found.add(((TextMessage) none).getText());
          Message empty = crossed(session, name, one -> one.createTextMessage(""));
          found.add(((TextMessage) empty).getText());
          ObjectMessage object =
              (ObjectMessage) crossed(session, name, one -> one.createObjectMessage("an object"));
          found.add(object.getObject());
          return found;
        });
  }

  static Object bytes(String name) throws Exception {
    return JmsClient.with(
        (connection, session) -> {
          List<Object> found = new ArrayList<>();
          for (int size : new int[] {0, 1, 255, 256, 1 << 20}) {
            byte[] body = new byte[size];
            for (int at = 0; at < size; at++) {
              body[at] = (byte) (at % 251);
            }
            BytesMessage got =
                (BytesMessage)
                    crossed(
                        session,
                        name,
                        one -> {
                          BytesMessage sent = one.createBytesMessage();
                          sent.writeBytes(body);
                          return sent;
                        });
            byte[] read = new byte[(int) got.getBodyLength()];
            got.readBytes(read);
            found.add(Arrays.equals(read, body));
          }
          return found;
        });
  }

  static Object maps(String name) throws Exception {
    return JmsClient.with(
        (connection, session) -> {
          MapMessage got =
              (MapMessage)
                  crossed(
                      session,
                      name,
                      one -> {
                        MapMessage sent = one.createMapMessage();
                        for (Object value : VALUES) {
                          sent.setObject(value.getClass().getSimpleName(), value);
                        }
                        sent.setBytes("octets", OCTETS);
                        sent.setObject("void", null);
                        return sent;
                      });
          Map<String, Object> found = new TreeMap<>();
          for (Object key : Collections.list(got.getMapNames())) {
            found.put((String) key, seen(got.getObject((String) key)));
          }
          return found;
        });
  }

  static Object streams(String name) throws Exception {
    return JmsClient.with(
        (connection, session) -> {
          StreamMessage got =
              (StreamMessage)
                  crossed(
                      session,
                      name,
                      one -> {
                        StreamMessage sent = one.createStreamMessage();
                        for (Object value : VALUES) {
                          sent.writeObject(value);
                        }
                        sent.writeBytes(OCTETS);
                        sent.writeObject(null);
                        return sent;
                      });
          List<String> found = new ArrayList<>();
          try {
            while (true) {
              found.add(seen(got.readObject()));
            }
          } catch (MessageEOFException end) {
            return found;
          }
        });
  }

  static Object properties(String name) throws Exception {
    return JmsClient.with(
        (connection, session) -> {
          Message got =
              crossed(
                  session,
                  name,
                  one -> {
                    Message sent = one.createMessage();
                    for (Object value : VALUES) {
                      if (!(value instanceof Character)) {
                        sent.setObjectProperty("a" + value.getClass().getSimpleName(), value);
                      }
                    }
                    sent.setStringProperty("JMSXGroupID", "group");
                    sent.setIntProperty("JMSXGroupSeq", 7);
                    return sent;
                  });
          Map<String, Object> found = new TreeMap<>();
          for (Object key : Collections.list(got.getPropertyNames())) {
            found.put((String) key, seen(got.getObjectProperty((String) key)));
          }
          return found;
        });
  }

  static Object headers(String name) throws Exception {
    return JmsClient.with(
        (connection, session) -> {
          Queue queue = JmsClient.queue(session, name);
          MessageProducer producer = session.createProducer(queue);
          Message sent = session.createTextMessage("x");
          sent.setJMSType("kind");
          sent.setJMSCorrelationID("c-1");
          sent.setJMSReplyTo(queue);
          producer.send(sent, DeliveryMode.NON_PERSISTENT, 7, 3_600_000);
          Message got;
          try (var consumer = session.createConsumer(queue)) {
            got = consumer.receive(JmsClient.LONG);
          }
          Message bytes =
              crossed(
                  session,
                  name,
                  one -> {
                    Message other = one.createMessage();
                    other.setJMSCorrelationIDAsBytes(OCTETS);
                    return other;
                  });
          return JmsClient.map(
              "id", sent.getJMSMessageID().equals(got.getJMSMessageID()),
              "type", got.getJMSType(),
              "correlation", got.getJMSCorrelationID(),
              "correlation_octets", Arrays.toString(bytes.getJMSCorrelationIDAsBytes()),
              "reply_to", queue.equals(got.getJMSReplyTo()),
              "to", queue.equals(got.getJMSDestination()),
              "priority", got.getJMSPriority(),
              "mode", got.getJMSDeliveryMode(),
              "default_mode", bytes.getJMSDeliveryMode(),
              "timestamp", sent.getJMSTimestamp() == got.getJMSTimestamp(),
              "expires", Math.abs(sent.getJMSExpiration() - got.getJMSExpiration()) < 60_000,
              "redelivered", got.getJMSRedelivered());
        });
  }

  static void checks(Map<String, JmsClient.Check> checks) {
    checks.put("bodies", Messages::bodies);
    checks.put("bytes", Messages::bytes);
    checks.put("maps", Messages::maps);
    checks.put("streams", Messages::streams);
    checks.put("properties", Messages::properties);
    checks.put("headers", Messages::headers);
  }
}
