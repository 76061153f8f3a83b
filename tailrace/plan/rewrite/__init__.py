"""Rewrites of a plan into an equivalent, cheaper one; one file per rewrite."""
