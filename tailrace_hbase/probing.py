"""Whether the cluster answers: a put and a get through the Thrift2 server, in a table of their own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import thriftpy2
from thriftpy2.rpc import client_context

from tailrace_hbase.settings import HOST

IDL = Path(__file__).parent.parent / "tailrace" / "store" / "hbase" / "hbase.thrift"
TABLE, FAMILY, QUALIFIER = b"local_probe", b"f", b"q"

hbase: Any = thriftpy2.load(str(IDL), module_name="tailrace_probe_thrift")


def answers(port: int, timeout_ms: int = 15_000) -> str | None:
    """Returns None if a value can be written and read, else what went wrong."""
    value = str(time.time_ns()).encode()
    try:
        with client_context(hbase.THBaseService, HOST, port, socket_timeout=timeout_ms) as client:
            name = hbase.TTableName(ns=b"default", qualifier=TABLE)
            if not client.tableExists(name):
                columns = [hbase.TColumnFamilyDescriptor(name=FAMILY, maxVersions=1)]
                client.createTable(hbase.TTableDescriptor(tableName=name, columns=columns), [])
            cell = hbase.TColumnValue(family=FAMILY, qualifier=QUALIFIER, value=value)
            client.put(TABLE, hbase.TPut(row=b"r", columnValues=[cell]))
            read = client.get(TABLE, hbase.TGet(row=b"r")).columnValues[0].value
    except Exception as problem:  # any error of any layer means: not yet
        return f"{type(problem).__name__}: {str(problem)[:300]}"
    return None if read == value else f"a get returned {read!r} after a put of {value!r}"
