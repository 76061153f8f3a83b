"""A proxy before the Thrift2 server whose connections a test can cut at any moment, in the middle of requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PIECE = 1 << 16


class _Relay:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.is_open = True  # until the server has closed its side
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE):
                target.sendall(piece)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
        if source is self.server:
            self.is_open = False
            self.client.close()
            self.server.close()

    def cut(self) -> None:
        for side in (self.client, self.server):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    @property
    def is_abandoned(self) -> bool:
        """Whether the client has ended, and the server has not noticed yet: it may still do what it was asked."""
        try:
            return self.is_open and not self.client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return self.is_open


class CuttingProxy:
    """Listens on `port`."""

    def __init__(self, server: int) -> None:
        self._server, self._relays = server, list[_Relay]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server))
            except OSError:
                client.close()
                continue
            self._relays = [relay for relay in self._relays if relay.is_open]
            self._relays.append(_Relay(client, server))

    def cut(self) -> int:
        """Ends all connections. Returns their number."""
        relays = [relay for relay in self._relays if relay.is_open]
        for relay in relays:
            relay.cut()
        return len(relays)

    def is_settled(self) -> bool:
        """Whether the server has ended all requests of clients that have ended."""
        return not any(relay.is_abandoned for relay in self._relays)

    def close(self) -> None:
        self._listener.close()
        self.cut()


@contextmanager
def cutting_proxy(server: int) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(server)
    try:
        yield proxy
    finally:
        proxy.close()
