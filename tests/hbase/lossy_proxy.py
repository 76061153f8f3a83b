"""A proxy before the Thrift2 server that ends connections: before a request reaches the server, or before its answer.

The client cannot tell one from the other.
"""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from typing import Literal


class LossyProxy:
    """Listens on `port`. Loses a share of the requests with one of these names, half of them only after the server has
    done them. `lost` counts both kinds.
    """

    def __init__(self, server: int, names: set[bytes], share: float, seed: int = 1) -> None:
        self._server, self._names, self._share, self._random = server, names, share, random.Random(seed)
        self._guard = threading.Lock()
        self.lost = {"request": 0, "answer": 0}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client, socket.create_connection(("127.0.0.1", self._server)) as server:
            while request := client.recv(1 << 20):
                fate = self._fate(request)
                if fate == "request":
                    return
                server.sendall(request)
                answer = server.recv(1 << 20)
                if fate == "answer" or not answer:
                    return
                client.sendall(answer)

    def _fate(self, request: bytes) -> Literal["request", "answer"] | None:
        """What gets lost. Requests and answers of the calls concerned are small: one packet each."""
        with self._guard:
            if not any(name in request[:64] for name in self._names) or self._random.random() > self._share:
                return None
            fate: Literal["request", "answer"] = self._random.choice(["request", "answer"])
            self.lost[fate] += 1
            return fate
