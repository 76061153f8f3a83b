"""A local HBase cluster for tests and first steps: `python -m tailrace_hbase start`.

ZooKeeper, a master, region servers and a Thrift2 server, each a process of its own, from Maven artifacts. All of them
listen on 127.0.0.1 only. Data, logs and ports are in one directory. The package is part of the repository, not of
the wheel.

- `local_cluster`: `LocalCluster`, what a caller uses
- `artifacts`: the classpath, from Maven
- `settings`: ports and the configuration files of HBase and ZooKeeper
- `servers`, `java_process`: the Java processes, by pid files
- `administration`: its command `bin/hbase`, so that its directory serves as `--hbase-home`
- `probing`: whether the cluster answers
"""
