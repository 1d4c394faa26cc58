// XA with the JMS client of Qpid for AMQP 0-10: one JSON line per check. Arguments: host, port, and
// what to do: "checks", "prepare" (leaves prepared branches behind and dies), "recover" (of those),
// "decided" (by an administrator, over the HTTP port that follows).

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.qpid.client.AMQConnection;
import org.apache.qpid.client.AMQConnectionURL;
import org.apache.qpid.client.XAConnectionImpl;

public class QpidXa {
  static final long LONG = 10000;
  static final long SHORT = 400;
  static String url;

  record Branch(int getFormatId, String global, String branch) implements Xid {
    Branch(String global) {
      this(4711, global, "b");
    }

    public int getFormatId() {
      return getFormatId;
    }

    public byte[] getGlobalTransactionId() {
      return global.getBytes(StandardCharsets.UTF_8);
    }

    public byte[] getBranchQualifier() {
      return branch.getBytes(StandardCharsets.UTF_8);
    }
  }

  /** A connection with one session that takes part in branches, and its resource. */
  static class Party implements AutoCloseable {
    final XAConnection connection;
    final XASession session;
    final XAResource resource;

    Party() throws Exception {
      connection = new XAConnectionImpl(new AMQConnectionURL(url));
      connection.start();
      session = connection.createXASession();
      resource = session.getXAResource();
    }

    void send(String queue, String... texts) throws JMSException {
      MessageProducer producer = session.createProducer(queue(session, queue));
      for (String text : texts) {
        producer.send(session.createTextMessage(text));
      }
      producer.close();
    }

    List<String> take(String queue, int count) throws JMSException {
      MessageConsumer consumer = session.createConsumer(queue(session, queue));
      List<String> found = new ArrayList<>();
      while (found.size() < count) {
        found.add(text(consumer.receive(LONG)));
      }
      return found;
    }

    public void close() throws JMSException {
      connection.close();
    }
  }

  interface Step {
    void run() throws Exception;
  }

  /** The error code of XA, 0 if there is none. */
  static int code(Step step) throws Exception {
    try {
      step.run();
      return 0;
    } catch (XAException error) {
      return error.errorCode;
    }
  }

  static Queue queue(Session session, String name) throws JMSException {
    return session.createQueue("ADDR:xa." + name + "; {create: always, node: {durable: true}}");
  }

  static String text(Message message) throws JMSException {
    return message == null ? null : ((TextMessage) message).getText();
  }

  /** Fill a queue, which is made, outside of all branches. */
  static void put(String name, String... texts) throws Exception {
    Connection connection = new AMQConnection(url);
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    session.createConsumer(queue(session, name)).close();
    MessageProducer producer = session.createProducer(queue(session, name));
    for (String text : texts) {
      producer.send(session.createTextMessage(text));
    }
    connection.close();
  }

  /** Take everything out of a queue; what was received and comes again has a star. */
  static List<String> rest(String name) throws Exception {
    Connection connection = new AMQConnection(url);
    connection.start();
    Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    MessageConsumer consumer = session.createConsumer(queue(session, name));
    List<String> found = new ArrayList<>();
    Message message;
    while ((message = consumer.receive(SHORT)) != null) {
      String text = text(message);
      boolean again = message.getJMSRedelivered() && !text.equals("two"); // that was prefetched
      found.add(text + (again ? "*" : ""));
    }
    connection.close();
    return found;
  }

  /** Receive one of two messages and send two, in a branch; how it ends. */
  static void work(Party party, Branch xid, String name) throws Exception {
    put(name + ".in", "one", "two");
    put(name + ".out");
    party.resource.start(xid, XAResource.TMNOFLAGS);
    party.take(name + ".in", 1);
    party.send(name + ".out", "a", "b");
    party.resource.end(xid, XAResource.TMSUCCESS);
  }

  static Object completed(String name, boolean prepared, boolean committed) throws Exception {
    List<Object> seen = new ArrayList<>();
    Branch xid = new Branch(name);
    try (Party party = new Party()) {
      work(party, xid, name);
      seen.add(rest(name + ".out"));
      if (prepared) {
        seen.add(party.resource.prepare(xid));
        seen.add(rest(name + ".out"));
      }
      if (committed) {
        party.resource.commit(xid, !prepared);
      } else {
        party.resource.rollback(xid);
      }
    }
    seen.add(rest(name + ".in"));
    seen.add(rest(name + ".out"));
    return seen;
  }

