"""Time windows: `window(ts, size[, slide[, start]])` in a select list or GROUP BY.

    window(ts, '10 minutes')                    filter ts IS NOT NULL, project the start of its window
    window(ts, '10 minutes', '5 minutes')       the same, with one row for each window that ts is in

A window is known by its start. The query is rewritten over that column: GROUP BY window(...) groups by it,
`window.start` is it, `window.end` is computed from it, and `window` alone is the struct of both. A query over such a
struct may also use window_time(), the last microsecond of a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.build.scope import Entry
from tailrace.plan.expressions import operand, parse_expr
from tailrace.plan.joining import filtered
from tailrace.plan.nodes import Generate, Node, Project
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.durations import duration_micros
from tailrace.plan.sql.refuse import unsupported
from tailrace.types import Column

_NAME = "window"
_START = "window_start"  # mark of the struct that represents a window: the position of its start
_CLAUSES = ("group", "having", "order", "qualify")
_TIMES = ("timestamp", "timestamp_ntz", "date", "string")
_SESSION = "it cannot be maintained incrementally yet; with WITH (refresh = 'auto') Spark recomputes the view instead"


@dataclass(frozen=True)
class _Windows:
    """The arguments of window(), in microseconds."""

    time: exp.Expr
    size: int
    slide: int
    start: int


def apply_time_windows(select: exp.Select, relation: Relation, env: Environment) -> tuple[exp.Select, Relation]:
    """The query and its relation with the column of window starts in place of window(); unchanged if there is none."""
    calls = [n for clause in _clauses(select) for n in _walk(clause) if functions.name(n) in functions.TIME_WINDOWS]
    windows = {generate(n): n for n in calls if functions.name(n) == _NAME}
    for call in calls:
        if functions.name(call) == "session_window":
            raise unsupported("time window session_window()", call, _SESSION)
    if any(functions.name(call) == "window_time" for call in calls):
        select = _without_window_time(select)
    if not windows:
        return select, relation
    first, *others = windows.values()
    if others:
        raise unsupported("two different time windows in one query", others[0], "compute one of them in a subquery")
    arguments = _read(first)
    node, kind = _with_starts(relation, arguments, first, env)
    position = len(node.columns) - 1
    rewritten = _Rewriter(relation, position, arguments.size, kind).rewrite(select)
    return rewritten, replace(relation, node=node)


def start_of_window(tree: exp.Expr) -> exp.Expr:
    """The expression with each window replaced by its start: for GROUP BY, where both mean the same."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        return _reference(node.meta[_START], node) if _START in node.meta else node

    return tree.transform(rewrite)


def _without_window_time(select: exp.Select) -> exp.Select:
    """The query with `w.end - INTERVAL 1 MICROSECOND` in place of window_time(w). Spark checks that w is a window."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        if functions.name(node) != "window_time" or len(node.expressions) != 1:
            return node
        end = exp.Dot(this=operand(node.expressions[0]), expression=exp.to_identifier("end"))
        return exp.Paren(this=exp.Sub(this=end, expression=parse_expr("INTERVAL '0.000001' SECOND").copy()))

    select = select.copy()
    for name in ("expressions", *_CLAUSES):
        clause = select.args.get(name)
        if clause is not None:
            changed = [c.transform(rewrite) for c in clause] if isinstance(clause, list) else clause.transform(rewrite)
            select.set(name, changed)
    return select


def _clauses(select: exp.Select) -> Iterator[exp.Expr]:
    yield from select.expressions
    for name in _CLAUSES:
        if select.args.get(name) is not None:
            yield select.args[name]


def _walk(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of an expression, without those of subqueries."""
    return (n for n in tree.walk(prune=lambda n: isinstance(n, exp.Query)) if not isinstance(n, exp.Query))


def _read(call: exp.Expr) -> _Windows:
    arguments = call.expressions
    if not 2 <= len(arguments) <= 4:
        raise SqlError(message=f"window() has 2 to 4 arguments, not {len(arguments)}", **location(call))
    size, slide, start = (_duration(a) for a in (*arguments[1:], *[None] * (4 - len(arguments))))
    slide = size if slide is None else slide
    if size is None or slide is None or not 0 < slide <= size:
        raise SqlError(message="window() needs 0 < slide <= size", **location(call))
    if abs(start or 0) >= slide:
        raise SqlError(message="the start of window() must be less than its slide", **location(call))
    return _Windows(arguments[0], size, slide, start or 0)


def _duration(argument: exp.Expr | None) -> int | None:
    """The microseconds of a duration; None without an argument."""
    if argument is None:
        return None
    micros = duration_micros(argument.name) if isinstance(argument, exp.Literal) and argument.is_string else None
    if micros is None:
        message = "a duration of window() is a string such as '10 minutes', in weeks or smaller units"
        raise SqlError(message=message, **location(argument))
    return micros


