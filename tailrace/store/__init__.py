"""The store interface: rows, logs, documents, locks and shards. Each implementation has its own subpackage."""
