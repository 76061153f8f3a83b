"""Spark SQL expressions as Arrow kernels, compiled only where Spark's meaning is certain to be kept."""
