"""Changes to the loaded tables: the standard's refresh functions, and updates of six tables.

    RF1   inserts new orders with their lineitems
    RF2   deletes orders with their lineitems

The same seed makes the same changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tailrace as tr
from tailrace_bench.tpch.fresh import COMPLAINT, PRIORITIES, Numbers, Orders, Stock, fresh_orders

_COMMENTS = 50_000  # comments of each table to draw from
_BRAZIL, _CANADA, _FRANCE, _GERMANY, _SAUDI_ARABIA = 2, 3, 6, 7, 20
_AIMED_VALUES: dict[str, list[dict[str, Any]]] = {  # values that the queries filter by
    "supplier": [
        {"s_comment": COMPLAINT},
        *({"s_nationkey": nation} for nation in (_BRAZIL, _CANADA, _FRANCE, _GERMANY, _SAUDI_ARABIA)),
    ],
    "part": [
        {"p_type": "LARGE BURNISHED BRASS", "p_size": 15},
        {"p_type": "ECONOMY ANODIZED STEEL"},
        {"p_brand": "Brand#23", "p_container": "MED BOX"},
        {"p_brand": "Brand#12", "p_container": "SM BOX", "p_size": 3},
        {"p_name": "forest green lace plum khaki"},
    ],
}
_GAP = 8  # dbgen uses the first 8 of every 32 keys and leaves the others for new orders


class Changes:
    """Changes the tables of a store. The store must hold the tables of these files, and have no other writer.

    `aimed` is the share of changed rows that get values the queries filter by. Without it, at a small scale hardly any
    change affects queries that select one part in a thousand.
    """

    def __init__(self, db: tr.Database, files: dict[str, Path], seed: int = 1, aimed: float = 0.0) -> None:
        self._db, self._rng, self._aimed = db, np.random.default_rng(seed), aimed
        items = pq.read_table(files["lineitem"], columns=["l_orderkey"])
        self._keys, self._lines = np.unique(items["l_orderkey"].to_numpy(), return_counts=True)
        free = np.concatenate([self._keys + _GAP * n for n in (1, 2, 3)])
        self._free = self._rng.permutation(free)
        self._parts, self._customers = _read_table(files["part"]), _read_table(files["customer"])
        self._suppliers = _read_table(files["supplier"])
        self._partsupp = pq.read_table(files["partsupp"], columns=["ps_partkey", "ps_suppkey"])
        self._wanted = _wanted_parts(self._parts)
        self._stock = Stock(
            customers=self._customers.num_rows,
            suppliers=self._suppliers.num_rows,
            parts=self._parts.num_rows,
            wanted_parts=self._wanted,
            wanted_suppliers=_wanted_suppliers(self._suppliers),
            order_comments=_comments(files["orders"], "o_comment"),
            item_comments=_comments(files["lineitem"], "l_comment"),
        )

    @property
    def orders(self) -> int:
        """The current number of orders."""
        return len(self._keys)

    # refresh functions

    def rf1(self, count: int) -> int:
        """Inserts new orders with their lineitems. Returns the number of operations."""
        return self.insert(self.fresh(count))

    def rf2(self, count: int) -> int:
        """Deletes random orders with their lineitems. Returns the number of operations."""
        (picked,) = self.picks(count, 1)
        return self.delete(picked)

    def fresh(self, count: int) -> Orders:
        """Generates new orders without inserting them."""
        keys, self._free = self._free[:count], self._free[count:]
        return fresh_orders(self._rng, self._stock, keys, self._aimed)

    def picks(self, count: int, times: int) -> list[Orders]:
        """`times` disjoint sets of `count` random orders, read from the tables."""
        return [self._read(at) for at in self._rng.choice(self.orders, (times, count), replace=False)]

    def _read(self, at: Numbers) -> Orders:
        keys, lines = self._keys[at].tolist(), self._lines[at].tolist()
        pairs = [(key, line + 1) for key, n in zip(keys, lines, strict=True) for line in range(n)]
        return Orders(self._db.table("orders").get_many(keys), self._db.table("lineitem").get_many(pairs))

    def insert(self, orders: Orders) -> int:
        keys, lines = np.unique(orders.items["l_orderkey"].to_numpy(), return_counts=True)
        self._keys, self._lines = np.concatenate([self._keys, keys]), np.concatenate([self._lines, lines])
        done = self._db.table("orders").put_many(orders.orders).operations
        return done + self._db.table("lineitem").put_many(orders.items).operations

    def delete(self, orders: Orders) -> int:
        keys = orders.orders["o_orderkey"]
        remaining = ~np.isin(self._keys, keys.to_numpy())
        self._keys, self._lines = self._keys[remaining], self._lines[remaining]
        pairs = zip(orders.items["l_orderkey"].to_pylist(), orders.items["l_linenumber"].to_pylist(), strict=True)
        done = self._db.table("lineitem").delete_many(list(pairs)).operations
        return done + self._db.table("orders").delete_many(keys.to_pylist()).operations

    # updates

    def customers(self, count: int) -> int:
        """Updates the balance, market segment, nation and phone of random customers."""
        return self._copy_columns("customer", self._customers, ["c_nationkey", "c_phone", "c_mktsegment"], count)

    def suppliers(self, count: int) -> int:
        """Updates the balance, nation, phone, address and comment of random suppliers; some get complaints."""
        return self._copy_columns(
            "supplier", self._suppliers, ["s_nationkey", "s_phone", "s_address", "s_comment"], count
        )

    def parts(self, count: int) -> int:
        """Random parts get the name, brand, type, size and container of other parts."""
        columns = ["p_name", "p_mfgr", "p_brand", "p_type", "p_size", "p_container"]
        return self._copy_columns("part", self._parts, columns, count)

    def partsupp(self, count: int) -> int:
        """Updates the costs and quantities of random rows of partsupp."""
        number = self._partsupp.num_rows
        at = self._rng.choice(number, min(count, number), replace=False)
        if self._aimed:
            wanted = np.flatnonzero(np.isin(self._partsupp["ps_partkey"].to_numpy(), self._wanted))
            at = np.unique(np.concatenate([at, wanted[self._rng.random(len(wanted)) < self._aimed]]))
        rows = self._partsupp.take(at).to_pylist()
        for row in rows:
            row["ps_supplycost"] = self._random_money(100, 100_000)
            row["ps_availqty"] = int(self._rng.integers(1, 10_000))
        return self._db.table("partsupp").update_many(rows).operations

    def lineitems(self, count: int) -> int:
        """Updates the price, discount and quantity in the first lineitem of random orders."""
        rows = [
            {
                "l_orderkey": key,
                "l_linenumber": 1,
                "l_extendedprice": self._random_money(90_000, 10_000_000),
                "l_discount": self._random_money(0, 11),
                "l_quantity": int(self._rng.integers(1, 51)),
            }
            for key in self._random_orders(count)
        ]
        return self._db.table("lineitem").update_many(rows).operations

    def priorities(self, count: int) -> int:
        """Updates the priority and comment of random orders."""
        comments = [COMPLAINT, *self._stock.order_comments[:9]]
        rows = [
            {
                "o_orderkey": key,
                "o_orderpriority": PRIORITIES[self._rng.integers(len(PRIORITIES))],
                "o_comment": comments[self._rng.integers(len(comments))],
            }
            for key in self._random_orders(count)
        ]
        return self._db.table("orders").update_many(rows).operations

    def _copy_columns(self, name: str, table: pa.Table, columns: Sequence[str], count: int) -> int:
        """Random rows of a table get these columns from other rows, and a new balance if the table has one."""
        key, balance = table.column_names[0], next((c for c in table.column_names if c.endswith("acctbal")), None)
        at = self._rng.choice(table.num_rows, min(count, table.num_rows), replace=False)
        others = table.select(columns).take(self._rng.integers(0, table.num_rows, len(at))).to_pylist()
        rows: list[dict[str, Any]] = []
        for own, other in zip(table[key].take(at).to_pylist(), others, strict=True):
            row = {key: own, **other}
            if balance:
                row[balance] = self._random_money(-99_999, 1_000_000)
            if name in _AIMED_VALUES and self._rng.random() < self._aimed:
                row |= _AIMED_VALUES[name][self._rng.integers(len(_AIMED_VALUES[name]))]
            rows.append(row)
        return self._db.table(name).update_many(rows).operations

    def _random_orders(self, count: int) -> list[int]:
        keys: list[int] = self._keys[self._rng.choice(self.orders, count, replace=False)].tolist()
        return keys

    def _random_money(self, least: int, most: int) -> Decimal:
        return Decimal(int(self._rng.integers(least, most))).scaleb(-2)


def _read_table(file: Path) -> pa.Table:
    """Reads a file, with string views cast to strings: Arrow cannot `take` string views."""
    table = pq.read_table(file)
    plain = [f.with_type(pa.string()) if f.type == pa.string_view() else f for f in table.schema]
    return table.cast(pa.schema(plain))


def _comments(file: Path, column: str) -> list[str]:
    batch = next(pq.ParquetFile(file).iter_batches(_COMMENTS, columns=[column]))
    comments: list[str] = batch.column(0).to_pylist()
    return comments


def _wanted_parts(parts: pa.Table) -> Numbers:
    """Keys of the parts that queries 2, 8, 17, 19 and 20 select, equally many per query: short lists are repeated."""
    brand, type_, size = parts["p_brand"], parts["p_type"], parts["p_size"]
    selected = [
        pc.and_(pc.ends_with(type_, "BRASS"), pc.equal(size, 15)),
        _in(type_, "ECONOMY ANODIZED STEEL"),
        pc.and_(_in(brand, "Brand#23"), _in(parts["p_container"], "MED BOX")),
        pc.and_(_in(brand, "Brand#12", "Brand#23", "Brand#34"), pc.less_equal(size, 5)),
        pc.starts_with(parts["p_name"], "forest"),
    ]
    key_lists = [keys for mask in selected if len(keys := parts["p_partkey"].filter(mask).to_numpy())]
    longest = max(map(len, key_lists), default=0)
    return (
        np.concatenate([np.resize(keys, longest) for keys in key_lists]) if key_lists else parts["p_partkey"].to_numpy()
    )


def _wanted_suppliers(suppliers: pa.Table) -> Numbers:
    """Keys of the suppliers that query 21 selects, those of SAUDI ARABIA; of all suppliers if it has none."""
    keys = suppliers["s_suppkey"].filter(pc.equal(suppliers["s_nationkey"], _SAUDI_ARABIA)).to_numpy()
    return np.asarray(keys if len(keys) else suppliers["s_suppkey"].to_numpy())


def _in(column: pa.ChunkedArray, *values: str) -> pa.ChunkedArray:
    return pc.is_in(column, pa.array(values))
