"""What the benchmarks share: arguments, conditions, the test graphs, tables, JSON and plots."""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib.metadata
import importlib.util
import itertools
import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parents[1]
RESULTS = HERE / "results"
Ids = NDArray[np.int64]

# ---- arguments ---------------------------------------------------------------------------------


def parser(description: str | None) -> argparse.ArgumentParser:
    """The arguments that every benchmark has."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    made.add_argument(
        "--dir",
        type=Path,
        default=Path(tempfile.gettempdir()) / "aethergraph-benchmarks",
        help="folder for graphs and features, kept between runs (default: %(default)s)",
    )
    made.add_argument(
        "--out",
        type=Path,
        help="folder for results (default: benchmarks/results, with --quick DIR/results)",
    )
    made.add_argument(
        "--core",
        type=int,
        default=max(os.sched_getaffinity(0)),
        help="core that one-thread measurements are pinned to (default: %(default)s)",
    )
    return made


def parse(made: argparse.ArgumentParser, argv: Sequence[str] | None = None) -> argparse.Namespace:
    args = made.parse_args(argv)
    args.dir = args.dir.resolve()
    args.dir.mkdir(parents=True, exist_ok=True)
    if args.out is None:
        args.out = args.dir / "results" if args.quick else RESULTS
    args.out.mkdir(parents=True, exist_ok=True)
    return args


# ---- conditions --------------------------------------------------------------------------------


def machine() -> dict[str, Any]:
    """The machine in a few words."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(_meminfo("MemTotal") / 2**30, 1),
        "virtual": "hypervisor" in (_field("/proc/cpuinfo", "flags") or ""),
        "kernel": platform.release().split("-")[0],
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def _field(path: str, name: str) -> str | None:
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _meminfo(name: str) -> int:
    return int((_field("/proc/meminfo", name) or "0").split()[0]) * 1024


