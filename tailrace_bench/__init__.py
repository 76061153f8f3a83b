"""Benchmarks: each one compares Tailrace with limits of the same machine, and verifies views before figures count."""
