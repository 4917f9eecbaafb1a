"""``aethergraph replay``: makes answers of a server again, and compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aethergraph.cli.terminal import command, count, stdout
from aethergraph.remote import check_replay

__all__ = ["replay_command"]

#: Differences that are shown.
_SHOWN = 20


@command
def replay_command(
    log: Annotated[Path, typer.Argument(help="File of aethergraph serve --log.")],
    graph: Annotated[
        Path, typer.Argument(help="The graph that was served: its file, or its directory.")
    ],
    arena_mb: Annotated[int, typer.Option(help="MiB of memory for edges of a live graph.")] = 1024,
) -> None:
    """Make the samples that a server has answered again, and compare them byte by byte.

    Of a live graph the commits since its last merge are done again, each once; another process may
    go on writing it. The exit code is 1 if an answer is another one now.

    Example: aethergraph replay answers.jsonl g.aegd
    """
    found = check_replay(log, graph, arena_mb=arena_mb)
    console = stdout()
    for text in found.differences[:_SHOWN]:
        console.print(text, markup=False, soft_wrap=True)
    said = f"{count(found.answers)} answers from {count(found.commits)} commits"
    if found.differences:
        console.print(f"{said}: {count(len(found.differences))} are others now", soft_wrap=True)
        raise typer.Exit(1)
    console.print(f"{said}: all the same, byte by byte", soft_wrap=True)
