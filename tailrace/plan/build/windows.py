"""Plans window functions (OVER): one Window node per partition and order, stacked.

    SELECT g, rank() OVER (ORDER BY sum(x)) FROM t GROUP BY g
        project _0, _2  ◄─  window rank() ordered by _1  ◄─  aggregate by g: sum(x)

The arguments, PARTITION BY and ORDER BY of a window become columns below it. In the expression around the window, a
reference to the column that the Window node appends replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import Unsupported
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.build.grouping import Item, slots, unwrapped, without_filter
from tailrace.plan.build.grouping_sets import GROUPING
from tailrace.plan.build.placeholders import has_placeholder
from tailrace.plan.build.scope import Entry, is_bound
from tailrace.plan.build.tie_breaks import break_ties
from tailrace.plan.nodes import Key, Node, Order, Project, Window, WindowCall, column_of
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.refuse import WINDOW_IN_SUBQUERY, refuse_expression, unknown, unsupported
from tailrace.plan.ties import ENDS, is_total, lists_peers, over
from tailrace.types import Column

# Parts of an expression that are not values themselves.
_PARTS = (exp.If, exp.Kwarg, exp.PropertyEQ, exp.Tuple)
_SORTERS = ("array_sort", "sort_array")


def has_window(tree: exp.Expr) -> bool:
    return tree.find(exp.Window) is not None


def expand_named_windows(tree: exp.Expr, select: exp.Select) -> exp.Expr:
    """The tree with `OVER w` expanded by the WINDOW clause, and FILTER rewritten as CASE."""
    named = {w.this.name.lower(): w for w in select.args.get("windows") or ()}

    def rewrite(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Window):
            return node
        if isinstance(node.this, exp.Filter) and functions.name(unwrapped(node.this)) not in ENDS:
            node.set("this", without_filter(node.this))
        alias = node.args.get("alias")
        if alias is None:
            return node
        definition = named.get(alias.name.lower())
        if definition is None:
            raise unknown("window", alias.name, named, alias)
        node.set("alias", None)
        for part in ("partition_by", "order", "spec"):
            value = definition.args.get(part)
            node.set(part, [v.copy() for v in value] if isinstance(value, list) else value and value.copy())
        return node

    return tree.transform(rewrite)


def split_windows_over_groups(trees: Sequence[exp.Expr]) -> tuple[list[Item], list[exp.Expr]]:
    """Splits trees with windows over a GROUP BY: the items that the aggregate computes, and the trees over these items.

    The aggregate computes the parts of a tree without windows, and the arguments, PARTITION BY and ORDER BY of windows.
    """
    pieces: dict[str, Item] = {}

    def extract(node: exp.Expr) -> None:
        if not _reads_groups(node):
            return
        text = generate(node)
        item = pieces.setdefault(text, Item(f"piece{len(pieces)}", node.copy()))
        position = list(pieces.values()).index(item)
        node.replace(_reference(position, item.name, node))

    def split(node: exp.Expr) -> None:
        if isinstance(node, exp.Window):
            for operand in list(_operands(node)):
                extract(operand)
        elif not has_window(node) and not isinstance(node, _PARTS):
            extract(node)
        else:
            for child in list(node.iter_expressions()):
                split(child)

    # A parent for each tree, so that the root of a tree can be replaced too.
    holders = [exp.Paren(this=tree.copy()) for tree in trees]
    for holder in holders:
        split(holder.this)
    return list(pieces.values()), [holder.this.pop() for holder in holders]


def _reads_groups(node: exp.Expr) -> bool:
    columns = any(not is_bound(c) for c in node.find_all(exp.Column))
    return columns or functions.has_aggregate(node) or any(functions.name(n) in GROUPING for n in node.walk())


def _reference(position: int, name: str, origin: exp.Expr) -> exp.Column:
    return Entry(None, name, position).reference(origin)


def _operands(window: exp.Window) -> Iterator[exp.Expr]:
    """The expressions that a window reads: arguments, PARTITION BY, ORDER BY."""
    yield from slots(window.this, unwrapped(window.this))
    yield from window.args.get("partition_by") or ()
    order = window.args.get("order")
    yield from (ordered.this for ordered in (order.expressions if order is not None else ()))


@dataclass
class _Draft:
    """The windows of a query while they are collected: extra input columns, and the calls of each Window node."""

    relation: Relation
    env: Environment
    extra: list[str] = field(default_factory=list)
    origins: list[exp.Expr] = field(default_factory=list)
    calls: dict[tuple[Key, Order], list[tuple[WindowCall, exp.Window]]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        return len(self.relation.node.columns)

    def read(self, tree: exp.Expr) -> int:
        """The position of an expression in the windows' input; it is added if needed."""
        text = self.env.resolve(tree, self.relation)
        if has_placeholder(text):
            raise unsupported("a subquery inside a window function", tree, "compute it in a subquery in FROM")
        copied = column_of(text)
        if copied is not None:
            return copied
        if text not in self.extra:
            self.extra.append(text)
            self.origins.append(tree)
        return self.width + self.extra.index(text)

    def add(self, window: exp.Window) -> tuple[tuple[Key, Order], WindowCall]:
        """Adds a window: returns its Window node's partition and order, and its call. Equal windows share a call."""
        partition = tuple(dict.fromkeys(self.read(p) for p in window.args.get("partition_by") or ()))
        order = self._order(window)
        call = self._call(window)
        calls = self.calls.setdefault((partition, order), [])
        if call not in [known for known, _ in calls]:
            calls.append((call, window))
        return (partition, order), call

    def _order(self, window: exp.Window) -> Order:
        items: dict[int, tuple[int, bool, bool]] = {}
        for ordered in window.args["order"].expressions if window.args.get("order") else ():
            position = self.read(ordered.this)
            items.setdefault(position, (position, not ordered.args.get("desc"), bool(ordered.args.get("nulls_first"))))
        return tuple(items.values())

    def _call(self, window: exp.Window) -> WindowCall:
        tree = window.this.copy()
        function = unwrapped(tree)
        name = functions.name(function) or ""
        functions.require_repeatable(function, name)
        if isinstance(tree, exp.Filter):  # CASE would make a filtered row NULL, but first_value must skip it
            raise unsupported(f"FILTER of {name}() OVER", window, "use max_by or min_by with FILTER instead")
        if nested := tree.find(exp.Window):
            raise unsupported("a window function (OVER) inside another one", nested, WINDOW_IN_SUBQUERY)
        args = []
        for number, slot in enumerate(slots(tree, function)):
            # An argument without columns stays in the call: the offset of lead, for example, must be a literal.
            if any(not is_bound(c) for c in slot.find_all(exp.Column)) or (name in ENDS and not number):
                args.append(self.read(slot))
                slot.replace(exp.Column(this=exp.Identifier(this=column(args[-1]))))
            else:
                refuse_expression(slot)
                functions.require_deterministic(slot)
        return WindowCall(name, tuple(args), generate(tree), _frame(window), "")


