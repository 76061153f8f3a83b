"""Casts Arrow arrays of arrays, structs and maps level by level.

Arrow's own cast matches struct fields by position and may round. Here a field is found by its name, as a column is,
and the caller's cast decides about every value.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from tailrace.codec import arrays
from tailrace.codec.rows import RowCodec

CastValues = Callable[[pa.Array, pa.DataType], pa.Array | None]


def is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def cast(array: pa.Array, kind: pa.DataType, cast_values: CastValues) -> pa.Array | None:
    """The array as a nested type; None if a value does not fit. `cast_values` casts the parts that are not nested."""
    if not is_nested(kind):
        return cast_values(array, kind)
    if pa.types.is_struct(kind):
        return _cast_struct(array, kind, cast_values)
    if pa.types.is_map(kind):
        return _cast_map(array, kind, cast_values)
    return _cast_list(array, kind, cast_values)


def _cast_struct(array: pa.Array, kind: pa.DataType, cast_values: CastValues) -> pa.Array | None:
    if not pa.types.is_struct(array.type):
        return None
    given = {field.name.lower(): i for i, field in enumerate(array.type)}
    known = {field.name.lower() for field in kind}
    if not given.keys() <= known or len(given) < array.type.num_fields:
        return None
    fields = []
    for field in kind:
        if field.name.lower() not in given:
            fields.append(pa.nulls(len(array), field.type))
            continue
        part = cast(array.field(given[field.name.lower()]), field.type, cast_values)
        if part is None:
            return None
        fields.append(part)
    validity = arrays.validity_buffer(arrays.valid_mask(array))
    return pa.Array.from_buffers(kind, len(array), [validity], children=fields)


def _cast_list(array: pa.Array, kind: pa.DataType, cast_values: CastValues) -> pa.Array | None:
    if pa.types.is_map(array.type):
        return None
    if not pa.types.is_list(array.type):
        array = _to_list(array)
    items = None if array is None else cast(array.values, kind.value_type, cast_values)
    if array is None or items is None:
        return None
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[items])


def _to_list(array: pa.Array) -> pa.Array | None:
    """A large or fixed-size list, or a list view, as a list; None for any other type."""
    if not (pa.types.is_nested(array.type) and hasattr(array.type, "value_type")):
        return None
    try:
        return array.cast(pa.list_(array.type.value_type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _cast_map(array: pa.Array, kind: pa.DataType, cast_values: CastValues) -> pa.Array | None:
    if not pa.types.is_map(array.type):
        return None
    keys = cast(array.keys, kind.key_type, cast_values)
    items = cast(array.items, kind.item_type, cast_values)
    if keys is None or items is None:
        return None
    entries = pa.Array.from_buffers(
        pa.struct([kind.key_field, kind.item_field]), len(keys), [None], children=[keys, items]
    )
    maps = pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[entries])
    return None if _has_equal_keys(maps) else maps


def _has_equal_keys(maps: pa.MapArray) -> bool:
    """Whether a map has a key twice, or a NULL key. Keys are compared as SQL compares them."""
    present = maps.drop_null()
    edges = present.offsets.to_numpy()
    keys = present.keys.slice(int(edges[0]), int(edges[-1] - edges[0])) if len(present) else present.keys.slice(0, 0)
    if keys.null_count:
        return True
    codec = RowCodec(pa.schema([pa.field("map", pa.int64()), pa.field("key", keys.type)]), canonical=True)
    owners = np.repeat(np.arange(len(present)), np.diff(edges)) if len(present) else np.zeros(0, np.int64)
    encoded = codec.encode_columns([pa.array(owners, pa.int64()), keys], len(keys))
    return len(encoded.unique()) < len(encoded)
