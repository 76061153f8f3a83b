"""Compares Tailrace with other systems: same operations, same answers, same run."""
