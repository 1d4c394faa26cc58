// A connection that can be cut: a port on the loopback that passes octets on until told otherwise.

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

class Wire implements AutoCloseable {
  private final ServerSocket door;
  private final List<Socket> sockets = new CopyOnWriteArrayList<>();
  private final String host;
  private final int port;

  Wire(String host, int port) throws IOException {
    this.host = host;
    this.port = port;
    door = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
    start(this::serve);
  }

  int port() {
    return door.getLocalPort();
  }

  private static void start(Runnable work) {
    Thread thread = new Thread(work);
    thread.setDaemon(true);
    thread.start();
  }

  private void serve() {
    try {
      while (true) {
        Socket near = door.accept();
        Socket far = new Socket(host, port);
        sockets.add(near);
        sockets.add(far);
        start(() -> pass(near, far));
        start(() -> pass(far, near));
      }
    } catch (IOException end) {
      cut();
    }
  }

  private void pass(Socket from, Socket to) {
    try {
      InputStream in = from.getInputStream();
      OutputStream out = to.getOutputStream();
      in.transferTo(out);
    } catch (IOException end) {
      // cut
    }
    cut();
  }

  /** Both sides see a connection that ended without a word. */
  void cut() {
    for (Socket socket : sockets) {
      try {
        socket.setSoLinger(true, 0);
        socket.close();
      } catch (IOException gone) {
        // was closed before
      }
    }
  }

  @Override
  public void close() throws IOException {
    door.close();
    cut();
  }
}
