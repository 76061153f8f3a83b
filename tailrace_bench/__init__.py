"""Benchmarks: each compares Tailrace with a limit of the machine in the same run, and verifies before it counts."""
