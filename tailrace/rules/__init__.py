"""Delta rules: one operator per file, with its equation on top. A rule is a pure function of deltas and shards."""
