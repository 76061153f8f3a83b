"""The papers' experiments, and those that answer what they left open, one subject per module."""
