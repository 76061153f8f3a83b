"""TPC-H: the tables, the 22 queries, refresh functions and other changes, and Spark's answers as oracle."""
