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
from aethergraph.convert.typed.api import check_tables, tables
from aethergraph.convert.typed.build import TablesResult
from aethergraph.convert.typed.guess import guess_schema
from aethergraph.convert.typed.problems import TablesReport
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
    check: Annotated[
        bool, typer.Option("--check", help="List all that is wrong with the tables; write nothing.")
    ] = False,
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
    aethergraph tables shop/schema.toml --check, and
    aethergraph tables shop/schema.toml -o shop.aeg
    """
    if guess is not None:
        names = set(context.params) - {"guess"}
        refuse_given(context, names, "is for building a graph: --guess prints a schema")
        stdout().print(guess_schema(guess), markup=False, highlight=False, soft_wrap=True, end="")
        return
    if check and schema is not None:
        names = set(context.params) - {"schema", "check", "memory"}
        refuse_given(context, names, "is for building a graph: --check reads the tables")
        with Stages() as stages:
            report = check_tables(schema, memory_budget=memory, stages=stages)
        _report_check(report)
        raise typer.Exit(1 if report.problems else 0)
    if schema is None or output is None:
        raise InvalidArgumentError(
            "give a schema and -o, a schema and --check, or --guess with a folder of tables"
        )
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


def _report_check(report: TablesReport) -> None:
    for text in report.notes:
        note(text)
    for part in report.skipped:
        note(f"{part}: not looked at, as a table that it needs cannot be read")
    for problem in report.problems:
        _show(str(problem))
    rows = ", ".join(f"{count:,} rows of {part}" for part, count in report.rows.items())
    number = len(report.problems)
    _show(
        f"{f'{number:,}' if number else 'no'} problem{'s' * (number != 1)} in {rows or 'no rows'}"
    )


def _show(text: str) -> None:
    stdout().print(text, markup=False, highlight=False, soft_wrap=True)


def _report(result: TablesResult) -> None:
    for text in result.notes:
        note(text)

    _show(f"{result.graph}: {size(os.path.getsize(result.graph))}")
    for name, count in result.num_nodes.items():
        ids = f", ids in {result.ids[name]}" if name in result.ids else ""
        columns = f", columns in {result.columns[name]}" if name in result.columns else ""
        _show(f"  {name}: {count:,} nodes{ids}{columns}")
    for kind, count in result.num_edges.items():
        _show(f"  {' '.join(kind)}: {count:,} edges")
    _show(f"done in {duration(sum(result.seconds.values()))}")
