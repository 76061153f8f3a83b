"""Resolves column references in the user's SQL.

A scope has the columns that FROM makes visible. Resolving an expression replaces each reference by its position (`_0`,
`_1`, ...). It also rewrites the few functions whose *result type* depends on the names of their arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError
from tailrace.plan.build.followed import note_reference
from tailrace.plan.expressions import operand, with_fields
from tailrace.plan.nodes import Node
from tailrace.plan.outer import Outer
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, location
from tailrace.plan.sql.refuse import unknown

_POSITIONAL = re.compile(r"_\d+\Z")


@dataclass(frozen=True)
class Entry:
    """One visible column. A hidden one is visible only with its qualifier (`a.k` after JOIN ... USING (k))."""

    qualifier: str | None
    name: str
    position: int
    hidden: bool = False

    def shifted(self, by: int) -> Entry:
        return replace(self, position=self.position + by)

    def reference(self, origin: exp.Expr) -> exp.Column:
        """A reference that is already resolved, for columns of `*`: a lookup by name could be ambiguous."""
        positioned = next((n for n in origin.walk() if "line" in n.meta), None)
        node = exp.Column(this=exp.Identifier(this=self.name, quoted=True).update_positions(positioned))
        node.meta["position"] = self.position
        return node


@dataclass(frozen=True)
class Scope:
    """The visible columns. A name that is not among them is looked up in `outer`, the enclosing query."""

    entries: tuple[Entry, ...]
    outer: Outer | None = None

    @classmethod
    def of(cls, node: Node, qualifier: str | None, names: Iterable[str] | None = None) -> Scope:
        names = [c.name for c in node.columns] if names is None else names
        return cls(tuple(Entry(qualifier and qualifier.lower(), n, i) for i, n in enumerate(names)))

    def beside(self, other: Scope, width: int) -> Scope:
        """The columns of both scopes, for a join whose first `width` columns belong to this scope."""
        return replace(self, entries=self.entries + tuple(e.shifted(width) for e in other.entries))

    def visible(self, name: str) -> list[Entry]:
        """The columns that `name` without a qualifier can mean."""
        return [e for e in self.entries if not e.hidden and e.name.lower() == name.lower()]

    def star(self, qualifier: exp.Expr | None = None) -> list[Entry]:
        """The columns of `*` or `qualifier.*`."""
        if qualifier is None:
            return [e for e in self.entries if not e.hidden]
        entries = [e for e in self.entries if e.qualifier == qualifier.name.lower()]
        if not entries:
            known = sorted({e.qualifier for e in self.entries if e.qualifier})
            raise unknown("table or alias", qualifier.name, known, qualifier)
        return entries

    def find(self, node: exp.Column) -> tuple[Entry, list[exp.Expr]] | None:
        """The referenced column and the struct fields read from it; None if there is no such column.

        As in Spark, `x.y` is column y of table x if that exists, else field y of column x.
        """
        if "position" in node.meta:
            return Entry(None, node.name, node.meta["position"]), []
        first, *rest = node.parts
        if rest:
            qualified_name = first.name.lower(), rest[0].name.lower()
            qualified = [e for e in self.entries if (e.qualifier, e.name.lower()) == qualified_name]
            if qualified:
                return note_reference(self._require_single(qualified, node), rest[0]), rest[1:]
        candidates = self.visible(first.name)
        return (note_reference(self._require_single(candidates, node), first), rest) if candidates else None

    def _require_single(self, candidates: list[Entry], node: exp.Column) -> Entry:
        if len(candidates) > 1:
            text = ".".join(p.name for p in node.parts)
            names = " or ".join(f"{e.qualifier}.{e.name}" if e.qualifier else e.name for e in candidates)
            raise SqlError(message=f"column {text!r} is ambiguous: it may be {names}", **location(node))
        return candidates[0]

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """A copy of `tree` with references replaced by positions; raises `UnknownName` for an unknown column."""

        def rewrite(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or is_bound(node):
                return node
            column_and_fields = self.find(node)
            if column_and_fields is None:
                outer_reference = self.outer.reference(node) if self.outer is not None else None
                if outer_reference is None:
                    raise self._unknown_column(node)
                return outer_reference
            entry, fields = column_and_fields
            return with_fields(_reference(entry.position, node), fields)

        functions.require_deterministic(tree)
        return self._keep_argument_names(tree).transform(rewrite)

    def _unknown_column(self, node: exp.Column) -> SqlError:
        text = ".".join(p.name for p in node.parts)
        if len(node.parts) == 1 and text.lower() in functions.PARENTHESES_OPTIONAL:
            return functions.nondeterministic(text.lower(), node)
        return unknown("column", text, sorted({e.name for e in self.entries}), node)

    def _keep_argument_names(self, tree: exp.Expr) -> exp.Expr:
        """Rewrites calls that depend on argument names, so that renaming the arguments to `_i` changes nothing."""

        def rewrite(node: exp.Expr) -> exp.Expr:
            word = functions.name(node)
            if word is not None:
                self._expand_stars(node, word)
            if word in functions.UNIT_FIRST and len(node.expressions) == 3:
                _keep_unit(node.expressions[0])
            if word == "struct":
                return _named_struct(node.expressions)
            if word == "arrays_zip":
                return _named_zip(node.expressions)
            if isinstance(node, exp.Tuple) and not _is_list(node):
                return _named_struct(node.expressions)
            if isinstance(node, exp.Lambda):
                _rename_positional(node)
            return node

        # Innermost calls first: an argument may itself be such a call.
        tree = exp.Paren(this=tree.copy())
        for node in reversed(list(tree.walk(bfs=True))):
            rewritten = rewrite(node)
            if rewritten is not node:
                node.replace(rewritten)
        return tree.this.pop()  # type: ignore[no-any-return]

    def _expand_stars(self, call: exp.Expr, word: str) -> None:
        """Replaces `*` and `x.*` among the arguments by columns, except in count(*)."""
        arguments: list[exp.Expr] = []
        for argument in call.expressions:
            if isinstance(argument, exp.Star) and word == "count":
                arguments.append(argument)
            elif word == "count" and argument.is_star:
                raise SqlError(message="count(x.*) is not supported; use count(*) to count rows", **location(argument))
            elif isinstance(argument, exp.Star) or (isinstance(argument, exp.Column) and argument.is_star):
                entries = self.star(argument.args.get("table"))
                arguments += [e.reference(argument) for e in entries]
            else:
                arguments.append(argument)
        call.set("expressions", arguments)


def output_name(node: exp.Expr) -> str:
    """The column name of a select item without an alias."""
    if isinstance(node, exp.Column | exp.Dot):
        return node.name
    return generate(node).lower()


def is_bound(node: exp.Column) -> bool:
    """Whether a reference is a parameter of an enclosing lambda, not a column."""
    name = node.parts[0].name.lower()
    enclosing = node.find_ancestor(exp.Lambda)
    while enclosing is not None:
        if any(p.name.lower() == name for p in enclosing.expressions):
            return True
        enclosing = enclosing.find_ancestor(exp.Lambda)
    return False


def expand_aliases(tree: exp.Expr, aliases: Mapping[str, exp.Expr], applies: Callable[[exp.Column], bool]) -> exp.Expr:
    """Replaces references to select-list aliases by the aliased expressions, where `applies` is true."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not is_bound(node) and not node.is_star:
            aliased = aliases.get(node.parts[0].name.lower())
            if aliased is not None and applies(node):
                return with_fields(operand(aliased), node.parts[1:])
        return node

    return tree.transform(rewrite)


