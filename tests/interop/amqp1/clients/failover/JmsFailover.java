// Qpid JMS when its server dies and comes back (`failover:`), and a large message: one JSON line per
// check. Arguments: host, port, pattern of queue addresses, pattern of topic addresses.

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.Topic;
import jakarta.jms.TransactionRolledBackException;
import java.net.URI;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.jms.JmsConnection;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.apache.qpid.jms.JmsConnectionListener;
import org.apache.qpid.jms.message.JmsInboundMessageDispatch;

public class JmsFailover {
  static final long PATIENCE = 60_000;
  static String queuePattern;
  static String topicPattern;

  static class Restored implements JmsConnectionListener {
    final CountDownLatch latch = new CountDownLatch(1);

    @Override
    public void onConnectionRestored(URI uri) {
      latch.countDown();
    }

    @Override
    public void onConnectionEstablished(URI uri) {}

    @Override
    public void onConnectionFailure(Throwable error) {}

    @Override
    public void onConnectionInterrupted(URI uri) {}

    @Override
    public void onInboundMessage(JmsInboundMessageDispatch message) {}

    @Override
    public void onSessionClosed(Session session, Throwable error) {}

    @Override
    public void onConsumerClosed(MessageConsumer consumer, Throwable error) {}

    @Override
    public void onProducerClosed(MessageProducer producer, Throwable error) {}
  }

  static String text(Message message) throws JMSException {
    return message == null ? null : message.getBody(String.class);
  }

  static Object large(Session session, String name) throws Exception {
    Queue queue = session.createQueue(queuePattern.replace("{}", name));
    byte[] body = new byte[(8 << 20) + 17];
    for (int at = 0; at < body.length; at++) {
      body[at] = (byte) (at % 251);
    }
    BytesMessage message = session.createBytesMessage();
    message.writeBytes(body);
    session.createProducer(queue).send(message);
    BytesMessage came = (BytesMessage) session.createConsumer(queue).receive(PATIENCE);
    byte[] found = new byte[(int) came.getBodyLength()];
    came.readBytes(found);
    return Map.of("size", found.length, "same", Arrays.equals(body, found));
  }

  static Object failover(Connection connection) throws Exception {
    Restored back = new Restored();
    ((JmsConnection) connection).addConnectionListener(back);
    Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    Session held = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
    Session transacted = connection.createSession(Session.SESSION_TRANSACTED);
    Queue plain = session.createQueue(queuePattern.replace("{}", "failover.plain"));
    Queue kept = session.createQueue(queuePattern.replace("{}", "failover.kept"));
    Queue moved = session.createQueue(queuePattern.replace("{}", "failover.moved"));
    Topic topic = session.createTopic(topicPattern.replace("{}", "failover.topic"));
    TemporaryQueue temporary = session.createTemporaryQueue();
    MessageProducer producer = session.createProducer(null);
    MessageConsumer consumer = session.createConsumer(plain);
    MessageConsumer answers = session.createConsumer(temporary);
    MessageConsumer subscriber = session.createDurableConsumer(topic, "failover");
    MessageConsumer holding = held.createConsumer(kept);
    producer.send(kept, session.createTextMessage("kept"));
    producer.send(plain, session.createTextMessage("before"));
    producer.send(topic, session.createTextMessage("waiting"));
    String before = text(consumer.receive(PATIENCE));
    holding.receive(PATIENCE); // and not acknowledged
    transacted.createProducer(moved).send(transacted.createTextMessage("never"));

    System.out.println("{\"ask\": \"restart\"}");
    String line = new java.io.BufferedReader(new java.io.InputStreamReader(System.in)).readLine();
    if (!"restarted".equals(line) || !back.latch.await(PATIENCE, TimeUnit.MILLISECONDS)) {
      throw new IllegalStateException("it did not come back: " + line);
    }
    String ended = "committed";
    try {
      transacted.commit();
    } catch (TransactionRolledBackException error) {
      ended = "rolled back";
    }
    transacted.createProducer(moved).send(transacted.createTextMessage("then"));
    transacted.commit();
    producer.send(plain, session.createTextMessage("after"));
    producer.send(temporary, session.createTextMessage("temporary"));
    Map<String, Object> seen = new LinkedHashMap<>();
    String after = text(consumer.receive(PATIENCE));
    if (before.equals(after)) { // once more is allowed
      after = text(consumer.receive(PATIENCE));
    }
    seen.put("bodies", List.of(before, after));
    seen.put("temporary", text(answers.receive(PATIENCE)));
    seen.put("durable", text(subscriber.receive(PATIENCE)));
    Message again = holding.receive(PATIENCE);
    seen.put("kept", text(again));
    again.acknowledge();
    seen.put("transaction", ended);
    MessageConsumer moving = session.createConsumer(moved);
    seen.put("moved", text(moving.receive(PATIENCE)));
    seen.put("left", String.valueOf(text(moving.receiveNoWait())));
    subscriber.close();
    session.unsubscribe("failover");
    return seen;
  }

  public static void main(String[] arguments) throws Exception {
    queuePattern = arguments[2];
    topicPattern = arguments[3];
    String place = "amqp://" + arguments[0] + ":" + arguments[1];
    String url =
        "failover:(" + place + ")?failover.initialReconnectDelay=200&failover.reconnectDelay=200"
            + "&failover.maxReconnectDelay=1000&jms.clientID=failover";
    try (Connection connection =
        new JmsConnectionFactory("guest", "guest", url).createConnection()) {
      connection.start();
      Lines.report(
          "large",
          () -> large(connection.createSession(Session.AUTO_ACKNOWLEDGE), "failover.large"));
      Lines.report("failover", () -> failover(connection));
    }
    System.exit(0);
  }
}
