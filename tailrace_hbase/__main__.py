"""`python -m tailrace_hbase start`: a local HBase cluster, for tests and first steps."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tailrace_hbase.local_cluster import DIRECTORY, LocalCluster
from tailrace_hbase.problems import ClusterProblem
from tailrace_hbase.settings import HOST


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tailrace_hbase", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    start = verbs.add_parser("start", help="start all roles that do not run, or one role")
    start.add_argument("role", nargs="?", help="zookeeper, master, thrift, rs1, rs2, ...; without it: all")
    start.add_argument("--servers", type=int, help="number of region servers (3 in a new directory)")
    verbs.add_parser("stop", help="end all processes; data stay")
    verbs.add_parser("status", help="processes, memory, address")
    kill = verbs.add_parser("kill", help="SIGKILL of one role")
    kill.add_argument("role")
    admin = verbs.add_parser("admin", help="what Thrift2 has no call for: peer add NAMESPACE, move, split, merge, ...")
    admin.add_argument("command", nargs="+", help="a command of io.tailrace.hbase.Admin and its arguments")
    for verb in verbs.choices.values():
        verb.add_argument("--directory", type=Path, default=DIRECTORY, help="data, logs and ports (.hbase)")
    return parser.parse_args(argv)


def main() -> None:
    options = parse_arguments()
    try:
        _VERBS[options.verb](LocalCluster(options.directory), options)
    except ClusterProblem as problem:
        sys.exit(str(problem))


def _start(cluster: LocalCluster, options: argparse.Namespace) -> None:
    began = time.monotonic()
    if options.role is not None:
        cluster.restart(options.role)
        started = [options.role]
    else:
        started = cluster.start(options.servers)
    if started:
        print(f"Started {', '.join(started)} in {time.monotonic() - began:.0f} s.")
    else:
        print("The cluster runs already.")
    print(f"Thrift2 server: {HOST}:{cluster.port}; logs: {cluster.directory / 'logs'}")


def _stop(cluster: LocalCluster, options: argparse.Namespace) -> None:
    ended = cluster.stop()
    print(f"Stopped {', '.join(ended)}." if ended else "The cluster does not run.")


def _status(cluster: LocalCluster, options: argparse.Namespace) -> None:
    running = cluster.running()
    for role in cluster.roles:
        server = cluster.server(role)
        state = f"process {server.pid()}, {server.memory() >> 20} MiB" if role in running else "does not run"
        print(f"{role:10} {state}")
    if running:
        total = sum(cluster.server(role).memory() for role in running) >> 20
        print(f"{total} MiB in all. Thrift2 server: {HOST}:{cluster.port}")
    else:
        print("The cluster does not run.")
        sys.exit(1)


def _kill(cluster: LocalCluster, options: argparse.Namespace) -> None:
    cluster.kill(options.role)
    print(f"Killed {options.role}.")


def _admin(cluster: LocalCluster, options: argparse.Namespace) -> None:
    print(json.dumps(cluster.admin(*options.command)))


_VERBS = {"start": _start, "stop": _stop, "status": _status, "kill": _kill, "admin": _admin}

if __name__ == "__main__":
    main()
