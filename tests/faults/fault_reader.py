"""A process that reads views repeatedly. It must see only states that the tables had, and never an older one.

python fault_reader.py STORE
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any

import tailrace as tr
from tailrace.database.inside import inside
from tailrace.errors import StoreUnavailable
from tailrace.store.base import Capability


def end_with_the_test() -> None:
    """Ends this process when the test that started it ends, whatever the reason."""
    sys.stdin.read()
    os._exit(1)


def has_wrong_sums(db: tr.Database) -> Any:
    """What two views show if no state of the tables had it, else None. Every transaction keeps the sums at zero."""
    (row,) = db.view("everything").scan().to_pylist()
    groups = db.view("totals").scan().to_pylist()
    wrong = row["n"] % 2 or row["s"] not in (0, None) or sum(g["s"] or 0 for g in groups)
    return (row, groups) if wrong else None


def differ(db: tr.Database) -> Any:
    """What two views show if they are not of the same state, else None. Needs no transactions over several rows."""
    with db.snapshot() as snapshot:
        (row,) = snapshot.view("everything").scan().to_pylist()
        groups = snapshot.view("totals").scan().to_pylist()
    sums = sum(g["n"] for g in groups), sum(g["s"] for g in groups)
    return (row, groups) if sums != (row["n"], row["s"] or 0) else None


def main(path: str) -> None:
    threading.Thread(target=end_with_the_test, daemon=True).start()
    with tr.open(path) as db:
        is_embedded = Capability.TRANSACTIONS in inside(db).store.capabilities
        find_wrong, pause = (has_wrong_sums, 0.03) if is_embedded else (differ, 0.3)
        seen, sequence = -1, (-1, [0])
        while True:
            try:
                wrong, now = find_wrong(db), db.status()
            except StoreUnavailable:
                continue
            if wrong is not None:
                print(json.dumps(["wrong", *wrong]), flush=True)
            if (now.epoch, now.cut) < sequence or now.lag_seconds < 0:
                print(json.dumps(["wrong", sequence, now.epoch, now.cut, now.lag_seconds]), flush=True)
            sequence = (now.epoch, now.cut)
            if now.epoch != seen:
                seen = now.epoch
                print(json.dumps(["epoch", seen]), flush=True)
            time.sleep(pause)


if __name__ == "__main__":
    main(*sys.argv[1:])
