"""What a process of a test does on HBase: `python hbase_child.py PORT NAMESPACE VERB ...`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from hbase_parts import HbaseParts

from tailrace.errors import Conflict
from tailrace.store.base import Write
from tailrace.store.documents import Kind

COUNTER: Kind[int] = Kind("test_child_counter", int)


def apply(parts: HbaseParts, shard: str, epoch: str, value: str, term: str) -> None:
    """Applies an epoch that writes one value to keys of two states."""
    keys = [b"%03d" % i for i in range(50)]
    writes = [Write.of(state, keys, [value.encode()] * len(keys), [None] * len(keys)) for state in (7, 8)]
    parts.shard(int(shard)).apply(int(epoch), writes, 0, int(term))


def hold(parts: HbaseParts, name: str, patience: str = "0") -> None:
    """Holds a lock until it is killed. Prints a line before it has it, and when it has it."""
    print("waiting", flush=True)
    with parts.lock(name, float(patience)):  # type: ignore[arg-type]
        print("held", flush=True)
        while True:
            time.sleep(60)


def count(parts: HbaseParts, times: str) -> None:
    """Adds one to a counter, several times; again if another process was faster."""
    done = 0
    while done < int(times):
        value = parts.document(COUNTER)
        with suppress(Conflict):
            parts.change_documents({COUNTER.name: (value or 0) + 1}, expected={COUNTER.name: value})
            done += 1


VERBS: dict[str, Callable[..., None]] = {"apply": apply, "hold": hold, "count": count}

if __name__ == "__main__":
    port, name, verb, *rest = sys.argv[1:]
    times = {"renewal": float(os.environ.get("RENEWAL", "3")), "expiry": float(os.environ.get("EXPIRY", "15"))}
    VERBS[verb](HbaseParts(int(port), name, **times), *rest)
