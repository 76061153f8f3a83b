"""The demo: what Tailrace does, seen from a terminal in two minutes."""

from tailrace.demo.show import run

__all__ = ["run"]
