"""Tailrace beside what people would use instead: the same operations, the same answers, in the same run."""
