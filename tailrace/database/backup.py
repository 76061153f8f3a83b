"""Backs up a store while writers and epochs run.

    pin       the committed epoch P: undo records of later epochs, and dropped states, are kept
    copy      tables, logs and documents in one read transaction, which shows a committed epoch C >= P; then each
              shard, which may have applied epochs after C
    finish    in the copy: shards go back to C by their undo records; an open epoch, pins, leases and what was created
              after C are removed
    pack      files, and a manifest with their checksums

No lock is taken. The backup has the tables as of the first copy, and the views as of epoch C; the log in between is in
it, too. So a restored store goes on as the original would have after a crash at that moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from tailrace import faults
from tailrace.catalog.catalog import Catalog
from tailrace.catalog.construction import BUILDS
from tailrace.catalog.failed import failed_documents, read_failed
from tailrace.database.drafts import draft
from tailrace.database.progress import OnStep, Step
from tailrace.epochs.model import INTENT
from tailrace.errors import StoreError
from tailrace.store import manifest as manifests
from tailrace.store.base import Store
from tailrace.store.commits import read_committed
from tailrace.store.leases import LEASES
from tailrace.store.locks import TERM
from tailrace.store.manifest import Manifest
from tailrace.store.pins import HOLDS, PINS, Hold, following
from tailrace.verify.audit.state_names import describe_states, unpublished_states
from tailrace.version import VERSION


@dataclass(frozen=True)
class Saved:
    """A backup or dump: its directory, the last position whose writes it has, and its size.

    `epoch` is the epoch of the views in a backup. A dump has no views, only their definitions: 0.
    """

    path: str
    position: int
    epoch: int
    files: int
    bytes: int


def back_up(store: Store, target: Path, on_step: OnStep) -> Saved:
    """Writes a backup into a new directory, which appears when the backup is complete."""
    backups = store.backups()
    with draft(target) as place:
        with following(store) as pin:
            backups.copy(place, lambda part: on_step(Step(f"copying {part}")))
            if not pin.is_held:
                raise _disturbed(store, "its pin expired")
            newest_epoch, holds = _newest_epoch(store), store.documents(HOLDS)
        on_step(Step("bringing all shards to one epoch"))
        with backups.opened(place) as copy:
            _finish(copy, newest_epoch, holds)
            cut, epoch = copy.newest_cut(), read_committed(copy).epoch
        on_step(Step("computing checksums"))
        files = manifests.record_files(place, backups.pack(place))
        now = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest("backup", VERSION, now, cut, epoch, dict(backups.settings), files)
        manifests.write_manifest(place, manifest)
        faults.point("backup.packed")
    return Saved(str(target), cut.position.number, epoch, len(files), manifest.size)


def _newest_epoch(store: Store) -> int:
    """The newest epoch that a shard may have applied."""
    intent = store.document(INTENT)
    return max(0 if intent is None else intent.epoch, read_committed(store).epoch)


def _finish(copy: Store, newest_epoch: int, holds: Mapping[str, Hold]) -> None:
    """Brings a copy to the committed epoch of its documents, and removes what belongs to processes of the original.

    `newest_epoch` is the newest epoch that its shards may have. `holds` are those of the original after the last copy.
    """
    catalog = Catalog(copy)
    live_builds = [b for b in catalog.builds.values() if not b.failed]
    needed = {*describe_states(catalog), *(number for build in live_builds for number in build.unpublished.numbers)}
    with copy.inspect() as inspection:
        stored = {record.state for shard in range(copy.shards) for record in inspection.states(shard)}
    for state in stored - needed - unpublished_states(catalog):  # of views that were created after the first copy
        copy.drop_state(state)
    damaged = {state for _, state in copy.repairs().roll_back(read_committed(copy).epoch)}
    if damaged & needed:
        raise _disturbed(copy, "undo records are gone or damaged")
    copy.change_documents({**_released(copy, newest_epoch), **_without_undo_records(copy, holds)})


def _released(copy: Store, newest_epoch: int) -> dict[str, Any]:
    """The documents that remove an open epoch, pins, leases and owners, and burn the numbers of later epochs."""
    changes: dict[str, Any] = {INTENT.name: None}
    changes.update({PINS.at(key): None for key in copy.documents(PINS)})
    changes.update({LEASES.at(key): None for key in copy.documents(LEASES)})
    changes.update(
        {BUILDS.at(key): structs.replace(build, owner=None) for key, build in copy.documents(BUILDS).items()}
    )
    if (term := copy.document(TERM)) is not None:
        changes[TERM.name] = structs.replace(term, burnt=max(term.burnt, newest_epoch))
    return changes


def _without_undo_records(copy: Store, holds: Mapping[str, Hold]) -> dict[str, Any]:
    """The documents that let failed views be recomputed if what they need to catch up was not held for all copies."""
    lost = {name: failed for name, failed in read_failed(copy).items() if holds.get(name) != copy.document(HOLDS, name)}
    changes: dict[str, Any] = {}
    for name, failed in lost.items():
        changes.update(failed_documents(name, structs.replace(failed, held=False)))
    return changes


def _disturbed(store: Store, reason: str) -> StoreError:
    message = (
        f"the backup was given up: {reason}. Either this process was suspended for more than a minute, or the store was"
        " repaired meanwhile, or it is damaged. Try again; if it fails again, run `tailrace audit`"
    )
    return StoreError(message=message, path=store.path)
