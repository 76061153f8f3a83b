"""A subquery that reads the query around it, made into one that can be joined with that query.

    outer ⋈ q(outer.a)  =  outer ⋈[a = k] Q,   where Q holds the rows of q(k) beside k, for every k that matters

What the subquery reads of the outer query is pulled up through its operators as columns that each carries
along: its ties. A condition `inner = outer` makes the inner side a tie. Any other use needs the outer
values themselves: they come from the domain, the distinct values of those outer columns, which is joined
in, and whose columns are then the ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.plan.build.correlated_limits import require_limit_by_row
from tailrace.plan.build.emptiness import or_empty
from tailrace.plan.expressions import cast, conjuncts, equality, refs, remap, substitute
from tailrace.plan.joining import filtered, joined, selected
from tailrace.plan.nodes import Aggregate, Filter, Generate, Join, Node, Project, TopK, UnionAll, Window, column_of
from tailrace.plan.outer import outer_refs, reads_outer, with_outer
from tailrace.plan.sql.refuse import unsupported
from tailrace.plan.typing import Types
from tailrace.types import Column, is_float, is_scalar


@dataclass(frozen=True)
class Tie:
    """What a tie column must equal: an expression over the outer query's columns."""

    outer: str
    null_safe: bool
    exact: bool = False  # the very value, not merely an equal one


@dataclass(frozen=True)
class Lifted:
    """A subquery's plan with its ties as the last columns."""

    node: Node
    ties: tuple[Tie, ...] = ()

    @property
    def width(self) -> int:
        """How many columns are the subquery's own."""
        return len(self.node.columns) - len(self.ties)

    @property
    def tied(self) -> range:
        return range(self.width, len(self.node.columns))

    def conditions(self, before: int, ties_at: int) -> list[str]:
        """The ties as conditions on rows of `before` outer columns and then others, with ties from `ties_at`."""
        return [_equal(t.outer, column(before + ties_at + i), t.null_safe) for i, t in enumerate(self.ties)]


def _equal(one: str, other: str, null_safe: bool) -> str:
    return f"({one}) {'<=>' if null_safe else '='} ({other})"


