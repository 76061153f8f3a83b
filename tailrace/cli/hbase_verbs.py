"""The verbs `hbase install` and `hbase check`: what a cluster of HBase needs for a store, and whether it has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from tailrace import terminal
from tailrace.cli.doctor_verb import report
from tailrace.cli.verb import Json, Verb
from tailrace.errors import NotAStore
from tailrace.store.store_ref import StoreRef

_HELP = """Set up and check a cluster of HBase for a store.

Example:
  tailrace hbase install hbase://gateway:9090/shop
  tailrace hbase check hbase://gateway:9090/shop
"""

hbase = typer.Typer(
    name="hbase",
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Url = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="The store: hbase://HOST:PORT/NAMESPACE, of a Thrift2 server.", show_default=False
    ),
]
HbaseHome = Annotated[
    str | None,
    typer.Option(
        "--hbase-home",
        metavar="DIR",
        help="Directory of HBase, with bin/hbase. Also $HBASE_HOME, else the command in $PATH.",
        show_default=False,
    ),
]


def _ref(url: str) -> StoreRef:
    if not url.startswith("hbase:"):
        raise NotAStore(path=url, reason="write hbase://host:port/namespace, with the port of a Thrift2 server")
    return StoreRef.of(url)


@hbase.command(cls=Verb, no_args_is_help=True)
def check(url: Url, hbase_home: HbaseHome = None, as_json: Json = False) -> None:
    """Check a cluster of HBase: does everything that is written to its tables reach the store?

    Every line is ok, warn or fail, with what to do: the Thrift2 server, the replication peer, the endpoint
    in each region server, the families of attached tables, and whether changes come out of the log now.
    The peer needs HBase's command `hbase`; everything else needs Thrift2 only.
    Exits with 1 if a check fails.

    Example:
      tailrace hbase check hbase://gateway:9090/shop
      tailrace hbase check hbase://gateway:9090/shop --hbase-home /opt/hbase
    """
    from tailrace.doctor.hbase_cluster import check_cluster

    report([*check_cluster(_ref(url), hbase_home)], as_json)


@hbase.command(cls=Verb, no_args_is_help=True)
def install(
    url: Url,
    nodes: Annotated[int | None, typer.Option(min=1, help="Number of parts of each table.", show_default="2")] = None,
    shards: Annotated[
        int | None,
        typer.Option(min=1, help="Number of parts of each view; a multiple of --nodes.", show_default="2 x nodes"),
    ] = None,
    hbase_home: HbaseHome = None,
    as_json: Json = False,
) -> None:
    """Say what a cluster of HBase needs for a store, and set up what can be: namespace, tables, replication peer.

    Lines with `todo` are yours. What exists already is left as it is, so run it as often as you like.
    The peer needs HBase's command `hbase`. If there is none here, the line says what to run on the cluster.
    Exits with 1 if a step failed. `tailrace hbase check` checks the result.

    Example:
      tailrace hbase install hbase://gateway:9090/shop
      tailrace hbase install hbase://gateway:9090/shop --hbase-home /opt/hbase
    """
    from tailrace.doctor.hbase_install import install_cluster

    steps = [*install_cluster(_ref(url), nodes, shards, hbase_home)]
    if as_json:
        terminal.print_json([asdict(step) for step in steps])
    else:
        for step in steps:
            print(step)
    if any(step.state == "failed" for step in steps):
        raise typer.Exit(1)
