"""Which cells of HBase hold the columns of a table.

    CREATE TABLE orders (id BIGINT PRIMARY KEY, cust BIGINT, note STRING)
    WITH (hbase.table = 'orders', hbase.columns = 'id=:key, cust=f:cust#binary, note=f:note#string')

A column is `family:qualifier#encoding` (`store/hbase/encodings.py`), or `:key`: a part of the row key. A row key has
the encoding `binary`, `string` or `ordered`; the last is that of `codec/keys.py`, which sorts as SQL does. Only
`ordered` row keys have several columns. A byte in a name that is not plain text, and each of `,#=\\`, is written as
`\\x2c`. A row key that encodes its value in another way than Tailrace would (such as the text `01` for a number) is
bad: two rows could have the same primary key.

A row exists if any cell of its families is live, and a NULL has no cell. So that a row of NULLs exists, Tailrace puts
an empty cell `_` into rows of its own tables, and into rows of other tables that would have no cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from tailrace import types
from tailrace.codec.arrays import LARGE_BINARY, Vector
from tailrace.codec.key_reading import decode_keys
from tailrace.codec.schema import TableDef
from tailrace.errors import BadCell, SqlError
from tailrace.store.documents import Document, Kind
from tailrace.store.hbase import encodings
from tailrace.store.hbase.encodings import ENCODINGS, Encoding
from tailrace.types import Column

KeyEncoding = Literal["ordered", "binary", "string"]
FAMILY = "f"  # of tables that Tailrace makes
KEY = ":key"
MARKER = b"_"
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")
_SPECIAL = set(",#=\\'\"")


class TableMapping(Document, frozen=True):
    """Where the rows of a table are. Columns are by stored position (`codec/layouts.py`).

    `name`, `columns` and `key` are those of CREATE TABLE: tailing the log needs no catalog. `cells` has the text
    `family:qualifier#encoding` of each column, empty for the key. `own`: Tailrace has made the table of HBase, and
    drops it with the table. `attached`: the rows that it had before are in the raw log. `horizon` is the time then
    (milliseconds since 1970): deletions before it are not. `scan` is the name of the scan that has read these rows.
    """

    table: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    key_encoding: KeyEncoding
    cells: tuple[str, ...]
    families: tuple[str, ...]
    own: bool
    attached: bool = False
    horizon: int = -(2**63)
    scan: str = ""


MAPPINGS: Kind[TableMapping] = Kind("hbase:", TableMapping)


class Cell(NamedTuple):
    """The cells of one column: `family:qualifier`, and their encoding."""

    column: bytes
    encoding: Encoding

    @property
    def text(self) -> str:
        return f"{escape(self.column)}#{self.encoding}"


def default_mapping(hbase_table: str, table: TableDef) -> TableMapping:
    """The mapping of a table for which no columns of HBase are given."""
    cells = tuple("" if c.name in table.key else _default_cell(c, FAMILY).text for c in table.columns)
    return TableMapping(hbase_table, table.name, table.columns, table.key, "ordered", cells, (FAMILY,), True)


def _default_cell(column: Column, family: str, taken: Sequence[bytes] = ()) -> Cell:
    """The cell of a column for which none is given: its qualifier is the name of the column, or nearly so."""
    qualifier, number = column.name, 1
    while f"{family}:{qualifier}".encode() in (*taken, family.encode() + b":" + MARKER):
        number += 1
        qualifier = f"{column.name}_{number}"
    return Cell(f"{family}:{qualifier}".encode(), encodings.default_encoding(types.arrow(column.type)))


def grown(mapping: TableMapping, table: TableDef) -> TableMapping:
    """The mapping with cells for columns that were added to the table. No column gets a cell that another one had."""
    cells = list(mapping.cells)
    for column in table.stored[len(cells) :]:
        taken = [read_cell(text).column for text in cells if text]
        cells.append(_default_cell(column, mapping.families[0], taken).text)
    return structs.replace(mapping, cells=tuple(cells))


def given_mapping(hbase_table: str, columns: str, table: TableDef, own: bool) -> TableMapping:
    """The mapping that CREATE TABLE gives. Raises `SqlError` if it does not fit the table."""
    given = dict(_read_columns(columns))
    names = {c.name.lower(): c for c in table.columns}
    for name in given:
        if name.lower() not in names:
            raise SqlError(message=f"hbase.columns names {name!r}, which is no column of the table")
    by_name = {name.lower(): text for name, text in given.items()}
    cells, encodings_of_key, taken = [], [], set[bytes]()
    for column in table.columns:
        text = by_name.get(column.name.lower())
        if text is None:
            message = f"hbase.columns has no cell for column {column.name!r}; add {column.name}={FAMILY}:{column.name}"
            raise SqlError(message=message)
        is_key = text.partition("#")[0] == KEY
        if is_key != (column.name in table.key):
            message = (
                f"column {column.name!r} is {'not ' if is_key else ''}in the primary key; the row key ({KEY}) has "
            )
            raise SqlError(message=f"{message}the columns of the primary key, and no others")
        if is_key:
            encodings_of_key.append(text.partition("#")[2])
            cells.append("")
            continue
        cell = read_cell(text, types.arrow(column.type))
        if cell.column in taken:
            raise SqlError(message=f"hbase.columns maps two columns to the cell {escape(cell.column)}")
        if cell.column.endswith(b":" + MARKER):
            reserved = f"the qualifier {escape(MARKER)} is reserved: Tailrace marks rows with it"
            raise SqlError(message=f"hbase.columns maps a column to the cell {escape(cell.column)}; {reserved}")
        taken.add(cell.column)
        cells.append(cell.text)
    families = tuple(dict.fromkeys(escape(read_cell(text).column.partition(b":")[0]) for text in cells if text))
    return TableMapping(
        hbase_table,
        table.name,
        table.columns,
        table.key,
        _key_encoding(encodings_of_key, table),
        tuple(cells),
        families or (FAMILY,),
        own,
    )


def _key_encoding(given: list[str], table: TableDef) -> KeyEncoding:
    several = len(table.key) > 1
    chosen = {encoding or ("ordered" if several else "binary") for encoding in given}
    if len(chosen) > 1 or (several and chosen != {"ordered"}):
        raise SqlError(message=f"a row key of several columns is encoded as {KEY}#ordered")
    encoding = next((e for e in get_args(KeyEncoding) if e in chosen), None)
    if encoding is None:
        raise SqlError(message=f"unknown encoding {chosen.pop()!r} of the row key; use ordered, binary or string")
    return encoding  # type: ignore[no-any-return]


def _read_columns(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, cell = part.partition("=")
        if not equals or not name.strip() or not cell.strip():
            message = f"hbase.columns is a list of column=family:qualifier#encoding, not {part.strip()!r}"
            raise SqlError(message=message)
        yield unescape(name.strip()).decode(errors="replace"), cell.strip()


def read_cell(text: str, kind: pa.DataType | None = None) -> Cell:
    """Reads `family:qualifier#encoding`; without an encoding, that of the type."""
    column, mark, chosen = text.partition("#")
    if not mark and kind is not None:
        chosen = encodings.default_encoding(kind)
    encoding = next((e for e in ENCODINGS if e == chosen), None)
    family, colon, qualifier = column.partition(":")
    if encoding is None or not family or not colon or not qualifier:
        raise SqlError(message=f"{text!r} is not family:qualifier#encoding with an encoding of {', '.join(ENCODINGS)}")
    if kind is not None and encoding == "binary" and encodings.default_encoding(kind) != "binary":
        raise SqlError(message=f"{text!r}: values of type {types.name(kind)} have only the encoding string (JSON)")
    return Cell(unescape(column), encoding)


def escape(name: bytes) -> str:
    """A name of HBase as text: bytes that are no plain text are written as in the shell of HBase."""
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return "".join(chr(b) if 32 < b < 127 and chr(b) not in _SPECIAL else f"\\x{b:02x}" for b in name)
    plain = (c if c.isprintable() and c != " " and c not in _SPECIAL else None for c in text)
    return "".join(
        c if c is not None else "".join(f"\\x{b:02x}" for b in original.encode())
        for c, original in zip(plain, text, strict=True)
    )


def unescape(text: str) -> bytes:
    """The inverse of `escape`."""
    parts = _ESCAPE.split(text)
    return b"".join(bytes.fromhex(part) if i % 2 else part.encode() for i, part in enumerate(parts))


class MappedTable:
    """A table with its mapping: converts between its columns and the rows and cells of HBase."""

    def __init__(self, mapping: TableMapping, table: TableDef) -> None:
        self.mapping, self.table = mapping, table
        self.cells = [read_cell(text) if text else None for text in mapping.cells[: len(table.stored)]]
        self._dropped = [p for p, column in enumerate(table.stored) if column.name.startswith("\0")]
        self.positions = {cell.column: p for p, cell in enumerate(self.cells) if cell is not None}
        self.families = [unescape(family) for family in mapping.families]
        self.marker = self.families[0] + b":" + MARKER

    @cached_property
    def key_kinds(self) -> list[pa.DataType]:
        return [types.arrow(c.type) for c in self.table.key_schema]

    def row_keys(self, key_columns: Sequence[pa.Array]) -> pa.LargeBinaryArray:
        """The row keys of HBase of these primary keys."""
        if self.mapping.key_encoding == "ordered":
            return self.table.keys.encode(key_columns)
        return encodings.encode(key_columns[0], self.mapping.key_encoding)

    def key_columns(self, rows: pa.LargeBinaryArray) -> tuple[list[pa.Array], Vector]:
        """The primary keys of row keys, and which row keys are none."""
        if self.mapping.key_encoding == "ordered":
            columns, bad = decode_keys(self.key_kinds, rows)
        else:
            column, bad = encodings.decode(rows, self.key_kinds[0], self.mapping.key_encoding)
            columns = [column]
        differs = pc.not_equal(self.row_keys(columns), rows).fill_null(True)
        return columns, bad | differs.to_numpy(zero_copy_only=False)

    def rows_of_keys(self, keys: Sequence[bytes]) -> list[bytes]:
        """The row keys of HBase of encoded keys (`TableDef.keys`)."""
        if self.mapping.key_encoding == "ordered":
            return list(keys)
        columns, _ = decode_keys(self.key_kinds, pa.array(keys, LARGE_BINARY))
        encoded: list[bytes] = self.row_keys(columns).to_pylist()
        return encoded

    def decode_cells(self, position: int, cells: pa.LargeBinaryArray) -> tuple[pa.Array, Vector]:
        """The values of a column, and which cells are bad. A dropped column has none."""
        if position in self._dropped:
            return pa.nulls(len(cells), self.table.stored_schema.field(position).type), np.zeros(len(cells), bool)
        cell = self.cells[position]
        assert cell is not None, "a key column has no cells"
        return encodings.decode(cells, self.table.stored_schema.field(position).type, cell.encoding)

    def encode_column(self, position: int, values: pa.Array) -> pa.LargeBinaryArray:
        cell = self.cells[position]
        assert cell is not None, "a key column has no cells"
        return encodings.encode(values, cell.encoding)

    def decode_rows(self, rows: Sequence[tuple[bytes, dict[bytes, tuple[bytes, int]]]]) -> pa.RecordBatch:
        """The stored batch of rows that were read from HBase. Raises `BadCell` at the first bad cell."""
        names = pa.array([row for row, _ in rows], LARGE_BINARY)
        keys, bad = self.key_columns(names)
        if bad.any():
            raise self.bad_key(names[int(bad.argmax())].as_py())
        columns: list[pa.Array] = []
        by_position = dict(zip(self.table.positions, keys, strict=True))
        for position, cell in enumerate(self.cells):
            if cell is None:
                columns.append(by_position[position])
                continue
            found = [cells.get(cell.column, (None, 0))[0] for _, cells in rows]
            column, bad = self.decode_cells(position, pa.array(found, LARGE_BINARY))
            if bad.any():
                at = int(np.argmax(bad))
                raise self.bad_cell(rows[at][0], cell.column, self.reason(position))
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=self.table.stored_schema)

    def reason(self, position: int) -> str:
        """Why a cell of a column is bad."""
        column, cell = self.table.stored[position], self.cells[position]
        assert cell is not None, "a key column has no cells"
        return f"it is no {column.type.upper()} in the encoding {cell.encoding}"

    def key_reason(self) -> str:
        kinds = ", ".join(c.type.upper() for c in self.table.key_schema)
        return f"it is no {kinds} in the encoding {self.mapping.key_encoding}"

    def bad_key(self, row: bytes) -> BadCell:
        return self.bad_cell(row, KEY.encode(), self.key_reason())

    def bad_cell(self, row: bytes, column: bytes, reason: str) -> BadCell:
        return BadCell(table=self.mapping.table, row=escape(row), column=escape(column), reason=reason)
