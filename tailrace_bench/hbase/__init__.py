"""The `hbase_*` benchmarks: Tailrace on a local HBase cluster, beside what a plain client of the same cluster does."""
