"""Decorrelation: turns a subquery that reads the outer query into a relation to join with the outer query.

    outer ⋈ q(outer.a)  =  outer ⋈[a = k] Q        Q = { (row, k) | row of q(k) }, for every outer value k

`lift` pulls the outer references up through the subquery's operators. Each becomes a correlation column: the last
columns of the lifted plan, which every operator carries and groups by.

    inner = outer       the inner side is the correlation column
    any other use       needs the outer value itself: the domain (the distinct values of those outer columns) is
                        joined in, and its columns are the correlation columns
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.plan.build.correlated_limits import require_limit_by_row
from tailrace.plan.build.emptiness import value_or_empty
from tailrace.plan.expressions import cast, conjuncts, equality, refs, remap, substitute
from tailrace.plan.joining import filtered, joined, selected
from tailrace.plan.nodes import Aggregate, Filter, Generate, Join, Node, Project, TopK, UnionAll, Window, column_of
from tailrace.plan.outer import outer_refs, reads_outer, replace_outer_refs
from tailrace.plan.sql.refuse import unsupported
from tailrace.plan.typing import Types
from tailrace.types import Column, is_float, is_scalar

_AS_JOIN = "rewrite it as a join with GROUP BY"


@dataclass(frozen=True)
class Correlation:
    """What one correlation column must equal: `outer`, an expression over the outer query's columns."""

    outer: str
    null_safe: bool
    exact: bool = False  # the column holds the outer value itself, not just one that compares as equal (0.0 = -0.0)


@dataclass(frozen=True)
class Lifted:
    """A subquery's plan: its own columns, then one column per correlation."""

    node: Node
    correlations: tuple[Correlation, ...] = ()

    @property
    def width(self) -> int:
        """The number of the subquery's own columns."""
        return len(self.node.columns) - len(self.correlations)

    @property
    def correlated(self) -> range:
        """The positions of the correlation columns."""
        return range(self.width, len(self.node.columns))

    def conditions(self, left_width: int, first: int) -> list[str]:
        """Join conditions: `left_width` outer columns on the left; correlation columns from `first` on the right."""
        return [_equal(c.outer, column(left_width + first + i), c.null_safe) for i, c in enumerate(self.correlations)]


def _equal(left: str, right: str, null_safe: bool) -> str:
    return f"({left}) {'<=>' if null_safe else '='} ({right})"


