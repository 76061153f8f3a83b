"""New orders with their lineitems, as dbgen makes them: its ranges, its rules for dates, flags, prices and suppliers.

Comments are those of orders that exist, so as many of them as of dbgen's speak of special requests.
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
    """Orders, and all lineitems of each."""

    orders: pa.Table
    items: pa.Table


@dataclass(frozen=True)
class Stock:
    """What new orders may name: customers, suppliers and parts, those that queries ask for, comments."""

    customers: int
    suppliers: int
    parts: int
    wanted_parts: Numbers
    wanted_suppliers: Numbers
    order_comments: Sequence[str]
    item_comments: Sequence[str]


def fresh_orders(rng: np.random.Generator, stock: Stock, keys: Numbers, aimed: float = 0.0) -> Orders:
    """One order under each key. A share of them, and of their lineitems, is `aimed` at what the queries look for.

    Such an order is large and comes in time, but for what one supplier sends; its customer may be one that else
    orders nothing. Such a lineitem is of a part that queries ask for, and half of them are of few pieces.
    """
    count = len(keys)
    at_queries = rng.random(count) < aimed
    customers = rng.integers(1, stock.customers + 1, count)
    customers -= (customers % 3 == 0) & ~at_queries  # a third of all customers never orders anything
    dates = rng.integers(_FIRST, _LAST + 1, count)
    lines = np.where(at_queries, 7, rng.integers(1, 8, count))
    of = np.repeat(np.arange(count), lines)
    items, charges, open_ = _items(rng, stock, keys[of], dates[of], at_queries[of], aimed, _numbered(lines))
    still_open = np.bincount(of, weights=open_, minlength=count).astype(np.int64)
    status = np.where(still_open == lines, "O", np.where(still_open == 0, "F", "P"))
    comments = _some(rng, stock.order_comments, count)
    comments[at_queries] = COMPLAINT
    orders = pa.table(
        {
            "o_orderkey": keys,
            "o_custkey": customers,
            "o_orderstatus": _strings(status),
            "o_totalprice": cents(np.bincount(of, weights=charges, minlength=count).round().astype(np.int64)),
            "o_orderdate": _days(dates),
            "o_orderpriority": _strings(_some(rng, PRIORITIES, count)),
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
    at_queries = rng.random(count) < aimed
    parts = rng.integers(1, stock.parts + 1, count)
    parts = np.where(at_queries, rng.choice(stock.wanted_parts, count), parts)
    late = of_aimed_order & (numbers == 1)
    which = np.where(late, 0, rng.integers(0, 4, count))
    parts = np.where(late, _parts_of(rng, stock, count), parts)
    few = at_queries & (rng.random(count) < 0.5)
    quantity = np.where(few, rng.integers(1, 4, count), rng.integers(1, 51, count))
    quantity = np.where(of_aimed_order, rng.integers(40, 51, count), quantity)
    price = quantity * (90_000 + (parts // 10) % 20_001 + 100 * (parts % 1_000))
    discount, tax = rng.integers(0, 11, count), rng.integers(0, 9, count)
    shipped = ordered + rng.integers(1, 122, count)
    received = shipped + rng.integers(1, 31, count)
    committed = ordered + rng.integers(30, 91, count)
    committed = np.where(of_aimed_order, received + np.where(late, -1, 1), committed)
    modes, instructions = _some(rng, _MODES, count), _some(rng, _INSTRUCTIONS, count)
    modes[at_queries], instructions[at_queries] = "AIR", "DELIVER IN PERSON"
    returned = np.where(rng.random(count) < 0.5, "R", "A")
    items = pa.table(
        {
            "l_orderkey": keys,
            "l_linenumber": pa.array(numbers.astype(np.int32)),
            "l_partkey": parts,
            "l_suppkey": _supplier_of(parts, which, stock.suppliers),
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
            "l_comment": _strings(_some(rng, stock.item_comments, count)),
        }
    )
    return items, price * (100 - discount) * (100 + tax) / 10_000, shipped > _TODAY


def _supplier_of(parts: Numbers, which: Numbers, suppliers: int) -> Numbers:
    """One of the four suppliers of each part, as in table partsupp."""
    return (parts + which * (suppliers // 4 + (parts - 1) // suppliers)) % suppliers + 1


def _parts_of(rng: np.random.Generator, stock: Stock, count: int) -> Numbers:
    """Parts whose first supplier is a wanted one."""
    times = rng.integers(1, stock.parts // stock.suppliers, count)
    return rng.choice(stock.wanted_suppliers, count) - 1 + times * stock.suppliers


def cents(values: Numbers) -> pa.Array:
    """Whole cents as DECIMAL(15,2)."""
    words = np.stack([values, values >> 63], axis=1).astype(np.int64)
    return pa.Array.from_buffers(pa.decimal128(15, 2), len(values), [None, pa.py_buffer(words.tobytes())])


def _numbered(lines: Numbers) -> Numbers:
    """1, 2, ... within each order."""
    begins = np.repeat(np.cumsum(lines) - lines, lines)
    return np.arange(lines.sum()) - begins + 1


def _some(rng: np.random.Generator, values: Sequence[str], count: int) -> np.ndarray[Any, np.dtype[np.object_]]:
    return np.array(values, dtype=object)[rng.integers(0, len(values), count)]


def _strings(values: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(values.tolist(), pa.string())


def _days(values: Numbers) -> pa.Array:
    return pa.array(values.astype(np.int32)).cast(pa.date32())
