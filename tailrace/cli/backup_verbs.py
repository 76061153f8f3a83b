"""The verbs `backup`, `dump` and `restore`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import tailrace
from tailrace import Saved, terminal
from tailrace.cli.shared_options import spark_options
from tailrace.cli.verb import Dir, Json, open_store
from tailrace.words import count

Target = Annotated[
    Path, typer.Argument(metavar="TARGET", help="Directory to write to; it must not exist.", show_default=False)
]


def backup(directory: Dir, target: Target, as_json: Json = False) -> None:
    """Back up a store while others read it, write to it and run epochs.

    All tables are saved at one cut, with all views at one epoch.
    The target appears when the backup is complete: a killed backup leaves none.
    `tailrace restore` makes a store of it.

    Example:
      tailrace backup shop /backups/shop-monday
    """
    with open_store(directory) as db, terminal.console(stderr=True).status("copying") as status:
        saved = db.backup(target, progress=terminal.step_reporter(status))
    _print_saved(saved, f"backed up {directory} at epoch {saved.epoch}", as_json)


def dump(directory: Dir, target: Target, as_json: Json = False) -> None:
    """Write the definitions of a store as SQL, and the rows of its tables as Parquet files, all at one cut.

    The target has schema.sql, tables/*.parquet and manifest.json.
    `tailrace restore` makes a store of it, also with other numbers of nodes and shards.

    Example:
      tailrace dump shop shop-dump
    """
    with open_store(directory) as db, terminal.console(stderr=True).status("writing") as status:
        saved = db.dump(target, progress=terminal.step_reporter(status))
    _print_saved(saved, f"dumped {directory}", as_json)


def _print_saved(saved: Saved, what: str, as_json: bool) -> None:
    if as_json:
        terminal.print_json(asdict(saved))
    else:
        size = f"{count(saved.files, 'file')}, {saved.bytes / 1e6:,.1f} MB"
        print(f"{what}, with all writes up to position {saved.position}, to {saved.path} ({size})")


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="Directory of a backup or a dump.", show_default=False)
    ],
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Directory of the new store; it must not exist.", show_default=False)
    ],
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not recompute the views; check files and structure only.")
    ] = False,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="Dump: number of parts of each table.", show_default="as in the dumped store"),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(min=1, help="Dump: number of parts of each view.", show_default="as in the dumped store"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a new store out of a backup or a dump, and verify it.

    Checksums are compared first: if a file is damaged, the error names it and nothing is created.
    Then the structure is checked, and each view is compared with its recomputation.
    Exits with 1 if the structure is damaged or a view differs; `tailrace audit --repair` then repairs the new store.

    A view that had failed in a backup has failed in the new store, too. A view that cannot be built from a dump is
    created without rows, as a view that has failed: correct the row that its error names, and it is built.
    The exit code is then 1; the store is complete and usable.

    Example:
      tailrace restore /backups/shop-monday shop
      tailrace restore /backups/shop-monday shop --no-verify
      tailrace restore shop-dump wide --nodes 4 --shards 16
    """
    with terminal.console(stderr=True).status("reading the manifest") as status:
        progress = terminal.step_reporter(status)
        restored = tailrace.restore(
            source,
            directory,
            verify=not no_verify,
            nodes=nodes,
            shards=shards,
            spark=spark_options(),
            progress=progress,
        )
    if as_json:
        terminal.print_json({"ok": restored.ok, **asdict(restored)})
    else:
        for finding in restored.findings:
            print(f"{finding}. {finding.advice}")
        for report in restored.reports:
            differences = "" if report.ok else f": {report.missing:,} missing, {report.extra:,} extra"
            print(f"{report.view}: {terminal.verdict(report.ok)}, {count(report.rows, 'row')}{differences}")
        for name, why in restored.failed.items():
            print(f"{name}: has failed, {why}")
        print(f"restored {directory} at epoch {restored.epoch}, with all writes up to position {restored.position}")
    if not restored.ok:
        raise typer.Exit(1)
