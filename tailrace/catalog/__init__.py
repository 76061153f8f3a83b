"""Which tables, views and states exist, stored as documents."""
