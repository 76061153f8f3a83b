"""A process that writes transactions. Each input line is a number of transactions; each is logged before and after it.

    python fault_writer.py STORE FIRST SEED

The writer owns the keys from FIRST on. Rows are put and deleted in pairs whose values add up to zero. Values are
random and so large that none repeats.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

import tailrace as tr
from tailrace.errors import StoreUnavailable, TailraceError

PAIRS = 30


def say(*words: Any) -> None:
    print(json.dumps(words), flush=True)


def changes(first: int, rng: random.Random) -> Iterator[tuple[str, str, list[Any]]]:
    while True:
        table = rng.choice("ab")
        pairs = rng.sample(range(PAIRS), rng.randrange(1, 8))
        ids = [first + 2 * pair + one for pair in pairs for one in (0, 1)]
        if rng.random() < 0.3:
            yield "delete", table, ids
        else:
            values = [rng.randrange(1, 2**30) for _ in pairs]
            signed = [sign * v for v in values for sign in (1, -1)]
            rows = [{"id": i, "g": rng.randrange(6), "v": v} for i, v in zip(ids, signed, strict=True)]
            yield "put", table, rows


def write(db: tr.Database, what: str, name: str, rows: list[Any]) -> tr.Written:
    table = db.table(name)
    while True:
        try:
            return table.put_many(rows) if what == "put" else table.delete_many(rows)
        except StoreUnavailable:  # nobody knows what was written; writing the same again is harmless
            continue


def main(path: str, first: str, seed: str) -> None:
    with tr.open(path) as db:
        upcoming = changes(int(first), random.Random(int(seed)))
        say("ready")
        for line in sys.stdin:
            for _ in range(int(line)):
                what, name, rows = next(upcoming)
                say(what, name, rows)
                try:
                    written = write(db, what, name, rows)
                    say("ok", written.transaction, written.operations)
                except TailraceError as error:
                    say("failed", str(error))
            say("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
