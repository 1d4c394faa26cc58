// Takes the messages of a queue until its standard input ends, one JSON line for each: its text,
// and the reasons to think that it may have come before. Arguments: host, port, queue, and the names
// of properties that are such reasons.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.TextMessage;

public class QueueReader {
  static volatile boolean done;

  static String text(Message message) throws Exception {
    if (message instanceof TextMessage) {
      return ((TextMessage) message).getText();
    }
    BytesMessage bytes = (BytesMessage) message;
    byte[] body = new byte[(int) bytes.getBodyLength()];
    bytes.readBytes(body);
    return new String(body, "UTF-8");
  }

  static Map<String, Object> line(Message message, List<String> marks) throws Exception {
    List<Object> again = new ArrayList<>();
    if (message.getJMSRedelivered()) {
      again.add("redelivered");
    }
    for (Object name : Collections.list(message.getPropertyNames())) {
      if (marks.contains(name)) {
        again.add(name);
      }
    }
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("body", text(message));
    found.put("again", again);
    return found;
  }

  static void untilInputEnds() {
    try {
      while (System.in.read() >= 0) {}
    } catch (java.io.IOException ended) {
      // as good as its end
    }
    done = true;
  }

  public static void main(String[] words) throws Exception {
    List<String> marks = Arrays.asList(words).subList(3, words.length);
    Connection connection = Dial.connect(words[0], words[1]);
    connection.setExceptionListener(
        (JMSException error) -> {
          error.printStackTrace();
          Runtime.getRuntime().halt(1);
        });
    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    MessageConsumer consumer = session.createConsumer(Dial.queue(session, words[2]));
    connection.start();
    System.out.println("{}");
    new Thread(QueueReader::untilInputEnds).start();
    while (!done) {
      Message message = consumer.receive(200);
      if (message != null) {
        System.out.println(Lines.json(line(message, marks)));
        message.acknowledge();
      }
    }
    connection.close();
  }
}
