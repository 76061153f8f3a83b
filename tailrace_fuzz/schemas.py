"""Random schemas: a few tables whose columns share names and types, so that joins have matching keys."""

from __future__ import annotations

import random
from dataclasses import dataclass

# The kind of a type decides which expressions may use it.
KINDS: dict[str, str] = {
    "BOOLEAN": "bool",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "int",
    "FLOAT": "dbl",
    "DOUBLE": "dbl",
    "DECIMAL(8,2)": "dec",
    "DECIMAL(20,4)": "dec",
    "DECIMAL(38,6)": "dec",
    "STRING": "str",
    "BINARY": "bin",
    "DATE": "date",
    "TIMESTAMP": "ts",
    "TIMESTAMP_NTZ": "ntz",
    "ARRAY<INT>": "arr:int",
    "ARRAY<STRING>": "arr:str",
    "STRUCT<a: INT, b: STRING>": "struct",
    "MAP<STRING, INT>": "map",
    "INTERVAL DAY TO SECOND": "ivl",
}

_KEYS: dict[str, tuple[str, ...]] = {
    "id": ("INT", "INT", "BIGINT"),
    "k": ("STRING",),
    "big": ("BIGINT",),
    "day": ("DATE",),
    "amount": ("DECIMAL(8,2)",),
}
_COLUMNS: dict[str, tuple[str, ...]] = {
    "id": ("INT",),
    "k": ("STRING",),
    "g": ("INT", "INT", "BIGINT", "SMALLINT"),
    "n": ("BIGINT",),
    "tiny": ("TINYINT",),
    "h": ("STRING",),
    "s": ("STRING",),
    "p": ("DECIMAL(8,2)", "DECIMAL(20,4)"),
    "q": ("DECIMAL(38,6)", "DECIMAL(20,4)"),
    "x": ("DOUBLE",),
    "f": ("FLOAT", "DOUBLE"),
    "d": ("DATE",),
    "t": ("TIMESTAMP",),
    "w": ("TIMESTAMP_NTZ",),
    "b": ("BOOLEAN",),
    "y": ("BINARY",),
}


@dataclass(frozen=True)
class Field:
    name: str
    type: str

    @property
    def kind(self) -> str:
        return KINDS[self.type]


@dataclass(frozen=True)
class TableSchema:
    name: str
    key: tuple[Field, ...]
    rest: tuple[Field, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.key + self.rest

    @property
    def ddl(self) -> str:
        columns = ", ".join(f"{f.name} {f.type}" for f in self.fields)
        return f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({', '.join(f.name for f in self.key)}))"


def random_schema(rng: random.Random) -> tuple[TableSchema, ...]:
    return tuple(_table(rng, name) for name in "abce"[: rng.randrange(2, 5)])


def _table(rng: random.Random, name: str) -> TableSchema:
    keys = ["id"] if rng.random() < 0.4 else rng.sample(list(_KEYS), rng.choice([1, 2, 2]))
    key = tuple(Field(k, rng.choice(_KEYS[k])) for k in keys)
    pool = [c for c in _COLUMNS if c not in keys]
    rest = tuple(Field(c, rng.choice(_COLUMNS[c])) for c in rng.sample(pool, rng.randrange(2, 7)))
    return TableSchema(name, key, rest)