def available_memory() -> int:
    """Bytes that can be taken without pushing others out."""
    return _meminfo("MemAvailable")


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in ("aethergraph", "numpy", "torch", "torch_geometric", "torch_sparse", "pyg_lib"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def commit() -> str:
    """The commit measured, with "+" when the engine's sources differ from it."""
    git = ["git", "-C", str(HERE.parent)]
    try:
        name = subprocess.run(
            [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changes = subprocess.run(
            [*git, "status", "--porcelain", "--", "aethergraph", "backends", "native/src"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + ("+" if changes.strip() else "")


def importable(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def pyg_sampler() -> str | None:
    """The library behind PyG's own NeighborLoader here, or None: then PyG cannot sample."""
    return next((name for name in ("pyg_lib", "torch_sparse") if importable(name)), None)


# ---- graphs ------------------------------------------------------------------------------------


def power_law_ids(rng: np.random.Generator, num_nodes: int, count: int) -> Ids:
    """``count`` node ids; node of rank r is drawn with probability ~ r^(-2/3).

    Degrees then follow a power law with exponent 2.5. Ranks are spread over the ids by a
    multiplicative permutation, so that hubs are not neighbours in memory.
    """
    rank = np.floor(num_nodes * rng.random(count) ** 3).astype(np.int64)
    np.minimum(rank, num_nodes - 1, out=rank)
    rank *= rank_step(num_nodes)
    rank %= num_nodes
    return rank


def rank_step(num_nodes: int) -> int:
    """The node of rank r has the id r * step modulo ``num_nodes``: a permutation."""
    step = 1 + int(num_nodes * 0.6180339887498949)
    while math.gcd(step, num_nodes) != 1:
        step += 1
    return step


def power_law_edges(num_nodes: int, num_edges: int, seed: int = 0) -> tuple[Ids, Ids]:
    """A deterministic edge list (src, dst); both ends follow the power law."""
    src, dst = np.empty(num_edges, np.int64), np.empty(num_edges, np.int64)
    rng = np.random.Generator(np.random.PCG64(seed))
    for begin in range(0, num_edges, 1 << 22):
        end = min(begin + (1 << 22), num_edges)
        src[begin:end] = power_law_ids(rng, num_nodes, end - begin)
        dst[begin:end] = power_law_ids(rng, num_nodes, end - begin)
    return src, dst


@dataclass(frozen=True)
class GraphFiles:
    """One power-law graph on disk, the same for every contender."""

    folder: Path
    num_nodes: int
    num_edges: int

    @property
    def graph(self) -> Path:
        return self.folder / "graph.aeg"

    def config(self) -> dict[str, Any]:
        return {"folder": str(self.folder)}

    def csc(self) -> None:
        """Also write ``indptr.npy`` and ``indices.npy``, int64, for the peers."""
        from aethergraph import Graph

        if (self.folder / "indices.npy").exists():
            return
        with Graph.load(self.graph) as graph:
            for name, array in zip(("indptr", "indices"), graph.csc(), strict=True):
                _save(self.folder / f"{name}.npy", array.astype(np.int64))

    def features(self, width: int) -> Path:
        """``x{width}.npy``, float32, and ``y.npy``, int64 in 0..15."""
        path = self.folder / f"x{width}.npy"
        rng = np.random.Generator(np.random.PCG64(1))
        if not path.exists():
            _save(self.folder / "y.npy", rng.integers(0, 16, self.num_nodes))
            rows = np.lib.format.open_memmap(
                path.with_suffix(".part.npy"), "w+", np.float32, (self.num_nodes, width)
            )
            for begin in range(0, self.num_nodes, 1 << 18):
                piece = rows[begin : begin + (1 << 18)]
                piece[:] = rng.standard_normal(piece.shape, np.float32)
            rows.flush()
            del rows
            path.with_suffix(".part.npy").rename(path)
        return path

    def seeds(self, count: int, batch: int, seed: int = 2) -> Path:
        """``count`` batches of distinct seeds, int64 [count, batch]."""
        path = self.folder / f"seeds-{count}x{batch}.npy"
        if not path.exists():
            rng = np.random.Generator(np.random.PCG64(seed))
            rows = [rng.choice(self.num_nodes, batch, replace=False) for _ in range(count)]
            _save(path, np.stack(rows).astype(np.int64))
        return path


def _save(path: Path, array: NDArray[Any]) -> None:
    part = path.with_suffix(".part.npy")
    np.save(part, array)
    part.rename(path)


def power_law_graph(folder: Path, num_nodes: int, degree: int = 10) -> GraphFiles:
    """The graph with ``num_nodes * degree`` edges, built on first use."""
    from aethergraph import Graph

    files = GraphFiles(folder / f"power-law-{short(num_nodes)}", num_nodes, num_nodes * degree)
    files.folder.mkdir(parents=True, exist_ok=True)
    if not files.graph.exists():
        say(f"making a graph of {num_nodes:,} nodes and {files.num_edges:,} edges")
        src, dst = power_law_edges(num_nodes, files.num_edges)
        Graph.from_edges(num_nodes, src, dst).save(files.graph)
    return files


def drop_from_cache(path: Path) -> None:
    """Write the file back and forget its pages: the next read is from the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# ---- numbers -----------------------------------------------------------------------------------


def short(number: float) -> str:
    """12_000_000 -> "12M"."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if number >= unit:
            return f"{number / unit:.3g}{letter}"
    return f"{number:.3g}"


def parse_count(text: str) -> int:
    """Return the whole number that ``short`` has written: "12M" -> 12_000_000."""
    units = {"K": 10**3, "M": 10**6, "G": 10**9}
    return round(float(text[:-1]) * units[text[-1]]) if text[-1:] in units else int(text)


def size(num_bytes: float) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if num_bytes >= unit:
            return f"{num_bytes / unit:.3g} {name}"
    return f"{num_bytes:.0f} B"


@dataclass(frozen=True)
class Ratio:
    """How many times larger, round by round: median, and the range over the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def paired(cls, above: Sequence[float], below: Sequence[float]) -> Ratio:
        ratios = [a / b for a, b in zip(above, below, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


# ---- reports -----------------------------------------------------------------------------------

Cell = str | int | float | None
#: The second line of NAME.md.
_CONDITIONS = re.compile(
    r"(?P<cpu>.+), (?P<cores>\d+) cores(?P<virtual>, virtual)?, (?P<memory_gib>\S+) GiB, "
    r"Linux (?P<kernel>\S+); (?P<versions>.+); commit (?P<commit>\S+); "
    r"load before: (?P<load_at_start>[\d.]+)(?P<quick>; .+)?"
)


@dataclass
class Report:
    """Tables and notes of one benchmark: printed, and saved as NAME.json and NAME.md."""

    name: str
    title: str
    args: argparse.Namespace
    parameters: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tables: list[tuple[str, list[str], list[list[Cell]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machine, self.versions, self.commit = machine(), versions(), commit()
        self.started = dt.datetime.now(dt.timezone.utc)

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read what NAME.md has: all but parameters and data."""
        title, head, *blocks = path.read_text(encoding="utf-8").strip().split("\n\n")
        match = _CONDITIONS.fullmatch(head)
        if match is None:
            raise ValueError(f"{path}: {head[:60]!r} is not the machine line of a report")
        args = argparse.Namespace(out=path.parent, quick=match["quick"] is not None)
        report = cls(path.stem, title.removeprefix("## "), args)
        report.commit = match["commit"]
        report.versions = dict(text.rsplit(" ", 1) for text in match["versions"].split(", "))
        report.machine = {key: match[key] for key in report.machine}
        for name, table in zip(blocks[::2], blocks[1::2], strict=False):
            lines = [line[2:-2].split(" | ") for line in table.splitlines()]
            report.table(name[2:-2], lines[0], [map(_value, line) for line in lines[2:]])
        if len(blocks) % 2:
            report.notes = [line.removeprefix("- ") for line in blocks[-1].splitlines()]
        return report

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Iterable[Cell]]) -> None:
        self.tables.append((title, list(columns), [list(row) for row in rows]))

    def rows(self, title: str = "") -> list[dict[str, Any]]:
        """Return the first table whose title begins so: cells by column, rounded as in NAME.md.

        Raises:
            LookupError: there is none.
        """
        for name, columns, rows in self.tables:
            if name.startswith(title):
                cells = [[_value(_cell(cell)) for cell in row] for row in rows]
                return [dict(zip(columns, row, strict=True)) for row in cells]
        raise LookupError(f"{self.name}.md has no table {title!r}: run its benchmark again")

    def note(self, text: str) -> None:
        self.notes.append(text)

    def finish(self) -> None:
        """Print and save everything."""
        text = self.markdown()
        print(text)
        document = {
            "benchmark": self.name,
            "quick": self.args.quick,
            "command": f"python benchmarks/{self.name}.py"
            + (" --quick" if self.args.quick else ""),
            "date": self.started.strftime("%Y-%m-%dT%H:%MZ"),
            "machine": self.machine,
            "versions": self.versions,
            "commit": self.commit,
            "parameters": self.parameters,
            "data": self.data,
            "tables": [
                {"title": title, "columns": columns, "rows": rows}
                for title, columns, rows in self.tables
            ],
            "notes": self.notes,
        }
        path = self.args.out / f"{self.name}.json"
        path.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        path.with_suffix(".md").write_text(text + "\n", encoding="utf-8")

    def markdown(self) -> str:
        where = self.machine
        known = ", ".join(f"{k} {v}" for k, v in self.versions.items() if v != "absent")
        lines = [
            f"## {self.title}",
            "",
            f"{where['cpu']}, {where['cores']} cores{', virtual' if where['virtual'] else ''}, "
            f"{where['memory_gib']} GiB, Linux {where['kernel']}; {known}; "
            f"commit {self.commit}; load before: {where['load_at_start']}"
            + ("; **quick run, not a result**" if self.args.quick else ""),
        ]
        for title, columns, rows in self.tables:
            lines += ["", f"**{title}**", "", "| " + " | ".join(columns) + " |"]
            lines.append("|" + "---|" * len(columns))
            lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
        if self.notes:
            lines += ["", *(f"- {note}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    @property
    def caption(self) -> str:
        return f"{self.machine['cpu']}, {self.machine['cores']} cores, commit {self.commit}"


def _cell(value: Cell) -> str:
    if value is None:
        return "missing"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value


def _value(text: str) -> Cell:
    """Return the number that ``_cell`` wrote so, else the text itself, such as "1.50"."""
    if text == "missing":
        return None
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            number: Cell = kind(text.replace(",", ""))
            return number if _cell(number) == text else text
    return text


def say(text: str) -> None:
    print(f"# {text}", file=sys.stderr, flush=True)


# ---- plots -------------------------------------------------------------------------------------

COLORS = ("#0b6e4f", "#6bbf59", "#a7c957")  # ours
PEER_COLORS = ("#c1121f", "#3d5a80", "#e07a5f", "#98c1d9", "#7b2cbf")


def plot(report: Report, panels: int, draw: Callable[[Sequence[Any]], None]) -> None:
    """Draw ``panels`` axes into NAME.svg, at most two beside each other.

    The same figures are the same bytes. Without matplotlib a note says that there is no plot.
    """
    if not importable("matplotlib"):
        report.note("no plot: matplotlib is not installed")
        return
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(panels, 2)  # pages are not wider
    rows = -(-panels // columns)
    # Text stays text. A browser without DejaVu takes a sans-serif of its own, which is narrower.
    settings = {
        "svg.fonttype": "none",
        "svg.hashsalt": report.name,
        "font.sans-serif": "DejaVu Sans",
    }
    with mpl.rc_context(settings):
        figure = Figure(figsize=(5.6 * columns, 4.2 * rows))
        axes = list(figure.subplots(rows, columns, squeeze=False).flat)
        for unused in axes[panels:]:
            unused.remove()
        draw(axes[:panels])
        for axis in axes[:panels]:
            axis.set_axisbelow(True)
            axis.grid(True, which="major", alpha=0.3)
            axis.spines[["top", "right"]].set_visible(False)
        style: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 6, "color": "#666666"}
        figure.text(0.995, 0.005, report.caption, **style)
        figure.tight_layout(rect=(0, 0.02, 1, 1))
        figure.savefig(report.args.out / f"{report.name}.svg", metadata={"Date": None})


def bars(axis: Any, names: Sequence[str], values: Sequence[float | None], label: str) -> None:
    """Horizontal bars, the first at the top; a missing value is said so."""
    colors = [COLORS[0] if "aethergraph" in name else PEER_COLORS[1] for name in names]
    drawn = axis.barh(range(len(names)), [value or 0 for value in values], color=colors)
    axis.bar_label(drawn, map(_cell, values), padding=3)
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.set_xlabel(label)


def points(rows: Iterable[dict[str, Any]], x: str, y: str) -> list[tuple[float, float]]:
    """Return two columns of rows for ``lines``: where there is a number, and a logarithm of it."""
    return [
        (parse_count(row[x]), row[y])
        for row in rows
        if isinstance(row[y], (int, float)) and row[y] > 0
    ]


def lines(
    axis: Any, series: dict[str, list[tuple[float, float]]], xlabel: str, ylabel: str
) -> None:
    """Log-log lines by name: ours in greens, peers in other colors, the floor dashed."""
    from matplotlib.ticker import LogFormatter

    class Short(LogFormatter):
        """Numbers such as "10K", where matplotlib writes one at all."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return short(x) if super().__call__(x, pos) else ""

    ours, peers = itertools.cycle(COLORS), itertools.cycle(PEER_COLORS)
    for name, points in series.items():
        style = {"color": next(ours if "aethergraph" in name else peers)}
        if name in ("floor", "graph + features"):
            style = {"color": "#888888", "linestyle": "--"}
        if points:
            axis.plot(*zip(*points, strict=True), marker="o", markersize=4, label=name, **style)
    axis.set_xscale("log")
    axis.set_yscale("log")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(Short())
        side.set_minor_formatter(Short(labelOnlyBase=False))
    axis.set_xlabel(xlabel)
    axis.set_ylabel(ylabel)
    # Below the panel: inside, a box covers the points of one line or another.
    style = {"fontsize": 7, "frameon": False, "loc": "upper center", "bbox_to_anchor": (0.5, -0.14)}
    axis.legend(ncols=max(1, 100 // (7 + max(map(len, series)))), **style)


# ---- running things ----------------------------------------------------------------------------


def have(tool: str) -> bool:
    return shutil.which(tool) is not None
