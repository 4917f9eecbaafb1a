"""``aethergraph reorder``: writes a graph file with its nodes in another order."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from aethergraph.cli.terminal import Stages, command, count, duration, note, size, stdout
from aethergraph.convert.reordering.api import ReorderResult, reorder

__all__ = ["reorder_command"]


class Order(str, Enum):
    rabbit = "rabbit"
    bfs = "bfs"
    degree = "degree"
    gorder = "gorder"


@command
def reorder_command(
    graph: Annotated[Path, typer.Argument(help="Graph file; stays as it is.")],
    output: Annotated[Path, typer.Argument(help="Graph file to write.")],
    order: Annotated[
        Order, typer.Option(help="rabbit: communities; bfs: breadth first; degree; gorder: slow.")
    ] = Order.rabbit,
    memory: Annotated[
        str | None, typer.Option(help="Memory that may be taken, such as 512M; default: 4G.")
    ] = None,
    rows: Annotated[
        list[Path] | None,
        typer.Option(help="File with one row per node, written in the new order; may be repeated."),
    ] = None,
    ids: Annotated[
        list[Path] | None,
        typer.Option(help=".npy file of node ids (a split), written as new ids; may be repeated."),
    ] = None,
    compress: Annotated[
        bool | None,
        typer.Option("--compress/--no-compress", help="Store neighbours compressed, or not."),
    ] = None,
    num_threads: Annotated[
        int, typer.Option(help="Threads of rabbit; with more than 1 every run differs.")
    ] = 1,
    threads: Annotated[int | None, typer.Option(help="Threads for sorting.")] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Do not go on from an interrupted run.")
    ] = False,
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite outputs.")] = False,
) -> None:
    """Put nodes that are sampled together next to each other, within a memory budget.

    Features, labels and masks in the graph move along; `node_ids` leads back to the former ids. A
    run that was killed goes on where it was when it is repeated. `aethergraph stats --locality`
    tells before what it would gain.
    """
    with Stages() as stages:
        result = reorder(
            graph, output, order=order.value, memory_budget=memory, rows=rows or [],
            ids=ids or [], compress=compress, num_threads=num_threads, threads=threads,
            restart=restart, force=force, stages=stages, remark=note,
        )  # fmt: skip
    _print(result)


def _print(result: ReorderResult) -> None:
    out = stdout()
    seconds = sum(result.seconds.values())
    parts = ", ".join(f"{name} {duration(some)}" for name, some in result.seconds.items())
    written = [result.graph, *result.rows.values(), *result.ids.values()]
    sizes = ", ".join(f"{path} ({size(Path(path).stat().st_size)})" for path in written)
    for text in (
        f"{count(result.num_nodes)} nodes, {count(result.num_edges)} edges in {duration(seconds)}: "
        f"{parts}",
        f"wrote {sizes}",
        *result.notes,
    ):
        out.print(text, markup=False, soft_wrap=True)
