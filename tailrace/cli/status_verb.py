"""The verb `status`."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any

import typer

from tailrace import terminal
from tailrace.cli.verb import Dir, Json, open_store
from tailrace.database.status import Status
from tailrace.words import count, size

EVENTS = 10  # administrative events that are shown; --json has all that are kept


def status(directory: Dir, as_json: Json = False) -> None:
    """Show the tables and views with their sizes, the committed epoch, and how far the views are behind.

    Begins with what is wrong. Exits with 1 if a view or a build has failed (--json: "ok" is false), else with 0.

    Example:
      tailrace status shop
      tailrace status shop --json
    """
    with open_store(directory) as db:
        current = db.status(sizes=True)
    if as_json:
        terminal.print_json(current.to_dict())
    else:
        _print_status(current)
    if not current.ok:
        raise typer.Exit(1)


def _print_status(status: Status) -> None:
    for what, names in (("view", status.failed_views), ("build", status.failed_builds)):
        if names:
            print(f"{count(len(names), what)} {'has' if len(names) == 1 else 'have'} failed: {', '.join(names)}")
    lag = "views are up to date"
    if status.lag_operations:
        lag = f"views are {count(status.lag_operations, 'operation')} and {status.lag_seconds:,.1f} s behind"
    print(f"{status.path}: epoch {status.epoch}, {lag}")
    if runner := status.runner:
        print(f"epochs are run by process {runner['pid']} ({runner['command']}, since {runner['since']})")
    else:
        print("no process runs epochs")
    if status.delay:
        print(f"writers are throttled: each write waits up to {status.delay:,.2f} s (max_lag is {status.max_lag:,})")
    for region in status.stalled:
        waits = f"has not shipped its log for {time.time() - region['since']:,.0f} s"
        print(
            f"region {region['region']} of {region['table']} on {region['server']} {waits} (docs/hbase.md, Elasticity)"
        )
    for pin in status.pins:
        age = time.time() - pin["at"]
        print(f"epoch {pin['epoch']} has been pinned by process {pin['pid']} for {age:,.1f} s")
    _print_sizes(status.sizes or {})
    _print_tables(status)
    _print_views(status)
    for table in status.tables:
        if ttl := table["ttl"]:
            print(_describe_ttl(table["name"], ttl))
    for build in status.building:
        print(describe_build(build))
    for event in status.administrative[:EVENTS]:
        print(f"{datetime.fromtimestamp(event['at']):%Y-%m-%d %H:%M:%S} {event['message']}")
    for view in status.views:
        if last := view["refreshed"]:
            print(f"{view['name']}: {last['taken']} in epoch {last['epoch']}: {last['reason']}")
        if failed := view["failed"]:
            behind = f"{count(failed['behind'], 'operation')} behind"
            shows = f"shows epoch {failed['shows']}, {behind}" if failed["built"] else "could not be built, has no rows"
            print(f"{view['name']}: failed at epoch {failed['epoch']}, {shows}: {failed['message']}")
            force = f"`tailrace resume {status.path} {view['name']}` tries it at once"
            print(f"{view['name']}: {count(failed['tries'], 'failure')}; {failed['next_step']}; {force}")


def _print_sizes(sizes: dict[str, Any]) -> None:
    if sizes:
        shared = f", {size(sizes['shared'])} of states that several views share" if sizes["shared"] else ""
        kept = f"{size(sizes['log'])} of logs, {size(sizes['undo'])} of undo records"
        print(f"files: {size(sizes['files'])}, with {kept}{shared}")
        print(f"free: {size(sizes['free'])} of the files, which later writes use")


def _print_tables(status: Status) -> None:
    """Rows and sizes are known only if the kind of store can tell."""
    rows = [
        (
            t["name"],
            ", ".join(t["key"]),
            f"{t['rows']:,}" if status.sizes else "",
            size(t["bytes"]) if status.sizes else "",
        )
        for t in status.tables
    ]
    if rows:
        names, right = ["table", "key", "rows", "size"], [False, False, True, True]
        terminal.print_fitting_table(names, rows, right, lists={"key"}, optional=["size", "key"])


def _print_views(status: Status) -> None:
    rows = []
    for view in status.views:
        key = "none" if view["key"] is None else ", ".join(view["key"]) or "(one row)"
        number = about = ""
        if status.sizes:
            number = ("" if view["exact"] else "~") + f"{view['rows']:,}"
            about = size(view["bytes"]) + (" + shared" if view["shared_bytes"] else "")
        failed = view["failed"]
        epoch, behind = (failed["shows"], failed["behind"]) if failed else (status.epoch, status.lag_operations)
        state = ("failed" if failed else "ok") + ("" if view["refresh"] == "incremental" else f", {view['refresh']}")
        rows.append((view["name"], key, ", ".join(view["uses"]), number, about, epoch, f"{behind:,}", state))
    if rows:
        names = ["view", "key", "reads", "rows", "size", "epoch", "behind", "state"]
        right = [False, False, False, True, True, True, True, False]
        optional = ["epoch", "behind", "reads", "key", "size"]  # the lines above and below have the first two
        terminal.print_fitting_table(names, rows, right, lists={"key", "reads"}, optional=optional)


def _describe_ttl(name: str, ttl: dict[str, Any]) -> str:
    looked = f"last pass {time.time() - ttl['passed_at']:,.0f} s ago" if ttl["passed_at"] else "no pass yet"
    length = timedelta(seconds=ttl["seconds"])
    return f"{name}: rows live {length} after {ttl['column']}; {count(ttl['deleted'], 'row')} deleted, {looked}"


def describe_build(build: dict[str, Any]) -> str:
    """A line about a build that is not complete."""
    name = build["name"]
    if build["failed"]:
        return f"{name}: build failed: {build['failed']}"
    what = "new definition being built" if build["replaces"] else "being built"
    worker = f"by process {build['pid']}" if build["pid"] else "paused; `refresh` or `run` continues it"
    retry = f"; will be retried after this failure: {build['failures'][-1]}" if build["failures"] else ""
    return f"{name}: {what}, {build['rows']:,} of {count(build['total'], 'row')}, {worker}{retry}"
