"""The embedded store: one directory on one machine, kept in LMDB."""
