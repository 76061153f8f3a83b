"""Random aggregate calls for every maintenance rule, with FILTER and DISTINCT. No result depends on row order."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tailrace_fuzz import nested
from tailrace_fuzz.expressions import Expr, Expressions, Ref, has_nested
from tailrace_fuzz.features import Features

_ORDERED = ("int", "dec", "dbl", "str", "date", "ts", "ntz", "bin", "bool")
_FORMS = (
    ("count", 3, None),
    ("sum", 4, None),
    ("avg", 2, None),
    ("extreme", 3, None),
    ("count_if", 1, None),
    ("distinct", 2, "distinct_aggregates"),
    ("generic", 2, "generic"),
)


class Aggregates:
    """Generates aggregate calls over the columns in scope."""

    def __init__(self, rng: random.Random, features: Features, expressions: Expressions) -> None:
        self._rng, self._features, self._expressions = rng, features, expressions

    def call(self, scope: Sequence[Ref]) -> Expr:
        form = self._features.choose(self._rng, _FORMS)
        call: Expr = getattr(self, f"_{form}")(scope)
        if self._features.on(self._rng, "filter", 0.15) and not call.sql.startswith("sort_array("):
            condition = self._expressions.condition(scope, 1).sql
            call = Expr(f"{call.sql} FILTER (WHERE {condition})", call.kind, call.grade)
        return call

    def item(self, scope: Sequence[Ref]) -> Expr:
        """A call, or an expression that contains one."""
        call = self.call(scope)
        if call.grade == 2 or self._rng.random() < 0.8:
            return call
        if call.kind in ("int", "dec"):
            return Expr(f"({call.sql} + 1)", call.kind, call.grade)
        return Expr(f"coalesce({call.sql}, {self._expressions.literal(call.kind).sql})", call.kind, call.grade)

    def of(self, scope: Sequence[Ref], kind: str) -> Expr:
        """A call with a result of this kind."""
        if kind == "int" and self._rng.random() < 0.5:
            return self._count(scope)
        argument = self._expressions.of(kind, scope, 1)
        word = "bool_or" if kind == "bool" else self._rng.choice(["min", "max"])
        return Expr(f"{word}({argument.sql})", kind, argument.grade)

    def _argument(self, scope: Sequence[Ref], kinds: Sequence[str]) -> Expr:
        column = self._expressions.column(scope, kinds)
        if column is not None and self._rng.random() < 0.7:
            return column
        return self._expressions.of(column.kind if column else self._rng.choice(kinds), scope, 2)

    def _count(self, scope: Sequence[Ref]) -> Expr:
        if self._rng.random() < 0.5:
            return Expr("COUNT(*)", "int")
        return Expr(f"COUNT({self._argument(scope, _ORDERED).sql})", "int")

    def _sum(self, scope: Sequence[Ref]) -> Expr:
        argument = self._argument(scope, ("int", "dec", "dbl"))
        rounds = argument.kind == "dbl" and argument.grade > 0
        return Expr(f"SUM({argument.sql})", argument.kind, 2 if rounds else argument.grade)

    def _avg(self, scope: Sequence[Ref]) -> Expr:
        argument = self._argument(scope, ("int", "dec", "dbl"))
        if argument.kind == "dec":
            return Expr(f"AVG({argument.sql})", "dec")
        return Expr(f"AVG({argument.sql})", "dbl", 2 if argument.grade else 1)

    def _extreme(self, scope: Sequence[Ref]) -> Expr:
        kinds = (*_ORDERED, *nested.ORDERED) if has_nested(scope) else _ORDERED
        argument = self._argument(scope, kinds)
        return Expr(f"{self._rng.choice(['MIN', 'MAX'])}({argument.sql})", argument.kind, argument.grade)

    def _count_if(self, scope: Sequence[Ref]) -> Expr:
        condition = self._expressions.condition(scope, 2).sql
        word = self._rng.choice(["count_if", "bool_or", "bool_and"])
        return Expr(f"{word}({condition})", "int" if word == "count_if" else "bool")

    def _distinct(self, scope: Sequence[Ref]) -> Expr:
        form = self._rng.random()
        if form < 0.6:
            return Expr(f"COUNT(DISTINCT {self._argument(scope, _ORDERED).sql})", "int")
        if form < 0.8:
            two = [self._argument(scope, _ORDERED).sql for _ in range(2)]
            return Expr(f"COUNT(DISTINCT {', '.join(two)})", "int")
        argument = self._argument(scope, ("int", "dec"))
        return Expr(f"SUM(DISTINCT {argument.sql})", argument.kind, argument.grade)

    def _generic(self, scope: Sequence[Ref]) -> Expr:
        form = self._rng.randrange(9)
        number, text = self._argument(scope, ("int",)), self._argument(scope, ("str",))
        if form == 0:
            return Expr(f"{self._rng.choice(['stddev', 'var_pop', 'variance'])}({number.sql} % 100)", "dbl", 2)
        if form == 1:
            return Expr(f"percentile({number.sql}, 0.5)", "dbl", 1)
        if form == 2:
            return Expr(f"sort_array(collect_list({text.sql}))", "arr:str")
        if form == 3:
            return Expr(f"sort_array(collect_set({number.sql}))", "arr:int")
        if form == 4:
            value = self._argument(scope, ("str", "int", "date"))
            by = f"struct({number.sql}, {value.sql})"  # includes the value, so tied rows have the same value
            return Expr(f"{self._rng.choice(['max_by', 'min_by'])}({value.sql}, {by})", value.kind, value.grade)
        if form == 5:
            return Expr(f"bit_xor({number.sql})", "int", 1)
        if form == 6:
            return Expr(f"approx_count_distinct({self._argument(scope, ('int', 'str')).sql})", "int")
        if form == 7:
            return Expr(f"listagg({text.sql}, ',') WITHIN GROUP (ORDER BY {text.sql})", "str")
        return Expr(f"median({number.sql})", "dbl", 1)
