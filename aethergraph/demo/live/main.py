"""Course of the live demonstration, and its output."""

from __future__ import annotations

import json
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from aethergraph.demo.live.options import LiveOptions
from aethergraph.demo.live.report import LiveReport, Moment, Round, save_json, save_plot
from aethergraph.demo.live.stream import Stream, make_graph
from aethergraph.demo.main import require
from aethergraph.demo.runs import RunFailed, failure
from aethergraph.dynamic.graph import DynamicGraph
from aethergraph.storage.memory import format_size
from aethergraph.storage.scratch import storage_error

__all__ = ["run_live_demo"]

#: Seconds between two measurements of the writer.
INTERVAL = 0.25
#: Lines to print where there is no terminal to draw on.
LINES = 10


def run_live_demo(options: LiveOptions) -> LiveReport:
    """Write to a graph while another process trains on it; print and save what happens.

    Writes ``live.json`` and ``live.png`` into ``options.folder``.

    Raises:
        UnsupportedError: torch or torch_geometric is missing.
        StorageError: the folder cannot be made.
        RunFailed: training ended with an error.
    """
    require("torch", "torch_geometric")
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, str(options.folder)) from None
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120)
    console.print(
        f"This process writes up to {options.rate:,} edges/s for {options.seconds:.0f} s. Another "
        "one trains GraphSAGE on the same memory meanwhile. What classes look like drifts.",
        soft_wrap=True,
    )
    with make_graph(options) as graph, _training(graph, options) as child:
        report = _write(graph, options, child, console)
    for line in report.lines():
        console.print(line, markup=False)
    save_json(options.folder / "live.json", options, report)
    problem = save_plot(options.folder / "live.png", report)
    saved = f"saved: {options.folder / 'live.json'}"
    saved += f", {options.folder / 'live.png'}" if problem is None else f"; {problem}"
    console.print(saved, markup=False, soft_wrap=True)
    return report


# ---- the other process ---------------------------------------------------------------------------


@dataclass
class _Child:
    """Process that trains, and the events that it has sent; None after the last."""

    process: subprocess.Popen[bytes]
    errors: IO[str]
    events: queue.SimpleQueue[dict[str, Any] | None] = field(default_factory=queue.SimpleQueue)

    def read(self) -> None:
        """Read all events."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.put(json.loads(line))
        self.events.put(None)

    def next(self, *, wait: bool = False) -> dict[str, Any] | None:
        """Return the next event, or None if there is none yet.

        Raises:
            RunFailed: the process has ended before its time.
        """
        try:
            event = self.events.get(block=wait)
        except queue.Empty:
            return None
        if event is None:
            code = self.process.wait()
            self.errors.seek(0)
            raise RunFailed(f"training {failure(code, self.errors.read())}")
        return event


@contextmanager
def _training(graph: DynamicGraph, options: LiveOptions) -> Iterator[_Child]:
    """Start training in a process that ends with the block."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "aethergraph.demo.live"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        child = _Child(process, errors)
        reader = threading.Thread(target=child.read, daemon=True)
        try:
            assert process.stdin is not None
            reader.start()
            try:
                process.stdin.write(pickle.dumps((graph, options)))
                process.stdin.close()
            except BrokenPipeError:  # it has failed: its next event says why
                pass
            yield child
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            reader.join()


# ---- writing -------------------------------------------------------------------------------------


def _write(
    graph: DynamicGraph, options: LiveOptions, child: _Child, console: Console
) -> LiveReport:
    """Write until training ends; return what was measured."""
    stream, report = Stream(graph, options), LiveReport()
    child.next(wait=True)  # it is ready
    began = time.perf_counter()
    last, next_line = Moment.of(0.0, stream, graph), 0.0
    with Live(console=console, auto_refresh=False, transient=True) as screen:
        while True:
            now = time.perf_counter() - began
            event = child.next()
            if event is not None and event["event"] == "done":
                return report
            if event is not None:
                report.rounds.append(Round.read(event))
            if now - last.seconds >= INTERVAL:
                last = Moment.of(now, stream, graph, last)
                report.moments.append(last)
                if console.is_terminal:
                    screen.update(_screen(options, report), refresh=True)
                elif now >= next_line and report.rounds:
                    console.print(_line(report), markup=False)
                    next_line = now + options.seconds / LINES
            ahead = stream.inserted / options.rate - now
            if ahead > 0:
                time.sleep(min(ahead, INTERVAL))
            elif now < options.seconds:
                stream.step(now / options.seconds)
            else:
                time.sleep(0.01)  # the other process ends its last round


def _line(report: LiveReport) -> str:
    moment, learned = report.moments[-1], report.rounds[-1]
    frozen = "" if learned.frozen is None else f", {learned.frozen:.0%} without learning"
    return (
        f"{moment.seconds:5.1f} s: {moment.nodes:,} nodes, {moment.edges:,} edges, "
        f"{moment.inserts_per_second:,.0f} inserts/s, {learned.batches_per_second:.0f} batches/s, "
        f"accuracy {learned.accuracy:.0%}{frozen}"
    )


def _screen(options: LiveOptions, report: LiveReport) -> Table:
    """Return a table of the moment."""
    moment = report.moments[-1]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", width=22)
    table.add_column()
    rows = [
        ("time", f"{moment.seconds:.0f} of {options.seconds:.0f} s"),
        ("graph", f"{moment.nodes:,} nodes, {moment.edges:,} edges, commit {moment.commit:,}"),
        (
            "written",
            f"{moment.inserts_per_second:,.0f} inserts/s, {moment.deletes_per_second:,.0f} "
            f"deletes/s, {format_size(moment.used_bytes)} of arena",
        ),
    ]
    if report.rounds:
        learned = report.rounds[-1]
        rows += [
            ("trained", f"{learned.batches_per_second:.0f} batches/s, loss {learned.loss:.3f}"),
            ("accuracy, learning", _bar(learned.accuracy)),
        ]
        if learned.frozen is not None:
            rows.append(("accuracy, frozen", _bar(learned.frozen)))
    for row in rows:
        table.add_row(*row)
    return table


def _bar(share: float) -> str:
    return f"{'━' * round(30 * share):<30} {share:.0%}"
