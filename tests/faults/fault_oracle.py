"""The bench's views computed from its rows in plain Python: exact, and fast enough to run after every fault."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

Rows = list[dict[str, Any]]


def _groups(rows: Rows) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for row in rows:
        groups.setdefault(row["g"], []).append(row["v"])
    return groups


def _totals(a: Rows, b: Rows) -> Iterable[tuple[Any, ...]]:
    return [(g, sum(vs), len(vs), min(vs), max(vs)) for g, vs in _groups(a).items()]


def _everything(a: Rows, b: Rows) -> Iterable[tuple[Any, ...]]:
    return [(len(a), sum(r["v"] for r in a) if a else None)]


def _pairs(a: Rows, b: Rows) -> Iterable[tuple[Any, ...]]:
    return [(x["id"], y["id"], x["v"] + y["v"]) for x in a for y in b if x["g"] == y["g"] and x["id"] < y["id"]]


def _lonely(a: Rows, b: Rows) -> Iterable[tuple[Any, ...]]:
    values = {r["id"]: r["v"] for r in b}
    return [(r["id"], values.get(r["id"]), r["g"]) for r in a]


def _middles(a: Rows, b: Rows) -> Iterable[tuple[Any, ...]]:
    for g, vs in _groups(b).items():
        ordered = sorted(vs)
        middle = (len(vs) - 1) / 2
        median = (ordered[math.floor(middle)] + ordered[math.ceil(middle)]) / 2
        yield g, median, len({math.fmod(v, 7) for v in vs})


def _ranks(rows: Rows) -> Iterable[tuple[Any, ...]]:
    groups = _groups(rows)
    return [(r["id"], 1 + sum(v < r["v"] for v in groups[r["g"]])) for r in rows]


def _best(a: Rows, b: Rows) -> Iterable[tuple[Any, ...]]:
    return [(r["id"], r["v"]) for r in sorted(a, key=lambda r: -r["v"])[1:6]]


def _counts(a: Rows, b: Rows) -> Iterable[tuple[Any, ...]]:
    known = {r["id"] for r in a}
    return Counter(r["g"] for r in b if r["id"] in known).items()


def _built(a: Rows, b: Rows) -> Iterable[tuple[Any, ...]]:
    values = {r["id"]: r["v"] for r in b}
    return [(r["id"], r["g"], values[r["id"]]) for r in a if r["id"] in values]


def _sums(rows: Rows) -> Iterable[tuple[Any, ...]]:
    return [(g, sum(vs)) for g, vs in _groups(rows).items()]


EXPECTED: dict[str, Callable[[Rows, Rows], Iterable[tuple[Any, ...]]]] = {
    "totals": _totals,
    "everything": _everything,
    "pairs": _pairs,
    "lonely": _lonely,
    "middles": _middles,
    "ranks": lambda a, b: _ranks(a),
    "best": _best,
    "auto_counts": _counts,
    "ranked": lambda a, b: _ranks(b),
    "built": _built,
    "fragile": lambda a, b: [(r["id"], r["g"], r["v"]) for r in a],
    "over_fragile": lambda a, b: _sums(a),
}


def differences(view: str, rows: Rows, a: Rows, b: Rows) -> tuple[Counter[Any], Counter[Any]]:
    """The rows that a view is missing, and its extra rows."""
    expected, actual = Counter(EXPECTED[view](a, b)), Counter(tuple(row.values()) for row in rows)
    return expected - actual, actual - expected
