"""What the replication endpoint has noted about itself in each region server when it started there."""

from __future__ import annotations

import msgspec

from tailrace.errors import Corrupt
from tailrace.store.hbase.client import Client

ROW = b"endpoints"  # in `meta`: a column per address of a server


class EndpointNote(msgspec.Struct, frozen=True):
    """`server` is the server's name, with the time of its start. `jar` is the SHA-256 of the jar, if it is from one.

    `started` is the time in milliseconds since 1970, by the clock of the server. `settings` are some of hbase-site.xml.
    """

    server: str
    jar: str | None
    hbase: str
    java: str
    started: int
    settings: dict[str, str | None]


def read_notes(client: Client, namespace: str) -> dict[str, EndpointNote]:
    """The notes, by the name of the server."""
    notes = {}
    for address, (value, _) in client.table(f"{namespace}:meta", b"d").get(ROW).items():
        try:
            note = msgspec.json.decode(value, type=EndpointNote)
        except msgspec.MsgspecError as error:
            raise Corrupt(where=f"the note of the endpoint in {address!r}", reason=str(error)) from None
        notes[note.server] = note
    return notes
