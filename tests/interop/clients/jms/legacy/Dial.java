// Connections and destinations of Qpid's client for AMQP 0-x.

import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.qpid.client.AMQConnection;

class Dial {
  static Connection connect(String host, String port) throws Exception {
    String broker = "brokerlist='tcp://" + host + ":" + port + "'";
    return new AMQConnection("amqp://guest:guest@peer/?" + broker);
  }

  static Queue queue(Session session, String name) throws JMSException {
    String node = "{create: always, node: {type: queue, durable: true}}";
    return session.createQueue("ADDR:" + name + "; " + node);
  }

  static Topic topic(Session session, String name) throws JMSException {
    return session.createTopic("BURL:topic://amq.topic//?routingkey='" + name + "'");
  }
}
