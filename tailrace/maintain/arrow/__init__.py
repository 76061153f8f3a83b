"""Spark SQL expressions as Arrow kernels: only where Spark's own meaning is certain to be kept."""
