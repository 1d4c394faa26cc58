// Failover of the JMS client of Qpid: a transacted and a client-acknowledged exchange, while the
// server is killed and started again. One JSON line per check. Arguments: host, port, and a port
// without a server. The version is the system property qpid.amqp.version.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.qpid.client.AMQConnection;
import org.apache.qpid.client.AMQSession;
import org.apache.qpid.jms.ConnectionListener;

public class QpidFailover {
  static final int BATCH = 5;
  static final int BEFORE = 20;
  static final int AFTER = 20;
  static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in));
  static String url;

  /** Counts failovers of a connection. */
  static class Failovers implements ConnectionListener {
    final AtomicInteger complete = new AtomicInteger();

    public void bytesSent(long count) {}

    public void bytesReceived(long count) {}

    public boolean preFailover(boolean redirect) {
      return true;
    }

    public boolean preResubscribe() {
      return true;
    }

    public void failoverComplete() {
      complete.incrementAndGet();
    }
  }

  /** What was sent and received, and how sure that is. */
  static class Exchange {
    final Failovers failovers = new Failovers();
    final TreeSet<String> sent = new TreeSet<>();
    final TreeSet<String> maybeSent = new TreeSet<>();
    final TreeSet<String> taken = new TreeSet<>();
    final TreeSet<String> maybeTaken = new TreeSet<>();
    final TreeSet<String> seen = new TreeSet<>();
    final TreeSet<String> again = new TreeSet<>();
    final TreeSet<String> rest = new TreeSet<>();
    final TreeSet<String> unmarked = new TreeSet<>();
    final boolean transacted;
    final String name;
    AMQConnection one;
    AMQConnection two;
    Session out;
    Session in;
    MessageProducer producer;
    MessageConsumer consumer;

    Exchange(String name, boolean transacted) {
      this.name = name;
      this.transacted = transacted;
    }

    Queue queue(Session session) throws JMSException {
      return session.createQueue(
          "ADDR:failover." + name + "; {create: always, node: {durable: true}}");
    }

    AMQConnection connect(boolean counted) throws Exception {
      AMQConnection connection = new AMQConnection(url);
      if (counted) {
        connection.setConnectionListener(failovers);
      }
      connection.start();
      return connection;
    }

    Object run() throws Exception {
      Thread killer = new Thread(QpidFailover::restart);
      try {
        return run(killer);
      } finally {
        killer.join();
      }
    }

    Object run(Thread killer) throws Exception {
      one = connect(true);
      two = connect(true);
      openIn();
      openOut();
      int left = AFTER;
      for (int number = 0; left > 0; number++) {
        send(number);
        if (number == BEFORE) {
          killer.start();
        }
        receive();
        if (number > BEFORE && !killer.isAlive() && failovers.complete.get() >= 2) {
          left--;
        }
      }
      one.close();
      two.close();
      drain();
      Map<String, Object> found = new LinkedHashMap<>();
      TreeSet<String> lost = new TreeSet<>(sent);
      lost.removeAll(maybeTaken);
      lost.removeAll(rest);
      again.removeAll(maybeSent);
      unmarked.removeAll(maybeSent);
      found.put("lost", new ArrayList<>(lost));
      found.put("taken again", new ArrayList<>(again));
      found.put("unmarked", new ArrayList<>(unmarked));
      return found;
    }

    void openIn() throws JMSException {
      int mode = transacted ? Session.SESSION_TRANSACTED : Session.CLIENT_ACKNOWLEDGE;
      in = two.createSession(transacted, mode);
      consumer = in.createConsumer(queue(in));
    }

    void openOut() throws JMSException {
      out = one.createSession(true, Session.SESSION_TRANSACTED);
      producer = out.createProducer(queue(out));
    }

    /** Send a batch in transactions until one is committed. */
    void send(int number) {
      TreeSet<String> batch = new TreeSet<>();
      for (int each = 0; each < BATCH; each++) {
        batch.add(String.format("%04d-%d", number, each));
      }
      while (true) {
        try {
          for (String text : batch) {
            producer.send(out.createTextMessage(text));
          }
          out.commit();
          sent.addAll(batch);
          return;
        } catch (JMSException error) {
          maybeSent.addAll(batch);
          back(out);
        }
      }
    }

    /** Receive a batch, and confirm it. */
    void receive() {
      List<String> batch = new ArrayList<>();
      try {
        Message last = null;
        while (batch.size() < BATCH) {
          Message message = consumer.receive(3000);
          if (message == null) {
            break;
          }
          last = message;
          batch.add(see(message));
        }
        maybeTaken.addAll(batch);
        if (transacted) {
          in.commit();
        } else if (last != null) {
          last.acknowledge();
        }
        taken.addAll(batch);
      } catch (JMSException | IllegalStateException error) { // the latter by 0-8, out of acknowledge
        back(in);
      }
    }

    String see(Message message) throws JMSException {
      String text = ((TextMessage) message).getText();
      if (taken.contains(text)) {
        again.add(text);
      }
      if (!seen.add(text) && !message.getJMSRedelivered()) {
        unmarked.add(text);
      }
      return text;
    }

    void back(Session session) {
      try {
        if (((AMQSession<?, ?>) session).isClosed()) {
          // 0-10: a commit was interrupted; others: the client confirmed what the dead server sent
          if (session == in) {
            openIn();
          } else {
            openOut();
          }
        } else if (session.getTransacted()) {
          session.rollback();
        } else {
          session.recover();
        }
      } catch (JMSException error) {
        pause(); // it is failing over again
      }
    }

    void drain() throws Exception {
      AMQConnection connection = connect(false);
      Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
      MessageConsumer consumer = session.createConsumer(queue(session));
      Message message;
      while ((message = consumer.receive(1000)) != null) {
        rest.add(see(message));
      }
      connection.close();
    }
  }

  static void pause() {
    try {
      Thread.sleep(100);
    } catch (InterruptedException error) {
      throw new IllegalStateException(error);
    }
  }

  static void restart() {
    try {
      System.out.println("{\"ask\": \"restart\"}");
      ANSWERS.readLine();
    } catch (java.io.IOException error) {
      throw new IllegalStateException(error);
    }
  }

  public static void main(String[] arguments) throws Exception {
    String patience = "?retries='100'&connectdelay='200'";
    url =
        String.format(
            "amqp://guest:guest@failover/?failover='roundrobin?cyclecount='100''"
                + "&brokerlist='tcp://%s:%s?connectdelay='100';tcp://%s:%s%s'",
            arguments[0], arguments[2], arguments[0], arguments[1], patience);
    Lines.report("transacted", () -> new Exchange("transacted", true).run());
    Lines.report("client_acknowledge", () -> new Exchange("acknowledged", false).run());
    Runtime.getRuntime().halt(0);
  }
}