def _frame(window: exp.Window) -> str:
    spec = window.args.get("spec")
    if spec is None:
        return ""
    spec = spec.copy()
    for word in ("kind", "start_side", "end_side"):
        if isinstance(spec.args.get(word), str):
            spec.set(word, spec.args[word].upper())
    return generate(spec)


def apply_windows(relation: Relation, trees: Sequence[exp.Expr], env: Environment) -> tuple[Relation, list[exp.Expr]]:
    """Appends a column for each window in the trees; returns the relation, and the trees over these columns."""
    draft = _Draft(relation, env)
    windows = [(w, *draft.add(w)) for tree in trees for w in tree.find_all(exp.Window)]
    node, positions = _stack(draft)
    # A parent for each tree, so that a tree that is just a window can be replaced too.
    holders = [exp.Paren(this=tree) for tree in trees]
    for window, partition_and_order, call in windows:
        window.replace(_reference(positions[partition_and_order, call], "window", window))
    return Relation(node, relation.scope), [holder.this.pop() for holder in holders]


def _stack(draft: _Draft) -> tuple[Node, dict[tuple[tuple[Key, Order], WindowCall], int]]:
    """The Window nodes on top of each other, and the output position of each call."""
    node = _with_extra(draft)
    columns, positions = node.columns, {}
    for (partition, order), calls in draft.calls.items():
        texts = [f"{c.sql} {over(partition, order, c.frame)}" for c, _ in calls]
        types = draft.env.types.of(columns, texts, [w for _, w in calls])
        typed = [
            break_ties(replace(c, type=kind), node, partition, w) for (c, w), kind in zip(calls, types, strict=True)
        ]
        for number, (call, window) in enumerate(calls):
            positions[(partition, order), call] = len(node.columns) + number
            _require_deterministic(node, partition, order, call, window)
        node = Window(node, partition, order, tuple(typed))
    return node, positions


def _with_extra(draft: _Draft) -> Node:
    """The relation with the extra columns that the windows read."""
    source = draft.relation.node
    if not draft.extra:
        return source
    types = draft.env.types.of(source.columns, draft.extra, draft.origins)
    output = source.columns + tuple(Column(text.lower(), kind) for text, kind in zip(draft.extra, types, strict=True))
    return Project(source, (*(column(i) for i in range(draft.width)), *draft.extra), output)


def _require_deterministic(node: Node, partition: Key, order: Order, call: WindowCall, window: exp.Window) -> None:
    is_sorted = window.parent is not None and functions.name(window.parent) in _SORTERS
    if call.function in ("collect_set", "collect_union") and not is_sorted:
        reason = f"the order of its elements is not defined; write sort_array({call.function}(...) OVER (...))"
    elif lists_peers(call, order) and not is_total(node, partition, order) and not is_sorted:
        reason = (
            "rows that are equal in its ORDER BY have no fixed order;"
            " add the primary key to ORDER BY, or use a ROWS frame"
        )
    else:
        return
    raise Unsupported(construct=f"nondeterministic function {call.function}() OVER", reason=reason, **location(window))
