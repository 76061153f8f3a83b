"""The public surface: databases, tables, views, snapshots, transactions, SQL statements."""
