"""Generates new orders with lineitems by dbgen's rules for ranges, dates, flags, prices and suppliers.

Comments are copied from existing orders, so the usual share of them mentions special requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Numbers: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date(1992, 1, 1) - _EPOCH).days, (date(1998, 8, 2) - _EPOCH).days
_TODAY = (date(1995, 6, 17) - _EPOCH).days
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
_MODES = ["AIR", "REG AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
_INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
COMPLAINT = "the special, express requests of Customer wake; slow Complaints"


@dataclass(frozen=True)
class Orders:
    """Orders and all their lineitems."""

    orders: pa.Table
    items: pa.Table


@dataclass(frozen=True)
class Stock:
    """What new orders draw from. `wanted_*` are the keys that the queries select."""

    customers: int
    suppliers: int
    parts: int
    wanted_parts: Numbers
    wanted_suppliers: Numbers
    order_comments: Sequence[str]
    item_comments: Sequence[str]


def fresh_orders(rng: np.random.Generator, stock: Stock, keys: Numbers, aimed: float = 0.0) -> Orders:
    """One order per key. `aimed` is the share of orders, and of lineitems, that match what the queries filter by.

    An aimed order is large and arrives in time except for one supplier's lineitem. Its customer may be one of the
    third that otherwise orders nothing. An aimed lineitem has a wanted part, and half of them have a small quantity.
    """
    count = len(keys)
    is_aimed = rng.random(count) < aimed
    customers = rng.integers(1, stock.customers + 1, count)
    customers -= (customers % 3 == 0) & ~is_aimed  # a third of all customers never orders anything
    dates = rng.integers(_FIRST, _LAST + 1, count)
    lines = np.where(is_aimed, 7, rng.integers(1, 8, count))
    order_index = np.repeat(np.arange(count), lines)
    items, charges, is_open = _items(
        rng, stock, keys[order_index], dates[order_index], is_aimed[order_index], aimed, _line_numbers(lines)
    )
    still_open = np.bincount(order_index, weights=is_open, minlength=count).astype(np.int64)
    status = np.where(still_open == lines, "O", np.where(still_open == 0, "F", "P"))
    comments = _draw(rng, stock.order_comments, count)
    comments[is_aimed] = COMPLAINT
    orders = pa.table(
        {
            "o_orderkey": keys,
            "o_custkey": customers,
            "o_orderstatus": _strings(status),
            "o_totalprice": cents(np.bincount(order_index, weights=charges, minlength=count).round().astype(np.int64)),
            "o_orderdate": _days(dates),
            "o_orderpriority": _strings(_draw(rng, PRIORITIES, count)),
            "o_clerk": pa.array([f"Clerk#{n:09}" for n in rng.integers(1, 1001, count)]),
            "o_shippriority": pa.array(np.zeros(count, np.int32)),
            "o_comment": _strings(comments),
        }
    )
    return Orders(orders, items)


def _items(
    rng: np.random.Generator,
    stock: Stock,
    keys: Numbers,
    ordered: Numbers,
    of_aimed_order: np.ndarray[Any, np.dtype[np.bool_]],
    aimed: float,
    numbers: Numbers,
) -> tuple[pa.Table, np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.bool_]]]:
    """The lineitems, the charge for each in cents, and whether each is still to be shipped."""
    count = len(keys)
    is_aimed = rng.random(count) < aimed
    parts = rng.integers(1, stock.parts + 1, count)
    parts = np.where(is_aimed, rng.choice(stock.wanted_parts, count), parts)
    is_late = of_aimed_order & (numbers == 1)
    nth_supplier = np.where(is_late, 0, rng.integers(0, 4, count))
    parts = np.where(is_late, _parts_of_wanted_suppliers(rng, stock, count), parts)
    is_small = is_aimed & (rng.random(count) < 0.5)
    quantity = np.where(is_small, rng.integers(1, 4, count), rng.integers(1, 51, count))
    quantity = np.where(of_aimed_order, rng.integers(40, 51, count), quantity)
    price = quantity * (90_000 + (parts // 10) % 20_001 + 100 * (parts % 1_000))
    discount, tax = rng.integers(0, 11, count), rng.integers(0, 9, count)
    shipped = ordered + rng.integers(1, 122, count)
    received = shipped + rng.integers(1, 31, count)
    committed = ordered + rng.integers(30, 91, count)
    committed = np.where(of_aimed_order, received + np.where(is_late, -1, 1), committed)
    modes, instructions = _draw(rng, _MODES, count), _draw(rng, _INSTRUCTIONS, count)
    modes[is_aimed], instructions[is_aimed] = "AIR", "DELIVER IN PERSON"
    returned = np.where(rng.random(count) < 0.5, "R", "A")
    items = pa.table(
        {
            "l_orderkey": keys,
            "l_linenumber": pa.array(numbers.astype(np.int32)),
            "l_partkey": parts,
            "l_suppkey": _supplier_of(parts, nth_supplier, stock.suppliers),
            "l_quantity": cents(quantity * 100),
            "l_extendedprice": cents(price),
            "l_discount": cents(discount),
            "l_tax": cents(tax),
            "l_returnflag": _strings(np.where(received <= _TODAY, returned, "N")),
            "l_linestatus": _strings(np.where(shipped > _TODAY, "O", "F")),
            "l_shipdate": _days(shipped),
            "l_commitdate": _days(committed),
            "l_receiptdate": _days(received),
            "l_shipinstruct": _strings(instructions),
            "l_shipmode": _strings(modes),
            "l_comment": _strings(_draw(rng, stock.item_comments, count)),
        }
    )
    return items, price * (100 - discount) * (100 + tax) / 10_000, shipped > _TODAY


def _supplier_of(parts: Numbers, nth_supplier: Numbers, suppliers: int) -> Numbers:
    """One of the four suppliers of each part, as in table partsupp."""
    return (parts + nth_supplier * (suppliers // 4 + (parts - 1) // suppliers)) % suppliers + 1


def _parts_of_wanted_suppliers(rng: np.random.Generator, stock: Stock, count: int) -> Numbers:
    """Parts whose first supplier is a wanted one."""
    times = rng.integers(1, stock.parts // stock.suppliers, count)
    return rng.choice(stock.wanted_suppliers, count) - 1 + times * stock.suppliers


def cents(values: Numbers) -> pa.Array:
    """Whole cents as DECIMAL(15,2)."""
    words = np.stack([values, values >> 63], axis=1).astype(np.int64)
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(values), [None, pa.py_buffer(words.tobytes())])


def _line_numbers(lines: Numbers) -> Numbers:
    """1, 2, ... within each order."""
    begins = np.repeat(np.cumsum(lines) - lines, lines)
    return np.arange(lines.sum()) - begins + 1


def _draw(rng: np.random.Generator, values: Sequence[str], count: int) -> np.ndarray[Any, np.dtype[np.object_]]:
    return np.array(values, dtype=object)[rng.integers(0, len(values), count)]


def _strings(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values.tolist(), pa.string())


def _days(values: Numbers) -> pa.Array:
    return pa.array(values.astype(np.int32)).cast(pa.date32())
