"""Random GROUP BY queries, in all spellings of GROUP BY."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tailrace_fuzz.aggregates import Aggregates
from tailrace_fuzz.expressions import Expr, Expressions, Ref
from tailrace_fuzz.features import Features
from tailrace_fuzz.nested import ORDERED
from tailrace_fuzz.sources import Column, Query, Source

_KINDS = ("int", "str", "date", "dec", "bool", "dbl", "ts", "ntz", "bin", *ORDERED)


class Grouping:
    def __init__(
        self, rng: random.Random, features: Features, expressions: Expressions, aggregates: Aggregates,
        new_name: Callable[[str], str],
    ) -> None:  # fmt: skip
        self._rng, self._features, self._new_name = rng, features, new_name
        self._expressions, self._aggregates = expressions, aggregates

    def query(self, source: Source, where: str) -> Query:
        groups = self._groups(source.refs)
        calls = self._calls(source)
        sets = bool(groups) and self._features.on(self._rng, "grouping_sets", 0.12)
        if sets and self._rng.random() < 0.4:
            calls.append(Expr(f"grouping({self._rng.choice(groups).sql})", "int"))
        shown = [g for g in groups if self._rng.random() < 0.9]
        items = [*shown, *calls]
        names = [self._new_name("c") for _ in items]
        select_list = ", ".join(f"{i.sql} AS {n}" for i, n in zip(items, names, strict=True))
        columns = tuple(Column(n, i.kind, i.grade) for n, i in zip(names, items, strict=True))
        by = self._by(source, groups, shown, names, sets)
        return Query(
            f"SELECT {select_list} FROM {source.sql}{where}{by}{self._having(source)}",
            columns,
            source.size // 2 + 1 if groups else 1,
        )

    def _calls(self, source: Source) -> list[Expr]:
        calls = [self._aggregates.item(source.refs) for _ in range(self._rng.randrange(1, 4))]
        if any("DISTINCT" in call.sql for call in calls):  # Spark's optimizer fails on listagg together with DISTINCT
            calls = [call for call in calls if "listagg" not in call.sql]
        return calls

    def _groups(self, refs: Sequence[Ref]) -> list[Expr]:
        usable = [r for r in refs if r.kind in _KINDS and r.grade < 2]
        count = self._rng.choice([0, 1, 1, 1, 2, 2, 3])
        groups: list[Expr] = list(self._rng.sample(usable, min(count, len(usable))))
        if groups and self._rng.random() < 0.25:
            expression = self._expressions.of(groups[0].kind, usable, 2)
            if any(r.sql in expression.sql for r in usable):  # a constant cannot be a group key here
                groups[0] = expression
        return groups

    def _by(
        self, source: Source, groups: Sequence[Expr], shown: Sequence[Expr], names: Sequence[str], sets: bool
    ) -> str:
        if not groups:
            return ""
        texts = [g.sql for g in groups]
        if sets:
            return f" GROUP BY {self._sets(texts)}"
        form = self._rng.random()
        if list(shown) == list(groups) and form < 0.3:
            aliases = form < 0.2 and not {r.name for r in source.refs}.intersection(names)
            return " GROUP BY ALL" if form < 0.1 else f" GROUP BY {self._ordinals(names, groups, aliases)}"
        return f" GROUP BY {', '.join(texts)}"

    @staticmethod
    def _ordinals(names: Sequence[str], groups: Sequence[Expr], aliases: bool) -> str:
        return ", ".join(names[i] if aliases else str(i + 1) for i in range(len(groups)))

    def _sets(self, texts: list[str]) -> str:
        all_columns = ", ".join(texts)
        form = self._rng.randrange(3)
        if form == 0:
            return f"ROLLUP ({all_columns})"
        if form == 1 and len(texts) < 3:
            return f"CUBE ({all_columns})"
        others = self._rng.sample([f"({texts[0]})", "()", f"({all_columns})"], self._rng.randrange(3))
        return f"GROUPING SETS ({', '.join([f'({all_columns})', *others])})"

    def _having(self, source: Source) -> str:
        if not self._features.on(self._rng, "having", 0.2):
            return ""
        if self._rng.random() < 0.5:
            return f" HAVING COUNT(*) {self._rng.choice(['>', '>=', '<', '<>'])} {self._rng.randrange(1, 4)}"
        kind = self._rng.choice(["int", "dec", "str", "date"])
        call = self._aggregates.of(source.refs, kind)
        return f" HAVING {call.sql} {self._rng.choice(['<', '>=', '<>'])} {self._expressions.literal(kind).sql}"
