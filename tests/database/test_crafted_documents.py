"""Malformed documents and a malformed store.json raise a TailraceError that names them, never another exception."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from crafted import crafted, damaged, survives
from hypothesis import given, settings
from hypothesis import strategies as st

import tailrace as tr
from tailrace.catalog import construction
from tailrace.catalog.definition import ViewDef, view_document
from tailrace.database.inside import inside
from tailrace.epochs import records
from tailrace.epochs.model import INTENT
from tailrace.errors import Corrupt, NewerFormat, NotAStore, OlderFormat
from tailrace.plan.nodes import (
    Aggregate,
    Call,
    Filter,
    Generate,
    Join,
    Project,
    Scan,
    TopK,
    UnionAll,
    Window,
    WindowCall,
)
from tailrace.store.commits import read_committed
from tailrace.store.pins import find_oldest_pin, pinned
from tailrace.types import Column

CUT = [0, [0, 0]]


def view(name: str = "v") -> ViewDef:
    columns = (Column("id", "bigint"), Column("cust", "string"), Column("price", "decimal(12,2)"))
    scan = Scan("t", 1, columns, (0,), (0, 1, 2))
    joined = Join(Filter(scan, "_0 > 1"), scan, "left", (0,), (0,), (False,), "_2 < _5")
    many = UnionAll((joined, joined))
    made = Generate(many, "explode(array(1, 2))", (Column("x", "int"),), None)
    windowed = Window(made, (0,), ((1, True, False),), (WindowCall("rank", (), "rank()", "", "int"),))
    top = TopK(windowed, (), ((0, False, True),), 1, 5, False)
    grouped = Aggregate(top, (1,), (Call("sum", (2,), False, "SUM(_2)", "decimal(22,2)"),))
    root = Project(grouped, ("_0", "_1"), (Column("cust", "string"), Column("total", "decimal(22,2)")))
    return ViewDef(
        name, "SELECT", root, root.columns, (0,), (0,), ("t",), frozenset({1}), "auto", "", ((0, True, True),), 7
    )


VIEW = msgspec.to_builtins(view_document(view()))
BUILDING = msgspec.to_builtins(view_document(view("w")))
DOCUMENTS: dict[str, Any] = {
    "committed": {"epoch": 3, "cut": CUT, "at": 1.5},
    "intent": {"epoch": 4, "end": CUT, "ways": {"v": ["deltas", "why"]}, "load": ["w", {"1": ["0011", "*"]}, 5]},
    "pin:abc": {"epoch": 3, "cut": CUT, "pid": os.getpid(), "host": "elsewhere", "at": 1.5},
    "catalog": {"version": 2, "next": 20},
    "table:t": {
        "id": 1,
        "name": "t",
        "columns": [["id", "bigint"], ["cust", "string"], ["price", "decimal(12,2)"]],
        "key": ["id"],
    },
    "view:v": VIEW,
    "state:0123456789": 8,
    "building": [9, 10],
    "dropping": [[11, 2]],
    "build:w": {
        "views": [BUILDING],
        "states": {"aa": 12},
        "tables": [1],
        "total": 100,
        "replaces": False,
        "owner": {"pid": os.getpid(), "host": "here"},
        "failed": None,
    },
    "loaded:w": {"bounds": {"1": ["", "0a"]}, "rows": 5, "failures": ["once"]},
    "epoch:0000000000000003": {
        "epoch": 3,
        "at": 1.5,
        "operations": 5,
        "seconds": 0.5,
        "refreshed": {"v": {"taken": "deltas", "reason": "why"}},
    },
    "count:1": 5,
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tr.Database]:
    with tr.open(
        tmp_path_factory.mktemp("documents") / "store", create=True, map_size=1 << 26, durable=False
    ) as database:
        inside(database).store.change_documents(DOCUMENTS)
        yield database


def read_all(db: tr.Database) -> list[Callable[[], Any]]:
    """Every function that reads documents and needs no Spark."""
    store = inside(db).store

    def pin() -> None:
        with pinned(store):
            pass

    return [
        db.status,
        lambda: db.table("t").get(1),
        lambda: db.view("v").get("x"),
        lambda: inside(db).catalog.builds,
        lambda: inside(db).catalog.leftovers(),
        lambda: inside(db).catalog.dependants("t"),
        lambda: inside(db).catalog.states,
        lambda: store.count(inside(db).catalog.table("t")),
        lambda: store.trim(read_committed(store).cut),
        lambda: find_oldest_pin(store),
        lambda: construction.read_progress(store, "w"),
        lambda: records.recent(store),
        lambda: store.document(INTENT),
        pin,
    ]


def explain_calls(db: tr.Database) -> list[Callable[[], Any]]:
    return [lambda: db.explain("v"), lambda: db.explain("v", json=True)]


def test_the_unchanged_documents_are_valid(db: tr.Database) -> None:
    for read in read_all(db) + explain_calls(db):
        read()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from([-1, 0, 1, 2**31, 2**63, 10**40, 1.5, 1e300])
    | st.sampled_from(["", "t", "x" * 600, "a`b", "\0", "\ud800", "array<", "struct<a:int>", "decimal(99,1)", "_9"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["node", "epoch", "1"]), inner),
    max_leaves=6,
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of a JSON value and of all values inside it."""
    result = [path]
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        result += paths(value[key], (*path, key))
    return result


