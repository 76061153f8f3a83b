"""Generates the operations for Tailrace and every peer, with a fixed seed, and stores them as Arrow files.

`ops.arrow`      the operations in order: op (1 put, -1 delete), id, grp, amount, other; a block of 10k has distinct ids
`changes.arrow`  the same as a changelog with before images: kind (of KINDS), id, grp, amount, other
`table.arrow`    the rows before the first operation
`side.arrow`     the other table of the join: id, grp, price; ten rows per grp
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
    """The tables of the files. `changes_after[n]` is the number of changes that the first n blocks make."""

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
    """`count` operations on `keys` keys: 95% puts, 5% deletes of present rows. The first `rows` keys are present."""
    rng = np.random.default_rng(seed)
    values = np.zeros((keys, len(COLUMNS)), np.int64)
    values[:rows] = _random_values(rng, rows)
    is_present = np.zeros(keys, bool)
    is_present[:rows] = True
    table = _make_table(np.arange(rows), values[:rows])
    ops, changes, changes_after = [], [], [0]
    for start in range(0, count, BLOCK):
        chosen = rng.choice(keys, min(BLOCK, count - start, keys), replace=False)
        deleted = chosen[is_present[chosen]][: len(chosen) // 20]
        put = np.setdiff1d(chosen, deleted)
        rng.shuffle(put)
        new, was_present, old = _random_values(rng, len(put)), is_present[put], values[put]
        ops += [_add_tag("op", PUT, put, new), _add_tag("op", DELETE, deleted, values[deleted])]
        changes.append(_make_changelog(put, was_present, old, new, deleted, values[deleted]))
        changes_after.append(changes_after[-1] + len(changes[-1]))
        values[put], is_present[put], is_present[deleted] = new, True, False
    side = np.arange(GROUPS * MATCHES)
    sides = pa.table({"id": side, "grp": side // MATCHES, "price": rng.integers(0, 1_000, len(side))})
    all_ops, all_changes = (pa.concat_tables(parts).combine_chunks() for parts in (ops, changes))
    return Operations(table, all_ops, all_changes, sides, tuple(changes_after))


def final_rows(operations: Operations, count: int) -> pa.Table:
    """The rows after the first `count` operations: the last operation of each key counts.

    Computed independently of `generate`, as an oracle.
    """
    ops = operations.ops.slice(0, count).to_pandas()
    start = operations.table.to_pandas().assign(op=PUT)
    last = pd.concat([start, ops], ignore_index=True).drop_duplicates("id", keep="last")
    return pa.Table.from_pandas(last[last.op == PUT][["id", *COLUMNS]], preserve_index=False)


def _random_values(rng: np.random.Generator, count: int) -> np.ndarray:
    highest = (GROUPS, 1_000, 1_000_000)
    return np.stack([rng.integers(0, high, count) for high in highest], axis=1)


def _make_table(ids: np.ndarray, values: np.ndarray) -> pa.Table:
    return pa.table({"id": ids.astype(np.int64), **{name: values[:, i] for i, name in enumerate(COLUMNS)}})


def _add_tag(name: str, tag: int, ids: np.ndarray, values: np.ndarray) -> pa.Table:
    return _make_table(ids, values).add_column(0, name, pa.array(np.full(len(ids), tag, np.int8)))


def _make_changelog(
    put: np.ndarray, was_present: np.ndarray, old: np.ndarray, new: np.ndarray, deleted: np.ndarray, last: np.ndarray
) -> pa.Table:
    """INSERT, or UPDATE_BEFORE and UPDATE_AFTER next to each other, for each put; DELETE for each delete."""
    ids = np.repeat(put, 2)
    rows = np.stack([old, new], axis=1).reshape(-1, len(COLUMNS))
    # Two positions of KINDS for each put. -1 stands for no change: an INSERT has no before image.
    kinds = np.stack([np.where(was_present, 1, -1), np.where(was_present, 2, 0)], axis=1).reshape(-1)
    present = kinds >= 0
    table = _make_table(np.concatenate([ids[present], deleted]), np.concatenate([rows[present], last]))
    names = pa.DictionaryArray.from_arrays(
        pa.array(np.concatenate([kinds[present], np.full(len(deleted), 3)]), pa.int32()), pa.array(KINDS)
    )
    return table.add_column(0, "kind", names.cast(pa.string()))
