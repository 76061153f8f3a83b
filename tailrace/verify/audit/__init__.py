"""Audits: compare what is on disk with what it should be."""
