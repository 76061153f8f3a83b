"""Checks of a store: can it be read, is its file system suitable, is there space, who uses it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import tailrace
from tailrace.database.admission import lag
from tailrace.database.database import Database
from tailrace.database.inside import inside
from tailrace.doctor.finding import Finding, judge
from tailrace.epochs.model import INTENT
from tailrace.errors import TailraceError
from tailrace.store.base import Store
from tailrace.store.leases import LEASES
from tailrace.store.pins import PINS
from tailrace.store.store_ref import StoreRef
from tailrace.words import count, size

_NETWORK = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "fuse.sshfs",
    "fuse.s3fs",
    "ceph",
    "glusterfs",
    "afs",
    "lustre",
}
_IN_MEMORY = {"tmpfs", "ramfs"}
_LEAST_SPACE = 1024**3
_NEARLY_FULL = 0.8  # of map_size


def check_storage(place: str) -> Iterator[Finding]:
    """All checks of a store, given by its directory or URL. The later ones are left out if it cannot be opened."""
    try:
        ref = StoreRef.of(place)
    except TailraceError as error:
        yield Finding("fail", "store", str(error), "give the directory or URL of a store")
        return
    if ref.directory is not None:
        yield _check_file_system(ref.directory)
        yield _check_space(ref.directory)
        yield _check_access(ref.directory)
    else:
        from tailrace.doctor.hbase_cluster import check_cluster

        findings = [*check_cluster(ref)]
        yield from findings
        if not any(finding.check == "namespace" for finding in findings):
            return
    yield from _check_content(ref)


def _check_content(ref: StoreRef) -> Iterator[Finding]:
    try:
        with tailrace.open(ref.url) as db:
            store = inside(db).store
            yield Finding("ok", "store", f"{db.path}: {count(store.nodes, 'node')}, {count(store.shards, 'shard')}")
            if ref.directory is not None:
                yield _check_map_size(db)
            yield _check_runner(store)
            yield _check_open_epoch(store)
            yield _check_leases(store)
            yield _check_lag(store)
    except (TailraceError, OSError) as error:
        advice = "give the directory or URL of a store; if it is one, run `tailrace audit`"
        yield Finding("fail", "store", str(error), advice)


def _check_file_system(path: Path) -> Finding:
    kind = _file_system(path)
    if kind is None:
        return Finding("warn", "file system", "unknown on this system", "make sure that it is a local one")
    if kind in _NETWORK:
        advice = "move the store to a local disk: LMDB needs memory maps and locks that a network does not provide"
        return Finding("fail", "file system", f"{kind}, a network file system", advice)
    advice = "move the store to a disk, unless it may be lost when the machine restarts"
    return judge(kind not in _IN_MEMORY, "file system", kind, advice, "warn")


def _file_system(path: Path) -> str | None:
    """The kind of the file system that holds a path; None if the system does not tell."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return None
    place = _existing(path).resolve()
    # The name of a mount has octal escapes for spaces.
    points = [(Path(m[1].encode().decode("unicode_escape")), m[2]) for m in mounts]
    holding = [(point, kind) for point, kind in points if point == place or point in place.parents]
    return max(holding, key=lambda found: len(found[0].parts))[1] if holding else None


def _existing(path: Path) -> Path:
    """The path, or the nearest directory above it that exists."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _check_space(path: Path) -> Finding:
    usage = shutil.disk_usage(_existing(path))
    advice = "free some space: an epoch that finds the disk full is rolled back"
    return judge(usage.free >= _LEAST_SPACE, "disk space", f"{size(usage.free)} free", advice, "warn")


def _check_access(path: Path) -> Finding:
    place = _existing(path)
    advice = "give this user write access: readers register in the store which epoch they read"
    return judge(os.access(place, os.R_OK | os.W_OK | os.X_OK), "access", f"{place} as user {os.getuid()}", advice)


def _check_map_size(db: Database) -> Finding:
    sizes = db.status(sizes=True).sizes or {}
    part = sizes["fullest"] / sizes["limit"]
    advice = "close the store in all processes and open it once with a larger map_size"
    found = f"{size(sizes['fullest'])} of {size(sizes['limit'])} in the fullest file ({part:.0%})"
    return judge(part < _NEARLY_FULL, "map size", found, advice, "warn")


def _check_lag(store: Store) -> Finding:
    behind = lag(store)
    advice = "start `tailrace run`, or see with `tailrace status` why it is slow"
    return judge(behind.operations <= behind.allowed, "lag", count(behind.operations, "operation"), advice, "warn")


def _check_runner(store: Store) -> Finding:
    holder = store.holder("runner")
    if holder is None:
        return Finding("ok", "runner", "no process runs epochs")
    return Finding("ok", "runner", f"process {holder.pid} ({holder.command}) since {holder.since}")


def _check_open_epoch(store: Store) -> Finding:
    intent, holder = store.document(INTENT), store.holder("epoch")
    if intent is None:
        return Finding("ok", "epoch", "none is open")
    found = f"epoch {intent.epoch} is open"
    advice = "run `tailrace refresh`: it finishes the epoch that a process left open"
    return judge(holder is not None, "epoch", found, advice, "warn")


def _check_leases(store: Store) -> Finding:
    leases = [*store.documents(LEASES).values(), *store.documents(PINS).values()]
    stale = [lease for lease in leases if not lease.is_alive]
    found = f"{len(leases) - len(stale)} in use, {len(stale)} stale"
    return judge(not stale, "leases", found, "run `tailrace refresh`: it removes those of dead processes", "warn")
