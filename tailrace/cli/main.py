"""The entry point of the command line. It prepares for interrupts first, and only then loads the verbs."""

from __future__ import annotations

from tailrace.cli import interrupts


def main() -> None:
    """Runs the `tailrace` command. Ends with an exit code (`cli/verb.py` lists them)."""
    interrupts.install()
    from tailrace.cli.app import app

    try:
        app()
    except SystemExit as end:
        if end.code == interrupts.INTERRUPTED:
            interrupts.leave(interrupts.INTERRUPTED)
        raise
