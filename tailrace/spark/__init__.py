"""The Spark driver: the session, DataFrames over the store, and the compiler from plans to jobs."""