@st.composite
def misshapen(draw: st.DrawFn, document: Any) -> Any:
    """A document with one of its parts replaced, removed or added."""
    path = draw(st.sampled_from(paths(document)))
    if not path:
        return draw(JSON)
    changed = copy.deepcopy(document)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
        case "replace":
            holder[path[-1]] = draw(JSON)
        case "remove":
            del holder[path[-1]]
        case "add" if isinstance(holder, list):
            holder.append(draw(JSON))
        case "add":
            holder[draw(st.sampled_from(["more", "node", "9"]))] = draw(JSON)
    return changed


def put(db: tr.Database, name: str, text: bytes) -> None:
    with inside(db).store.environment.write() as txn:
        txn.put(name.encode(), text, db=inside(db).store.environment.databases["documents"])
    inside(db).forget_catalog()  # so that the catalog is read again, as in another process


@pytest.mark.parametrize("name", DOCUMENTS)
@settings(crafted, max_examples=100)
@given(data=st.data())
def test_a_malformed_document(db: tr.Database, name: str, data: st.DataObject) -> None:
    document = DOCUMENTS[name]
    text = data.draw(
        misshapen(document).map(lambda d: json.dumps(d).encode()) | damaged([json.dumps(document).encode()])
    )
    put(db, name, text or b" ")
    try:
        for read in read_all(db) + (explain_calls(db) if name == "view:v" else []):
            survives(read)
    finally:
        put(db, name, json.dumps(document).encode())


def test_the_error_says_what_is_wrong_with_a_document(db: tr.Database) -> None:
    for name, text, message in [
        ("committed", b'{"epoch": 3}', "document 'committed' is damaged: .* missing required field 'cut'"),
        ("committed", b'{"epoch": 3, "cut": [1, [0]], "at": 1}', "document 'committed' .* 2 nodes"),
        ("catalog", b'{"version": 1, "next": 2, "more": 3}', "document 'catalog' .* unknown field 'more'"),
        ("catalog", b'{"version": 1, "next": -2}', r"document 'catalog' .* >= 0 - at '\$.next'"),
        ("view:v", b'{"root": ' + b"[" * 100_000, "document 'view:v' is damaged: nested too deeply"),
        ("catalog", b"\xff\xfe", "document 'catalog' is damaged: not valid JSON"),
        (
            "table:t",
            json.dumps({**DOCUMENTS["table:t"], "key": ["none"]}).encode(),
            "table .t. .* invalid key",
        ),
        ("view:v", json.dumps({**VIEW, "key": [17]}).encode(), "view 'v' is damaged"),
        (
            "view:v",
            json.dumps({**VIEW, "root": {"node": "os.system"}}).encode(),
            "view .v. .* inconsistent plan",
        ),
    ]:
        put(db, name, text)
        try:
            with pytest.raises(Corrupt, match=message):
                db.status()
        finally:
            put(db, name, json.dumps(DOCUMENTS[name]).encode())
    db.status()


@crafted
@given(
    st.fixed_dictionaries(
        {"format": st.just(2) | JSON},
        optional={
            n: st.sampled_from([1, 2, 4, 6, 1 << 20]) | JSON for n in ("nodes", "shards", "map_size", "durable", "x")
        },
    ).map(lambda d: json.dumps(d).encode())
    | damaged([b'{"format": 2, "nodes": 2, "shards": 4, "map_size": 1048576, "durable": true}'])
)
def test_malformed_settings(tmp_path_factory: pytest.TempPathFactory, text: bytes) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "settings"
    path.mkdir(exist_ok=True)
    (path / "store.json").write_bytes(text)

    def read() -> None:
        tr.open(path).close()

    error = survives(read)
    assert error is None or isinstance(error, NotAStore | NewerFormat | OlderFormat), error


def test_a_malformed_lock_file_has_an_unknown_holder(tmp_path: Path) -> None:
    with tr.open(tmp_path / "store", create=True, map_size=1 << 26) as db:
        from tailrace.store.lmdb import file_locks

        for text in (b"", b"[]", b"\xff", b'{"pid": 1}', b"[" * 4000, b'{"pid": {}, "command": 1, "since": 2}'):
            (tmp_path / "store" / "runner.lock").write_bytes(text)
            with open(tmp_path / "store" / "runner.lock", "rb") as file:
                assert file_locks._read_note(file.fileno()).pid == "unknown"
        assert isinstance(db.status().epoch, int)
