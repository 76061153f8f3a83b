"""The experiments of the papers and our own additions, one subject per module."""
