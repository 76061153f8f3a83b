"""The command line: one verb per function."""