def _with_starts(relation: Relation, windows: _Windows, call: exp.Expr, env: Environment) -> tuple[Node, str]:
    """The relation with the start of each row's window as its last column, and the type of that column."""
    time = env.resolve(windows.time, relation)
    (kind,) = env.types.of(relation.node.columns, [time], [windows.time])
    if kind not in _TIMES:
        raise unsupported(f"window() of a value of type {kind}", call, "use a DATE or TIMESTAMP")
    columns = relation.node.columns
    source = filtered(relation.node, [f"CAST({time} AS TIMESTAMP) IS NOT NULL"])
    micros = f"UNIX_MICROS(CAST({time} AS TIMESTAMP))"
    last = f"{micros} - PMOD({micros} - ({windows.start}), {windows.slide})"
    start = last
    if windows.slide < windows.size:
        earlier = -(-windows.size // windows.slide) - 1
        sequence = f"SEQUENCE({last} - {earlier * windows.slide}, {last}, {windows.slide})"
        source = Generate(source, _normal(f"EXPLODE({sequence})"), (Column("start", "bigint"),), (0,))
        start = column(len(columns))
        if windows.size % windows.slide:
            source = filtered(source, [_normal(f"{start} + {windows.size} > {micros}")])
    kind = kind if kind == "timestamp_ntz" else "timestamp"
    copied = tuple(column(i) for i in range(len(columns)))
    output = (*columns, Column(_NAME, kind))
    return Project(source, (*copied, _normal(_as_time(start, kind))), output), kind


def _as_time(micros: str, kind: str) -> str:
    text = f"TIMESTAMP_MICROS({micros})"
    return text if kind == "timestamp" else f"CAST({text} AS TIMESTAMP_NTZ)"


def _normal(text: str) -> str:
    return generate(parse_expr(text))


@dataclass(frozen=True)
class _Rewriter:
    """Rewrites a query over the column at `position`, the start of windows of `size` microseconds."""

    relation: Relation
    position: int
    size: int
    kind: str

    def rewrite(self, select: exp.Select) -> exp.Select:
        select = select.copy()
        select.set("expressions", [self._item(item) for item in select.expressions])
        for name in _CLAUSES:
            if select.args.get(name) is not None:
                select.set(name, self._replace(select.args[name]))
        return select

    def _item(self, item: exp.Expr) -> exp.Expr:
        new = self._replace(item)
        if new is item or isinstance(new, exp.Alias):
            return new
        name = _NAME if self._is_window(item) else item.name if isinstance(item, exp.Column | exp.Dot) else None
        return new if name is None else exp.alias_(new, exp.to_identifier(name, quoted=True))

    def _replace(self, tree: exp.Expr) -> exp.Expr:
        """Replaces windows, their ends and their times in an expression, but not in its subqueries."""
        if isinstance(tree, exp.Query):
            return tree
        field = self._field(tree)
        if field is not None:
            return field
        for child in list(tree.iter_expressions()):
            new = self._replace(child)
            if new is not child:
                child.replace(new)
        return tree

    def _field(self, node: exp.Expr) -> exp.Expr | None:
        if self._is_window(node):
            struct = parse_expr(f"NAMED_STRUCT('start', _0, 'end', {self._after('_0', self.size)})").copy()
            struct.meta[_START] = self.position
            return self._over_start(struct, node)
        parts = self._window_and_field(node)
        if parts is None:
            return None
        if parts == "start":
            return _reference(self.position, node)
        return self._over_start(parse_expr(self._after("_0", self.size)).copy(), node)

    def _is_window(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            return node.name.lower() == _NAME and self.relation.scope.find(node) is None
        return functions.name(node) == _NAME

    def _window_and_field(self, node: exp.Expr) -> str | None:
        """`start` or `end` if the node is that field of the window."""
        if isinstance(node, exp.Column) and len(node.parts) == 2:
            is_window = node.parts[0].name.lower() == _NAME and self.relation.scope.find(node) is None
        else:
            is_window = isinstance(node, exp.Dot) and self._is_window(node.this)
        field = node.name.lower()
        return field if is_window and field in ("start", "end") else None

    def _after(self, start: str, micros: int) -> str:
        return _as_time(f"UNIX_MICROS(CAST({start} AS TIMESTAMP)) + {micros}", self.kind)

    def _over_start(self, tree: exp.Expr, origin: exp.Expr) -> exp.Expr:
        """An expression over `_0`, the start, with that column of the relation in its place."""

        def rewrite(node: exp.Expr) -> exp.Expr:
            is_start = isinstance(node, exp.Column) and node.name == "_0"
            return _reference(self.position, origin) if is_start else node

        return tree.transform(rewrite, copy=False)


def _reference(position: int, origin: exp.Expr) -> exp.Column:
    return Entry(None, _NAME, position).reference(origin)
