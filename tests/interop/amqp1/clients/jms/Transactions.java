// Checks of acknowledgement and of local transactions, the connection lost in the middle included.

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

class Transactions {
  static List<Object> next(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receive(JmsClient.LONG);
    if (message == null) {
      return null;
    }
    int count = message.getIntProperty("JMSXDeliveryCount");
    return List.of(JmsClient.text(message), message.getJMSRedelivered(), count);
  }

  static Object clientAcknowledge(String name) throws Exception {
    List<Object> seen = new ArrayList<>();
    JmsClient.with(
        Session.CLIENT_ACKNOWLEDGE,
        "",
        (connection, session) -> {
          Queue queue = JmsClient.queue(session, name);
          JmsClient.send(session, queue, "a", "b", "c");
          MessageConsumer consumer = session.createConsumer(queue);
          seen.add(next(consumer));
          seen.add(next(consumer));
          session.recover();
          seen.add(next(consumer));
          Message second = consumer.receive(JmsClient.LONG);
          seen.add(JmsClient.text(second));
          second.acknowledge();
          return null;
        });
    return JmsClient.with(
        (connection, session) -> {
          MessageConsumer consumer = session.createConsumer(JmsClient.queue(session, name));
          return JmsClient.map("seen", seen, "left", JmsClient.texts(consumer, 1));
        });
  }

  static Object redeliveryCount(String name) throws Exception {
    return JmsClient.with(
        Session.SESSION_TRANSACTED,
        "",
        (connection, session) -> {
          Queue queue = JmsClient.queue(session, name);
          JmsClient.send(session, queue, "again");
          session.commit();
          MessageConsumer consumer = session.createConsumer(queue);
          List<Object> seen = new ArrayList<>();
          for (int time = 0; time < 4; time++) {
            seen.add(next(consumer));
            session.rollback();
          }
          consumer.receive(JmsClient.LONG);
          session.commit();
          return seen;
        });
  }

  /** What an observer sees before and after the end of a transaction that sends and receives. */
  static Object transacted(String name, boolean commit) throws Exception {
    return JmsClient.with(
        (connection, observing) -> {
          Queue queue = JmsClient.queue(observing, name);
          JmsClient.send(observing, queue, "old");
          Session session = connection.createSession(Session.SESSION_TRANSACTED);
          MessageConsumer taking = session.createConsumer(queue);
          String taken = JmsClient.text(taking.receive(JmsClient.LONG));
          JmsClient.send(session, queue, "new 1", "new 2");
          List<String> before = new ArrayList<>();
          var seen = observing.createBrowser(queue).getEnumeration();
          while (seen.hasMoreElements()) {
            before.add(JmsClient.text((Message) seen.nextElement()));
          }
          before.remove("old"); // some show what is acquired, some do not
          if (commit) {
            session.commit();
          } else {
            session.rollback();
          }
          session.close();
          List<String> after = JmsClient.texts(observing.createConsumer(queue), commit ? 2 : 1);
          return JmsClient.map("taken", taken, "before", before, "after", after);
        });
  }

  /** The connection goes in the middle of a transaction: nothing of it has happened. */
  static Object transactionLost(String name) throws Exception {
    JmsClient.with((connection, session) -> sendOne(session, name));
    try (Wire wire = new Wire(JmsClient.host, JmsClient.port)) {
      Connection connection = JmsClient.connect(wire.port(), "");
      connection.start();
      Session session = connection.createSession(Session.SESSION_TRANSACTED);
      Queue queue = JmsClient.queue(session, name);
      String taken = JmsClient.text(session.createConsumer(queue).receive(JmsClient.LONG));
      JmsClient.send(session, queue, "never 1", "never 2");
      wire.cut();
      String refused = "no";
      try {
        session.commit();
      } catch (JMSException error) {
        refused = "yes";
      }
      try {
        connection.close();
      } catch (JMSException gone) {
        // as it should be
      }
      String told = refused;
      return JmsClient.with(
          (again, observing) -> {
            MessageConsumer consumer = observing.createConsumer(JmsClient.queue(observing, name));
            List<String> after = JmsClient.texts(consumer, 1);
            return JmsClient.map("taken", taken, "refused", told, "after", after);
          });
    }
  }

  static String sendOne(Session session, String name) throws JMSException {
    JmsClient.send(session, JmsClient.queue(session, name), "old");
    return "old";
  }

  static void checks(Map<String, JmsClient.Check> checks) {
    checks.put("client_acknowledge", Transactions::clientAcknowledge);
    checks.put("redelivery_count", Transactions::redeliveryCount);
    checks.put("commit", name -> transacted(name, true));
    checks.put("rollback", name -> transacted(name, false));
    checks.put("transaction_lost", Transactions::transactionLost);
  }
}
