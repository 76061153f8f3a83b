"""What the states of a store are called, and which views rest on them."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.plan.nodes import Join, Node
from tailrace.plan.physical.arrangements import Arrangement
from tailrace.types import Column


@dataclass(frozen=True)
class State:
    """A state: its name for people, the views that rest on it, and the columns of its rows if it holds answers.

    `views` is empty for states of views that are being built or dropped.
    """

    number: int
    name: str
    views: tuple[str, ...]
    answers: tuple[Column, ...] | None = None


def states(catalog: Catalog) -> dict[int, State]:
    """All states of views, by number; those that several views share once."""
    found: dict[int, State] = {}
    numbers = catalog.states
    for view in catalog.views.values():
        found[view.state] = State(view.state, f"rows of {view.name}", (view.name,))
        for node, arrangement in _kept(view):
            number = numbers[arrangement.fingerprint]
            users = (*(found[number].views if number in found else ()), view.name)
            answers = node.columns if arrangement.kind == "outputs" else None
            found[number] = State(number, _name(node, arrangement, users), users, answers)
    return found


def on_their_way(catalog: Catalog) -> set[int]:
    """States of builds, and leftovers: known, but not to be compared with anything."""
    making = {number for m in catalog.builds.values() for number in m.unpublished.numbers}
    return making | catalog.unsettled


def _kept(view: ViewDef) -> list[tuple[Node, Arrangement]]:
    listed = view.plan.arrangements if view.plan is not None else []
    return [(node, a) for node, kept in listed for a in kept]


def _name(node: Node, arrangement: Arrangement, users: tuple[str, ...]) -> str:
    words = {"rows": "arrangement", "values": "values", "ordered": "ordered rows", "outputs": "answers"}
    if arrangement.kind == "outputs":
        of = node
    elif isinstance(node, Join):
        of = node.left if arrangement.of == node.left.fingerprint else node.right
    else:
        of = node.inputs[0]
    by = ", ".join(of.columns[p].name for p in arrangement.by) or "nothing"
    return f"{words.get(arrangement.kind, arrangement.kind)} by {by} of {', '.join(users)}"
