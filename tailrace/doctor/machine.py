"""Checks of the machine: Python and its packages, Java, memory, limits of the process, time zone, ports."""

from __future__ import annotations

import importlib
import importlib.metadata
import locale
import os
import resource
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tailrace.doctor.finding import Finding, judge
from tailrace.errors import BadSetting, NoJava
from tailrace.spark.spark_options import DEFAULT_MEMORY, SparkOptions, parse_size
from tailrace.words import size

_PYTHON = (3, 11)
_PACKAGES = ("pyspark", "pyarrow", "lmdb", "numpy", "pandas", "msgspec", "sqlglot")
_OPEN_FILES = 1024
_SPARE = 512 * 1024**2  # memory for Python workers and the file cache, besides Spark's


def check_machine() -> Iterator[Finding]:
    yield _check_python()
    for name in _PACKAGES:
        yield _check_package(name)
    yield _check_java()
    yield _check_options()
    yield _check_memory()
    yield _check_open_files()
    yield _check_address_space()
    yield _check_locale()
    yield _check_time_zone()
    yield _check_ports()


def _check_python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info[:2] >= _PYTHON and sys.maxsize > 2**32
    return judge(ok, "Python", f"{version} ({sys.executable})", "install a 64-bit Python 3.11 or newer")


def _check_package(name: str) -> Finding:
    try:
        importlib.import_module(name)
        return Finding("ok", name, importlib.metadata.version(name))
    except (ImportError, importlib.metadata.PackageNotFoundError) as error:
        return Finding("fail", name, f"cannot be imported: {error}", "install Tailrace again: pip install -U tailrace")


def _check_java() -> Finding:
    try:
        from tailrace.spark.java import find_java, java_version
    except ImportError:
        return Finding("warn", "Java", "not looked for", "repair PySpark first")
    try:
        home = find_java()
    except NoJava as error:
        return Finding(
            "fail", "Java", error.reason, "set JAVA_HOME to Java 17 or newer, or pip install 'tailrace[java]'"
        )
    return Finding("ok", "Java", f"{java_version(Path(home) / 'bin' / 'java')} ({home})")


def _check_options() -> Finding:
    try:
        options = SparkOptions().with_environment()
    except BadSetting as error:
        return Finding("fail", "Spark options", f"{error.name} is {error.value!r}", error.advice)
    conf = "".join(f", {name}={value}" for name, value in options.conf.items())
    return Finding("ok", "Spark options", f"{options.master or 'local[*]'}, {options.memory or DEFAULT_MEMORY}{conf}")


def _check_memory() -> Finding:
    available = _available_memory()
    if available is None:
        return Finding("warn", "memory", "unknown on this system", "make sure that Spark's driver has 2 GiB")
    try:
        wanted = parse_size(SparkOptions().with_environment().memory or DEFAULT_MEMORY)
    except BadSetting:
        wanted = parse_size(DEFAULT_MEMORY)
    advice = f"end other processes, or give Spark less than {size(wanted)} with --memory"
    return judge(available > wanted + _SPARE, "memory", f"{size(available)} available", advice, "warn")


def _available_memory() -> int | None:
    """Bytes that a new process can use: what the machine has, or what the container allows."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        found = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None
    try:
        return min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # no limit
        return found


def _check_open_files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = "unlimited" if soft == resource.RLIM_INFINITY else f"{soft:,}"
    ok = soft == resource.RLIM_INFINITY or soft >= _OPEN_FILES
    return judge(ok, "open files", found, f"raise the limit to {_OPEN_FILES:,}: ulimit -n, or LimitNOFILE=", "warn")


def _check_address_space() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    ok = soft == resource.RLIM_INFINITY
    advice = "remove the limit (ulimit -v unlimited): a store reserves map_size of addresses, not of memory"
    return judge(ok, "address space", "unlimited" if ok else size(soft), advice)


def _check_locale() -> Finding:
    encoding = locale.getpreferredencoding(False)
    advice = "set LANG=C.UTF-8: files given to load and sql are read as UTF-8"
    return judge(encoding.upper().replace("-", "") == "UTF8", "encoding", encoding, advice, "warn")


def _check_time_zone() -> Finding:
    name = os.environ.get("TZ") or time.tzname[0]
    return Finding("ok", "time zone", f"{name} (SQL always uses UTC)")


def _check_ports() -> Finding:
    """Spark's processes talk to each other through the loopback interface."""
    try:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            with socket.create_connection(server.getsockname(), timeout=5):
                port = server.getsockname()[1]
    except OSError as error:
        advice = "allow connections to 127.0.0.1: Spark needs them, even on one machine"
        return Finding("fail", "ports", f"no connection to 127.0.0.1 ({error})", advice)
    return Finding("ok", "ports", f"127.0.0.1 works (tried {port})")
