// ActiveMQ Artemis with one acceptor for AMQP 1.0 (and its WebSocket binding) on the loopback.
// Arguments: port, folder for its journal, and perhaps a broker.xml with addresses and diverts.

import java.io.File;
import java.io.FileInputStream;
import java.util.Set;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.deployers.impl.FileConfigurationParser;
import org.apache.activemq.artemis.core.security.CheckType;
import org.apache.activemq.artemis.core.security.Role;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.spi.core.security.ActiveMQSecurityManager;

public class Artemis {
  /** Lets in guest with the password guest, and those who do not say who they are. */
  static class Door implements ActiveMQSecurityManager {
    @Override
    public boolean validateUser(String user, String password) {
      return user == null || user.isEmpty() || user.equals("guest") && "guest".equals(password);
    }

    @Override
    public boolean validateUserAndRole(
        String user, String password, Set<Role> roles, CheckType check) {
      return validateUser(user, password);
    }
  }

  /** Queues and addresses appear on first use and stay, so that nothing is lost unseen. */
  static AddressSettings nodes(RoutingType routing) {
    return new AddressSettings()
        .setAutoCreateQueues(true)
        .setAutoCreateAddresses(true)
        .setAutoDeleteQueues(false)
        .setAutoDeleteAddresses(false)
        .setDefaultAddressRoutingType(routing)
        .setDefaultQueueRoutingType(routing)
        .setMaxDeliveryAttempts(-1)
        .setDeadLetterAddress(SimpleString.of("DLQ"))
        .setExpiryAddress(SimpleString.of("ExpiryQueue"));
  }

  public static void main(String[] arguments) throws Exception {
    String folder = arguments[1] + File.separator;
    ConfigurationImpl configuration = new ConfigurationImpl();
    configuration.setJournalType(JournalType.NIO);
    configuration.setJournalDirectory(folder + "journal");
    configuration.setBindingsDirectory(folder + "bindings");
    configuration.setLargeMessagesDirectory(folder + "large");
    configuration.setPagingDirectory(folder + "paging");
    configuration.setJournalDatasync(false);
    configuration.setMaxDiskUsage(-1);
    configuration.setMessageExpiryScanPeriod(200);
    configuration.setAddressQueueScanPeriod(-1);
    configuration.addAcceptorConfiguration(
        "amqp",
        "tcp://127.0.0.1:"
            + arguments[0]
            + "?protocols=AMQP;saslMechanisms=PLAIN,ANONYMOUS;amqpCredits=1000;amqpLowCredits=300"
            + ";webSocketMaxFramePayloadLength=16777216"); // rhea writes a message in one frame
    if (arguments.length > 2) {
      try (FileInputStream file = new FileInputStream(arguments[2])) {
        Configuration read = new FileConfigurationParser().parseMainConfig(file);
        configuration.setAddressConfigurations(read.getAddressConfigurations());
        configuration.setDivertConfigurations(read.getDivertConfigurations());
        read.getAddressSettings().forEach(configuration::addAddressSetting);
      }
    }
    configuration.addAddressSetting("#", nodes(RoutingType.ANYCAST));
    configuration.addAddressSetting("topic.#", nodes(RoutingType.MULTICAST));
    EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
    broker.setConfiguration(configuration);
    broker.setSecurityManager(new Door());
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  try {
                    broker.stop();
                  } catch (Exception error) {
                    error.printStackTrace();
                  }
                }));
    broker.start();
    if (!broker.getActiveMQServer().waitForActivation(
        60, java.util.concurrent.TimeUnit.SECONDS)) {
      System.exit(1);
    }
    Thread.currentThread().join();
  }
}
