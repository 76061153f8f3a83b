"""Makes a store out of a backup or a dump.

    backup    copies the files and checks their checksums; nothing is built
    dump      checks the checksums, creates the tables, loads their rows, and builds the views

The store is checked before it gets its name: its structure, and each view against a recomputation by Spark. A view
that differs or cannot be built does not stop the restore, because the tables are needed all the same; the result names
it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace import faults
from tailrace.catalog.catalog import Catalog
from tailrace.database.admission import set_max_lag
from tailrace.database.auditor import Auditor
from tailrace.database.database import Database
from tailrace.database.drafts import draft
from tailrace.database.progress import OnStep, Step, ignore_step
from tailrace.database.undump import load_dump
from tailrace.epochs.model import LARGEST
from tailrace.errors import BadBackup, NotCapable
from tailrace.spark.spark_options import SparkOptions
from tailrace.store.base import Store
from tailrace.store.commits import read_committed
from tailrace.store.lmdb import packing, settings
from tailrace.store.lmdb.store import LmdbStore
from tailrace.store.locks import begin_again
from tailrace.store.manifest import NAME, Manifest, read_manifest
from tailrace.store.requested import Requested
from tailrace.store.store_ref import StoreRef
from tailrace.verify.audit.findings import Finding
from tailrace.verify.report import Report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Restored:
    """A restored store: its path, what it was made of, the last position whose writes it has, and its epoch.

    `findings` are damages of its structure, `reports` the comparison of each view with its recomputation. `failed` are
    views that have failed, each with the reason: those of a backup show what they showed then; those that could not be
    built from a dump have no rows until the cause is gone. `ok` means that nothing is damaged, differs or has failed.
    """

    path: str
    kind: str
    position: int
    epoch: int
    findings: tuple[Finding, ...]
    reports: tuple[Report, ...]
    failed: Mapping[str, str]

    @property
    def ok(self) -> bool:
        return not self.findings and not self.failed and all(report.ok for report in self.reports)


def restore(
    directory: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    verify: bool = True,
    nodes: int | None = None,
    shards: int | None = None,
    durable: bool | None = None,
    map_size: int | None = None,
    spark: SparkSession | SparkOptions | None = None,
    progress: OnStep | None = None,
) -> Restored:
    """Make a new store at `path` out of a backup or a dump. The store appears when it is complete and checked.

    verify           recompute every view with Spark and compare; the structure is always checked
    nodes, shards    for a dump: other numbers than those of the dumped store. A backup keeps its own
    durable          for a dump: whether every write is on disk when it returns
    map_size         as in `tailrace.open`
    spark            as in `tailrace.open`
    progress         called with each step

    Raises `BadBackup`, which names the file, if the backup or dump is damaged, and `NotCapable` if `path` is the URL of
    a store that is no directory. Nothing is created then.
    """
    source, ref = Path(directory), StoreRef.of(path)
    if (target := ref.directory) is None:
        text = f"cannot restore into {ref.url}: a restore makes a store in a directory. To get a dump into HBase, see"
        raise NotCapable(store=ref.url, capability="restores", text=f"{text} docs/hbase.md (backups)")
    on_step, requested = progress or ignore_step, Requested(nodes, shards, durable, map_size)
    manifest = read_manifest(source)
    max_lag = _max_lag_of_dump(source, manifest) if manifest.kind == "dump" else None
    with draft(target) as place:
        if manifest.kind == "backup":
            packing.unpack(source, manifest, place, requested, lambda name: on_step(Step(f"copying {name}")))
        else:
            settings.create(place, _settings_of_dump(source, manifest, requested))
        store = LmdbStore(place)
        with Database(store, LARGEST, spark) as db:
            if manifest.kind == "backup":
                begin_again(store)
            else:
                load_dump(db, source, manifest, on_step)
                if max_lag is not None:
                    set_max_lag(store, max_lag)
            restored = _check(db, store, target, manifest, verify, on_step)
        faults.point("restore.done")
    return restored


def _settings_of_dump(source: Path, manifest: Manifest, requested: Requested) -> settings.Settings:
    """The nodes and shards of the dumped store, unless others are requested."""
    if requested.nodes is None and requested.shards is None:
        nodes, shards = (manifest.settings.get(name) for name in ("nodes", "shards"))
        if not isinstance(nodes, int) or not isinstance(shards, int):
            raise BadBackup(path=str(source), reason=f"{NAME} is damaged: its part `settings` has no counts", file=NAME)
        requested = requested._replace(nodes=nodes, shards=shards)
    return settings.for_new_store(requested)


def _max_lag_of_dump(source: Path, manifest: Manifest) -> int | None:
    """The max_lag of the dumped store; None in a dump of a version that did not keep it."""
    allowed = manifest.settings.get("max_lag")
    if allowed is not None and not (isinstance(allowed, int) and allowed >= 1):
        raise BadBackup(path=str(source), reason=f"{NAME} is damaged: its max_lag is no positive number", file=NAME)
    return allowed


def _check(db: Database, store: Store, target: Path, manifest: Manifest, verify: bool, on_step: OnStep) -> Restored:
    """Checks the structure and, if that has no damage, the views."""
    on_step(Step("checking the structure"))
    catalog = Catalog(store)
    findings = Auditor(store, catalog, lambda: db.spark).structure(tables=True)
    reports = []
    for name in sorted(catalog.views.keys() - catalog.failed.keys()) if verify and not findings else ():
        on_step(Step(f"verifying {name}"))
        reports.append(db.verify(name))
    position, epoch = store.newest_cut().position.number, read_committed(store).epoch
    failed = {} if findings else {name: f"{f.shows}: {f.message}" for name, f in sorted(catalog.failed.items())}
    return Restored(str(target), manifest.kind, position, epoch, tuple(findings), tuple(reports), failed)
