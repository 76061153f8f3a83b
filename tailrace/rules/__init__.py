"""Delta rules: one operator per file, its equation first. A rule is a pure function of deltas and shards."""
