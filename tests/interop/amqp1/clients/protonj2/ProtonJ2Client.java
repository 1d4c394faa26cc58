// Qpid ProtonJ2's imperative client: one JSON line per check. Arguments: host, port, pattern of queue
// addresses ({} stands for the name), pattern of topic addresses. A queue is named after its check.

import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.qpid.protonj2.client.Client;
import org.apache.qpid.protonj2.client.Connection;
import org.apache.qpid.protonj2.client.ConnectionOptions;
import org.apache.qpid.protonj2.client.Delivery;
import org.apache.qpid.protonj2.client.DeliveryState;
import org.apache.qpid.protonj2.client.Message;
import org.apache.qpid.protonj2.client.OutputStreamOptions;
import org.apache.qpid.protonj2.client.Receiver;
import org.apache.qpid.protonj2.client.ReceiverOptions;
import org.apache.qpid.protonj2.client.Sender;
import org.apache.qpid.protonj2.client.Session;
import org.apache.qpid.protonj2.client.StreamDelivery;
import org.apache.qpid.protonj2.client.StreamReceiver;
import org.apache.qpid.protonj2.client.StreamSender;
import org.apache.qpid.protonj2.client.StreamSenderMessage;
import org.apache.qpid.protonj2.client.Tracker;
import org.apache.qpid.protonj2.client.exceptions.ClientConnectionSecuritySaslException;
import org.apache.qpid.protonj2.client.exceptions.ClientException;
import org.apache.qpid.protonj2.client.exceptions.ClientLinkRemotelyClosedException;
import org.apache.qpid.protonj2.types.Symbol;
import org.apache.qpid.protonj2.types.UnsignedByte;
import org.apache.qpid.protonj2.types.UnsignedInteger;
import org.apache.qpid.protonj2.types.UnsignedLong;
import org.apache.qpid.protonj2.types.UnsignedShort;

public class ProtonJ2Client {
  static final int MANY = 200;
  static final long PATIENCE = 60;
  static String host;
  static int port;
  static String queuePattern;
  static String topicPattern;

  interface Act {
    Object on(Connection connection, String address) throws Exception;
  }

  static ConnectionOptions options(String password) {
    ConnectionOptions options = new ConnectionOptions().user("guest").password(password);
    options.requestTimeout(PATIENCE, TimeUnit.SECONDS).sendTimeout(PATIENCE, TimeUnit.SECONDS);
    options.openTimeout(PATIENCE, TimeUnit.SECONDS).closeTimeout(PATIENCE, TimeUnit.SECONDS);
    return options;
  }

  static String queue(String name) {
    return queuePattern.replace("{}", "protonj2." + name);
  }

