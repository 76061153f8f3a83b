"""Changes the text of a view's query where a table, view or column gets another name. The rest stays as written.

Nothing here proves that the new text means the same: the caller plans both and compares the plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from tailrace.errors import SqlError
from tailrace.plan.build.followed import FollowedName
from tailrace.plan.build.scope import Entry
from tailrace.plan.sql import dialect
from tailrace.plan.sql.naming import name_sql

_LIST_ENDS = ("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "UNION", "INTERSECT", "LATERAL", "WINDOW")


class CannotRewrite(SqlError):
    """The text of a query cannot be changed as needed."""


class Edit(NamedTuple):
    """Replaces `sql[start:end]` by a text."""

    start: int
    end: int
    text: str


def rename_relation(sql: str, query: exp.Expr, old: str, new: str) -> str:
    """The text with another name of a table or view. The old name becomes an alias if it qualifies columns."""
    ctes = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    if taken := ctes & {old, new}:
        raise CannotRewrite(message=f"its WITH clause defines {min(taken)!r}, too")
    is_qualifier = any(part.name.lower() == old for c in query.find_all(exp.Column) for part in c.parts[:-1])
    edits = []
    for table in query.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.name.lower() == old:
            alias = f" AS {name_sql(old)}" if is_qualifier and not table.alias else ""
            edits.append(_replaced(table.this, name_sql(new) + alias))
    return apply(sql, edits)


def rename_column(sql: str, query: exp.Expr, followed: FollowedName, new: str) -> str:
    """The text with another name of the column that was followed while `query` was planned.

    Select items get the old name as their alias.
    """
    items = {_start(c.parts[-1]) for s in query.find_all(exp.Select) for c in s.expressions if _is_plain_column(c)}
    edits = {}
    for identifier in followed.identifiers:
        alias = f" AS {name_sql(identifier.name)}" if _start(identifier) in items else ""
        edit = _replaced(identifier, name_sql(new) + alias)
        edits[edit.start] = edit
    outermost = _outermost(query)
    for star, entries in followed.stars:
        if any(star is item for item in outermost.expressions):
            index = next(i for i, item in enumerate(outermost.expressions) if item is star)
            edit = _expanded(star, entries, new, select_items(sql)[index])
            edits[edit.start] = edit
    return apply(sql, list(edits.values()))


def add_aliases(sql: str, names: Sequence[str | None]) -> str:
    """The text with aliases added to the items of its outermost select list; None adds none."""
    items = select_items(sql)
    if len(items) != len(names):
        raise CannotRewrite(message="its columns do not correspond to the items of its select list")
    edits = [Edit(end, end, f" AS {name_sql(n)}") for (_, end), n in zip(items, names, strict=True) if n is not None]
    return apply(sql, edits)


def select_items(sql: str) -> list[tuple[int, int]]:
    """Where the items of the outermost select list are in the text; of a set operation, those of its first query."""
    tokens = dialect.tokens(sql)
    depths, depth = [], 0
    for token in tokens:
        depth -= token.token_type == TokenType.R_PAREN
        depths.append(depth)
        depth += token.token_type == TokenType.L_PAREN
    starts = [i for i, t in enumerate(tokens) if t.token_type == TokenType.SELECT]
    first = next((i for i in starts if depths[i] == 0), None)
    if first is None or tokens[0].token_type not in (TokenType.SELECT, TokenType.WITH):
        raise CannotRewrite(message="its outermost SELECT is in parentheses")
    items: list[tuple[int, int]] = []
    begin: int | None = None
    end = tokens[first].end + 1
    for token, level in zip(tokens[first + 1 :], depths[first + 1 :], strict=True):
        if level == 0 and token.token_type == TokenType.COMMA and begin is not None:
            items.append((begin, end))
            begin = None
        elif level == 0 and token.text.upper() in _LIST_ENDS:
            break
        elif begin is not None or token.token_type not in (TokenType.DISTINCT, TokenType.ALL):
            begin = token.start if begin is None else begin
        end = token.end + 1
    return items if begin is None else [*items, (begin, end)]


def apply(sql: str, edits: Sequence[Edit]) -> str:
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _outermost(query: exp.Expr) -> exp.Expr:
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query


def _is_plain_column(item: exp.Expr) -> bool:
    return isinstance(item, exp.Column) and not item.is_star


def _expanded(star: exp.Expr, entries: Sequence[Entry], new: str, place: tuple[int, int]) -> Edit:
    """The columns of a star, written out."""
    plain = star if isinstance(star, exp.Star) else star.this
    if plain.args.get("except_") or plain.args.get("replace") or plain.args.get("rename"):
        raise CannotRewrite(message="its outermost * has exceptions")
    columns = []
    for entry in entries:
        prefix = f"{name_sql(entry.qualifier)}." if entry.qualifier else ""
        is_renamed = isinstance(entry.name, FollowedName)
        columns.append(
            f"{prefix}{name_sql(new)} AS {name_sql(entry.name)}" if is_renamed else prefix + name_sql(entry.name)
        )
    return Edit(*place, ", ".join(columns))


def _replaced(identifier: exp.Expr, text: str) -> Edit:
    return Edit(_start(identifier), identifier.meta["end"] + 1, text)


def _start(identifier: exp.Expr) -> int:
    if "start" not in identifier.meta:
        raise CannotRewrite(message=f"the place of {identifier.name!r} in its text is unknown")
    return int(identifier.meta["start"])
