// Connections and destinations of Qpid JMS, the client for AMQP 1.0.

import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.Topic;
import org.apache.qpid.jms.JmsConnectionFactory;

class Dial {
  static Connection connect(String host, String port) throws Exception {
    String url = "amqp://" + host + ":" + port + "?jms.deserializationPolicy.allowList=*";
    return new JmsConnectionFactory("guest", "guest", url).createConnection();
  }

  static Queue queue(Session session, String name) throws JMSException {
    return session.createQueue(name);
  }

  static Topic topic(Session session, String name) throws JMSException {
    return session.createTopic("amq.topic/" + name);
  }
}
