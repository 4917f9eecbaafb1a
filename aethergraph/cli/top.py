"""``aethergraph top``: rates, lag, budgets and hit rates of processes that are observed."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from aethergraph.cli.process_tables import sections
from aethergraph.cli.terminal import command, print_json, printable, stderr, stdout
from aethergraph.errors import AetherError, MissingFileError

__all__ = ["top_command"]

_NOBODY = (
    "no process of yours is observed: call aethergraph.observe.enable() in one; "
    "aethergraph ingest does so by itself"
)


@command
def top_command(
    pid: Annotated[
        int | None, typer.Argument(min=1, help="A process; without it, all that are observed.")
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look twice, print, and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the metrics as they are now, and end.")
    ] = False,
) -> None:
    """Show what your training and ingesting processes do: rates, lag, memory, hit rates.

    A process is seen once it has called aethergraph.observe.enable(). Where there is no terminal,
    it is as with --once.

    Example: aethergraph top
    """
    if as_json:
        print_json(list(_required(pid).values()))
    elif once or not stdout().is_terminal:
        before = _required(pid)
        time.sleep(interval)
        stdout().print(_screen(_look(pid) or before, before))
    else:
        _follow(pid, interval)


def _follow(pid: int | None, interval: float) -> None:
    """Show until Ctrl-C, or until the process that was asked for has ended."""
    before = _required(pid) if pid is not None else _look(pid)
    with Live(console=stdout(), auto_refresh=False, screen=True) as shown:
        try:
            while True:
                now = _look(pid)
                if pid is not None and not now:
                    break
                shown.update(_screen(now, before), refresh=True)
                before = now
                time.sleep(interval)
        except KeyboardInterrupt:
            return
    stderr().print(f"process {pid} has ended")


def _required(pid: int | None) -> dict[int, dict[str, Any]]:
    """Return snapshots as :func:`_look`.

    Raises:
        MissingFileError: there are none.
    """
    from aethergraph import observe

    found = _look(pid)
    if not found:
        if pid is not None:
            return {pid: observe.ask(pid)}
        raise MissingFileError(_NOBODY)
    return found


def _look(pid: int | None) -> dict[int, dict[str, Any]]:
    """Return the snapshots of the processes that answer, by their numbers."""
    from aethergraph import observe

    found = {}
    for number in observe.list_processes() if pid is None else [pid]:
        try:
            found[number] = observe.ask(number)
        except AetherError:  # it has ended, or is stopped: the others are shown
            continue
    return found


def _screen(now: dict[int, dict[str, Any]], before: dict[int, dict[str, Any]]) -> RenderableType:
    parts: list[RenderableType] = []
    for number, snapshot in now.items():
        parts.append(Text(printable(f"{number}  {snapshot['command']}"), style="bold"))
        for section in sections(snapshot, before.get(number)):
            table = Table(box=None, pad_edge=False, title=section.title, title_justify="left")
            for place, head in enumerate(section.heads):
                table.add_column(head, justify="right" if place else "left", no_wrap=True)
            for row in section.rows:
                table.add_row(*(escape(printable(text)) for text in row))
            parts.append(table)
        parts.append(Text(""))
    return Group(*parts) if parts else Text(_NOBODY)
