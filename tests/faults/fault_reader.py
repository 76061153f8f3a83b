"""A process that reads views repeatedly. It must see only states that the tables had, and never an older one.

python fault_reader.py STORE
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

import tailrace as tr


def end_with_the_test() -> None:
    """Ends this process when the test that started it ends, whatever the reason."""
    sys.stdin.read()
    os._exit(1)


def main(path: str) -> None:
    threading.Thread(target=end_with_the_test, daemon=True).start()
    with tr.open(path) as db:
        everything, totals = db.view("everything"), db.view("totals")
        seen, sequence = -1, (-1, [0])
        while True:
            (row,) = everything.scan().to_pylist()
            groups = totals.scan().to_pylist()
            if row["n"] % 2 or row["s"] not in (0, None) or sum(g["s"] or 0 for g in groups):
                print(json.dumps(["wrong", row, groups]), flush=True)
            now = db.status()
            if (now.epoch, now.cut) < sequence or now.lag_seconds < 0:
                print(json.dumps(["wrong", sequence, now.epoch, now.cut, now.lag_seconds]), flush=True)
            sequence = (now.epoch, now.cut)
            if now.epoch != seen:
                seen = now.epoch
                print(json.dumps(["epoch", seen]), flush=True)
            time.sleep(0.03)


if __name__ == "__main__":
    main(*sys.argv[1:])
