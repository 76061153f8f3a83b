"""The operations that Tailrace and every peer are given: made once, with a fixed seed, and kept as Arrow files.

`ops.arrow`      op (1 put, -1 delete), id, grp, amount, other: in order; each block of 10k touches a key once
`changes.arrow`  the same as a changelog with before images: kind (of KINDS), id, grp, amount, other
`table.arrow`    the rows there were before the first operation
`side.arrow`     what the join joins with: id, grp, price; ten rows for each grp
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

KEYS = 100_000
GROUPS = 10_000
MATCHES = 10
BLOCK = 10_000
COLUMNS = ("grp", "amount", "other")
PUT, DELETE = 1, -1
KINDS = ("INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE")


@dataclass(frozen=True)
class Operations:
    """Tables as in the files, and how many of the changes the first n blocks of operations make."""

    table: pa.Table
    ops: pa.Table
    changes: pa.Table
    side: pa.Table
    changes_after: tuple[int, ...]

    def write(self, directory: Path) -> None:
        for name in ("table", "ops", "changes", "side"):
            rows = getattr(self, name)
            with pa.ipc.new_file(str(directory / f"{name}.arrow"), rows.schema) as writer:
                writer.write_table(rows)


def generate(count: int, *, keys: int = KEYS, rows: int = 0, seed: int = 7) -> Operations:
    """`count` operations on `keys` keys, the first `rows` of which there are: 95% puts, 5% deletes of what is there."""
    rng = np.random.default_rng(seed)
    values = np.zeros((keys, len(COLUMNS)), np.int64)
    values[:rows] = _values(rng, rows)
    there = np.zeros(keys, bool)
    there[:rows] = True
    table = _columns(np.arange(rows), values[:rows])
    ops, changes, after = [], [], [0]
    for start in range(0, count, BLOCK):
        chosen = rng.choice(keys, min(BLOCK, count - start, keys), replace=False)
        gone = chosen[there[chosen]][: len(chosen) // 20]
        kept = np.setdiff1d(chosen, gone)
        rng.shuffle(kept)
        new, was, old = _values(rng, len(kept)), there[kept], values[kept]
        ops += [_tagged("op", PUT, kept, new), _tagged("op", DELETE, gone, values[gone])]
        changes.append(_changes(kept, was, old, new, gone, values[gone]))
        after.append(after[-1] + len(changes[-1]))
        values[kept], there[kept], there[gone] = new, True, False
    side = np.arange(GROUPS * MATCHES)
    sides = pa.table({"id": side, "grp": side // MATCHES, "price": rng.integers(0, 1_000, len(side))})
    together = [pa.concat_tables(parts).combine_chunks() for parts in (ops, changes)]
    return Operations(table, together[0], together[1], sides, tuple(after))


def final_rows(operations: Operations, count: int) -> pa.Table:
    """The rows there are after the first `count` operations, found apart from `generate`: a key's last one counts."""
    ops = operations.ops.slice(0, count).to_pandas()
    start = operations.table.to_pandas().assign(op=PUT)
    last = pd.concat([start, ops], ignore_index=True).drop_duplicates("id", keep="last")
    return pa.Table.from_pandas(last[last.op == PUT][["id", *COLUMNS]], preserve_index=False)


def _values(rng: np.random.Generator, count: int) -> np.ndarray:
    highest = (GROUPS, 1_000, 1_000_000)
    return np.stack([rng.integers(0, high, count) for high in highest], axis=1)


def _columns(ids: np.ndarray, values: np.ndarray) -> pa.Table:
    return pa.table({"id": ids.astype(np.int64), **{name: values[:, i] for i, name in enumerate(COLUMNS)}})


def _tagged(name: str, tag: int, ids: np.ndarray, values: np.ndarray) -> pa.Table:
    return _columns(ids, values).add_column(0, name, pa.array(np.full(len(ids), tag, np.int8)))


def _changes(
    kept: np.ndarray, was: np.ndarray, old: np.ndarray, new: np.ndarray, gone: np.ndarray, last: np.ndarray
) -> pa.Table:
    """INSERT, or UPDATE_BEFORE and UPDATE_AFTER next to each other, for each put; DELETE for each delete."""
    ids = np.repeat(kept, 2)
    rows = np.stack([old, new], axis=1).reshape(-1, len(COLUMNS))
    kinds = np.stack([np.where(was, 1, -1), np.where(was, 2, 0)], axis=1).reshape(-1)  # -1: there was no row before
    wanted = kinds >= 0
    table = _columns(np.concatenate([ids[wanted], gone]), np.concatenate([rows[wanted], last]))
    names = pa.DictionaryArray.from_arrays(
        pa.array(np.concatenate([kinds[wanted], np.full(len(gone), 3)]), pa.int32()), pa.array(KINDS)
    )
    return table.add_column(0, "kind", names.cast(pa.string()))
