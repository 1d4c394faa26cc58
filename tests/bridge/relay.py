"""A TCP relay on a port of its own, whose connections a test can cut."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterable
from typing import Self


class Relay:
    """Passes octets to the port ``target`` while it is ``open``, each read after ``delay`` seconds.
    Use as a context manager."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.open = True
        self.deaf = False
        """What clients send from now on is lost."""
        self.hushed = False
        """The target does not hear of the end of clients, as after a power cut."""
        self.lost = 0
        """Octets that were."""
        self.connections = 0
        """How many were made in all."""
        self.delay = 0.0
        self.held: set[socket.socket] = set()
        """Ends from which nothing is passed on for now; it is later."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._ends: dict[socket.socket, None] = {}
        self._clients: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                self._threads.append(threading.Thread(target=self._serve, args=(client,)))
                self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if not self.open:
                return
            with socket.create_connection(("127.0.0.1", self.target)) as server:
                self._ends |= {client: None, server: None}
                self._clients.add(client)
                back = threading.Thread(target=self._pass, args=(server, client))
                back.start()
                self._pass(client, server)
                back.join()
                del self._ends[client], self._ends[server]
                self._clients.discard(client)

    def _pass(self, here: socket.socket, there: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := here.recv(1 << 16):
                if self.delay:
                    time.sleep(self.delay)
                while here in self.held:
                    time.sleep(0.005)
                if self.deaf and here in self._clients:
                    self.lost += len(data)
                else:
                    there.sendall(data)
        if not self.hushed:
            for one in (here, there):
                end(one)

    def ends(self) -> list[socket.socket]:
        """Of all connections now, at both sides: client and target, the oldest connection first."""
        return list(self._ends)

    def cut(self, ends: Iterable[socket.socket] | None = None) -> None:
        """End all connections, or these, without a word."""
        for one in self.ends() if ends is None else ends:
            end(one)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._listener)
        self._listener.close()
        self.held.clear()
        self.cut()
        for thread in self._threads:
            thread.join()


def end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
