"""The store on HBase: tables that any HBase client writes, a log that a replication endpoint ships.

`hbase.thrift` declares the calls of HBase's Thrift2 server that Tailrace uses, with the field numbers of HBase 2.6.
`tailrace-hbase.jar` is the replication endpoint, and a program for what Thrift2 has no call (source: `java/endpoint`).
"""