  static void check(String name, Act act) {
    Lines.report(
        name,
        () -> {
          try (Client client = Client.create();
              Connection connection = client.connect(host, port, options("guest"))) {
            return act.on(connection, queue(name));
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

  static void send(Connection connection, String address, String... texts) throws ClientException {
    try (Sender sender = connection.openSender(address)) {
      for (String text : texts) {
        sender.send(Message.create(text)).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
      }
    }
  }

  static Delivery next(Receiver receiver) throws ClientException {
    Delivery delivery = receiver.receive(PATIENCE, TimeUnit.SECONDS);
    if (delivery == null) {
      throw new IllegalStateException("nothing came");
    }
    return delivery;
  }

  static String text(Delivery delivery) throws ClientException {
    return String.valueOf(delivery.message().body());
  }

  static byte[] octets(int size) {
    byte[] body = new byte[size];
    for (int at = 0; at < size; at++) {
      body[at] = (byte) (at % 251);
    }
    return body;
  }

  static Object order(Connection connection, String address) throws Exception {
    Receiver receiver = connection.openReceiver(address, new ReceiverOptions().creditWindow(20));
    Sender sender = connection.openSender(address);
    List<Tracker> trackers = new ArrayList<>();
    for (int number = 0; number < MANY; number++) {
      trackers.add(sender.send(Message.create(String.valueOf(number))));
    }
    int accepted = 0;
    for (Tracker tracker : trackers) {
      tracker.awaitSettlement(PATIENCE, TimeUnit.SECONDS);
      accepted += tracker.remoteState().isAccepted() ? 1 : 0;
    }
    boolean inOrder = true;
    for (int number = 0; number < MANY; number++) {
      inOrder &= text(next(receiver)).equals(String.valueOf(number)); // accepts by itself
    }
    return map("count", MANY, "in_order", inOrder, "accepted", accepted);
  }

  /** Thousands on their way at once: the client uses a delivery tag again before it is settled. */
  static Object pipelined(Connection connection, String address) throws Exception {
    Sender sender = connection.openSender(address);
    List<Tracker> trackers = new ArrayList<>();
    for (int number = 0; number < 5000; number++) {
      trackers.add(sender.send(Message.create(String.valueOf(number)).durable(true)));
    }
    int accepted = 0;
    for (Tracker tracker : trackers) {
      tracker.awaitSettlement(PATIENCE, TimeUnit.SECONDS);
      accepted += tracker.remoteState().isAccepted() ? 1 : 0;
    }
    Receiver receiver = connection.openReceiver(address, new ReceiverOptions().creditWindow(500));
    boolean inOrder = true;
    for (int number = 0; number < trackers.size(); number++) {
      inOrder &= text(next(receiver)).equals(String.valueOf(number));
    }
    return map("accepted", accepted, "in_order", inOrder);
  }

  static Object outcomes(Connection connection, String address) throws Exception {
    send(connection, address, "again");
    ReceiverOptions options = new ReceiverOptions().autoAccept(false);
    List<Object> counts = new ArrayList<>();
    Receiver receiver = connection.openReceiver(address, options);
    Delivery first = next(receiver);
    counts.add(first.message().deliveryCount());
    first.release();
    Delivery second = next(receiver);
    counts.add(second.message().deliveryCount());
    second.disposition(DeliveryState.modified(true, false, Map.of("x-opt-why", "because")), true);
    Delivery third = next(receiver);
    counts.add(third.message().deliveryCount());
    Object why = third.message().annotation("x-opt-why");
    third.reject("test:because", "enough");
    receiver.drain().get(PATIENCE, TimeUnit.SECONDS);
    return map("counts", counts, "why", why, "gone", receiver.queuedDeliveries() == 0);
  }

  /** Undeliverable here is for the others still. */
  static Object elsewhere(Connection connection, String address) throws Exception {
    send(connection, address, "not here");
    ReceiverOptions options = new ReceiverOptions().autoAccept(false);
    try (Receiver one = connection.openReceiver(address, options)) {
      next(one).modified(true, true);
      Receiver other = connection.openReceiver(address, options);
      Delivery found = next(other);
      found.accept();
      return text(found);
    }
  }

  static Object transactions(Connection connection, String address) throws Exception {
    List<Object> seen = new ArrayList<>();
    Session session = connection.openSession();
    Sender sender = session.openSender(address);
    Receiver receiver = session.openReceiver(address, new ReceiverOptions().creditWindow(0));
    Receiver observer = connection.openReceiver(address, new ReceiverOptions().creditWindow(0));
    session.beginTransaction();
    sender.send(Message.create("rolled back")).awaitSettlement(PATIENCE, TimeUnit.SECONDS);
    session.rollbackTransaction();
    session.beginTransaction();
    sender.send(Message.create("committed")).awaitSettlement(PATIENCE, TimeUnit.SECONDS);
    observer.addCredit(1);
    observer.drain().get(PATIENCE, TimeUnit.SECONDS);
    seen.add(observer.queuedDeliveries());
    session.commitTransaction();
    receiver.addCredit(1);
    session.beginTransaction();
    seen.add(text(next(receiver)));
    session.rollbackTransaction();
    receiver.close();
    receiver = session.openReceiver(address, new ReceiverOptions().creditWindow(0));
    receiver.addCredit(1);
    session.beginTransaction();
    Delivery again = next(receiver);
    seen.add(text(again));
    session.commitTransaction();
    receiver.addCredit(1);
    receiver.drain().get(PATIENCE, TimeUnit.SECONDS);
    seen.add(receiver.queuedDeliveries());
    return seen;
  }

  /** A message of 8 MiB that is written and read piece by piece. */
  static Object stream(Connection connection, String address) throws Exception {
    byte[] body = octets((8 << 20) + 17);
    StreamSender sender = connection.openStreamSender(address);
    StreamSenderMessage message = sender.beginMessage();
    message.durable(true).property("kind", "stream");
    OutputStreamOptions options = new OutputStreamOptions().bodyLength(body.length);
    try (OutputStream out = message.body(options)) {
      for (int at = 0; at < body.length; at += 100_000) {
        out.write(body, at, Math.min(100_000, body.length - at));
        out.flush();
      }
    }
    message.tracker().awaitSettlement(PATIENCE, TimeUnit.SECONDS);
    boolean accepted = message.tracker().remoteState().isAccepted();
    StreamReceiver receiver = connection.openStreamReceiver(address);
    StreamDelivery delivery = receiver.receive(PATIENCE, TimeUnit.SECONDS);
    ByteArrayOutputStream found = new ByteArrayOutputStream();
    Object kind = delivery.message().property("kind");
    try (InputStream in = delivery.message().body()) {
      in.transferTo(found);
    }
    delivery.accept();
    boolean same = Arrays.equals(body, found.toByteArray());
    return map("size", found.size(), "same", same, "accepted", accepted, "kind", kind);
  }

  /** What the sender aborts never was. */
  static Object aborted(Connection connection, String address) throws Exception {
    StreamSender sender = connection.openStreamSender(address);
    StreamSenderMessage message = sender.beginMessage();
    OutputStream out = message.body();
    out.write(octets(300_000));
    out.flush();
    message.abort();
    send(connection, address, "whole");
    return text(next(connection.openReceiver(address)));
  }

  static Object large(Connection connection, String address) throws Exception {
    byte[] body = octets((8 << 20) + 17);
    connection.openSender(address).send(Message.create(body)).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
    byte[] found = (byte[]) next(connection.openReceiver(address)).message().body();
    return map("size", found.length, "same", Arrays.equals(body, found));
  }

  static Object values(Connection connection, String address) throws Exception {
    Map<String, Object> sent = new TreeMap<>();
    sent.put("boolean", true);
    sent.put("ubyte", UnsignedByte.valueOf((byte) 255));
    sent.put("ushort", UnsignedShort.valueOf((short) 65535));
    sent.put("uint", UnsignedInteger.MAX_VALUE);
    sent.put("ulong", UnsignedLong.valueOf(-1L));
    sent.put("byte", (byte) -128);
    sent.put("short", (short) -32768);
    sent.put("int", Integer.MIN_VALUE);
    sent.put("long", Long.MIN_VALUE);
    sent.put("float", 0.5f);
    sent.put("double", 1e300);
    sent.put("char", 'ü');
    sent.put("timestamp", new Date(1234567890123L));
    sent.put("uuid", new UUID(1, -1));
    sent.put("string", "grün ✓");
    sent.put("symbol", Symbol.valueOf("symbol"));
    Map<Object, Object> body = new LinkedHashMap<>();
    body.put("list", Arrays.asList(1, "two", Map.of("deep", UnsignedLong.valueOf(3))));
    body.put(7L, "a key of another type");
    Message<Map<Object, Object>> message = Message.create(body);
    for (Map.Entry<String, Object> one : sent.entrySet()) {
      message.property(one.getKey(), one.getValue());
    }
    message.durable(true).priority((byte) 7).timeToLive(3_600_000);
    message.messageId(new UUID(9, 9)).userId("guest".getBytes()).to(address).subject("subject");
    message.replyTo("reply").correlationId(UnsignedLong.valueOf(77)).contentType("text/plain");
    message.contentEncoding("utf-8");
    message.absoluteExpiryTime(4102444800000L).creationTime(1700000000000L).groupId("group");
    message.groupSequence(4).replyToGroupId("other").annotation("x-opt-text", "annotation");
    connection.openSender(address).send(message).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
    Message<Object> came = next(connection.openReceiver(address)).message();
    List<String> other = new ArrayList<>();
    for (Map.Entry<String, Object> one : sent.entrySet()) {
      Object saw = came.property(one.getKey());
      Object wanted = one.getValue() instanceof Date date ? date.getTime() : one.getValue();
      if (!wanted.equals(saw)) { // this client shows a timestamp as a number
        other.add(one.getKey() + ": " + saw);
      }
    }
    List<Object> expected =
        List.of(
            body, true, (byte) 7, new UUID(9, 9), "guest", address, "subject", "reply",
            UnsignedLong.valueOf(77), "text/plain", "utf-8", 4102444800000L, 1700000000000L,
            "group", 4, "other", "annotation");
    List<Object> found =
        Arrays.asList(
            came.body(), came.durable(), came.priority(), came.messageId(),
            new String(came.userId(), StandardCharsets.UTF_8), came.to(), came.subject(),
            came.replyTo(), came.correlationId(), came.contentType(), came.contentEncoding(),
            came.absoluteExpiryTime(), came.creationTime(), came.groupId(), came.groupSequence(),
            came.replyToGroupId(), came.annotation("x-opt-text"));
    for (int at = 0; at < expected.size(); at++) {
      if (!expected.get(at).equals(found.get(at))) {
        other.add(expected.get(at) + " came as " + found.get(at));
      }
    }
    return map("other", other);
  }

  static Object reply(Connection connection, String address) throws Exception {
    Receiver answers = connection.openDynamicReceiver();
    Message<String> request = Message.create("question");
    request.messageId("1").replyTo(answers.address());
    connection.openSender(address).send(request).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
    Message<String> came = next(connection.openReceiver(address)).message();
    Message<String> answer = Message.create(came.body() + " answered");
    answer.to(came.replyTo()).correlationId(came.messageId());
    connection.send(answer).awaitAccepted(PATIENCE, TimeUnit.SECONDS); // the anonymous relay
    Message<String> found = next(answers).message();
    return List.of(found.body(), found.correlationId());
  }

  /** A subscription that lasts: detached, published to, attached again, and ended by closing. */
  static Object durable(Connection connection, String address) throws Exception {
    String topic = topicPattern.replace("{}", "protonj2.topic");
    List<Object> seen = new ArrayList<>();
    Receiver receiver = connection.openDurableReceiver(topic, "protonj2-durable");
    receiver.openFuture().get(PATIENCE, TimeUnit.SECONDS);
    receiver.detach();
    send(connection, topic, "while away");
    receiver = connection.openDurableReceiver(topic, "protonj2-durable");
    seen.add(text(next(receiver)));
    receiver.close();
    return seen;
  }

  static Object refused(Connection connection, String address) throws Exception {
    List<Object> seen = new ArrayList<>();
    try {
      connection.openReceiver(queue("none")).openFuture().get(PATIENCE, TimeUnit.SECONDS);
    } catch (java.util.concurrent.ExecutionException error) {
      ClientLinkRemotelyClosedException why = (ClientLinkRemotelyClosedException) error.getCause();
      seen.add(why.getErrorCondition().condition());
    }
    try (Client client = Client.create()) {
      client.connect(host, port, options("wrong")).openFuture().get(PATIENCE, TimeUnit.SECONDS);
    } catch (java.util.concurrent.ExecutionException error) {
      seen.add(error.getCause() instanceof ClientConnectionSecuritySaslException);
    }
    send(connection, address, "alive");
    return seen;
  }

  /** The server dies and comes back; the client reconnects, and its links go on. */
  static Object recovery() throws Exception {
    CountDownLatch back = new CountDownLatch(1);
    ConnectionOptions options = options("guest");
    options.reconnectOptions().reconnectEnabled(true).reconnectDelay(200).maxReconnectDelay(1000);
    options.reconnectedHandler((connection, event) -> back.countDown());
    List<Object> seen = new ArrayList<>();
    try (Client client = Client.create();
        Connection connection = client.connect(host, port, options)) {
      String address = queue("recovery");
      Sender sender = connection.openSender(address);
      Receiver receiver = connection.openReceiver(address);
      String kept = queue("kept");
      Message<String> lasting = Message.create("kept");
      connection.openSender(kept).send(lasting.durable(true)).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
      sender.send(Message.create("before").durable(true)).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
      seen.add(text(next(receiver)));
      System.out.println("{\"ask\": \"restart\"}");
      String line = new java.io.BufferedReader(new java.io.InputStreamReader(System.in)).readLine();
      if (!"restarted".equals(line)) {
        throw new IllegalStateException(line);
      }
      if (!back.await(PATIENCE, TimeUnit.SECONDS)) {
        throw new IllegalStateException("it did not reconnect");
      }
      sender.send(Message.create("after").durable(true)).awaitAccepted(PATIENCE, TimeUnit.SECONDS);
      String after = text(next(receiver));
      seen.add(after.equals("before") ? text(next(receiver)) : after); // once more is allowed
      seen.add(text(next(connection.openReceiver(kept))));
    }
    return seen;
  }

  public static void main(String[] arguments) {
    host = arguments[0];
    port = Integer.parseInt(arguments[1]);
    queuePattern = arguments[2];
    topicPattern = arguments[3];
    check("order", ProtonJ2Client::order);
    check("pipelined", ProtonJ2Client::pipelined);
    check("outcomes", ProtonJ2Client::outcomes);
    check("elsewhere", ProtonJ2Client::elsewhere);
    check("transactions", ProtonJ2Client::transactions);
    check("stream", ProtonJ2Client::stream);
    check("aborted", ProtonJ2Client::aborted);
    check("large", ProtonJ2Client::large);
    check("values", ProtonJ2Client::values);
    check("reply", ProtonJ2Client::reply);
    check("durable", ProtonJ2Client::durable);
    check("refused", ProtonJ2Client::refused);
    Lines.report("recovery", ProtonJ2Client::recovery);
    System.exit(0);
  }
}
