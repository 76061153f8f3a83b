"""`tailrace demo`: shows what Tailrace does, in a terminal, in two minutes."""

from tailrace.demo.show import run

__all__ = ["run"]
