"""Typer application, and its options that come before the command."""

from __future__ import annotations

from typing import Annotated

import typer

from aethergraph import __version__
from aethergraph.cli import (
    convert,
    demo,
    doctor,
    embed,
    export,
    ingest,
    inspect,
    nearest,
    reorder,
    replay,
    serve,
    stats,
    tables,
    top,
)
from aethergraph.cli.terminal import set_debug

__all__ = ["app"]

app = typer.Typer(
    name="aethergraph",
    help="Graphs and features larger than memory, for graph neural networks.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"aethergraph {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Graphs and features larger than memory, for graph neural networks."""
    set_debug(debug)


app.command("convert")(convert.convert_command)
app.command("tables")(tables.tables_command)
app.command("reorder")(reorder.reorder_command)
app.command("embed")(embed.embed_command)
app.command("export")(export.export_command)
app.command("nearest")(nearest.nearest_command)
app.command("ingest")(ingest.ingest_command)
app.command("serve")(serve.serve_command)
app.command("replay")(replay.replay_command)
app.command("top")(top.top_command)
app.command("info")(inspect.info_command)
app.command("stats")(stats.stats_command)
app.command("verify")(inspect.verify_command)
app.command("doctor")(doctor.doctor_command)
app.command("demo")(demo.demo_command)
