"""What a JSON document must look like, said in Python's types, and checked when it is read.

    int                       a number from 0 to 2^63 - 1: all that documents count
    float, str, bool          as in JSON; a whole number is a float, too
    Annotated[X, condition]   an X for which the condition holds
    list[X], tuple[X, Y]      an array; the second of exactly so many
    dict[X, Y]                an object of any names
    a TypedDict               an object with these names, and perhaps others
    a dataclass               an instance of it, made of a document, with fields of their types
    Literal, X | None, Any    as they say

A document comes from disk: whatever reads it may then rely on its shape, and a damaged one is `Corrupt` and names
the place, instead of an error far away.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from tailrace.errors import Corrupt

Small = Annotated[int, lambda number: number < 1 << 32]  # tables, states: what has four bytes in a key

_BEYOND = 1 << 63
_Checker = Callable[[Any], str]  # what is wrong, and where; empty if nothing is


def parsed(where: str, text: bytes | str, shape: Any = Any) -> Any:
    """The value of a JSON text of that shape; `Corrupt` if it is no JSON, or another."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Corrupt(where=where, reason=f"it is not JSON ({error})") from None
    except RecursionError:
        raise Corrupt(where=where, reason="it is nested too deeply") from None
    return checked(where, found, shape)


def checked(where: str, value: Any, shape: Any) -> Any:
    """The value itself, if it has the shape."""
    if wrong := checker(shape)(value):
        raise Corrupt(where=where, reason=f"it is not what belongs there: {wrong}")
    return value


@lru_cache(maxsize=1024)
def checker(shape: Any) -> _Checker:
    """The check that a shape stands for."""
    if shape is Any:
        return lambda _: ""
    if is_typeddict(shape):
        return _fields(shape)
    if hasattr(shape, "_fields"):  # a NamedTuple
        return _fixed(tuple(checker(hint) for hint in get_type_hints(shape).values()))
    origin, args = get_origin(shape), get_args(shape)
    if origin in (Union, UnionType):
        return _union(args)
    if origin is Literal:
        return lambda value: "" if isinstance(value, str) and value in args else _found(value, " or ".join(args))
    if origin is Annotated:
        return _fulfilled(checker(args[0]), args[1])
    if origin is list or (origin is tuple and args[-1] is Ellipsis):
        return _array(checker(args[0]))
    if origin is tuple:
        return _fixed(tuple(checker(a) for a in args))
    if origin is dict:
        return _object(checker(args[0]), checker(args[1]))
    return _number if shape is int else _instance(shape) if is_dataclass(shape) else _plain(shape)


def _found(value: Any, wanted: str) -> str:
    names = {dict: "an object", list: "an array", str: "a text", bool: "true or false", NoneType: "null"}
    return f"{names.get(type(value), 'a number')} instead of {wanted}"


def _plain(kind: type) -> _Checker:
    kinds = (float, int) if kind is float else (kind,)
    wanted = {float: "a number", str: "a text", bool: "true or false", NoneType: "null"}[kind]
    return lambda value: "" if type(value) in kinds else _found(value, wanted)


def _number(value: Any) -> str:
    return "" if type(value) is int and 0 <= value < _BEYOND else _found(value, "a count")


def _fulfilled(plain: _Checker, condition: Callable[[Any], bool]) -> _Checker:
    return lambda value: plain(value) or ("" if condition(value) else f"{str(value)[:40]!r} cannot be")


def _union(shapes: tuple[Any, ...]) -> _Checker:
    checks = [checker(s) for s in shapes]

    def check(value: Any) -> str:
        said = ""
        for one in checks:
            if not (wrong := one(value)):
                return ""
            said = said or wrong
        return said

    return check


def _array(item: _Checker) -> _Checker:
    def check(value: Any) -> str:
        if not isinstance(value, list | tuple):
            return _found(value, "an array")
        return next((f"[{i}]: {wrong}" for i, one in enumerate(value) if (wrong := item(one))), "")

    return check


def _fixed(items: tuple[_Checker, ...]) -> _Checker:
    def check(value: Any) -> str:
        if not isinstance(value, list | tuple) or len(value) != len(items):
            return _found(value, f"an array of {len(items)}")
        return next((f"[{i}]: {w}" for i, (one, v) in enumerate(zip(items, value, strict=True)) if (w := one(v))), "")

    return check


def _object(name: _Checker, item: _Checker) -> _Checker:
    def check(value: Any) -> str:
        if not isinstance(value, dict):
            return _found(value, "an object")
        return next((f"{n!r}: {wrong}" for n, one in value.items() if (wrong := name(n) or item(one))), "")

    return check


def _instance(kind: Any) -> _Checker:
    def check(value: Any) -> str:
        if not isinstance(value, kind):
            return _found(value, f"a {kind.__name__}")
        for name, one in _fields_of(value.__class__):
            if wrong := one(getattr(value, name)):
                return f"{name!r}: {wrong}"
        return ""

    return check


@lru_cache(maxsize=256)
def _fields_of(kind: Any) -> list[tuple[str, _Checker]]:
    hints = get_type_hints(kind, include_extras=True)
    return [(f.name, checker(hints[f.name])) for f in fields(kind)]


def _fields(shape: Any) -> _Checker:
    hints = get_type_hints(shape, include_extras=True)
    optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
    checks = {n: checker(get_args(h)[0] if n in optional else h) for n, h in hints.items()}

    def check(value: Any) -> str:
        if not isinstance(value, dict):
            return _found(value, "an object")
        for name, one in checks.items():
            if name not in value:
                if name not in optional:
                    return f"{name!r} is missing"
            elif wrong := one(value[name]):
                return f"{name!r}: {wrong}"
        return ""

    return check
