"""``aethergraph tables``: builds a typed graph from tables."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from aethergraph.cli.convert import Layout
from aethergraph.cli.terminal import (
    Stages,
    command,
    duration,
    note,
    refuse_given,
    size,
    stdout,
)
from aethergraph.convert.typed.api import tables
from aethergraph.convert.typed.build import TablesResult
from aethergraph.convert.typed.guess import guess_schema
from aethergraph.errors import InvalidArgumentError

__all__ = ["tables_command"]


@command
def tables_command(
    context: typer.Context,
    schema: Annotated[
        Path | None, typer.Argument(help="TOML file that names tables, keys and edges.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Graph file to write.")
    ] = None,
    guess: Annotated[
        Path | None,
        typer.Option(help="Print a first schema for the tables in a folder or a database."),
    ] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite outputs.")] = False,
    layout: Annotated[
        Layout, typer.Option(help="Lists to store: csc in-edges (for training), csr out-edges.")
    ] = Layout.csc,
    compress: Annotated[
        bool, typer.Option("--compress", help="Store the neighbours in compressed blocks.")
    ] = False,
    memory: Annotated[
        str | None, typer.Option(help="Memory to take in all, such as 1G; default: 4G at most.")
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Begin an interrupted build anew.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Sorting threads.")] = None,
) -> None:
    """Build a graph of many types from tables with keys: Parquet, CSV, Arrow, DuckDB, SQLite.

    Example: aethergraph tables --guess shop/ > shop/schema.toml, then
    aethergraph tables shop/schema.toml -o shop.aeg
    """
    if guess is not None:
        others = set(context.params) - {"guess"}
        refuse_given(context, others, "is for building a graph: --guess prints a schema")
        stdout().print(guess_schema(guess), markup=False, highlight=False, soft_wrap=True, end="")
        return
    if schema is None or output is None:
        raise InvalidArgumentError("give a schema and -o, or --guess with a folder of tables")
    with Stages() as stages:
        result = tables(
            schema,
            output,
            layout=layout.value,
            compress=compress,
            memory_budget=memory,
            restart=restart,
            force=force,
            threads=threads,
            stages=stages,
            remark=note,
        )
    _report(result)


def _report(result: TablesResult) -> None:
    for text in result.notes:
        note(text)

    def show(text: str) -> None:
        stdout().print(text, markup=False, highlight=False, soft_wrap=True)

    show(f"{result.graph}: {size(os.path.getsize(result.graph))}")
    for name, count in result.num_nodes.items():
        ids = f", ids in {result.ids[name]}" if name in result.ids else ""
        columns = f", columns in {result.columns[name]}" if name in result.columns else ""
        show(f"  {name}: {count:,} nodes{ids}{columns}")
    for kind, count in result.num_edges.items():
        show(f"  {' '.join(kind)}: {count:,} edges")
    show(f"done in {duration(sum(result.seconds.values()))}")
