"""The TPC-H tables of the demo, and the generator of their data."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tailrace.errors import EnvironmentFault

TABLES = {
    "nation": """CREATE TABLE nation (n_nationkey BIGINT PRIMARY KEY, n_name STRING, n_regionkey BIGINT,
        n_comment STRING)""",
    "supplier": """CREATE TABLE supplier (s_suppkey BIGINT PRIMARY KEY, s_name STRING, s_address STRING,
        s_nationkey BIGINT, s_phone STRING, s_acctbal DECIMAL(15,2), s_comment STRING)""",
    "part": """CREATE TABLE part (p_partkey BIGINT PRIMARY KEY, p_name STRING, p_mfgr STRING, p_brand STRING,
        p_type STRING, p_size INT, p_container STRING, p_retailprice DECIMAL(15,2), p_comment STRING)""",
    "customer": """CREATE TABLE customer (c_custkey BIGINT PRIMARY KEY, c_name STRING, c_address STRING,
        c_nationkey BIGINT, c_phone STRING, c_acctbal DECIMAL(15,2), c_mktsegment STRING,
        c_comment STRING)""",
    "orders": """CREATE TABLE orders (o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT, o_orderstatus STRING,
        o_totalprice DECIMAL(15,2), o_orderdate DATE, o_orderpriority STRING, o_clerk STRING,
        o_shippriority INT, o_comment STRING)""",
    "lineitem": """CREATE TABLE lineitem (l_orderkey BIGINT, l_linenumber INT, l_partkey BIGINT,
        l_suppkey BIGINT, l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2),
        l_tax DECIMAL(15,2), l_returnflag STRING, l_linestatus STRING, l_shipdate DATE, l_commitdate DATE,
        l_receiptdate DATE, l_shipinstruct STRING, l_shipmode STRING, l_comment STRING,
        PRIMARY KEY (l_orderkey, l_linenumber))""",
}


def generate(scale: float, directory: Path, tables: Iterable[str] = TABLES) -> dict[str, Path]:
    """Generates the Parquet files of the tables at a scale, unless all exist."""
    files = {name: directory / f"{name}.parquet" for name in tables}
    if not all(file.exists() for file in files.values()):
        directory.mkdir(parents=True, exist_ok=True)
        command = [_generator(), "parquet", "-q", "--overwrite", "-s", str(scale), "-T", ",".join(files)]
        result = subprocess.run([*command, "-o", str(directory)], capture_output=True, text=True)
        if result.returncode:
            raise EnvironmentFault(message=f"tpchgen-cli failed: {result.stderr.strip() or result.stdout.strip()}")
    return files


def _generator() -> str:
    in_venv = Path(sys.executable).parent / "tpchgen-cli"
    executable = str(in_venv) if in_venv.exists() else shutil.which("tpchgen-cli")
    if executable is None:
        raise EnvironmentFault(message="tpchgen-cli is not installed: run `pip install 'tailrace[tpch]'`")
    return executable
