"""Course of the demonstration, and its output."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from aethergraph._checks.optional import how_to_get
from aethergraph.convert.readers.base import ProgressFn
from aethergraph.demo.dataset import Dataset, prepare
from aethergraph.demo.options import DemoOptions
from aethergraph.demo.report import (
    EXPLANATION,
    NAMES,
    memory_lines,
    result_table,
    save_json,
    save_plot,
    speed_lines,
)
from aethergraph.demo.runs import RunResult, run
from aethergraph.demo.train import RunSpec
from aethergraph.errors import UnsupportedError
from aethergraph.storage.memory import available_memory, format_size, parse_size

__all__ = ["require", "run_demo"]

Stages = Callable[[str, str], ProgressFn]
_WORKING_MEMORY = 2 << 30  # for libraries, model and batches beside the data


def run_demo(options: DemoOptions) -> list[RunResult]:
    """Prepare the files, run every mode in its own process, print and save the comparison.

    Writes ``report.json`` and ``demo.png`` into ``options.folder``.

    Raises:
        UnsupportedError: torch or torch_geometric is missing, or a budget was given for a storage
            that keeps none.
        InvalidArgumentError: the budget is no size.
        StorageError, InputError: the files cannot be made or read.
        RunFailed: a run ended with an error.
    """
    require("torch", "torch_geometric")
    _check_budget(options)
    console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120)
    dataset = _prepare(options, console)
    console.print()
    for line in memory_lines(dataset):
        console.print(line, markup=False)
    console.print()
    results = []
    for mode in ("mlp", "stock", "native", _in_memory_mode()):
        results.append(_run_mode(mode, options, dataset, console))
    console.print()
    console.print(result_table(results))
    console.print()
    for line in [*speed_lines(results), EXPLANATION]:
        console.print(line, markup=False)
    save_json(options.folder / "report.json", dataset, results)
    problem = save_plot(options.folder / "demo.png", dataset, results)
    saved = f"saved: {options.folder / 'report.json'}"
    saved += f", {options.folder / 'demo.png'}" if problem is None else f"; {problem}"
    console.print(saved, markup=False, soft_wrap=True)
    return results


def require(*modules: str) -> None:
    """Raise UnsupportedError if a module is not installed; says how to install it."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise UnsupportedError(
            f"the demonstration needs {' and '.join(missing)}: {how_to_get('pyg')}"
        )


def _check_budget(options: DemoOptions) -> None:
    """Refuse a wrong budget before minutes are spent on making files."""
    if options.memory_budget is None:
        return
    parse_size(options.memory_budget)
    if options.storage not in ("uring", "auto"):
        raise UnsupportedError(
            f"storage {options.storage!r} keeps no memory budget: --memory goes with --storage "
            "uring or auto"
        )


def _prepare(options: DemoOptions, console: Console) -> Dataset:
    heading = "Converting your files" if options.edges else "Making the graph"
    console.print(f"[bold]{heading}[/bold] in {escape(str(options.folder))}", soft_wrap=True)
    began = time.perf_counter()
    with _Bars(console) as bars:
        dataset = prepare(options, bars.stage)
    seconds = time.perf_counter() - began
    how = f"made in {seconds:.1f} s" if dataset.made else "found from an earlier run"
    disk = os.path.getsize(dataset.graph) + os.path.getsize(dataset.features)
    console.print(
        f"{dataset.num_nodes:,} nodes, {dataset.num_edges:,} edges, {dataset.num_features} "
        f"features, {dataset.num_classes} classes; {format_size(disk)} on disk; {how}"
    )
    return dataset


def _run_mode(mode: str, options: DemoOptions, dataset: Dataset, console: Console) -> RunResult:
    console.print(f"[bold]{NAMES[mode]}[/bold]")
    if mode == "memory":
        console.print(
            "  in the place of PyG's, whose sampler needs pyg-lib or torch-sparse: neither is here",
            markup=False,
        )
    reason = _why_not(mode, options, dataset)
    if reason is None:
        result = _run_shown(_spec(mode, options, dataset), console)
        reason = result.skipped
    else:
        result = RunResult(mode, skipped=reason)
    if reason is not None:
        console.print(f"  skipped: {reason}", markup=False)
    return result


def _in_memory_mode() -> str:
    """Return PyG's loader if its sampler is there, else ours over the same data in memory."""
    samplers = ("pyg_lib", "torch_sparse")
    return "pyg" if any(importlib.util.find_spec(name) for name in samplers) else "memory"


def _why_not(mode: str, options: DemoOptions, dataset: Dataset) -> str | None:
    if mode not in ("pyg", "memory"):
        return None
    if not options.compare:
        return "not asked for (--no-compare)"
    needed = sum(dataset.in_memory_bytes.values()) + _WORKING_MEMORY
    available = available_memory()
    if needed > available:
        return f"it needs {format_size(needed)}, {format_size(available)} are available"
    return None


def _spec(mode: str, options: DemoOptions, dataset: Dataset) -> RunSpec:
    return RunSpec(
        mode=mode,
        graph=dataset.graph,
        features=dataset.features,
        labels=dataset.labels,
        num_classes=dataset.num_classes,
        fanouts=options.fanouts,
        batch_size=options.batch_size,
        epochs=options.epochs,
        batches=options.batches,
        eval_nodes=options.eval_nodes,
        hidden=options.hidden,
        learning_rate=options.learning_rate,
        storage=options.storage,
        memory_budget=options.memory_budget,
        seed=options.seed,
    )


def _run_shown(spec: RunSpec, console: Console) -> RunResult:
    """Run, with a bar for the batches and a line for every epoch."""
    with _Bars(console) as bars:
        report = bars.stage("  training", "batches", after=0)
        total = spec.epochs * spec.batches

        def show(event: dict[str, Any]) -> None:
            if event["event"] == "batch":
                done = event["epoch"] * spec.batches + event["number"]
                report(done, total)
            elif event["event"] == "epoch":
                console.print(
                    f"  epoch {event['epoch'] + 1}/{spec.epochs}: loss {event['loss']:.3f}, "
                    f"accuracy {event['accuracy']:.1%}, "
                    f"{event['batches'] / event['seconds']:.1f} batches/s"
                )

        result = run(spec, show)
    if result.skipped is None:
        console.print(
            f"  peak memory: {format_size(result.anon_bytes)} allocated "
            f"({format_size(result.data_bytes)} beyond the libraries), "
            f"{format_size(result.file_bytes)} of mapped file pages"
        )
    return result


class _Bars:
    """Progress bars on a terminal, removed when done; nothing elsewhere."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%  {task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def stage(self, name: str, unit: str, after: float = 1.0) -> ProgressFn:
        """Begin a stage, shown after some seconds; return its function of (done, total)."""
        began = time.perf_counter()
        task: Any = None

        def report(done: int, total: int) -> None:
            nonlocal task
            seconds = time.perf_counter() - began
            if seconds < after and task is None:
                return
            if task is None:
                task = self._progress.add_task(name, rate="")
            speed = done / max(seconds, 1e-9)
            rate = f"{format_size(int(speed))}/s" if unit == "B" else f"{speed:,.0f} {unit}/s"
            self._progress.update(task, completed=done, total=max(total, 1), rate=rate)
            if done >= total:
                self._progress.remove_task(task)
                task = None

        return report
