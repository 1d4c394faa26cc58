// Checks of topics: subscriptions plain, durable and shared, selectors, no-local.

import jakarta.jms.Connection;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

class Topics {
  static Object topic(String name) throws Exception {
    return JmsClient.with(
        (connection, session) -> {
          Topic topic = JmsClient.topic(session, name);
          JmsClient.send(session, topic, "nobody listens");
          MessageConsumer first = session.createConsumer(topic);
          MessageConsumer second = session.createConsumer(topic);
          MessageConsumer choosy = session.createConsumer(topic, "colour = 'red'");
          JmsClient.send(session, topic, "a", "b");
          Message red = session.createTextMessage("c");
          red.setStringProperty("colour", "red");
          MessageProducer producer = session.createProducer(topic);
          producer.send(red);
          return List.of(
              JmsClient.texts(first, 3), JmsClient.texts(second, 3), JmsClient.texts(choosy, 1));
        });
  }

  static Connection identified(String id) throws Exception {
    Connection connection = JmsClient.connect(JmsClient.port, "&jms.clientID=" + id);
    connection.start();
    return connection;
  }

  static Object durable(String name) throws Exception {
    List<List<String>> seen = new ArrayList<>();
    for (int time = 0; time < 3; time++) {
      try (Connection connection = identified("client-" + name)) {
        Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        Topic topic = JmsClient.topic(session, name);
        try (MessageConsumer consumer = session.createDurableSubscriber(topic, "subscription")) {
          seen.add(JmsClient.texts(consumer, time));
        }
        if (time == 2) {
          session.unsubscribe("subscription");
        }
      }
      JmsClient.with(
          (connection, session) -> {
            Topic topic = JmsClient.topic(session, name);
            JmsClient.send(session, topic, "a", "b");
            return null;
          });
    }
    try (Connection connection = identified("client-" + name)) {
      Session session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
      Topic topic = JmsClient.topic(session, name);
      try (MessageConsumer consumer = session.createDurableSubscriber(topic, "subscription")) {
        seen.add(JmsClient.texts(consumer, 0));
      }
      session.unsubscribe("subscription");
    }
    return seen;
  }

  static List<String> numbers(int count) {
    List<String> found = new ArrayList<>();
    for (int number = 0; number < count; number++) {
      found.add(String.valueOf(100 + number));
    }
    return found;
  }

  /** Two connections share a subscription: each message goes to one of them. */
  static Object shared(String name, boolean durable) throws Exception {
    try (Connection one = JmsClient.connect(JmsClient.port, "&jms.prefetchPolicy.all=1");
        Connection other = JmsClient.connect(JmsClient.port, "&jms.prefetchPolicy.all=1")) {
      List<MessageConsumer> consumers = new ArrayList<>();
      Session session = null;
      for (Connection connection : List.of(one, other)) {
        connection.start();
        session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
        Topic topic = JmsClient.topic(session, name);
        consumers.add(
            durable
                ? session.createSharedDurableConsumer(topic, "shared-durable")
                : session.createSharedConsumer(topic, "shared"));
      }
      String[] sent = numbers(20).toArray(new String[0]);
      JmsClient.send(session, JmsClient.topic(session, name), sent);
      List<String> found = new ArrayList<>();
      int silent = 0;
      while (found.size() < sent.length && silent < 20) {
        for (MessageConsumer consumer : consumers) {
          Message message = consumer.receive(JmsClient.SHORT);
          if (message == null) {
            silent++;
          } else {
            found.add(JmsClient.text(message));
          }
        }
      }
      boolean twice = false;
      for (MessageConsumer consumer : consumers) {
        twice |= consumer.receive(JmsClient.SHORT) != null;
        consumer.close();
      }
      if (durable) {
        session.unsubscribe("shared-durable");
      }
      boolean all = JmsClient.sorted(found).equals(List.of(sent));
      return JmsClient.map("all", all, "twice", twice);
    }
  }

  static Object noLocal(String name) throws Exception {
    return JmsClient.with(
        (connection, session) -> {
          Topic topic = JmsClient.topic(session, name);
          MessageConsumer consumer = session.createConsumer(topic, null, true);
          JmsClient.send(session, topic, "mine");
          JmsClient.with(
              (other, its) -> {
                JmsClient.send(its, JmsClient.topic(its, name), "theirs");
                return null;
              });
          return JmsClient.texts(consumer, 1);
        });
  }

  static Object temporary(String name) throws Exception {
    return JmsClient.with(
        (connection, session) -> {
          Topic topic = session.createTemporaryTopic();
          MessageConsumer first = session.createConsumer(topic);
          MessageConsumer second = session.createConsumer(topic);
          JmsClient.send(session, topic, "a");
          return List.of(JmsClient.texts(first, 1), JmsClient.texts(second, 1));
        });
  }

  static void checks(Map<String, JmsClient.Check> checks) {
    checks.put("topic", Topics::topic);
    checks.put("durable_subscription", Topics::durable);
    checks.put("shared_subscription", name -> shared(name, false));
    checks.put("shared_durable_subscription", name -> shared(name, true));
    checks.put("no_local", Topics::noLocal);
    checks.put("temporary_topic", Topics::temporary);
  }
}
