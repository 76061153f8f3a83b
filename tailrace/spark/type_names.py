"""The text of Spark's types, as `tailrace.types` writes it."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from tailrace.types import field_name


def type_name(kind: DataType) -> str:
    """Spark's own text for a type, with quotes around field names that need them."""
    if isinstance(kind, StructType):
        return "struct<" + ",".join(f"{field_name(f.name)}:{type_name(f.dataType)}" for f in kind) + ">"
    if isinstance(kind, ArrayType):
        return f"array<{type_name(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_name(kind.keyType)},{type_name(kind.valueType)}>"
    return str(kind.simpleString())
