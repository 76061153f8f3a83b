"""The namespace of a store on HBase: its settings, and the tables that it has.

    wal     w     the raw log, as the replication endpoint ships it
    marks   m     the high-water mark of every region. It has one region, so that one scan reads all marks
    meta    d     documents, locks and settings
    log     l     the resolved log: before- and after-images by node
    rows    r     a copy of every row of every table, by transaction
    state   s, m  states of shards by epoch (s); marks of shards and staged writes (m)

During an audit there is also a table `scratch_...`, which is like `state`.

Users' tables may be in any namespace.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import msgspec

from tailrace.errors import NewerFormat, NotAStore, OptionDiffers, StoreError
from tailrace.store.hbase.admin import ALL_VERSIONS, UNSPLIT, Admin, Family
from tailrace.store.hbase.client import Client
from tailrace.store.hbase.versioned_row import Update, Values, VersionedRow

FORMAT = 1
NODES = 2  # of a new store
STATES = "state"
ROW, COLUMN = b"settings", b"settings"
MOST_REGIONS = 16  # of a new table
_SHARD = struct.Struct(">H")
_STATE_FAMILIES = [Family(b"s", ALL_VERSIONS), Family(b"m")]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of the row `settings`. All is fixed at creation."""

    nodes: int
    shards: int
    format: int = FORMAT


def create(client: Client, namespace: str, nodes: int = NODES, shards: int | None = None) -> Settings:
    """Makes the namespace and the tables, and stores the settings. What exists already is left as it is.

    Raises `OptionDiffers` if the store exists with other settings.
    """
    wanted = Settings(nodes, 2 * nodes if shards is None else shards)
    if (fault := _find_fault(wanted)) is not None:
        raise StoreError(message=fault)
    admin = Admin(client)
    admin.create_namespace(namespace)
    tables: list[tuple[str, list[Family], Sequence[bytes], Mapping[bytes, bytes] | None]] = [
        ("meta", [Family(b"d")], (), None),
        ("marks", [Family(b"m")], (), UNSPLIT),
        ("wal", [Family(b"w")], (), None),
        ("log", [Family(b"l")], _split(wanted.nodes), None),
        ("rows", [Family(b"r", ALL_VERSIONS)], (), None),
        (STATES, _STATE_FAMILIES, _split(wanted.shards), None),
    ]
    for _ in client.connections.map(lambda t: admin.create_table(f"{namespace}:{t[0]}", *t[1:]), tables):
        pass

    def decide(values: Values) -> Update | None:
        return None if COLUMN in values else Update({COLUMN: msgspec.json.encode(wanted)})

    _row(client, namespace).change([COLUMN], decide)
    found = read_settings(client, namespace)
    for option in ("nodes", "shards"):
        if getattr(found, option) != getattr(wanted, option):
            raise OptionDiffers(
                path=f"{client.url}/{namespace}",
                option=option,
                found=getattr(found, option),
                given=getattr(wanted, option),
                advice=f"It is fixed when a store is created. Omit {option}, or use another namespace",
            )
    return found


def create_states(admin: Admin, namespace: str, name: str, shards: int) -> None:
    """Makes a table for the states of shards."""
    admin.create_table(f"{namespace}:{name}", _STATE_FAMILIES, _split(shards))


def read_settings(client: Client, namespace: str) -> Settings:
    """The settings of the store in a namespace. Raises `NotAStore` with the reason if there is none."""
    url = f"{client.url}/{namespace}"
    if not Admin(client).table_exists(f"{namespace}:meta"):
        text = f"no store at {url}. Check the address, or create it: tailrace hbase install {url}"
        raise NotAStore(path=url, reason=f"HBase has no table {namespace}:meta", text=text)
    content = _row(client, namespace).read([COLUMN]).get(COLUMN)
    if content is None:
        raise NotAStore(path=url, reason=f"{namespace}:meta has no row 'settings'")
    try:
        number = msgspec.json.decode(content)["format"]
        if number > FORMAT:
            raise NewerFormat(path=url, found=number, known=FORMAT)
        settings = msgspec.json.decode(content, type=Settings)
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise NotAStore(path=url, reason=f"its settings are invalid ({error})") from None
    if (fault := _find_fault(settings)) is not None:
        raise NotAStore(path=url, reason=f"its settings are invalid ({fault})")
    return settings


def _row(client: Client, namespace: str) -> VersionedRow:
    return VersionedRow(client.table(f"{namespace}:meta", b"d"), ROW)


def _split(parts: int) -> Sequence[bytes]:
    """Where a table is divided whose rows begin with the number of a shard or node."""
    regions = min(parts, MOST_REGIONS)
    return [_SHARD.pack(parts * region // regions) for region in range(1, regions)]


def _find_fault(settings: Settings) -> str | None:
    """Which setting is out of range, and its range."""
    nodes, shards = settings.nodes, settings.shards
    if not 1 <= nodes <= 1024:
        return f"nodes is {nodes}; it must be 1 to 1024"
    if not 1 <= shards <= 4096 or shards % nodes:
        return f"shards is {shards}; it must be a multiple of nodes ({nodes}) and at most 4096"
    return None
