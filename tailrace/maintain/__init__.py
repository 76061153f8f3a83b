"""Delta rules, one file per family, and the epochs that run them on Spark."""
