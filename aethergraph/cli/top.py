"""``aethergraph top``: rates, lag, budgets and hit rates of processes that are observed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from aethergraph.cli.observed import NOBODY, Snapshots, asker
from aethergraph.cli.terminal import command, print_json, printable, stderr, stdout
from aethergraph.cli.top_tables import sections
from aethergraph.errors import AetherError

__all__ = ["top_command"]


@command
def top_command(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[PID|DIR|URL]",
            help="A process; the directory of a live graph, for the one that writes it; or an "
            "address that serves metrics to Prometheus. Without it, all that are observed.",
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look twice, print, and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the metrics as they are now, and end.")
    ] = False,
) -> None:
    """Show what your processes do that train, ingest or serve: rates, lag, memory, hit rates.

    A process is seen once it has called aethergraph.observe.enable(); aethergraph ingest, serve,
    replay and demo call it by themselves. Where there is no terminal, it is as with --once.

    Examples: aethergraph top; aethergraph top clicks.aegd;
    aethergraph top http://trainer:9464/metrics
    """
    look = asker(target)
    if as_json:
        print_json(list(look().values()))
    elif once or not stdout().is_terminal:
        before = look()
        time.sleep(interval)
        stdout().print(_screen(_still(look) or before, before))
    else:
        _follow(target, look, interval)


def _follow(target: str | None, look: Callable[[], Snapshots], interval: float) -> None:
    """Show until Ctrl-C, or until what was asked for has ended."""
    before = look() if target is not None else _still(look)
    with Live(console=stdout(), auto_refresh=False, screen=True) as display:
        try:
            while True:
                now = _still(look)
                if target is not None and not now:
                    break
                display.update(_screen(now, before), refresh=True)
                before = now
                time.sleep(interval)
        except KeyboardInterrupt:
            return
    (name,) = before
    stderr().print(f"process {name} has ended" if name.isdecimal() else f"{name} is gone")


def _still(look: Callable[[], Snapshots]) -> Snapshots:
    """Return the snapshots as of now, nothing if nobody answers any more."""
    try:
        return look()
    except AetherError:
        return {}


def _screen(now: Snapshots, before: Snapshots) -> RenderableType:
    parts: list[RenderableType] = []
    for name, snapshot in now.items():
        title = printable(f"{name}  {snapshot['command']}")
        parts.append(Text(title, style="bold", no_wrap=True, overflow="ellipsis"))
        for section in sections(snapshot, before.get(name)):
            table = Table(box=None, pad_edge=False, title=section.title, title_justify="left")
            for place, head in enumerate(section.heads):
                table.add_column(head, justify="right" if place else "left", no_wrap=True)
            for row in section.rows:
                table.add_row(*(escape(printable(text)) for text in row))
            parts.append(table)
        parts.append(Text(""))
    return Group(*parts) if parts else Text(NOBODY)
