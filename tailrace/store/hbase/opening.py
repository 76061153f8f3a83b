"""Opens a store on HBase for a database, and creates it if that is wanted."""

from __future__ import annotations

from contextlib import closing

from tailrace.errors import NotAStore, OptionDiffers
from tailrace.store.hbase import namespace
from tailrace.store.hbase.client import Client
from tailrace.store.hbase.hbase_store import HbaseStore, parse_location
from tailrace.store.requested import Requested
from tailrace.store.store_ref import StoreRef

_OF_EMBEDDED_STORES = {"durable": True, "map_size": None}  # options, and what HBase has instead


def exists(ref: StoreRef) -> bool:
    with closing(connect(ref)) as client:
        try:
            namespace.read_settings(client, parse_location(ref)[2])
        except NotAStore:
            return False
        return True


def connect(ref: StoreRef) -> Client:
    """A client for the server of a store. Raises `StoreUnavailable` after seconds if that is not a Thrift2 server."""
    host, port, _ = parse_location(ref)
    client = Client(host, port)
    client.connections.reach()
    return client


def open_store(ref: StoreRef, requested: Requested, *, create: bool) -> HbaseStore:
    """The store in a namespace. With `create`, it is first created if the namespace has none."""
    for option, found in _OF_EMBEDDED_STORES.items():
        if (given := getattr(requested, option)) not in (None, found):
            advice = f"It is an option of embedded stores. Omit {option}"
            raise OptionDiffers(path=ref.url, option=option, found=found, given=given, advice=advice)
    with closing(connect(ref)) as client:
        if create and not exists(ref):
            name = parse_location(ref)[2]
            namespace.create(client, name, requested.nodes or namespace.NODES, requested.shards)
    store = HbaseStore(ref)
    for option in ("nodes", "shards"):
        given, found = getattr(requested, option), getattr(store, option)
        if given not in (None, found):
            store.close()
            advice = f"It is fixed when a store is created. Omit {option}, or use another namespace"
            raise OptionDiffers(path=ref.url, option=option, found=found, given=given, advice=advice)
    return store