  static Object suspendAndResume() throws Exception {
    put("suspend");
    Branch one = new Branch("suspended");
    Branch two = new Branch("meanwhile");
    try (Party party = new Party()) {
      XAResource resource = party.resource;
      resource.start(one, XAResource.TMNOFLAGS);
      party.send("suspend", "1");
      resource.end(one, XAResource.TMSUSPEND);
      resource.start(two, XAResource.TMNOFLAGS);
      party.send("suspend", "2");
      resource.end(two, XAResource.TMSUCCESS);
      resource.start(one, XAResource.TMRESUME);
      party.send("suspend", "3");
      resource.end(one, XAResource.TMSUCCESS);
      resource.rollback(two);
      resource.commit(one, true);
    }
    return rest("suspend");
  }

  static Object join() throws Exception {
    put("join");
    Branch xid = new Branch("joined");
    try (Party one = new Party();
        Party two = new Party()) {
      one.resource.start(xid, XAResource.TMNOFLAGS);
      one.send("join", "1");
      one.resource.end(xid, XAResource.TMSUCCESS);
      two.resource.start(xid, XAResource.TMJOIN);
      two.send("join", "2");
      two.resource.end(xid, XAResource.TMSUCCESS);
      two.resource.prepare(xid);
      two.resource.commit(xid, false);
    }
    return rest("join");
  }

  /** Whether a transaction manager joins the branches of two connections. */
  static Object sameRm() throws Exception {
    try (Party one = new Party();
        Party two = new Party()) {
      return Arrays.asList(
          one.resource.isSameRM(one.resource), one.resource.isSameRM(two.resource));
    }
  }

  static Object failed() throws Exception {
    List<Object> seen = new ArrayList<>();
    put("failed");
    Branch xid = new Branch("failed");
    try (Party party = new Party()) {
      party.resource.start(xid, XAResource.TMNOFLAGS);
      party.send("failed", "x");
      seen.add(code(() -> party.resource.end(xid, XAResource.TMFAIL)));
      seen.add(code(() -> party.resource.prepare(xid)));
      code(() -> party.resource.rollback(xid)); // if it is known
    }
    seen.add(rest("failed"));
    return seen;
  }

  static Object timeout() throws Exception {
    List<Object> seen = new ArrayList<>();
    put("timeout");
    Branch xid = new Branch("timeout");
    try (Party party = new Party()) {
      party.resource.setTransactionTimeout(1);
      party.resource.start(xid, XAResource.TMNOFLAGS);
      seen.add(party.resource.getTransactionTimeout());
      party.send("timeout", "x");
      Thread.sleep(2500);
      seen.add(code(() -> party.resource.end(xid, XAResource.TMSUCCESS)));
      seen.add(code(() -> party.resource.prepare(xid)));
    }
    seen.add(rest("timeout"));
    return seen;
  }

  /** Requests that do not fit, each in a session of its own. */
  static Object codes() throws Exception {
    Branch unknown = new Branch("unknown");
    List<Integer> seen = new ArrayList<>();
    List<XaStep> steps =
        Arrays.asList(
            resource -> resource.commit(unknown, false),
            resource -> resource.commit(unknown, true),
            resource -> resource.rollback(unknown),
            resource -> resource.prepare(unknown),
            resource -> resource.forget(unknown),
            resource -> resource.start(unknown, XAResource.TMJOIN),
            resource -> resource.start(unknown, XAResource.TMRESUME));
    for (XaStep step : steps) {
      try (Party party = new Party()) {
        seen.add(code(() -> step.on(party.resource)));
      }
    }
    return seen;
  }

  interface XaStep {
    void on(XAResource resource) throws Exception;
  }

  /** Requests that do not fit the state of a branch, each on another branch and session. */
  static Object states() throws Exception {
    List<Integer> seen = new ArrayList<>();
    int number = 0;
    for (String state : Arrays.asList("ended", "prepared")) {
      List<XaStep> steps = new ArrayList<>();
      Branch[] xid = new Branch[1];
      steps.add(resource -> resource.start(xid[0], XAResource.TMNOFLAGS));
      steps.add(resource -> resource.commit(xid[0], state.equals("prepared")));
      steps.add(resource -> resource.forget(xid[0]));
      for (XaStep step : steps) {
        xid[0] = new Branch("states-" + number++);
        try (Party one = new Party();
            Party two = new Party()) {
          one.resource.start(xid[0], XAResource.TMNOFLAGS);
          one.resource.end(xid[0], XAResource.TMSUCCESS);
          if (state.equals("prepared")) {
            one.resource.prepare(xid[0]);
          }
          seen.add(code(() -> step.on(two.resource)));
          one.resource.rollback(xid[0]);
        }
      }
    }
    return seen;
  }

  static Object recovered() throws Exception {
    try (Party party = new Party()) {
      Xid[] found = party.resource.recover(XAResource.TMSTARTRSCAN);
      TreeSet<String> names = new TreeSet<>();
      for (Xid xid : found) {
        String global = new String(xid.getGlobalTransactionId(), StandardCharsets.UTF_8);
        String branch = new String(xid.getBranchQualifier(), StandardCharsets.UTF_8);
        names.add(xid.getFormatId() + " " + global + " " + branch);
      }
      return new ArrayList<>(names);
    }
  }

