"""SQL in, plans out: statements, nodes, rewrites, arrangements. Needs no Spark and no JVM."""
