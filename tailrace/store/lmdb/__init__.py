"""The embedded store: LMDB files in one directory on one machine."""
