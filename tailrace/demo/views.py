"""The views of the demo, one for each kind of query."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A view: its name, the kind of query it shows, and its SQL."""

    name: str
    kind: str
    sql: str


EXAMPLES = (
    Example(
        "customer_spend",
        "SUM, COUNT, AVG per group",
        """SELECT o_custkey, COUNT(*) AS orders, SUM(o_totalprice) AS spent, AVG(o_totalprice) AS mean
           FROM orders GROUP BY o_custkey""",
    ),
    Example(
        "part_prices",
        "MIN, MAX per group",
        """SELECT l_partkey, MIN(l_extendedprice) AS cheapest, MAX(l_extendedprice) AS dearest,
                  MAX(l_shipdate) AS last_shipped
           FROM lineitem GROUP BY l_partkey""",
    ),
    Example(
        "big_open_orders",
        "filter and projection",
        """SELECT o_orderkey, o_custkey, o_totalprice, year(o_orderdate) AS year
           FROM orders WHERE o_orderstatus = 'O' AND o_totalprice > 200000""",
    ),
    Example(
        "nation_revenue",
        "five-way join, SUM",
        """SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue, COUNT(*) AS items
           FROM customer, orders, lineitem, supplier, nation
           WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
             AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey
           GROUP BY n_name""",
    ),
    Example(
        "customer_orders",
        "LEFT JOIN, including customers without orders",
        """SELECT c_custkey, c_name, COUNT(o_orderkey) AS orders
           FROM customer LEFT JOIN orders ON c_custkey = o_custkey GROUP BY c_custkey, c_name""",
    ),
    Example(
        "part_suppliers",
        "COUNT(DISTINCT)",
        "SELECT l_partkey, COUNT(DISTINCT l_suppkey) AS suppliers FROM lineitem GROUP BY l_partkey",
    ),
    Example(
        "nation_spend",
        "a view over a view, HAVING",
        """SELECT c_nationkey, COUNT(*) AS customers, SUM(spent) AS spent
           FROM customer_spend JOIN customer ON o_custkey = c_custkey
           GROUP BY c_nationkey HAVING SUM(spent) > 1000000""",
    ),
    Example(
        "totals",
        "one row for the whole table",
        "SELECT COUNT(*) AS orders, SUM(o_totalprice) AS value, MAX(o_orderdate) AS newest FROM orders",
    ),
)
