"""What one Spark task does: it reads its part of the log, runs operators, and applies the writes to shards."""
