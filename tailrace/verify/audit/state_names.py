"""Describes the states of a store for reports: a readable name, and the views that use each."""

from __future__ import annotations

from dataclasses import dataclass

from tailrace.catalog.catalog import Catalog
from tailrace.catalog.definition import ViewDef
from tailrace.plan.nodes import Join, Node
from tailrace.plan.physical.arrangements import Arrangement
from tailrace.types import Column


@dataclass(frozen=True)
class State:
    """A state: its readable name, the views that use it, and its columns if it holds answers (`kind` "outputs").

    `views` is empty for states of views that are being built or dropped.
    """

    number: int
    name: str
    views: tuple[str, ...]
    answers: tuple[Column, ...] | None = None


def describe_states(catalog: Catalog) -> dict[int, State]:
    """All states of published views, by number. A shared state appears once, with all its views."""
    states: dict[int, State] = {}
    numbers = catalog.states
    for view in catalog.views.values():
        states[view.state] = State(view.state, f"rows of {view.name}", (view.name,))
        for node, arrangement in _arrangements(view):
            number = numbers[arrangement.fingerprint]
            users = (*(states[number].views if number in states else ()), view.name)
            answers = node.columns if arrangement.kind == "outputs" else None
            states[number] = State(number, _name(node, arrangement, users), users, answers)
    return states


def unpublished_states(catalog: Catalog) -> set[int]:
    """States of builds, and leftovers: known, but not to be compared with anything."""
    making = {number for m in catalog.builds.values() for number in m.unpublished.numbers}
    return making | catalog.unsettled


def _arrangements(view: ViewDef) -> list[tuple[Node, Arrangement]]:
    by_node = view.plan.arrangements if view.plan is not None else []
    return [(node, arrangement) for node, arrangements in by_node for arrangement in arrangements]


def _name(node: Node, arrangement: Arrangement, users: tuple[str, ...]) -> str:
    words = {"rows": "arrangement", "ordered": "ordered rows", "outputs": "answers"}
    if arrangement.kind == "outputs":
        arranged = node
    elif isinstance(node, Join):
        arranged = node.left if arrangement.of == node.left.fingerprint else node.right
    else:
        arranged = node.inputs[0]
    by = ", ".join(arranged.columns[p].name for p in arrangement.by) or "nothing"
    return f"{words.get(arrangement.kind, arrangement.kind)} by {by} of {', '.join(users)}"
