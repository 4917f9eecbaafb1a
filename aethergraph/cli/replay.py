"""``aethergraph replay``: makes answers of a server again, and compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from aethergraph.cli.terminal import command, count, showing_metrics, stdout
from aethergraph.remote.samples.replay import check_replay

__all__ = ["replay_command"]

#: Differences that are shown.
_SHOWN = 20


@command
@showing_metrics()
def replay_command(
    log: Annotated[Path, typer.Argument(help="File of aethergraph serve --log.")],
    graph: Annotated[
        str,
        typer.Argument(
            help="The graph that was served: its file or directory, a file that a snapshot was "
            "saved to, or the URL of a server's."
        ),
    ],
    arena_mb: Annotated[int, typer.Option(help="MiB of memory for edges of a live graph.")] = 1024,
) -> None:
    """Make the samples that a server has answered again, and compare them byte by byte.

    Of a live graph the commits since its last merge are done again, each once; another process may
    go on writing it. The exit code is 1 if an answer is another one now, or cannot be made
    again.

    Example: aethergraph replay answers.jsonl g.aegd
    """
    report = check_replay(log, graph, arena_mb=arena_mb)
    console = stdout()
    if not report.answers:
        console.print("there are no answers in the log yet")
        return
    texts = [*report.differences, *report.missing]
    for text in texts[:_SHOWN]:
        console.print(text, markup=False, soft_wrap=True)
    if len(texts) > _SHOWN:
        console.print(f"and {count(len(texts) - _SHOWN)} more", soft_wrap=True)
    summary = f"{count(report.answers)} answers from {count(report.commits)} commits"
    ways = ((report.differences, "are others now"), (report.missing, "cannot be made again"))
    if texts:
        wrong = ", ".join(f"{count(len(answers))} {way}" for answers, way in ways if answers)
        console.print(f"{summary}: {wrong}", soft_wrap=True)
        raise typer.Exit(1)
    console.print(f"{summary}: all the same, byte by byte", soft_wrap=True)
