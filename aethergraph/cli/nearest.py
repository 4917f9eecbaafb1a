"""``aethergraph nearest``: the nodes whose vectors are most like those of others, by key."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from aethergraph.cli.export import CommitOfIds, TypeOfIds, keys_of
from aethergraph.cli.terminal import command, printable
from aethergraph.convert.readers.base import check_readable
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.inference import VectorIndex

__all__ = ["nearest_command"]


@command
def nearest_command(
    rows: Annotated[Path, typer.Argument(help="File of vectors, a row per node: .npy or native.")],
    keys: Annotated[list[str], typer.Argument(help="Keys of nodes; without --ids, their numbers.")],
    count: Annotated[int, typer.Option("-k", min=1, help="Nodes for each key.")] = 10,
    ids: Annotated[
        Path | None,
        typer.Option(help="Keys of the nodes: a map of ids (.ids), or a graph that has one."),
    ] = None,
    commit: CommitOfIds = None,
    node_type: TypeOfIds = None,
    dot: Annotated[
        bool, typer.Option("--dot", help="Compare by inner products, not by cosines.")
    ] = False,
) -> None:
    """Print the nodes whose vectors are nearest to those of KEYS: key, nearest, score.

    Example: aethergraph nearest vectors.npy ann bob --ids friends.aeg -k 3
    """
    check_readable(rows)
    with FeatureTable.load(rows) as table, keys_of(ids, commit, node_type, rows) as known:
        index = VectorIndex(table, known, metric="dot" if dot else "cosine")
        nearest, scores = index.search(_as_keys(keys, known), count)
        for key, of_key, values in zip(keys, nearest, scores, strict=True):
            for node, score in zip(of_key, values, strict=True):
                typer.echo(f"{printable(key)}\t{printable(str(node))}\t{score:.4f}")


def _as_keys(texts: list[str], ids: Any) -> list[Any]:
    """Return keys as a map of ids takes them."""
    types = ("int64",) if ids is None else ids.types
    if len(types) > 1:
        raise InvalidArgumentError(
            f"--ids has keys of {len(types)} columns: take aethergraph.inference.VectorIndex"
        )
    if types[0] not in ("int64", "uint64"):
        return list(texts)
    try:
        return [int(text) for text in texts]
    except ValueError as error:
        remedy = ": give numbers of nodes, or --ids" if ids is None else ""
        raise InvalidArgumentError(f"KEYS: {error}{remedy}") from None
