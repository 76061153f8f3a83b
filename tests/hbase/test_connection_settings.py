"""Connections with other transports, with TLS and with headers, to real Thrift servers; and errors of first calls."""

from __future__ import annotations

import builtins
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hbase_stores import new_store
from thrift_servers import THRIFT1, Certificates, free_port, thrift_server

import tailrace
from tailrace.errors import BadSetting, MissingPackage, NewerFormat, NotAStore, StoreUnavailable
from tailrace.store.hbase import connection_settings
from tailrace.store.hbase.connections import Connections
from tailrace.store.hbase.opening import connect
from tailrace.store.store_ref import StoreRef
from tailrace_hbase.local_cluster import LocalCluster

pytestmark = pytest.mark.hbase

Configure = Callable[[str], Path]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Writes the file of settings, and names it in the environment."""

    def write(content: str) -> Path:
        file = tmp_path / "connection.toml"
        file.write_text(content)
        file.chmod(0o600)
        monkeypatch.setenv(connection_settings.VARIABLE, str(file))
        return file

    return write


def ref(port: int, host: str = "127.0.0.1", namespace: str = "none") -> StoreRef:
    return StoreRef.of(f"hbase://{host}:{port}/{namespace}")


def namespaces(port: int, host: str = "127.0.0.1") -> list[str]:
    """Several calls on one connection, one of them with a long answer."""
    with closing(connect(ref(port, host))) as client:
        long = client.connections.call("listNamespaceDescriptors")
        names = [found.name for found in long]
        assert names == [found.name for found in client.connections.call("listNamespaceDescriptors")]
        return names


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def https(cluster: LocalCluster, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A Thrift2 server with HTTP and TLS. Its certificate is for 127.0.0.1 only."""
    settings = {
        "hbase.regionserver.thrift.http": "true",
        "hbase.thrift.ssl.enabled": "true",
        "hbase.thrift.ssl.keystore.store": str(certificates.keystore("server", "IP:127.0.0.1")),
        "hbase.thrift.ssl.keystore.type": "pkcs12",
        "hbase.thrift.ssl.keystore.password": "secret",
    }
    with thrift_server(cluster, tmp_path_factory.mktemp("https"), settings) as port:
        yield port


