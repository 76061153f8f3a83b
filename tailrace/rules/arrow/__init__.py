"""Compiles Spark SQL expressions to Arrow kernels, if the result is certain to equal Spark's."""
