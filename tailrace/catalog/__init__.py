"""Which tables, views and states exist, kept as documents of the store."""
