"""``aethergraph export``: writes rows of nodes with their keys as Parquet or Arrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from aethergraph.cli.graphs import opened
from aethergraph.cli.inspect import file_kind
from aethergraph.cli.terminal import Stages, command, duration, size, stdout
from aethergraph.convert.exporting import export
from aethergraph.convert.readers.base import check_readable
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.ids import IdMap
from aethergraph.storage.live_directory import is_live_directory

__all__ = ["export_command"]


@command
def export_command(
    rows: Annotated[Path, typer.Argument(help="File of rows, a row per node: .npy or native.")],
    output: Annotated[Path, typer.Argument(help="File to write: .parquet, .arrow or .feather.")],
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Keys of the nodes: a map of ids (.ids), or a graph that has one; default: the "
            "numbers of the nodes."
        ),
    ] = None,
    commit: Annotated[
        int | None,
        typer.Option(min=0, help="Of a live graph in --ids, the commit; default: the last one."),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Column of the keys; default: key, or node without --ids.")
    ] = None,
    column: Annotated[str, typer.Option(help="Column of the rows.")] = "vector",
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite the output.")] = False,
) -> None:
    """Write vectors, or other rows of nodes, with the nodes' keys as a table.

    Example: aethergraph export vectors.npy vectors.parquet --ids friends.aeg
    """
    began = perf_counter()
    check_readable(rows)
    with FeatureTable.load(rows) as table, _keys(ids, commit) as keys, Stages() as stages:
        progress = stages("Writing", "rows")
        export(table, output, ids=keys, key=key, column=column, force=force, progress=progress)
        text = f"{output}: {table.num_rows:,} rows, {size(os.path.getsize(output))}"
    stdout().print(f"{text}, {duration(perf_counter() - began)}", markup=False, soft_wrap=True)


@contextmanager
def _keys(path: Path | None, commit: int | None) -> Iterator[Any]:
    """Yield what has the keys of nodes; None without a path."""
    if path is None:
        yield None
    elif not is_live_directory(path) and file_kind(path) == "ids":
        with IdMap.load(path) as ids:
            yield ids
    else:
        with opened(path, commit) as graph:
            if graph.is_typed and len(graph.node_types) > 1:
                raise InvalidArgumentError(
                    f"{path} has several types of nodes: --ids takes the map of one of them, a "
                    "file beside it that ends in .ids"
                )
            yield graph.ids[graph.node_types[0]] if graph.is_typed else graph.ids
