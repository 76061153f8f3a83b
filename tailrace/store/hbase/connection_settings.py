"""How Tailrace connects to a Thrift2 server: transport, protocol, TLS, and headers of HTTP.

The settings are in a file (TOML), and `TAILRACE_HBASE_CONNECTION` is its path. Without it, the connection is plain: the
buffered transport, the binary protocol, no TLS. Secrets stay in files that only their owner can read. The URL of a
store, its documents, events and the properties of Spark never have them: executors get the path, and read their own
copy of the file.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

import msgspec

from tailrace.errors import BadSetting

VARIABLE = "TAILRACE_HBASE_CONNECTION"
_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_HEADER_VALUE = re.compile(r"[ -~\xa0-\xff]*")  # Latin-1 without control characters


class ConnectionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The content of the file.

    transport     as the server has it: buffered (its default), framed (hbase.regionserver.thrift.framed), or http
    protocol      binary (its default), or compact (hbase.regionserver.thrift.compact), which is slower in Python
    tls           HBase has it with http (hbase.thrift.ssl.enabled); with the others it needs a proxy that ends TLS
    ca            the certificates that are trusted (PEM); the system's if it is not given
    server_name   the name that the server's certificate must have; the host of the URL if it is not given
    certificate   the certificate of this client and its private key (PEM), if the server or proxy asks for one
    key
    path          with http: the path of the URL
    headers       with http: headers of every request, such as Authorization or HBase's doAs
    """

    transport: Literal["buffered", "framed", "http"] = "buffered"
    protocol: Literal["binary", "compact"] = "binary"
    tls: bool = False
    ca: str | None = None
    server_name: str | None = None
    certificate: str | None = None
    key: str | None = None
    path: str = "/"
    headers: dict[str, str] = {}

    @cached_property
    def tls_context(self) -> ssl.SSLContext:
        """Verifies the certificate of the server, and its name."""
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        return context


PLAIN = ConnectionSettings()


def read_connection_settings() -> ConnectionSettings:
    """The settings in the file of the environment. Raises `BadSetting` if it cannot be used."""
    name = os.environ.get(VARIABLE)
    if not name:
        return PLAIN
    try:
        settings = msgspec.toml.decode(Path(name).read_bytes(), type=ConnectionSettings)
    except OSError as error:
        raise BadSetting(name=VARIABLE, value=name, advice=f"it cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadSetting(name=VARIABLE, value=name, advice=f"its content is wrong: {error}") from None
    _check(settings, name)
    return settings


def _check(settings: ConnectionSettings, name: str) -> None:
    if settings.headers:
        _require_private(name)
        if settings.transport != "http":
            raise BadSetting(name=VARIABLE, value=name, advice='headers need transport = "http"')
        _check_headers(settings.headers, name)
    if settings.key is not None:
        _require_private(settings.key)
    if not settings.tls and (settings.ca or settings.certificate or settings.server_name):
        raise BadSetting(name=VARIABLE, value=name, advice="ca, certificate and server_name need tls = true")
    if settings.tls:
        try:
            settings.tls_context  # noqa: B018 - reads the files
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(f for f in (settings.ca, settings.certificate, settings.key) if f)
            advice = f"{files} cannot be used: {error.strerror or error}; write paths of PEM files"
            raise BadSetting(name=VARIABLE, value=name, advice=advice) from None


def _check_headers(headers: Mapping[str, str], name: str) -> None:
    """Refuses headers that HTTP cannot send. The errors of `http.client` would show their values, which are secret."""
    for header, value in headers.items():
        if not _HEADER_NAME.fullmatch(header):
            advice = f"the header {header!r} has a name that HTTP does not allow: use letters, digits and -"
            raise BadSetting(name=VARIABLE, value=name, advice=advice)
        if not _HEADER_VALUE.fullmatch(value):
            advice = f"the header {header!r} has a control character in its value, such as the end of a line, or one"
            raise BadSetting(name=VARIABLE, value=name, advice=f"{advice} that is not in Latin-1; remove it")


def _require_private(file: str) -> None:
    try:
        mode = Path(file).stat().st_mode
    except OSError as error:
        raise BadSetting(name=VARIABLE, value=file, advice=f"it cannot be read: {error.strerror}") from None
    if mode & 0o077:
        advice = f"it holds a secret, and others can read it (mode {mode & 0o777:o}); run chmod 600 {file}"
        raise BadSetting(name=VARIABLE, value=file, advice=advice)
