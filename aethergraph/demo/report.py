"""Result of the demonstration: a table, a JSON file, a plot."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from aethergraph._checks.optional import how_to_get
from aethergraph.demo.dataset import Dataset
from aethergraph.demo.runs import RunResult
from aethergraph.storage.memory import format_size

__all__ = ["NAMES", "memory_lines", "result_table", "save_json", "save_plot", "speed_lines"]

NAMES = {
    "mlp": "features alone (MLP)",
    "stock": "NodeLoader of PyG, our stores",
    "native": "our NeighborLoader",
    "pyg": "NeighborLoader of PyG, in memory",
    "memory": "our NeighborLoader, in memory",
}


#: Fewer batches last a second or less: the ratio of two such runs is noise.
ENOUGH_BATCHES = 100

_COLUMNS = (
    "batches/s",
    "wait",
    "loading only",
    "accuracy",
    "start",
    "RssAnon",
    "beyond libs",
    "RssFile",
)


def result_table(results: list[RunResult]) -> Table:
    """Return a table of all runs side by side."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run")
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for run in results:
        if run.skipped is not None:
            table.add_row(NAMES[run.mode], *["-"] * len(_COLUMNS))
            continue
        table.add_row(
            NAMES[run.mode],
            f"{run.batches_per_second:.1f}",
            f"{run.wait_ms:.1f} ms",
            f"{run.loads_per_second:.1f}",
            f"{run.accuracy:.1%}",
            f"{run.open_seconds:.2f} s",
            format_size(run.anon_bytes),
            format_size(run.data_bytes),
            format_size(run.file_bytes),
        )
    return table


def memory_lines(dataset: Dataset) -> list[str]:
    """Return lines on the memory of the in-memory way, by part."""
    parts = dataset.in_memory_bytes
    lines = [f"The in-memory way needs {format_size(sum(parts.values()))}:"]
    lines += [f"  {format_size(size):>10}  {name}" for name, size in parts.items()]
    return lines


EXPLANATION = (
    "batches/s: training, without the first epoch; wait: time per batch that training stood still "
    "for lack of a batch; loading only: batches/s of the loader without a model. RssAnon: peak of "
    "allocated memory, which only the process can give back; beyond libs: without what the imports "
    "of torch and PyG took. RssFile: peak of mapped file pages (libraries and, on disk, graph and "
    "features): page cache, which the kernel takes back when memory is needed."
)


def speed_lines(results: list[RunResult]) -> list[str]:
    """Compare speeds with the in-memory way, if that ran and was trained long enough."""
    ran = {run.mode: run for run in results if run.skipped is None}
    base = ran.get("pyg") or ran.get("memory")
    if base is not None and base.settled_batches < ENOUGH_BATCHES:
        return [
            f"Speeds are not compared: {base.settled_batches} batches after the first epoch are "
            f"too few to tell, {ENOUGH_BATCHES} would do (--epochs, --batches)."
        ]
    lines = []
    for mode in ("stock", "native"):
        if base is None or mode not in ran:
            continue
        run = ran[mode]
        lines.append(
            f"{NAMES[mode]}, compared with {NAMES[base.mode]}: training "
            f"{run.batches_per_second / base.batches_per_second:.2f} times as fast, loading only "
            f"{run.loads_per_second / base.loads_per_second:.2f} times"
        )
    return lines


def save_json(path: Path, dataset: Dataset, results: list[RunResult]) -> None:
    """Save all measurements."""
    runs = [
        {
            **asdict(run),
            "batches_per_second": run.batches_per_second,
            "wait_ms": run.wait_ms,
            "accuracy": run.accuracy,
        }
        for run in results
    ]
    report = {"dataset": asdict(dataset), "in_memory_bytes": dataset.in_memory_bytes, "runs": runs}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(report, indent=2))
    os.replace(temporary, path)


def save_plot(path: Path, dataset: Dataset, results: list[RunResult]) -> str | None:
    """Plot accuracy, throughput and memory; return why this was not possible, or None."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        import matplotlib.pyplot as plt
        from matplotlib.ticker import MultipleLocator
    except ImportError as error:
        return f"no plot: matplotlib cannot be imported ({error}): {how_to_get('plot')}"
    ran = [run for run in results if run.skipped is None and run.epochs]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
    for run in ran:
        epochs = range(1, len(run.epochs) + 1)
        style = ":" if run.mode == "mlp" else "-"
        color = _COLORS[run.mode]
        left.plot(
            epochs,
            [100 * e.accuracy for e in run.epochs],
            style,
            marker="o",
            color=color,
            label=NAMES[run.mode],
        )
    left.set(
        xlabel="epoch", ylabel="accuracy on held-out nodes, %", title="Accuracy", ylim=(0, 100)
    )
    num_epochs = max((len(run.epochs) for run in ran), default=1)
    left.set_xlim(0.5, num_epochs + 0.5)  # a single epoch would get an axis from 0.95 to 1.05
    left.xaxis.set_major_locator(MultipleLocator(-(-num_epochs // 10)))
    left.legend(fontsize=8)
    left.grid(alpha=0.3)
    graphs = [run for run in ran if run.mode != "mlp"]
    names = [NAMES[run.mode].replace(", ", ",\n") for run in graphs]
    colors = [_COLORS[run.mode] for run in graphs]
    _plot_speed(middle, names, colors, graphs)
    _plot_memory(right, names, colors, dataset, graphs)
    for axes in (middle, right):
        axes.tick_params(axis="x", labelsize=8)
        axes.margins(y=0.15)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return None


_COLORS = {"mlp": "C7", "stock": "C0", "native": "C2", "pyg": "C1", "memory": "C1"}


def _plot_speed(axes: Any, names: list[str], colors: list[str], runs: list[RunResult]) -> None:
    """Plot the speeds of training and of loading alone, side by side."""
    places = range(len(runs))
    for shift, label, hatch, values in (
        (-0.2, "training", "", [run.batches_per_second for run in runs]),
        (0.2, "loading only", "//", [run.loads_per_second for run in runs]),
    ):
        bars = axes.bar(
            [p + shift for p in places], values, 0.4, color=colors, hatch=hatch, alpha=0.8
        )
        axes.bar_label(bars, fmt="%.1f", fontsize=8)
        axes.bar([0], [0], color="white", edgecolor="black", hatch=hatch, label=label)
    axes.set_xticks(list(places), names)
    axes.set(ylabel="batches per second", title="Throughput")
    axes.legend(fontsize=8)


def _plot_memory(
    axes: Any, names: list[str], colors: list[str], dataset: Dataset, runs: list[RunResult]
) -> None:
    """Plot peaks of memory without the libraries, which would hide those of small graphs."""
    sizes = [run.data_bytes for run in runs]
    bars = axes.bar(names, [size / 2**20 for size in sizes], color=colors)
    axes.bar_label(bars, [format_size(size) for size in sizes], fontsize=8)
    needed = sum(dataset.in_memory_bytes.values()) / 2**20
    axes.axhline(needed, color="C3", linestyle="--", label="data of the in-memory way")
    axes.set(ylabel="MiB", title="Peak memory, libraries left out")
    axes.legend(fontsize=8)
