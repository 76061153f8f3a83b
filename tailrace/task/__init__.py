"""The inside of one Spark task: reads its part of the log, runs operators, and applies the writes to shards."""
