"""The driver side of Spark: the session, DataFrames over the store, and plans compiled into jobs."""