@dataclass(frozen=True)
class Decorrelation:
    """Lifts the plans of subqueries. `outer` is the outer query's relation, `depth` its nesting depth."""

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
                return self.aggregate(node) if node.groups else self._add_empty_groups(self.aggregate(node), node)
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
        raise unsupported("a correlated subquery of this form", self.origin, _AS_JOIN)

    def domain(self, positions: Sequence[int]) -> Node:
        """The distinct values of these outer columns."""
        for position in positions:
            name, kind = self.outer.columns[position]
            if not is_scalar(kind):
                reason = f"column {name!r} has a nested type; compare it with = only"
                raise unsupported(
                    "a correlated subquery that uses an outer column of a nested type", self.origin, reason
                )
        return Aggregate(selected(self.outer, positions), tuple(range(len(positions))), ())

    def met(self, source: Lifted) -> Node:
        """The rows of a lifted subquery that belong to some row of the outer query."""
        if all(c.exact for c in source.correlations):
            return source.node  # none, or only values of the domain
        positions = self._outer_positions(source.correlations)
        start = len(source.node.columns)
        at = {p: start + i for i, p in enumerate(positions)}
        correlations = zip(source.correlations, source.correlated, strict=True)
        condition = [_equal(column(p), remap(c.outer, at), c.null_safe) for c, p in correlations]
        return joined(source.node, selected(self.outer, positions), "semi", condition, self.types)

    # one method per operator

    def _filter(self, source: Lifted, condition: Sequence[str]) -> Lifted:
        outer_conditions = [c for c in condition if outer_refs(c, self.depth)]
        inner_conditions = [c for c in condition if c not in outer_conditions]
        equalities = [(c, self._as_correlation(source.node, c)) for c in outer_conditions]
        rest = [c for c, parsed in equalities if parsed is None]
        inner_sides: dict[Correlation, str] = {}
        for text, correlation in (parsed for _, parsed in equalities if parsed is not None):
            # Two inner columns that equal the same outer one equal each other: this joins their tables by a key.
            if inner_sides.setdefault(correlation, text) != text:
                inner_conditions.append(_equal(inner_sides[correlation], text, correlation.null_safe))
        source = replace(source, node=filtered(source.node, inner_conditions))
        lifted = self._append(source, inner_sides)
        if not self._reads(rest) <= self._known(lifted).keys():
            # Put the equalities above the domain join too: they become its join key.
            rest = outer_conditions
            lifted = self._over_domain(source, self._reads(outer_conditions))
        return replace(lifted, node=filtered(lifted.node, [self._inside(c, lifted) for c in rest]))

    def _project(self, node: Project) -> Lifted:
        source = self.lift(node.input)
        if not self._reads(node.expressions) <= self._known(source).keys():
            source = self._over_domain(source, self._reads(node.expressions))
        expressions = [self._inside(e, source) for e in node.expressions]
        correlation_columns = tuple(source.node.columns[p] for p in source.correlated)
        expressions += [column(p) for p in source.correlated]
        below = source.node
        if isinstance(below, Project) and all(column_of(e) is not None for e in below.expressions):
            # Merge both: `Project.key` follows one copy of a column only, and the upper projection may drop that copy.
            expressions = [substitute(e, below.expressions) for e in expressions]
            below = below.input
        return replace(source, node=Project(below, tuple(expressions), node.output + correlation_columns))

    def aggregate(self, node: Aggregate) -> Lifted:
        """Groups by the correlation columns too. Empty groups are missing from the result."""
        source = self.lift(node.input)
        correlated = [_first_copy(source.node, p) for p in source.correlated]
        groups = list(dict.fromkeys([*node.groups, *correlated]))
        shown = [groups.index(g) for g in node.groups]
        shown += range(len(groups), len(groups) + len(node.calls))
        shown += [groups.index(p) for p in correlated]
        return replace(source, node=selected(Aggregate(source.node, tuple(groups), node.calls), shown))

    def _add_empty_groups(self, grouped: Lifted, node: Aggregate) -> Lifted:
        """An aggregate without GROUP BY has a row for every value of the domain, also for an empty group."""
        positions = self._outer_positions(grouped.correlations)
        domain = self.domain(positions)
        at = {p: i for i, p in enumerate(positions)}
        over_domain = tuple(replace(c, outer=remap(c.outer, at)) for c in grouped.correlations)
        condition = Lifted(grouped.node, over_domain).conditions(len(positions), grouped.width)
        both = joined(domain, grouped.node, "left", condition, self.types)
        calls = [value_or_empty(c, column(len(positions) + i), self.origin) for i, c in enumerate(node.calls)]
        completed = Project(
            both, (*calls, *map(column, at.values())), grouped.node.columns[: grouped.width] + domain.columns
        )
        return Lifted(completed, _identity(positions))

    def _join(self, node: Join) -> Lifted:
        left, right = self.lift(node.left), self.lift(node.right)
        by_domain = node.kind in ("right", "full") or (right.correlations and node.kind != "inner")
        if by_domain or (node.condition is not None and outer_refs(node.condition, self.depth)):
            return self._join_by_domain(node, left, right)
        start = len(left.node.columns)
        joint = replace(node, left=left.node, right=right.node, condition=self._shifted_condition(node, left))
        if node.kind in ("semi", "anti"):
            return replace(left, node=joint)
        shown = [*range(left.width), *range(start, start + right.width)]
        shown += [*left.correlated, *(start + p for p in right.correlated)]
        return Lifted(selected(joint, shown), left.correlations + right.correlations)

    def _shifted_condition(self, node: Join, left: Lifted) -> str | None:
        """The join's condition, its right-hand positions shifted by the columns that lifting added on the left."""
        if node.condition is None:
            return None
        width, added = len(node.left.columns), len(left.node.columns) - len(node.left.columns)
        return remap(node.condition, {p: p if p < width else p + added for p in refs(node.condition)})

    def _join_by_domain(self, node: Join, left: Lifted, right: Lifted) -> Lifted:
        """Joins both sides once per value of the domain, so that a row is matched or unmatched per value."""
        if node.kind == "full":
            raise unsupported("a correlated subquery that contains a FULL JOIN", self.origin, _AS_JOIN)
        read = self._reads([node.condition or ""])
        positions = sorted({*self._outer_positions(left.correlations + right.correlations), *read})
        left, right = self._over_domain(left, positions), self._over_domain(right, positions)
        condition = self._shifted_condition(node, left)
        joint = replace(
            node,
            left=left.node,
            right=right.node,
            left_on=(*node.left_on, *left.correlated),
            right_on=(*node.right_on, *right.correlated),
            null_safe=node.null_safe + (True,) * len(positions),
            condition=None if condition is None else self._inside(condition, left),
        )
        if node.kind in ("semi", "anti"):
            return Lifted(joint, left.correlations)
        start = len(left.node.columns)
        # Take the correlation columns from the preserved side: those of the other side are NULL in unmatched rows.
        correlated = [start + p for p in right.correlated] if node.kind == "right" else list(left.correlated)
        shown = [*range(left.width), *range(start, start + right.width), *correlated]
        return Lifted(selected(joint, shown), left.correlations)

    def _union(self, branches: Sequence[Lifted]) -> Lifted:
        types = {tuple(b.node.columns[i].type for i in b.correlated) for b in branches}
        if len({b.correlations for b in branches}) > 1 or len(types) > 1:
            positions = self._outer_positions([c for b in branches for c in b.correlations])
            branches = [self._over_domain(b, positions) for b in branches]
        return Lifted(UnionAll(tuple(b.node for b in branches)), branches[0].correlations)

    def _partitioned(self, node: Window | TopK) -> Lifted:
        """Partitions by the correlation columns too."""
        source = self.lift(node.input)
        node = replace(node, input=source.node, partition=(*node.partition, *source.correlated))
        return replace(source, node=_correlated_last(node, source))

    def _generate(self, node: Generate) -> Lifted:
        source = self.lift(node.input)
        if not self._reads([node.generator]) <= self._known(source).keys():
            source = self._over_domain(source, self._reads([node.generator]))
        generated = replace(node, input=source.node, generator=self._inside(node.generator, source))
        return replace(source, node=_correlated_last(generated, source))

    # correlations and the domain

    def _as_correlation(self, node: Node, condition: str) -> tuple[str, Correlation] | None:
        """Splits `inner = outer` into the inner side and the correlation, both cast to the type `=` compares in.

        None if the condition is not an equality between the two queries.
        """
        sides = equality(condition)
        if sides is None:
            return None
        inner, outer, null_safe = sides
        if outer_refs(inner, self.depth):
            inner, outer = outer, inner
        if outer_refs(inner, self.depth) or not refs(inner) or refs(outer) or "`^" in self.above(outer):
            return None
        outer = self.above(outer)
        types = (*self.types.of(node.columns, [inner]), *self.types.of(self.outer.columns, [outer]))
        common = self.types.compared(*types)
        if common is None or not is_scalar(common):
            return None
        inner, outer = (t if kind == common else cast(t, common) for t, kind in zip((inner, outer), types, strict=True))
        return inner, Correlation(outer, null_safe)

    def _append(self, source: Lifted, inner_sides: Mapping[Correlation, str]) -> Lifted:
        """Appends the inner side of each correlation as a column."""
        if not inner_sides:
            return source
        texts = list(inner_sides.values())
        copied = [column(i) for i in range(len(source.node.columns))]
        names = [text if (p := column_of(text)) is None else source.node.columns[p].name for text in texts]
        columns = tuple(map(Column, names, self.types.of(source.node.columns, texts)))
        node = Project(source.node, (*copied, *texts), source.node.columns + columns)
        return Lifted(node, source.correlations + tuple(inner_sides))

    def _over_domain(self, source: Lifted, positions: Iterable[int]) -> Lifted:
        """The subquery joined with the domain of these outer columns: its rows once per value of the domain."""
        outer_positions = sorted({*positions, *self._outer_positions(source.correlations)})
        if not source.node.columns:  # SELECT without FROM: one row
            return Lifted(self.domain(outer_positions), _identity(outer_positions))
        start = len(source.node.columns)
        at = {p: start + i for i, p in enumerate(outer_positions)}
        both: Node = Join(source.node, self.domain(outer_positions), "inner", (), (), ())
        correlations = zip(source.correlations, source.correlated, strict=True)
        both = filtered(both, [_equal(remap(c.outer, at), column(p), c.null_safe) for c, p in correlations])
        shown = [*range(source.width), *range(start, start + len(outer_positions))]
        return Lifted(selected(both, shown), _identity(outer_positions))

    def _known(self, source: Lifted) -> dict[int, int]:
        """Maps each outer column whose value a correlation column holds to that column's position."""
        known: dict[int, int] = {}
        for position, correlation in zip(source.correlated, source.correlations, strict=True):
            outer = column_of(correlation.outer)
            # 0.0 = -0.0, but they are different values: an equal float may not replace the outer one.
            if outer is not None and (correlation.exact or not is_float(source.node.columns[position].type)):
                known.setdefault(outer, position)
        return known

    def _inside(self, text: str, source: Lifted) -> str:
        """The expression with its outer references replaced by correlation columns."""
        return replace_outer_refs(text, self.depth, {k: column(p) for k, p in self._known(source).items()})

    def above(self, text: str) -> str:
        """The expression with its outer references as columns of the outer relation: `_i`."""
        return replace_outer_refs(text, self.depth, {p: column(p) for p in outer_refs(text, self.depth)})

    def _reads(self, texts: Iterable[str]) -> frozenset[int]:
        return frozenset().union(*(outer_refs(t, self.depth) for t in texts))

    @staticmethod
    def _outer_positions(correlations: Iterable[Correlation]) -> list[int]:
        return sorted(frozenset().union(*(refs(c.outer) for c in correlations)))


def _identity(positions: Sequence[int]) -> tuple[Correlation, ...]:
    return tuple(Correlation(column(p), null_safe=True, exact=True) for p in positions)


def _correlated_last(node: Node, source: Lifted) -> Node:
    """Moves the correlation columns of `source` behind the columns that `node` appends to it."""
    appended = range(len(source.node.columns), len(node.columns))
    return selected(node, [*range(source.width), *appended, *source.correlated])


def _first_copy(node: Node, position: int) -> int:
    """The first column that is a copy of this one."""
    return node.expressions.index(node.expressions[position]) if isinstance(node, Project) else position
