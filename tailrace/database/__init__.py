"""The public API: databases, tables, views, snapshots, transactions and SQL statements."""
