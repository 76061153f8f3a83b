"""Administrative events are what lies between two placements of regions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tailrace.store.administration import AdministrativeEvent
from tailrace.store.hbase.placement import PlacedRegion, Placement, changes

S1, S2 = "a,1,7", "b,1,8"


def region(name: str, start: str = "", end: str = "", server: str = S1, table: str = "t") -> PlacedRegion:
    return PlacedRegion(table, name, start, end, server)


def between(before: Iterable[PlacedRegion], after: Iterable[PlacedRegion], tables: tuple[str, ...] = ("t",)) -> Any:
    """The events, without their empty fields."""
    first = Placement(("t",), {r.name: r for r in before})
    return list(changes(first, tables, {r.name: r for r in after}))


def test_nothing_happened() -> None:
    assert between([region("p")], [region("p")]) == []


def test_a_move() -> None:
    assert between([region("p"), region("q", "20", server=S2)], [region("p", server=S2), region("q", "20")]) == [
        {"kind": "moved", "table": "t", "regions": ("p",), "source": S1, "server": S2},
        {"kind": "moved", "table": "t", "regions": ("q",), "source": S2, "server": S1},
    ]


def test_a_move_to_a_new_server_of_the_last_region() -> None:
    assert between([region("p")], [region("p", server=S2)])[1:] == [
        {"kind": "server_added", "server": S2},
        {"kind": "server_gone", "source": S1},
    ]


def test_a_split_and_a_merge_elsewhere() -> None:
    before = [region("p", "", "20"), region("x", "20", "30"), region("y", "30", "40"), region("z", "40")]
    after = [region("a", "", "10"), region("b", "10", "20"), region("m", "20", "40"), region("z", "40")]
    assert between(before, after) == [
        {"kind": "split", "table": "t", "regions": ("a", "b"), "before": ("p",)},
        {"kind": "merged", "table": "t", "regions": ("m",), "before": ("x", "y")},
    ]


def test_several_steps_between_two_looks_are_one_event() -> None:
    """p was split into a and b, b into c and d; and c was merged with a."""
    [event] = between([region("p")], [region("ac", "", "30"), region("d", "30")])
    assert (event["kind"], event["before"], event["regions"]) == ("split", ("p",), ("ac", "d"))


def test_tables_that_come_and_go() -> None:
    other = region("u", table="u")
    assert between([region("p")], [region("p"), other], ("t", "u")) == []
    assert between([region("p")], [], ()) == [
        {"kind": "closed", "table": "t", "before": ("p",)},
        {"kind": "server_gone", "source": S1},
    ]
    assert between([], [region("p")]) == [{"kind": "opened", "table": "t", "regions": ("p",)}]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"kind": "moved", "regions": ("p",), "source": S1, "server": S2}, "region p of t moved from a,1,7 to b,1,8"),
        ({"kind": "split", "before": ("p",), "regions": ("a", "b")}, "region p of t split into a, b"),
        ({"kind": "merged", "before": ("a", "b"), "regions": ("p",)}, "regions a, b of t merged into p"),
        ({"kind": "closed", "before": ("p",)}, "region p of t closed"),
        ({"kind": "server_gone", "source": S1}, "server a,1,7 has no region of these tables any more"),
    ],
)
def test_events_as_text(fields: dict[str, Any], text: str) -> None:
    assert str(AdministrativeEvent(number=1, at=0.0, table="t", **fields)) == text