  /** The session that has prepared a branch ends before another completes it. */
  static Object outlives() throws Exception {
    List<Object> seen = new ArrayList<>();
    Branch xid = new Branch("outlives");
    try (Party party = new Party()) {
      work(party, xid, "outlives");
      party.resource.prepare(xid);
    }
    seen.add(recovered());
    try (Party party = new Party()) {
      party.resource.commit(xid, false);
    }
    seen.add(recovered());
    seen.add(rest("outlives.in"));
    seen.add(rest("outlives.out"));
    return seen;
  }

  static Object prepare() throws Exception {
    for (String name : Arrays.asList("kept", "dropped", "lost")) {
      Branch xid = new Branch(name);
      Party party = new Party();
      work(party, xid, name);
      if (!name.equals("lost")) {
        party.resource.prepare(xid);
      }
    }
    return recovered();
  }

  static Object recover() throws Exception {
    List<Object> seen = new ArrayList<>();
    seen.add(recovered());
    for (String name : Arrays.asList("kept", "dropped", "lost")) {
      List<String> in = rest(name + ".in");
      seen.add(Arrays.asList(in, rest(name + ".out")));
    }
    try (Party party = new Party()) {
      party.resource.commit(new Branch("kept"), false);
      party.resource.rollback(new Branch("dropped"));
      seen.add(code(() -> party.resource.rollback(new Branch("lost"))));
    }
    for (String name : Arrays.asList("kept", "dropped")) {
      List<String> in = rest(name + ".in");
      seen.add(Arrays.asList(in, rest(name + ".out")));
    }
    seen.add(recovered());
    return seen;
  }

  /** Prepared branches are decided by hand before they are completed the other way. */
  static Object decided(String administration) throws Exception {
    List<Object> seen = new ArrayList<>();
    HttpClient http = HttpClient.newHttpClient();
    String login = Base64.getEncoder().encodeToString("guest:guest".getBytes());
    for (String decision : Arrays.asList("commit", "rollback")) {
      Branch xid = new Branch("decided-" + decision);
      try (Party party = new Party()) {
        work(party, xid, "decided." + decision);
        party.resource.prepare(xid);
        HexFormat hex = HexFormat.of();
        String name =
            "4711:"
                + hex.formatHex(xid.getGlobalTransactionId())
                + ":"
                + hex.formatHex(xid.getBranchQualifier());
        String path = administration + "/v1/admin/vhosts/%2F/branches/" + name + "/" + decision;
        HttpRequest request =
            HttpRequest.newBuilder(URI.create(path))
                .header("authorization", "Basic " + login)
                .POST(HttpRequest.BodyPublishers.noBody())
                .build();
        seen.add(http.send(request, HttpResponse.BodyHandlers.ofString()).statusCode());
        seen.add(recovered());
        seen.add(code(() -> party.resource.rollback(xid)));
        seen.add(code(() -> party.resource.commit(xid, false)));
        party.resource.forget(xid);
        seen.add(code(() -> party.resource.commit(xid, false)));
      }
      seen.add(recovered());
      seen.add(rest("decided." + decision + ".in"));
      seen.add(rest("decided." + decision + ".out"));
    }
    return seen;
  }

  public static void main(String[] arguments) throws Exception {
    String address = arguments[0] + ":" + arguments[1];
    url = "amqp://guest:guest@xa/?brokerlist='tcp://" + address + "'";
    switch (arguments[2]) {
      case "prepare" -> Lines.report("prepare", QpidXa::prepare);
      case "decided" -> Lines.report("decided", () -> decided("http://" + arguments[3]));
      case "recover" -> Lines.report("recover", QpidXa::recover);
      default -> {
        Lines.report("commit", () -> completed("commit", true, true));
        Lines.report("rollback", () -> completed("rollback", true, false));
        Lines.report("one_phase", () -> completed("one_phase", false, true));
        Lines.report("rollback_unprepared", () -> completed("unprepared", false, false));
        Lines.report("suspend_and_resume", QpidXa::suspendAndResume);
        Lines.report("join", QpidXa::join);
        Lines.report("same_rm", QpidXa::sameRm);
        Lines.report("failed", QpidXa::failed);
        Lines.report("timeout", QpidXa::timeout);
        Lines.report("codes", QpidXa::codes);
        Lines.report("states", QpidXa::states);
        Lines.report("outlives", QpidXa::outlives);
      }
    }
    Runtime.getRuntime().halt(0); // without goodbyes
  }
}
