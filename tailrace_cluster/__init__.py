"""A local Spark cluster, and the demo on it and a local HBase: `python -m tailrace_cluster start`.

A master and workers of Spark, each a process of its own, on the loopback interface only. Logs, ports and the files of
executors are in one directory. The package is part of the repository, not of the wheel.

- `local_spark`: `LocalSpark`, what a caller uses
- `demo_host`, `hbase_demo`: `make demo-hbase`
"""
