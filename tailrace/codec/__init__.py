"""Encodes and decodes keys, rows and values, one Arrow column at a time. Imports neither the store nor Spark."""
