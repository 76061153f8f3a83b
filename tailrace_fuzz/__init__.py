"""A fuzzer: maintains views of random queries over random epochs and compares them with Spark after each epoch."""
