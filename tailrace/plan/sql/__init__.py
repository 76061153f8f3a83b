"""Reads SQL text: parses it, knows Spark's functions, and refuses what Tailrace does not support."""
