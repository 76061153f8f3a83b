"""Time windows: `window(ts, size[, slide[, start]])` in a select list or GROUP BY, and `session_window` in GROUP BY.

    window(ts, '10 minutes')                    filter ts IS NOT NULL, project the start of its window
    window(ts, '10 minutes', '5 minutes')       the same, with one row for each window that ts is in
    session_window(ts, '5 minutes')             the start of its session (`session_windows.py`)

A window is known by its start. The query is rewritten over that column: GROUP BY window(...) groups by it,
`window.start` is it, `window.end` is computed, and `window` alone is the struct of both. A query over such a struct may
also use window_time(), the last microsecond of a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.context import Environment, Relation
from tailrace.plan.build.grouping_sets import has_sets
from tailrace.plan.build.scope import Entry, Scope, expand_aliases
from tailrace.plan.build.session_windows import with_sessions
from tailrace.plan.expressions import operand, parse_expr, position_of
from tailrace.plan.joining import filtered
from tailrace.plan.nodes import Generate, Node, Project
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.durations import duration_micros
from tailrace.plan.sql.refuse import unsupported
from tailrace.types import Column

_WINDOW, _SESSION = "window", "session_window"
_START = "window_start"  # mark of the struct that represents a window: the position of its start
_CLAUSES = ("group", "having", "order", "qualify")
_TIMES = ("timestamp", "timestamp_ntz", "date", "string")


@dataclass(frozen=True)
class _Windows:
    """The arguments of window(), in microseconds."""

    time: exp.Expr
    size: int
    slide: int
    start: int


def apply_time_windows(select: exp.Select, relation: Relation, env: Environment) -> tuple[exp.Select, Relation]:
    """The query and its relation with the column of window starts in place of windows; unchanged if there are none."""
    calls = [n for clause in _clauses(select) for n in _walk(clause) if functions.name(n) in functions.TIME_WINDOWS]
    windows = {generate(n): n for n in calls if functions.name(n) in (_WINDOW, _SESSION)}
    if any(functions.name(call) == "window_time" for call in calls):
        select = _without_window_time(select)
    if not windows:
        return select, relation
    first, *others = windows.values()
    if others:
        raise unsupported("two different time windows in one query", others[0], "compute one of them in a subquery")
    is_session = functions.name(first) == _SESSION
    rewriter = (_apply_session if is_session else _apply_window)(select, relation, first, env)
    return rewriter.rewrite(select), replace(relation, node=rewriter.node)


def _apply_window(select: exp.Select, relation: Relation, call: exp.Expr, env: Environment) -> _Rewriter:
    windows = _read(call)
    time, kind = _resolve_time(windows.time, relation, call, env)
    node = _with_starts(_with_time(relation, time), windows, time, kind)
    end = f"UNIX_MICROS(CAST(_0 AS TIMESTAMP)) + {windows.size}"
    return _Rewriter(node, relation.scope, _WINDOW, (len(node.columns) - 1,), _as_time(end, kind))


def _apply_session(select: exp.Select, relation: Relation, call: exp.Expr, env: Environment) -> _Rewriter:
    group = select.args.get("group")
    if group is None or has_sets(group) or group.args.get("all"):
        reason = "use it in a GROUP BY of expressions; or WITH (refresh = 'auto'), and Spark recomputes the view"
        raise unsupported("session_window() here", call, reason)
    if len(call.expressions) != 2:
        raise SqlError(message=f"session_window() has 2 arguments, not {len(call.expressions)}", **location(call))
    if not (isinstance(call.expressions[1], exp.Literal) and call.expressions[1].is_string):
        reason = "write a string such as '5 minutes'; or WITH (refresh = 'auto'), and Spark recomputes the view"
        raise unsupported("a computed gap of session_window()", call, reason)
    gap = _duration(call.expressions[1]) or 0
    if gap <= 0:
        raise SqlError(message="the gap of session_window() must be positive", **location(call))
    time, kind = _resolve_time(call.expressions[0], relation, call, env)
    keys = [env.resolve(tree, relation) for tree in _other_groups(select, group, relation)]
    source = _with_time(relation, time)
    node = with_sessions(source, _normal(f"UNIX_MICROS(CAST({time} AS TIMESTAMP))"), gap, keys, env.types)
    width = len(source.columns)
    copied = tuple(column(i) for i in range(width))
    starts = (_normal(_as_time(column(width), kind)), column(width + 1))
    output = (*source.columns, Column("start", kind), Column("micros", "bigint"))
    node = Project(node, (*copied, *starts), output)
    return _Rewriter(node, relation.scope, _SESSION, (width, width + 1), _as_time(f"MAX(_1) + {gap}", kind))


def _other_groups(select: exp.Select, group: exp.Expr, relation: Relation) -> Iterator[exp.Expr]:
    """The expressions of GROUP BY, with ordinals and aliases replaced, without session_window()."""
    items = [i.this if isinstance(i, exp.Alias) else i for i in select.expressions]
    aliases = {i.alias.lower(): i.this for i in select.expressions if isinstance(i, exp.Alias)}
    for tree in group.expressions:
        if isinstance(tree, exp.Literal) and tree.is_int and 1 <= int(tree.name) <= len(items):
            tree = items[int(tree.name) - 1]
        tree = expand_aliases(tree, aliases, lambda c: relation.scope.find(c) is None)
        if functions.name(tree.unnest()) != _SESSION:
            yield tree


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
        message = "the duration of a window is a string such as '10 minutes', in weeks or smaller units"
        raise SqlError(message=message, **location(argument))
    return micros


def _resolve_time(tree: exp.Expr, relation: Relation, call: exp.Expr, env: Environment) -> tuple[str, str]:
    """The time of a row, and the type of the ends of its window."""
    time = env.resolve(tree, relation)
    (kind,) = env.types.of(relation.node.columns, [time], [tree])
    if kind not in _TIMES:
        raise unsupported(f"{functions.name(call)}() of a value of type {kind}", call, "use a DATE or TIMESTAMP")
    return time, kind if kind == "timestamp_ntz" else "timestamp"


def _with_time(relation: Relation, time: str) -> Node:
    """The rows that have a time. The others are in no window."""
    return filtered(relation.node, [f"CAST({time} AS TIMESTAMP) IS NOT NULL"])


def _with_starts(source: Node, windows: _Windows, time: str, kind: str) -> Node:
    """The rows with the start of their window as the last column; a row in several windows comes several times."""
    columns = source.columns
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
    copied = tuple(column(i) for i in range(len(columns)))
    return Project(source, (*copied, _normal(_as_time(start, kind))), (*columns, Column("start", kind)))


def _as_time(micros: str, kind: str) -> str:
    text = f"TIMESTAMP_MICROS({micros})"
    return text if kind == "timestamp" else f"CAST({text} AS TIMESTAMP_NTZ)"


def _normal(text: str) -> str:
    return generate(parse_expr(text))


@dataclass(frozen=True)
class _Rewriter:
    """Rewrites a query over `node`, which has the start of windows at the first of `positions`.

    `name` is the function, and what the query calls its windows. `end` is the end of a window, over `_0`, `_1`, ... for
    the columns at `positions`.
    """

    node: Node
    scope: Scope
    name: str
    positions: tuple[int, ...]
    end: str

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
        name = self.name if self._is_window(item) else item.name if isinstance(item, exp.Column | exp.Dot) else None
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
        """What replaces a window, or an end of one; None for any other expression."""
        if self._is_window(node):
            struct = self._over_columns(f"NAMED_STRUCT('start', _0, 'end', {self.end})", node)
            struct.meta[_START] = self.positions[0]
            return struct
        field = self._window_field(node)
        return None if field is None else self._over_columns("_0" if field == "start" else self.end, node)

    def _is_window(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            return node.name.lower() == self.name and self.scope.find(node) is None
        return functions.name(node) == self.name

    def _window_field(self, node: exp.Expr) -> str | None:
        """`start` or `end` if the node is that field of the window."""
        if isinstance(node, exp.Column) and len(node.parts) == 2:
            is_window = node.parts[0].name.lower() == self.name and self.scope.find(node) is None
        else:
            is_window = isinstance(node, exp.Dot) and self._is_window(node.this)
        field = node.name.lower()
        return field if is_window and field in ("start", "end") else None

    def _over_columns(self, text: str, origin: exp.Expr) -> exp.Expr:
        """An expression over `_0`, `_1`, ... with the columns at `positions` in their place."""

        def rewrite(node: exp.Expr) -> exp.Expr:
            position = position_of(node) if isinstance(node, exp.Column) else None
            return node if position is None else _reference(self.positions[position], origin)

        return parse_expr(text).copy().transform(rewrite)


def _reference(position: int, origin: exp.Expr) -> exp.Column:
    return Entry(None, _WINDOW, position).reference(origin)
