"""The store interface: rows, logs, documents, locks and shards. Each implementation is a package of its own."""
