"""Documents: small JSON records of a store, each of a type that its owner defines.

A document is validated when it is read, so its readers can rely on its type. A damaged document raises `Corrupt`, which
names the document and the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from tailrace.errors import Corrupt

T = TypeVar("T")

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]  # of a table or state; takes four bytes in keys

KINDS: dict[str, Kind[Any]] = {}
"""All kinds of documents by name. An audit checks every stored document against its kind."""


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a document with several fields."""

    def fits(self, nodes: int) -> bool:
        """Whether the document can belong to a store with this many nodes."""
        return True


@dataclass(frozen=True)
class Kind(Generic[T]):
    """One kind of document. A name that ends in a colon is the prefix of many documents, one per key.

    An `expendable` document is recreated when needed: a repair removes it if it is damaged.
    """

    name: str
    type: Any = field(compare=False)
    expendable: bool = False

    def __post_init__(self) -> None:
        KINDS[self.name] = self

    def at(self, key: object) -> str:
        """The name of the document for a key."""
        return f"{self.name}{key}"

    def decode(self, name: str, data: bytes, nodes: int) -> T:
        return decode(f"document {name!r}", data, self.type, nodes)  # type: ignore[no-any-return]


def kind_of(name: str) -> Kind[Any] | None:
    """The kind of the document with this name; None if no kind matches."""
    prefix, colon, _ = name.partition(":")
    return KINDS.get(prefix + colon)


def encode(value: Any) -> bytes:
    return msgspec.json.encode(value)


def decode(where: str, data: bytes, expected_type: Any, nodes: int | None = None) -> Any:
    """Decodes JSON. Raises `Corrupt` if it is invalid, of another type, or does not fit a store with `nodes` nodes."""
    try:
        value = msgspec.json.decode(data, type=expected_type)
    except msgspec.ValidationError as error:
        raise Corrupt(where=where, reason=_as_clause(str(error))) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Corrupt(where=where, reason=f"not valid JSON ({error})") from None
    except RecursionError:
        raise Corrupt(where=where, reason="nested too deeply") from None
    if nodes is not None and isinstance(value, Document) and not value.fits(nodes):
        raise Corrupt(where=where, reason=f"it does not fit a store with {nodes} nodes")
    return value


def _as_clause(sentence: str) -> str:
    """A msgspec error message in a form that can follow "is damaged: "."""
    clause = sentence[:1].lower() + sentence[1:].replace("`", "'")
    return f"{clause} (if a newer Tailrace wrote it, upgrade first)" if "unknown field" in clause else clause


Changes = Mapping[str, Any]
"""New contents of documents by name; None removes a document."""
