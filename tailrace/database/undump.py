"""Loads a dump into a new, empty store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from tailrace.database.dump import SCHEMA
from tailrace.database.progress import OnStep, Step
from tailrace.errors import BadBackup, BuildFailed, ViewFailed
from tailrace.plan.sql.statements import CreateTable, CreateView, parse, split
from tailrace.store.manifest import NAME, Manifest, check

if TYPE_CHECKING:
    from tailrace.database.database import Database

ROWS = 50_000  # in one transaction


def load_dump(db: Database, directory: Path, manifest: Manifest, on_step: OnStep) -> None:
    """Creates the tables, loads their rows, then builds the views. Raises `BadBackup` if a file is damaged.

    Views that cannot be built are created as failed ones.
    """
    if set(manifest.files) != {SCHEMA, *manifest.tables.values()}:
        reason = f"{NAME} is damaged: it must name {SCHEMA} and the files of all tables"
        raise BadBackup(path=str(directory), reason=reason, file=NAME)
    on_step(Step("checking the files"))
    for name, record in manifest.files.items():
        check(directory, name, record)
    tables, views = _read_schema(directory, manifest)
    db.sql(";\n".join(tables))
    for name, file in sorted(manifest.tables.items()):
        _load_rows(db, name, directory, file, on_step)
    db.refresh()  # trims the log: views are built from the tables
    _build_views(db, views, on_step)
    db.refresh()  # finds out why views failed


def _build_views(db: Database, statements: list[str], on_step: OnStep) -> None:
    """Builds the views. A view that cannot be built, or that reads such a view, is created as a failed one."""
    while statements:
        done = 0
        try:
            for _ in db.statements(";\n".join(statements), on_step):
                done += 1
        except (BuildFailed, ViewFailed) as error:
            db._create_failed(statements[done], error)
            done += 1
        statements = statements[done:]


def _read_schema(directory: Path, manifest: Manifest) -> tuple[list[str], list[str]]:
    """The statements that create tables, and those that create views."""
    texts = split((directory / SCHEMA).read_text(encoding="utf-8"))
    parsed = [(text, parse(text)[0]) for text in texts]
    tables = [(text, statement) for text, statement in parsed if isinstance(statement, CreateTable)]
    views = [text for text, statement in parsed if isinstance(statement, CreateView)]
    if len(tables) + len(views) < len(texts):
        reason = f"{SCHEMA} has a statement that creates neither a table nor a view"
        raise BadBackup(path=str(directory), reason=reason, file=SCHEMA)
    if {statement.name for _, statement in tables} != set(manifest.tables):
        reason = f"{NAME} and {SCHEMA} have different tables"
        raise BadBackup(path=str(directory), reason=reason, file=NAME)
    return [text for text, _ in tables], views


def _load_rows(db: Database, name: str, directory: Path, file: str, on_step: OnStep) -> None:
    table, rows = db.table(name), 0
    try:
        with pq.ParquetFile(directory / file) as source:
            for batch in source.iter_batches(ROWS):
                batch.validate(full=True)
                rows += table.put_many(batch).operations
                on_step(Step(f"loading {name}", rows, source.metadata.num_rows))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadBackup(path=str(directory), reason=f"{file} is damaged: {error}", file=file) from None
