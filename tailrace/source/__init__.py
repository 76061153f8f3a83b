"""Tables and logs as Spark DataFrames."""
