"""One connection to a Thrift2 server: a socket, with TLS or without, and Thrift's transport and protocol on it."""

from __future__ import annotations

import io
import socket
import ssl
from http.client import HTTPConnection, HTTPException
from typing import Any

from thriftpy2.protocol import TCompactProtocol, TCyBinaryProtocol
from thriftpy2.protocol.cybin import ProtocolError
from thriftpy2.thrift import TApplicationException, TClient, TException
from thriftpy2.transport import TCyBufferedTransport, TCyFramedTransport, TSocket, TTransportException

from tailrace.store.hbase.connection_settings import VARIABLE, ConnectionSettings

CONNECTING = 10.0  # seconds
BUFFER = 1 << 16  # bytes that are sent at once

LOST = (TException, ProtocolError, OSError, EOFError, HTTPException)
"""What is raised if the connection is lost, or the other side speaks something else."""


class Wire:
    """A connection. `client` has the calls of a Thrift service. An answer may take `patience` seconds."""

    def __init__(self, service: Any, host: str, port: int, settings: ConnectionSettings, patience: float) -> None:
        self._socket = _dial(host, port, settings, patience)
        is_http = settings.transport == "http"
        below = _Http(self._socket, host, port, settings) if is_http else TSocket(sock=self._socket)
        framed = settings.transport == "framed"
        transport = TCyFramedTransport(below) if framed else TCyBufferedTransport(below, BUFFER)
        compact = settings.protocol == "compact"
        self.client = TClient(service, TCompactProtocol(transport) if compact else TCyBinaryProtocol(transport))
        self.used = 0.0

    def close(self) -> None:
        """Closes the socket in this process. A parent from which it was forked can go on with it."""
        self._socket.close()


def _dial(host: str, port: int, settings: ConnectionSettings, patience: float) -> socket.socket:
    dialed = socket.create_connection((host, port), min(CONNECTING, patience))
    try:
        if settings.tls:
            dialed = settings.tls_context.wrap_socket(dialed, server_hostname=settings.server_name or host)
        dialed.settimeout(patience)
        dialed.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        dialed.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        dialed.close()
        raise
    return dialed


class _Http:
    """Thrift over HTTP: each call is a POST. The server keeps the connection open."""

    def __init__(self, dialed: socket.socket, host: str, port: int, settings: ConnectionSettings) -> None:
        self._headers, self._path = {"Content-Type": "application/x-thrift", **settings.headers}, settings.path
        self._connection = HTTPConnection(host, port)
        self._connection.auto_open = 0  # a lost connection is an error, as with the other transports
        self._connection.sock = dialed
        self._request, self._answer = io.BytesIO(), io.BytesIO()

    def is_open(self) -> bool:
        return True

    def write(self, data: bytes) -> None:
        self._request.write(data)

    def flush(self) -> None:
        request, self._request = self._request.getvalue(), io.BytesIO()
        self._connection.request("POST", self._path, request, self._headers)
        response = self._connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise HttpRefused(response.status, response.reason)
        self._answer = io.BytesIO(content)

    def read(self, size: int) -> bytes:
        return self._answer.read(size)


class HttpRefused(TTransportException):  # type: ignore[misc]
    """An answer of HTTP that has no answer of Thrift in it."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(message=f"HTTP status {status} ({reason})")
        self.status = status


def explain(error: BaseException, settings: ConnectionSettings, patience: float) -> tuple[str, str]:
    """Why a first call failed, and what to do."""
    reason = describe(error, patience)
    spoken = f"the {settings.transport} transport and the {settings.protocol} protocol{', with TLS' * settings.tls}"
    match error:
        case TApplicationException(type=TApplicationException.UNKNOWN_METHOD):
            return "it is another Thrift server, such as that of Thrift1", "Start `hbase thrift2`, and use its port"
        case socket.gaierror():
            return f"its host is unknown ({error.strerror})", "Check the host in the URL"
        case ConnectionRefusedError():
            return "nothing listens there", "Check host and port, and that a Thrift2 server runs: `hbase thrift2 start`"
        case ssl.SSLCertVerificationError():
            return reason, f"Check `ca` and `server_name` in the file of {VARIABLE}"
        case ssl.SSLError():
            return f"TLS failed ({error.reason})", f"Check `tls` in the file of {VARIABLE}, and that the server has it"
        case HttpRefused(status=401 | 403):
            return f"it refuses this user: {reason}", f"Check `headers` in the file of {VARIABLE}"
    advice = f"This client uses {spoken}. Give what the server has in the file of {VARIABLE} (docs/hbase.md)"
    return reason, advice


def describe(error: BaseException, patience: float) -> str:
    """Why a connection failed, in one line."""
    if isinstance(error, TimeoutError):
        return f"no answer within {patience:.0f} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted ({error.verify_message})"
    return str(getattr(error, "message", None) or error) or type(error).__name__
