"""Bytes and Arrow: keys, rows and values, encoded and decoded a column at a time. No store, no Spark."""
