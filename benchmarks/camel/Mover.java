// Apache Camel between RabbitMQ (0-9-1) and a broker of 1.0: one route, for as long as standard
// input says "start" and not "stop"; each is answered with a line.
// Arguments: port of RabbitMQ, queue there, port of the other broker, queue there, consumers.

import java.util.Scanner;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.amqp.AMQPComponent;
import org.apache.camel.component.springrabbit.SpringRabbitMQComponent;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.qpid.jms.JmsConnectionFactory;
import org.messaginghub.pooled.jms.JmsPoolConnectionFactory;
import org.springframework.amqp.rabbit.connection.CachingConnectionFactory;

public class Mover {
  public static void main(String[] given) throws Exception {
    CachingConnectionFactory old =
        new CachingConnectionFactory("127.0.0.1", Integer.parseInt(given[0]));
    old.setUsername("guest");
    old.setPassword("guest");
    JmsPoolConnectionFactory pool = new JmsPoolConnectionFactory();
    pool.setUseAnonymousProducers(false); // a link for each producer, which are kept
    pool.setExplicitProducerCacheSize(10);
    pool.setConnectionFactory(
        new JmsConnectionFactory("guest", "guest", "amqp://127.0.0.1:" + given[2]));
    SpringRabbitMQComponent source = new SpringRabbitMQComponent();
    source.setConnectionFactory(old);
    AMQPComponent target = new AMQPComponent(pool);
    DefaultCamelContext context = new DefaultCamelContext();
    context.addComponent("old", source);
    context.addComponent("new", target);
    context.addRoutes(
        new RouteBuilder() {
          @Override
          public void configure() {
            from("old:default?queues="
                    + given[1]
                    + "&autoDeclare=false&acknowledgeMode=AUTO&prefetchCount=1000"
                    + "&concurrentConsumers="
                    + given[4])
                .routeId("moves")
                .autoStartup(false)
                .to("new:queue:" + given[3] + "?jmsMessageType=Bytes&deliveryPersistent=true");
          }
        });
    context.start();
    System.out.println("ready");
    Scanner lines = new Scanner(System.in);
    while (lines.hasNextLine()) {
      String line = lines.nextLine();
      if (line.equals("start")) {
        context.getRouteController().startRoute("moves");
      } else {
        context.getRouteController().stopRoute("moves");
      }
      System.out.println(line);
    }
    System.exit(0);
  }
}
