"""``aethergraph export``: writes rows of nodes with their keys as Parquet, Arrow or Lance."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any
from urllib.parse import unquote

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

__all__ = ["CommitOfIds", "TypeOfIds", "export_command", "keys_of"]


#: Options that commands with rows and the keys of their nodes share.
CommitOfIds = Annotated[
    int | None,
    typer.Option(
        "--commit", min=0, help="Of a live graph in --ids, the commit; default: the last one."
    ),
]
TypeOfIds = Annotated[
    str | None,
    typer.Option(
        "--type",
        help="Of a graph of many types in --ids, the type of the nodes; default: the name of "
        "the file of rows, as embed calls it.",
    ),
]


@command
def export_command(
    rows: Annotated[Path, typer.Argument(help="File of rows, a row per node: .npy or native.")],
    output: Annotated[
        Path, typer.Argument(help="File to write: .parquet, .arrow, .feather or .lance.")
    ],
    ids: Annotated[
        Path | None,
        typer.Option(
            help="Keys of the nodes: a map of ids (.ids), or a graph that has one; default: the "
            "numbers of the nodes."
        ),
    ] = None,
    commit: CommitOfIds = None,
    node_type: TypeOfIds = None,
    key: Annotated[
        str | None, typer.Option(help="Column of the keys; default: key, or node without --ids.")
    ] = None,
    column: Annotated[str, typer.Option(help="Column of the rows.")] = "vector",
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite the output.")] = False,
) -> None:
    """Write vectors, or other rows of nodes, with the nodes' keys as a table.

    Examples: aethergraph export vectors.npy vectors.parquet --ids friends.aeg;
    aethergraph export vectors/paper.npy papers.parquet --ids citations.aeg
    """
    began = perf_counter()
    if rows.is_dir():
        raise InvalidArgumentError(
            f"{rows} is a folder: give a file of it, which has the rows of a type, such as "
            f"{min(rows.glob('*.npy'), default=rows / 'paper.npy')}"
        )
    if node_type is not None and ids is None:
        raise InvalidArgumentError(f"--type {node_type} is of --ids: leave it out, or give that")
    check_readable(rows)
    with (
        FeatureTable.load(rows) as table,
        keys_of(ids, commit, node_type, rows) as keys,
        Stages() as stages,
    ):
        progress = stages("Writing", "rows")
        export(table, output, ids=keys, key=key, column=column, force=force, progress=progress)
        text = f"{output}: {table.num_rows:,} rows, {size(_bytes_of(output))}"
    stdout().print(f"{text}, {duration(perf_counter() - began)}", markup=False, soft_wrap=True)


def _bytes_of(path: Path) -> int:
    """Return the bytes of a file, or of the files in a folder."""
    return sum(os.path.getsize(file) for file in [path, *path.rglob("*")] if file.is_file())


@contextmanager
def keys_of(
    path: Path | None, commit: int | None, node_type: str | None, rows: Path
) -> Iterator[Any]:
    """Yield what has the keys of nodes; None without a path.

    Args:
        path: a map of ids, or a graph.
        commit: of a live graph, the commit.
        node_type: of a graph of many types, the type; None: ``rows`` is called after it.
        rows: the file of rows.
    """
    if path is None:
        yield None
    elif not is_live_directory(path) and file_kind(path) == "ids":
        _refuse_type(node_type, path)
        with IdMap.load(path) as ids:
            yield ids
    else:
        with opened(path, commit) as graph:
            if not graph.is_typed:
                _refuse_type(node_type, path)
                yield graph.ids
                return
            types, named = graph.node_types, unquote(rows.stem)
            name = node_type or (types[0] if len(types) == 1 else named)
            if name not in types:
                why = f"{rows} has the name of none" if node_type is None else f"{name!r} is none"
                raise InvalidArgumentError(
                    f"{why} of the types of nodes in {path}: give --type, of {', '.join(types)}"
                )
            yield graph.ids[name]


def _refuse_type(node_type: str | None, path: Path) -> None:
    if node_type is not None:
        raise InvalidArgumentError(
            f"--type {node_type}: {path} has keys of one type of nodes: leave it out"
        )
