"""The contract of a store: documents."""

from __future__ import annotations

from tailrace.store.base import Store
from tailrace.store.documents import Kind


def test_documents(store: Store) -> None:
    many: Kind[dict[str, int]] = Kind("test:", dict[str, int])
    one: Kind[int] = Kind("test", int)
    store.change_documents({many.at(1): {"x": 1}, many.at(2): {}, one.name: 3})
    assert store.documents(many) == {"1": {"x": 1}, "2": {}}
    store.change_documents({many.at(1): None})
    assert (store.document(many, 1), store.document(many, 2), store.document(one)) == (None, {}, 3)
