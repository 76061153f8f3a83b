"""Rows, logs and shards on disk. Nothing outside this package knows which store it is."""
