"""Starts HBase and Spark for the demo, runs it as a process, and ends what it has started, also when interrupted."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tailrace
from tailrace import terminal
from tailrace.demo.show import Show
from tailrace_cluster.hbase_demo import NAMESPACE
from tailrace_cluster.local_spark import LocalSpark
from tailrace_hbase import artifacts
from tailrace_hbase.local_cluster import LocalCluster
from tailrace_hbase.scratch import drop_store

INTRODUCTION = """[bold]Tailrace[/bold] keeps SQL views fresh over tables in HBase, on a Spark cluster.
Everything runs on this machine, in processes of its own, and a server is killed on the way."""


def run(hbase: LocalCluster, spark: LocalSpark, options: argparse.Namespace) -> int:
    """Runs the demo. Returns its exit code."""
    artifacts.java()  # first, so that a missing Java is said before anything is started
    _on_signals(_interrupt)
    show = Show(terminal.console())
    show.say(INTRODUCTION)
    with _started(show, hbase, spark), _store(hbase):
        sizes = [f"--{name}={getattr(options, name)}" for name in ("scale", "seconds", "rate")]
        command = [sys.executable, "-m", "tailrace_cluster.hbase_demo", str(hbase.directory), str(spark.directory)]
        with subprocess.Popen([*command, *sizes]) as demo:
            try:
                return demo.wait()
            except KeyboardInterrupt:
                demo.send_signal(signal.SIGINT)  # Ctrl-C reaches both, `kill` only this process
                raise


def _on_signals(handler: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _interrupt(*_: Any) -> None:
    _on_signals(signal.SIG_IGN)  # once is enough: what follows ends the clusters
    raise KeyboardInterrupt


@contextmanager
def _started(show: Show, hbase: LocalCluster, spark: LocalSpark) -> Iterator[None]:
    """Both clusters run during the block. One that ran before runs on afterwards, as a whole."""
    show.title(
        "Clusters",
        "HBase: ZooKeeper, a master, three region servers, a Thrift2 server; Spark: a master and two workers.",
    )
    named: dict[str, LocalCluster | LocalSpark] = {"HBase": hbase, "Spark": spark}
    ran = [name for name, cluster in named.items() if cluster.running()]
    try:
        for name, cluster in named.items():
            began = time.monotonic()
            cluster.start()
            state = "ran already" if name in ran else f"started in {time.monotonic() - began:.0f} s"
            show.say(f"   {name} {state}: {', '.join(cluster.running())}")
        yield
    finally:
        for name, cluster in named.items():
            if name in ran:
                cluster.start()  # what the demo has killed
            elif cluster.running():
                show.say(f"   [dim]stopping {name}[/dim]")
                cluster.stop()


@contextmanager
def _store(hbase: LocalCluster) -> Iterator[None]:
    """A new store. What a demo that was killed has left is dropped first."""
    drop_store(hbase, NAMESPACE)
    tailrace.open(hbase.url(NAMESPACE), create=True).close()
    hbase.admin("peer", "add", NAMESPACE)
    try:
        yield
    finally:
        drop_store(hbase, NAMESPACE)