def _reference(position: int, origin: exp.Expr) -> exp.Column:
    positioned = next((n for n in origin.walk() if "line" in n.meta), None)
    return exp.Column(this=exp.Identifier(this=column(position)).update_positions(positioned))


def _named_struct(arguments: list[exp.Expr]) -> exp.Expr:
    """Rewrites `struct(a, b + 1)` to `named_struct('a', a, 'col2', b + 1)`, with the field names that Spark gives.

    `struct(a, a)` differs from Spark: its second field gets another name, because no state can hold two fields of the
    same name. Inside an expression, field names do not matter.
    """
    pairs: list[exp.Expr] = []
    used_names: set[str] = set()
    for index, argument in enumerate(arguments):
        named = isinstance(argument, exp.Alias | exp.Column | exp.Dot)
        name = argument.alias_or_name if named else f"col{index + 1}"
        name = name if name not in used_names else f"{name}_{index + 1}"
        used_names.add(name)
        value = argument.this if isinstance(argument, exp.Alias) else argument
        pairs += [exp.Literal.string(name), value.copy()]
    return exp.Anonymous(this="named_struct", expressions=pairs)


def _named_zip(arguments: list[exp.Expr]) -> exp.Expr:
    """Rewrites `arrays_zip(a, b)` so that its fields keep the names a and b.

    Spark names the fields after columns. `arrays_zip(coalesce(a), coalesce(b))` has no column names, so its fields are
    0 and 1; transform() then gives them their names.
    """
    names = [a.name if isinstance(a, exp.Column | exp.Dot) else str(i) for i, a in enumerate(arguments)]
    unnamed = [exp.Anonymous(this="coalesce", expressions=[a.copy()]) for a in arguments]
    element = exp.to_identifier("z")
    pairs: list[exp.Expr] = []
    for index, name in enumerate(names):
        field = exp.Dot(this=element.copy(), expression=exp.to_identifier(str(index), quoted=True))
        pairs += [exp.Literal.string(name), field]
    body = exp.Anonymous(this="named_struct", expressions=pairs)
    zipped = exp.Anonymous(this="arrays_zip", expressions=unnamed)
    return exp.Anonymous(this="transform", expressions=[zipped, exp.Lambda(this=body, expressions=[element])])


def _is_list(node: exp.Tuple) -> bool:
    """Whether (a, b) is the list of IN, ANY or ALL, not a struct."""
    return isinstance(node.parent, exp.Any | exp.All) or isinstance(node.find_ancestor(exp.In, exp.Lambda), exp.In)


def _keep_unit(argument: exp.Expr) -> None:
    """Turns a unit of time such as HOUR, which is parsed as a column, into a keyword."""
    if isinstance(argument, exp.Column) and not argument.table and argument.name.lower() in functions.UNITS:
        argument.replace(exp.Var(this=argument.name.upper()))


def _rename_positional(node: exp.Lambda) -> None:
    """Renames lambda parameters such as `_1`, because `_1` will mean a column."""
    for parameter in [p for p in node.expressions if _POSITIONAL.match(p.name)]:
        old_name = parameter.name
        for identifier in list(node.find_all(exp.Identifier)):
            if identifier.name == old_name:
                identifier.set("this", f"p{old_name}")


def counted(count: int, noun: str) -> str:
    """`1 column`, `2 columns`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def wrong_aliases(columns: int, aliases: int) -> str:
    """The message for a list of aliases that does not have one alias per column."""
    if columns == 1:
        return f"1 column needs 1 alias, not {aliases}"
    return f"{columns} columns need {columns} aliases, not {aliases}"
