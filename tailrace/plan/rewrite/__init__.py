"""Rewrites of a plan into a cheaper one with the same meaning, one file per rule."""
