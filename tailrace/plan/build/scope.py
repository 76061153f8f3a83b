"""Names: what a column reference in the user's SQL stands for.

A scope lists the columns that FROM brings into sight. Resolving an expression rewrites its references to
`_i`, and rewrites the few functions whose *result type* depends on what its arguments are called.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from tailrace.delta import column
from tailrace.errors import SqlError, UnknownName
from tailrace.plan.sql import functions
from tailrace.plan.sql.dialect import generate, place
from tailrace.plan.expressions import operand, with_fields
from tailrace.plan.nodes import Node
from tailrace.plan.outer import Outer

_POSITIONAL = re.compile(r"_\d+\Z")


@dataclass(frozen=True)
class Entry:
    """One column in sight. A hidden one is seen only with its qualifier (`a.k` after JOIN ... USING (k))."""

    qualifier: str | None
    name: str
    position: int
    hidden: bool = False

    def shifted(self, by: int) -> Entry:
        return replace(self, position=self.position + by)

    def reference(self, origin: exp.Expr) -> exp.Column:
        """A reference that needs no lookup, for what `*` shows: its name alone may be ambiguous."""
        at = next((n for n in origin.walk() if "line" in n.meta), None)
        node = exp.Column(this=exp.Identifier(this=self.name, quoted=True).update_positions(at))
        node.meta["position"] = self.position
        return node


@dataclass(frozen=True)
class Scope:
    """The columns in sight; what they lack may be of the query around, `outer`."""

    entries: tuple[Entry, ...]
    outer: Outer | None = None

    @classmethod
    def of(cls, node: Node, qualifier: str | None, names: Iterable[str] | None = None) -> Scope:
        names = [c.name for c in node.columns] if names is None else names
        return cls(tuple(Entry(qualifier and qualifier.lower(), n, i) for i, n in enumerate(names)))

    def beside(self, other: Scope, width: int) -> Scope:
        """Both scopes, over a relation whose first `width` columns are this one's."""
        return replace(self, entries=self.entries + tuple(e.shifted(width) for e in other.entries))

    def visible(self, name: str) -> list[Entry]:
        return [e for e in self.entries if not e.hidden and e.name.lower() == name.lower()]

    def star(self, qualifier: exp.Expr | None = None) -> list[Entry]:
        """The columns `*` or `qualifier.*` stands for."""
        if qualifier is None:
            return [e for e in self.entries if not e.hidden]
        found = [e for e in self.entries if e.qualifier == qualifier.name.lower()]
        if not found:
            known = sorted({e.qualifier for e in self.entries if e.qualifier})
            raise unknown("table or alias", qualifier.name, known, qualifier)
        return found

    def find(self, node: exp.Column) -> tuple[Entry, list[exp.Expr]] | None:
        """The column a reference means and the struct fields read from it; None if there is none.

        As in Spark, `x.y` is column y of x if there is one, else field y of column x.
        """
        if "position" in node.meta:
            return Entry(None, node.name, node.meta["position"]), []
        first, *rest = node.parts
        if rest:
            found = [e for e in self.entries if (e.qualifier, e.name.lower()) == _pair(first, rest[0])]
            if found:
                return self._only(found, node), rest[1:]
        found = self.visible(first.name)
        return (self._only(found, node), rest) if found else None

    def _only(self, found: list[Entry], node: exp.Column) -> Entry:
        if len(found) > 1:
            text = ".".join(p.name for p in node.parts)
            owners = [f"{e.qualifier}.{e.name}" if e.qualifier else e.name for e in found]
            raise SqlError(message=f"column {text!r} is ambiguous: it may be {' or '.join(owners)}", **place(node))
        return found[0]

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """`tree` over the input's positions, as a new tree; unknown columns raise `UnknownName`."""

        def rewrite(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column) or is_bound(node):
                return node
            found = self.find(node)
            if found is None:
                around = self.outer.reference(node) if self.outer is not None else None
                if around is None:
                    raise self._unknown(node)
                return around
            entry, fields = found
            return with_fields(_reference(entry.position, node), fields)

        functions.require_deterministic(tree)
        return self._named(tree).transform(rewrite)

    def _unknown(self, node: exp.Column) -> SqlError:
        text = ".".join(p.name for p in node.parts)
        if len(node.parts) == 1 and text.lower() in functions.BARE:
            return functions.nondeterministic(text.lower(), node)
        return unknown("column", text, sorted({e.name for e in self.entries}), node)

    def _named(self, tree: exp.Expr) -> exp.Expr:
        """Calls rewritten so that they mean the same once their arguments are called `_i`."""

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

        # From the inside out: an argument may itself be such a call.
        tree = exp.Paren(this=tree.copy())
        for node in reversed(list(tree.walk(bfs=True))):
            renamed = rewrite(node)
            if renamed is not node:
                node.replace(renamed)
        return tree.this.pop()  # type: ignore[no-any-return]

    def _expand_stars(self, call: exp.Expr, word: str) -> None:
        arguments: list[exp.Expr] = []
        for argument in call.expressions:
            if isinstance(argument, exp.Star) and word == "count":
                arguments.append(argument)
            elif word == "count" and argument.is_star:
                raise SqlError(message="count(x.*) is no SQL; count(*) counts rows", **place(argument))
            elif isinstance(argument, exp.Star) or (isinstance(argument, exp.Column) and argument.is_star):
                entries = self.star(argument.args.get("table"))
                arguments += [e.reference(argument) for e in entries]
            else:
                arguments.append(argument)
        call.set("expressions", arguments)


