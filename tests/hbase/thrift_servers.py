"""Further Thrift servers of a local cluster, with settings of their own, and certificates for them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tailrace_hbase.artifacts import java
from tailrace_hbase.java_process import OPENED
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.settings import HOST

THRIFT1, THRIFT2 = (f"org.apache.hadoop.hbase.{name}.ThriftServer" for name in ("thrift", "thrift2"))


@contextmanager
def thrift_server(
    cluster: LocalCluster, directory: Path, settings: Mapping[str, str], main: str = THRIFT2
) -> Iterator[int]:
    """Runs another Thrift server of the cluster. Yields its port when it listens."""
    conf = directory / "conf"
    conf.mkdir(parents=True)
    site = (cluster.directory / "conf" / "hbase-site.xml").read_text()
    added = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    (conf / "hbase-site.xml").write_text(site.replace("</configuration>", f"{added}</configuration>"))
    port = free_port()
    command = [java(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
    command += [*OPENED, "-cp", os.pathsep.join([str(conf), *cluster.classpath()]), main]
    command += ["-b", HOST, "-p", str(port), "start"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 120
        while not listens(port):
            ended = process.poll() is not None or time.monotonic() > end
            assert not ended, (directory / "log").read_text()[-3000:]
            time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


@dataclass(frozen=True)
class Certificates:
    """A certificate authority of one's own, and files that it has signed."""

    directory: Path

    @classmethod
    def make(cls, directory: Path) -> Certificates:
        directory.mkdir(exist_ok=True)
        made = cls(directory)
        made._run("req", "-x509", *_NEW_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test")
        return made

    @property
    def ca(self) -> str:
        return str(self.directory / "ca.pem")

    def sign(self, name: str, alternative: str) -> tuple[Path, Path]:
        """A certificate for a name, such as `IP:127.0.0.1`, and its key."""
        key, request, signed = f"{name}.key", f"{name}.csr", f"{name}.pem"
        (self.directory / "extensions").write_text(f"subjectAltName={alternative}\n")
        self._run("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        authority = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
        self._run("x509", "-req", "-in", request, *authority, "-extfile", "extensions", "-out", signed)
        (self.directory / key).chmod(0o600)
        return self.directory / signed, self.directory / key

    def keystore(self, name: str, alternative: str) -> Path:
        """A certificate for a name with its key, as Java reads it. The password is `secret`."""
        certificate, key = self.sign(name, alternative)
        files = ("-in", certificate.name, "-inkey", key.name, "-out", f"{name}.p12")
        self._run("pkcs12", "-export", *files, "-passout", "pass:secret", "-name", name)
        return self.directory / f"{name}.p12"

    def _run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True, capture_output=True)


_NEW_KEY = ("-newkey", "rsa:2048", "-nodes")
