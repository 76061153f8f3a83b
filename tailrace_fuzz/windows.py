"""Random window functions, each with an order that makes its result unique."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tailrace_fuzz.expressions import Expr, Expressions, Ref
from tailrace_fuzz.sources import Source

_FRAMES = (
    "",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
)
_SORTED = ("int", "str", "date", "dec", "dbl", "ts", "ntz", "bin", "bool", "arr:int", "arr:str")


class Windows:
    def __init__(self, rng: random.Random, expressions: Expressions, new_name: Callable[[str], str]) -> None:
        self._rng, self._expressions, self._new_name = rng, expressions, new_name

    def total(self, refs: Sequence[Ref]) -> str:
        """An ORDER BY of all these columns: tied rows are equal."""
        return ", ".join(f"{r.sql}{self._direction()}" for r in self._rng.sample(refs, len(refs)))

    def rank(self, source: Source) -> Expr:
        word = self._rng.choice(["row_number", "row_number", "rank", "dense_rank"])
        order = self._order(source) if word == "row_number" else self._partial(source)
        return Expr(f"{word}() OVER ({self._partition(source)}ORDER BY {order})", "int")

    def call(self, source: Source) -> Expr:
        form = self._rng.randrange(6)
        if form == 0:
            return self.rank(source)
        if form == 1:
            return self._share(source)
        if form == 2:
            return self._neighbour(source)
        if form == 3:
            return self._edge(source)
        return self._aggregate(source)

    def _share(self, source: Source) -> Expr:
        word = self._rng.choice(["percent_rank()", "cume_dist()", "ntile(3)"])
        order = self._order(source) if word.startswith("ntile") else self._partial(source)
        kind = "int" if word.startswith("ntile") else "dbl"
        return Expr(f"{word} OVER ({self._partition(source)}ORDER BY {order})", kind, int(kind == "dbl"))

    def _neighbour(self, source: Source) -> Expr:
        value = self._value(source, _SORTED)
        word = self._rng.choice(["lag", "lead"])
        distance = self._rng.choice(["", ", 2"])
        over = f"({self._partition(source)}ORDER BY {self._order(source)})"
        return Expr(f"{word}({value.sql}{distance}) OVER {over}", value.kind, value.grade)

    def _edge(self, source: Source) -> Expr:
        value = self._value(source, _SORTED)
        call = self._rng.choice(["first_value({})", "last_value({})", "nth_value({}, 2)"]).format(value.sql)
        frame = self._rng.choice(_FRAMES[1:])
        over = f"({self._partition(source)}ORDER BY {self._order(source)}{frame})"
        return Expr(f"{call} OVER {over}", value.kind, value.grade)

    def _aggregate(self, source: Source) -> Expr:
        word = self._rng.choice(["SUM", "COUNT", "MIN", "MAX", "AVG"])
        value = self._value(source, ("int", "dec", "dbl") if word in ("SUM", "AVG") else _SORTED[:9])
        kind, grade = value.kind, value.grade
        if word == "COUNT":
            kind, grade = "int", 0
        elif word == "AVG" and kind != "dec":
            kind, grade = "dbl", 2 if grade else 1
        elif word == "SUM" and kind == "dbl" and grade:
            grade = 2
        form, partition = self._rng.random(), self._partition(source)
        if form < 0.35:
            inside = partition.strip()
        elif form < 0.6:  # the default frame gives all peers the same result
            inside = f"{partition}ORDER BY {self._partial(source)}"
        else:
            inside = f"{partition}ORDER BY {self._order(source)}{self._rng.choice(_FRAMES)}"
        return Expr(f"{word}({value.sql}) OVER ({inside})", kind, grade)

    def _value(self, source: Source, kinds: Sequence[str]) -> Expr:
        column = self._expressions.column(source.refs, kinds)
        return column or self._expressions.literal(kinds[0])

    def _partition(self, source: Source) -> str:
        column = self._expressions.column(source.refs, _SORTED[:9])
        return f"PARTITION BY {column.sql} " if column and self._rng.random() < 0.75 else ""

    def _order(self, source: Source) -> str:
        """A total order: by the unique columns or by all columns, often after another column."""
        last = source.order if source.order and (source.has_maps or self._rng.random() < 0.6) else source.refs
        first = self._expressions.column(source.refs, _SORTED)
        refs = [first] if first and first not in last else []
        return ", ".join(f"{r.sql}{self._direction()}" for r in [*refs, *self._rng.sample(last, len(last))])

    def _partial(self, source: Source) -> str:
        column = self._expressions.column(source.refs, _SORTED) or source.refs[0]
        return f"{column.sql}{self._direction()}"

    def _direction(self) -> str:
        return self._rng.choice(["", "", " DESC", " ASC NULLS LAST", " DESC NULLS FIRST"])