def unknown(kind: str, text: str, known: Iterable[str], node: exp.Expr) -> UnknownName:
    return UnknownName(kind=kind, name=text, hint=hint(text, known), **place(node))


def hint(text: str, known: Iterable[str]) -> str:
    by_lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(text.lower().split(".")[-1], by_lower, n=1)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def output_name(node: exp.Expr) -> str:
    """What a select item without an alias is called."""
    if isinstance(node, exp.Column | exp.Dot):
        return node.name
    return generate(node).lower()


def is_bound(node: exp.Column) -> bool:
    """Whether a reference is a parameter of a lambda around it, not a column."""
    name = node.parts[0].name.lower()
    around = node.find_ancestor(exp.Lambda)
    while around is not None:
        if any(p.name.lower() == name for p in around.expressions):
            return True
        around = around.find_ancestor(exp.Lambda)
    return False


def expand_aliases(tree: exp.Expr, aliases: Mapping[str, exp.Expr], applies: Callable[[exp.Column], bool]) -> exp.Expr:
    """`tree` with the references for which `applies` replaced by the select item of that alias."""

    def rewrite(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not is_bound(node) and not node.is_star:
            meant = aliases.get(node.parts[0].name.lower())
            if meant is not None and applies(node):
                return with_fields(operand(meant), node.parts[1:])
        return node

    return tree.transform(rewrite)


def _pair(qualifier: exp.Expr, name: exp.Expr) -> tuple[str, str]:
    return qualifier.name.lower(), name.name.lower()


def _reference(position: int, origin: exp.Expr) -> exp.Column:
    at = next((n for n in origin.walk() if "line" in n.meta), None)
    return exp.Column(this=exp.Identifier(this=column(position)).update_positions(at))


def _named_struct(arguments: list[exp.Expr]) -> exp.Expr:
    """`struct(a, b + 1)` as `named_struct('a', a, 'col2', b + 1)`, the names that Spark gives.

    But for `struct(a, a)`: no state can hold two fields of one name, and inside of an expression names mean nothing.
    """
    pairs: list[exp.Expr] = []
    taken: set[str] = set()
    for index, argument in enumerate(arguments):
        named = isinstance(argument, exp.Alias | exp.Column | exp.Dot)
        name = argument.alias_or_name if named else f"col{index + 1}"
        name = name if name not in taken else f"{name}_{index + 1}"
        taken.add(name)
        value = argument.this if isinstance(argument, exp.Alias) else argument
        pairs += [exp.Literal.string(name), value.copy()]
    return exp.Anonymous(this="named_struct", expressions=pairs)


def _named_zip(arguments: list[exp.Expr]) -> exp.Expr:
    """`arrays_zip(a, b)` with its fields still called a and b.

    Spark calls them after columns, so the columns are made anonymous (`coalesce(a)`), which calls the
    fields 0 and 1, and the pairs are then named.
    """
    names = [a.name if isinstance(a, exp.Column | exp.Dot) else str(i) for i, a in enumerate(arguments)]
    hidden = [exp.Anonymous(this="coalesce", expressions=[a.copy()]) for a in arguments]
    each = exp.to_identifier("z")
    pairs: list[exp.Expr] = []
    for index, name in enumerate(names):
        field = exp.Dot(this=each.copy(), expression=exp.to_identifier(str(index), quoted=True))
        pairs += [exp.Literal.string(name), field]
    body = exp.Anonymous(this="named_struct", expressions=pairs)
    zipped = exp.Anonymous(this="arrays_zip", expressions=hidden)
    return exp.Anonymous(this="transform", expressions=[zipped, exp.Lambda(this=body, expressions=[each])])


def _is_list(node: exp.Tuple) -> bool:
    """Whether (a, b) is what IN, ANY or ALL choose from, and no struct."""
    return isinstance(node.parent, exp.Any | exp.All) or isinstance(node.find_ancestor(exp.In, exp.Lambda), exp.In)


def _keep_unit(argument: exp.Expr) -> None:
    """A unit of time, which is read like a column, stays the word it is."""
    if isinstance(argument, exp.Column) and not argument.table and argument.name.lower() in functions.UNITS:
        argument.replace(exp.Var(this=argument.name.upper()))


def _rename_positional(node: exp.Lambda) -> None:
    """A parameter called `_1` gets another name, as `_1` is going to mean a column."""
    for parameter in [p for p in node.expressions if _POSITIONAL.match(p.name)]:
        old = parameter.name
        for identifier in list(node.find_all(exp.Identifier)):
            if identifier.name == old:
                identifier.set("this", f"p{old}")