@dataclass(frozen=True)
class Decorrelation:
    """Lifts plans of subqueries of `outer`, the relation of the query at `depth`."""

    outer: Node
    depth: int
    types: Types
    origin: exp.Expr

    def lift(self, node: Node) -> Lifted:
        if not reads_outer(node, self.depth):
            return Lifted(node)
        match node:
            case Filter(source, condition):
                return self._filter(self.lift(source), conjuncts(condition))
            case Project():
                return self._project(node)
            case Aggregate():
                return self.aggregate(node) if node.groups else self._completed(self.aggregate(node), node)
            case Join():
                return self._join(node)
            case UnionAll(branches):
                return self._union([self.lift(b) for b in branches])
            case TopK(numbered=False):
                require_limit_by_row(node, self.outer, self.depth, self.types, self.origin)
                return self._partitioned(node)
            case Window():
                return self._partitioned(node)
            case Generate():
                return self._generate(node)
        raise unsupported(f"a correlated subquery over {type(node).__name__}", self.origin)

    def domain(self, positions: Sequence[int]) -> Node:
        """The distinct values of these columns of the outer query."""
        for position in positions:
            name, kind = self.outer.columns[position]
            if not is_scalar(kind):
                reason = f"column {name!r} is of a nested type; compare it by = only"
                raise unsupported("a correlated subquery over nested types", self.origin, reason)
        return Aggregate(selected(self.outer, positions), tuple(range(len(positions))), ())

    # one operator each

    def _filter(self, source: Lifted, condition: Sequence[str]) -> Lifted:
        outside = [c for c in condition if outer_refs(c, self.depth)]
        plain = [c for c in condition if c not in outside]
        found = [(c, self._tie(source.node, c)) for c in outside]
        rest = [c for c, tie in found if tie is None]
        inner: dict[Tie, str] = {}
        for text, tie in (tie for _, tie in found if tie is not None):
            # Two columns that equal the same outer one equal each other: their tables meet by that.
            if inner.setdefault(tie, text) != text:
                plain.append(_equal(inner[tie], text, tie.null_safe))
        source = replace(source, node=filtered(source.node, plain))
        tied = self._tied(source, inner)
        if not self._reads(rest) <= self._known(tied).keys():
            # All of it goes through the domain, so that the equalities find its rows.
            rest = outside
            tied = self._over_domain(source, self._reads(outside))
        return replace(tied, node=filtered(tied.node, [self._inside(c, tied) for c in rest]))

    def _project(self, node: Project) -> Lifted:
        source = self.lift(node.input)
        if not self._reads(node.expressions) <= self._known(source).keys():
            source = self._over_domain(source, self._reads(node.expressions))
        expressions = [self._inside(e, source) for e in node.expressions]
        ties = tuple(source.node.columns[p] for p in source.tied)
        expressions += [column(p) for p in source.tied]
        below = source.node
        if isinstance(below, Project) and all(column_of(e) is not None for e in below.expressions):
            # One projection, so that a key is not lost between two copies of its column.
            expressions = [substitute(e, below.expressions) for e in expressions]
            below = below.input
        return replace(source, node=Project(below, tuple(expressions), node.output + ties))

    def aggregate(self, node: Aggregate) -> Lifted:
        """Grouped by the ties too. Without GROUP BY, groups of no rows are missing."""
        source = self.lift(node.input)
        ties = [_first_copy(source.node, p) for p in source.tied]
        groups = list(dict.fromkeys([*node.groups, *ties]))
        shown = [groups.index(g) for g in node.groups]
        shown += range(len(groups), len(groups) + len(node.calls))
        shown += [groups.index(t) for t in ties]
        return replace(source, node=selected(Aggregate(source.node, tuple(groups), node.calls), shown))

    def _completed(self, grouped: Lifted, node: Aggregate) -> Lifted:
        """A row for every value of the domain, also where there was nothing to aggregate."""
        positions = self._tie_refs(grouped.ties)
        domain = self.domain(positions)
        at = {p: i for i, p in enumerate(positions)}
        ties = [replace(t, outer=remap(t.outer, at)) for t in grouped.ties]
        condition = Lifted(grouped.node, tuple(ties)).conditions(len(positions), grouped.width)
        both = joined(domain, grouped.node, "left", condition, self.types)
        calls = [or_empty(c, column(len(positions) + i), self.origin) for i, c in enumerate(node.calls)]
        answers = Project(
            both, (*calls, *map(column, at.values())), grouped.node.columns[: grouped.width] + domain.columns
        )
        return Lifted(answers, _identity(positions))

    def _join(self, node: Join) -> Lifted:
        left, right = self.lift(node.left), self.lift(node.right)
        if node.kind in ("right", "full") or (right.ties and node.kind != "inner"):
            return self._join_by_domain(node, left, right)
        start = len(left.node.columns)
        joint = replace(node, left=left.node, right=right.node, condition=self._over(node, left))
        if node.kind in ("semi", "anti"):
            return replace(left, node=joint)
        shown = [*range(left.width), *range(start, start + right.width), *left.tied, *(start + p for p in right.tied)]
        return Lifted(selected(joint, shown), left.ties + right.ties)

    def _over(self, node: Join, left: Lifted) -> str | None:
        """The join's condition over a left side that has got more columns."""
        if node.condition is None:
            return None
        if outer_refs(node.condition, self.depth):
            raise unsupported("a correlated subquery with an outer column in such a JOIN condition", self.origin)
        width, more = len(node.left.columns), len(left.node.columns) - len(node.left.columns)
        return remap(node.condition, {p: p if p < width else p + more for p in refs(node.condition)})

    def _join_by_domain(self, node: Join, left: Lifted, right: Lifted) -> Lifted:
        """Both sides for each value of the domain: a row without a match is one for that value."""
        if node.kind == "full":
            raise unsupported("a correlated subquery with a FULL JOIN under the correlation", self.origin)
        positions = self._tie_refs(left.ties + right.ties)
        left, right = self._over_domain(left, positions), self._over_domain(right, positions)
        joint = replace(
            node,
            left=left.node,
            right=right.node,
            left_on=(*node.left_on, *left.tied),
            right_on=(*node.right_on, *right.tied),
            null_safe=node.null_safe + (True,) * len(positions),
            condition=self._over(node, left),
        )
        if node.kind in ("semi", "anti"):
            return Lifted(joint, left.ties)
        start = len(left.node.columns)
        ties = [start + p for p in right.tied] if node.kind == "right" else list(left.tied)
        return Lifted(selected(joint, [*range(left.width), *range(start, start + right.width), *ties]), left.ties)

    def _union(self, parts: Sequence[Lifted]) -> Lifted:
        kinds = {tuple(p.node.columns[i].type for i in p.tied) for p in parts}
        if len({p.ties for p in parts}) > 1 or len(kinds) > 1:
            positions = self._tie_refs([t for p in parts for t in p.ties])
            parts = [self._over_domain(p, positions) for p in parts]
        return Lifted(UnionAll(tuple(p.node for p in parts)), parts[0].ties)

    def _partitioned(self, node: Window | TopK) -> Lifted:
        """The rows of one value of the ties are a partition."""
        source = self.lift(node.input)
        node = replace(node, input=source.node, partition=(*node.partition, *source.tied))
        return replace(source, node=_ties_last(node, source))

    def _generate(self, node: Generate) -> Lifted:
        source = self.lift(node.input)
        if not self._reads([node.generator]) <= self._known(source).keys():
            source = self._over_domain(source, self._reads([node.generator]))
        made = replace(node, input=source.node, generator=self._inside(node.generator, source))
        return replace(source, node=_ties_last(made, source))

    # ties and the domain

    def _tie(self, node: Node, condition: str) -> tuple[str, Tie] | None:
        """`inner = outer` as the inner side and what it is tied to, both in the type they are compared in."""
        sides = equality(condition)
        if sides is None:
            return None
        one, other, null_safe = sides
        if outer_refs(one, self.depth):
            one, other = other, one
        if outer_refs(one, self.depth) or not refs(one) or refs(other) or "`^" in self._above(other):
            return None
        other = self._above(other)
        kinds = (*self.types.of(node.columns, [one]), *self.types.of(self.outer.columns, [other]))
        common = self.types.compared(*kinds)
        if common is None or not is_scalar(common):
            return None
        one, other = (t if kind == common else cast(t, common) for t, kind in zip((one, other), kinds, strict=True))
        return one, Tie(other, null_safe)

    def _tied(self, source: Lifted, found: Mapping[Tie, str]) -> Lifted:
        if not found:
            return source
        texts = list(found.values())
        copied = [column(i) for i in range(len(source.node.columns))]
        names = [text if (p := column_of(text)) is None else source.node.columns[p].name for text in texts]
        columns = tuple(map(Column, names, self.types.of(source.node.columns, texts)))
        node = Project(source.node, (*copied, *texts), source.node.columns + columns)
        return Lifted(node, source.ties + tuple(found))

    def _over_domain(self, source: Lifted, positions: Iterable[int]) -> Lifted:
        """The subquery for each value of the domain."""
        wanted = sorted({*positions, *self._tie_refs(source.ties)})
        start = len(source.node.columns)
        at = {p: start + i for i, p in enumerate(wanted)}
        both: Node = Join(source.node, self.domain(wanted), "inner", (), (), ())
        ties = zip(source.ties, source.tied, strict=True)
        both = filtered(both, [_equal(remap(t.outer, at), column(p), t.null_safe) for t, p in ties])
        shown = [*range(source.width), *range(start, start + len(wanted))]
        return Lifted(selected(both, shown), _identity(wanted))

    def _known(self, source: Lifted) -> dict[int, int]:
        """Outer columns whose value a tie column has: the positions of both."""
        known: dict[int, int] = {}
        for position, tie in zip(source.tied, source.ties, strict=True):
            outer = column_of(tie.outer)
            # 0.0 = -0.0, which are two values nevertheless.
            if outer is not None and (tie.exact or not is_float(source.node.columns[position].type)):
                known.setdefault(outer, position)
        return known

    def _inside(self, text: str, source: Lifted) -> str:
        return with_outer(text, self.depth, {k: column(p) for k, p in self._known(source).items()})

    def _above(self, text: str) -> str:
        """An expression over outer columns alone, as the outer query itself would say it."""
        return with_outer(text, self.depth, {p: column(p) for p in outer_refs(text, self.depth)})

    def _reads(self, texts: Iterable[str]) -> frozenset[int]:
        return frozenset().union(*(outer_refs(t, self.depth) for t in texts))

    @staticmethod
    def _tie_refs(ties: Iterable[Tie]) -> list[int]:
        return sorted(frozenset().union(*(refs(t.outer) for t in ties)))


def _identity(positions: Sequence[int]) -> tuple[Tie, ...]:
    return tuple(Tie(column(p), null_safe=True, exact=True) for p in positions)


def _ties_last(node: Node, source: Lifted) -> Node:
    """An operator that appends columns to the lifted subquery, with the ties behind them."""
    made = range(len(source.node.columns), len(node.columns))
    return selected(node, [*range(source.width), *made, *source.tied])


def _first_copy(node: Node, position: int) -> int:
    """The first column that is the same as this one."""
    return node.expressions.index(node.expressions[position]) if isinstance(node, Project) else position