def test_a_whole_store_works_over_https(
    cluster: LocalCluster,
    https: int,
    certificates: Certificates,
    configure: Configure,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with new_store(cluster) as plain:
        name = plain.namespace
        configure(f'transport = "http"\ntls = true\nca = "{certificates.ca}"\n')
        with tailrace.open(f"hbase://127.0.0.1:{https}/{name}") as db:
            db.sql("CREATE TABLE t (id INT PRIMARY KEY, v STRING)")
            db.table("t").put_many([{"id": n, "v": "x" * 200} for n in range(20_000)])
            assert db.table("t").scan().num_rows == 20_000
        monkeypatch.delenv(connection_settings.VARIABLE)  # the namespace is removed over the plain server


def test_a_certificate_of_another_authority_is_refused(https: int, configure: Configure, tmp_path: Path) -> None:
    configure(f'transport = "http"\ntls = true\nca = "{Certificates.make(tmp_path / "other").ca}"\n')
    with pytest.raises(StoreUnavailable, match=r"certificate is not accepted .*Check `ca`"):
        connect(ref(https))


def test_the_system_does_not_trust_an_authority_of_ones_own(https: int, configure: Configure) -> None:
    configure('transport = "http"\ntls = true\n')
    with pytest.raises(StoreUnavailable, match="certificate is not accepted"):
        connect(ref(https))


def test_the_name_of_the_server_is_checked(https: int, certificates: Certificates, configure: Configure) -> None:
    tls = f'transport = "http"\ntls = true\nca = "{certificates.ca}"\n'
    configure(tls)
    with pytest.raises(StoreUnavailable, match="Hostname mismatch"):
        connect(ref(https, "localhost"))
    configure(f'{tls}server_name = "127.0.0.1"\n')
    assert "default" in namespaces(https, "localhost")


def test_a_client_without_tls_says_what_to_do(https: int, configure: Configure) -> None:
    with pytest.raises(StoreUnavailable, match=connection_settings.VARIABLE):
        connect(ref(https))
    configure('transport = "http"\n')
    with pytest.raises(StoreUnavailable, match=connection_settings.VARIABLE):
        connect(ref(https))


def test_a_server_without_tls_is_not_used_with_tls(
    cluster: LocalCluster, certificates: Certificates, configure: Configure
) -> None:
    configure(f'tls = true\nca = "{certificates.ca}"\n')
    with pytest.raises(StoreUnavailable):
        connect(ref(cluster.port))


@pytest.mark.parametrize(
    ("transport", "protocol", "server"),
    [
        ("framed", "binary", {"hbase.regionserver.thrift.framed": "true"}),
        ("buffered", "compact", {"hbase.regionserver.thrift.compact": "true"}),
        ("http", "binary", {"hbase.regionserver.thrift.http": "true"}),
    ],
)
def test_other_transports_and_protocols(
    cluster: LocalCluster, tmp_path: Path, configure: Configure, transport: str, protocol: str, server: dict[str, str]
) -> None:
    with thrift_server(cluster, tmp_path / "server", server) as port:
        with pytest.raises(StoreUnavailable, match="This client uses the buffered transport and the binary protocol"):
            connect(ref(port))
        configure(f'transport = "{transport}"\nprotocol = "{protocol}"\n')
        assert "default" in namespaces(port)


@contextmanager
def tls_proxy(target: int, context: ssl.SSLContext) -> Iterator[int]:
    """Ends TLS in front of a server, as stunnel or HAProxy do. Yields its port."""

    def copy(source: Any, sink: Any) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                end.close()

    def accept() -> None:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            try:
                outer = context.wrap_socket(plain, server_side=True)
            except OSError:
                plain.close()
                continue
            inner = socket.create_connection(("127.0.0.1", target))
            for pair in ((outer, inner), (inner, outer)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def test_a_proxy_that_asks_for_a_certificate_of_the_client(
    cluster: LocalCluster, certificates: Certificates, configure: Configure
) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*certificates.sign("proxy", "IP:127.0.0.1"))
    certificate, key = certificates.sign("tailrace", "DNS:tailrace")
    with tls_proxy(cluster.port, context) as port:
        configure(f'tls = true\nca = "{certificates.ca}"\n')
        with pytest.raises(StoreUnavailable):
            connect(ref(port))
        configure(f'tls = true\nca = "{certificates.ca}"\ncertificate = "{certificate}"\nkey = "{key}"\n')
        assert "default" in namespaces(port)
        key.chmod(0o644)
        with pytest.raises(BadSetting, match="chmod 600"):
            connect(ref(port))


def test_headers_are_sent_and_a_refusal_is_no_reason_to_wait(configure: Configure) -> None:
    """The server answers as one of HBase with Kerberos does, without a ticket."""
    seen: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            seen.append(connection.recv(65536))
            connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        configure('transport = "http"\n[headers]\nAuthorization = "Basic dXNlcjpzZWNyZXQ="\n')
        with pytest.raises(StoreUnavailable, match="refuses this user: HTTP status 401") as caught:
            connect(ref(listener.getsockname()[1]))
    assert b"Authorization: Basic dXNlcjpzZWNyZXQ=" in seen[0]
    assert "dXNlcjpzZWNyZXQ" not in str(caught.value) + str(caught.value.data)


def test_a_file_with_secrets_that_others_can_read_is_refused(configure: Configure) -> None:
    file = configure('transport = "http"\n[headers]\nAuthorization = "Basic dXNlcjpzZWNyZXQ="\n')
    file.chmod(0o640)
    with pytest.raises(BadSetting, match="chmod 600") as caught:
        Connections("127.0.0.1", 1)
    assert "dXNlcjpzZWNyZXQ" not in str(caught.value)


@pytest.mark.parametrize(
    ("header", "named"),
    [
        ('Authorization = """Basic dXNlcjpzZWNyZXQ=\n"""', "'Authorization'"),
        ('Authorization = "Basic\\u0000dXNlcjpzZWNyZXQ="', "'Authorization'"),
        ('Authorization = "Basic\\u0085dXNlcjpzZWNyZXQ="', "'Authorization'"),
        ('Authorization = "Basic “dXNlcjpzZWNyZXQ=”"', "'Authorization'"),
        ('"do\\nAs" = "dXNlcjpzZWNyZXQ="', r"'do\nAs'"),
        ('"doAs:" = "dXNlcjpzZWNyZXQ="', "'doAs:'"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused_without_its_value(
    configure: Configure, header: str, named: str
) -> None:
    configure(f'transport = "http"\n[headers]\nAccept = "*/*"\n{header}\n')
    with pytest.raises(BadSetting) as caught:
        Connections("127.0.0.1", 1)
    assert f"the header {named}" in str(caught.value)
    assert "dXNlcjpzZWNyZXQ" not in str(caught.value) + str(caught.value.data)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("tsl = true", "unknown field `tsl`"),
        ('transport = "udp"', "udp"),
        ("tls", "content is wrong"),
        ('ca = "x.pem"', "need tls = true"),
        ('tls = true\nca = "/nowhere/ca.pem"', "/nowhere/ca.pem"),
        ('[headers]\ndoAs = "ann"', 'transport = "http"'),
    ],
)
def test_wrong_settings(configure: Configure, content: str, reason: str) -> None:
    configure(content)
    with pytest.raises(BadSetting, match=reason):
        Connections("127.0.0.1", 1)


def test_a_missing_file_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connection_settings.VARIABLE, "/nowhere/connection.toml")
    with pytest.raises(BadSetting, match=r"/nowhere/connection\.toml.*No such file"):
        tailrace.open("hbase://127.0.0.1:1/shop")


# errors of a first call


def test_nothing_listens() -> None:
    with pytest.raises(StoreUnavailable, match="nothing listens there"):
        tailrace.open(f"hbase://127.0.0.1:{free_port()}/shop")


def test_an_unknown_host() -> None:
    with pytest.raises(StoreUnavailable, match="host is unknown"):
        tailrace.open("hbase://nowhere.invalid:9090/shop")


def test_a_thrift1_server(cluster: LocalCluster, tmp_path: Path) -> None:
    with (
        thrift_server(cluster, tmp_path / "server", {}, THRIFT1) as port,
        pytest.raises(StoreUnavailable, match="another Thrift server, such as that of Thrift1"),
    ):
        tailrace.open(f"hbase://127.0.0.1:{port}/shop", create=True)


def test_a_namespace_without_a_store(cluster: LocalCluster) -> None:
    with pytest.raises(NotAStore, match="no store at"):
        tailrace.open(cluster.url("no_such_namespace"))


def test_a_store_of_a_newer_format(cluster: LocalCluster) -> None:
    with new_store(cluster) as store:
        meta = store.client.table(f"{store.namespace}:meta", b"d")
        meta.put_many([(b"settings", {b"settings": b'{"nodes": 2, "shards": 4, "format": 99}'})])
        with pytest.raises(NewerFormat, match="format 99"):
            tailrace.open(store.path)


def test_without_the_package_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_thriftpy2(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "thriftpy2":
            raise ModuleNotFoundError("No module named 'thriftpy2'", name="thriftpy2")
        return real(name, *arguments, **options)

    for module in [m for m in sys.modules if m.startswith(("tailrace.store.hbase.", "thriftpy2"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", without_thriftpy2)
    with pytest.raises(MissingPackage, match=r"pip install 'tailrace\[hbase\]'"):
        StoreRef.of("hbase://127.0.0.1:9090/shop").exists  # noqa: B018
