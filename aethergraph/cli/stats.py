"""``aethergraph stats``: degree distributions as numbers, bars and a plot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.table import Table

from aethergraph._checks.optional import how_to_get
from aethergraph.cli.live_copies import as_file
from aethergraph.cli.terminal import Stages, command, count, print_json, stdout
from aethergraph.convert.readers.base import ProgressFn
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.graph import Graph
from aethergraph.sampling.locality import measure_locality

__all__ = ["degree_summary", "stats_command"]

Counts = npt.NDArray[np.int64]

_PERCENTILES = (1, 10, 25, 50, 75, 90, 99, 99.9)
_CHUNK_EDGES = 1 << 22


@command
def stats_command(
    path: Annotated[Path, typer.Argument(help="Graph file, or directory of a live graph.")],
    plot: Annotated[
        Path | None, typer.Option(help="Draw the distributions into this .png, .pdf or .svg.")
    ] = None,
    locality: Annotated[
        bool,
        typer.Option(
            "--locality", help="Tell what `aethergraph reorder` would gain, from sampled batches."
        ),
    ] = False,
    row_bytes: Annotated[
        int | None,
        typer.Option(help="Bytes of a row of features, for --locality; else the graph's, or 512."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Show degree distributions; reads the adjacency once.

    Of a live graph it is that of the last commit, of which it takes a copy in TMPDIR.
    """
    if row_bytes is not None and not locality:
        raise InvalidArgumentError(f"--row-bytes {row_bytes} is for --locality: give that, too")
    if plot is not None:
        _check_plot(plot)
        _require_matplotlib()
    with Stages() as stages, as_file(path, stages) as file, Graph.load(file) as graph:
        facts = _scan(graph, stages("Reading edges", "edges"))
        report: dict[str, Any] = {
            "path": str(path),
            "num_nodes": graph.num_nodes,
            "num_edges": graph.num_edges,
            "self_loops": facts.self_loops,
            "isolated_nodes": int(np.count_nonzero((facts.inward == 0) & (facts.outward == 0))),
            "in_degree": degree_summary(facts.inward),
            "out_degree": degree_summary(facts.outward),
        }
        if locality:
            report["locality"] = _locality(graph, row_bytes, stages("Ordering nodes", "B"))
    if plot is not None:
        _plot(plot, path.name, facts.inward, facts.outward)
        report["plot"] = str(plot)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _locality(graph: Graph, row_bytes: int | None, progress: ProgressFn) -> dict[str, Any]:
    """Return the pages that batches of 1024 seeds touch, before and after Rabbit Order."""
    if graph.num_nodes == 0:
        raise InvalidArgumentError("--locality samples batches, and the graph has no nodes")
    if row_bytes is None:
        rows = graph.features
        row_bytes = 512 if rows is None else max(1, rows.nbytes // rows.num_rows)
    elif row_bytes <= 0:
        raise InvalidArgumentError(f"--row-bytes {row_bytes} is not above 0")
    perm = graph.reorder(progress=progress)
    locality = measure_locality(graph, perm, row_bytes=row_bytes)
    return {"row_bytes": row_bytes, **{k: v._asdict() for k, v in locality._asdict().items()}}


# ---- counting --------------------------------------------------------------------------------


class _Facts:
    def __init__(self, inward: Counts, outward: Counts, self_loops: int) -> None:
        self.inward = inward
        self.outward = outward
        self.self_loops = self_loops


def _scan(graph: Graph, progress: ProgressFn) -> _Facts:
    """Count degrees in both directions from the lists that are stored, and self-loops."""
    by_source = graph.layout == "csr"
    indptr, indices = graph.csr()[:2] if by_source else graph.csc()
    owned: Counts = (indptr[1:] - indptr[:-1]).astype(np.int64)
    counted: Counts = np.zeros(graph.num_nodes, np.int64)
    self_loops = 0
    for start, stop in _list_ranges(indptr, graph.num_edges):
        begin, end = int(indptr[start]), int(indptr[stop])
        ids = indices[begin:end]
        _add_counts(counted, ids)
        owners = np.repeat(np.arange(start, stop, dtype=ids.dtype), owned[start:stop])
        self_loops += int(np.count_nonzero(ids == owners))
        progress(end, graph.num_edges)
    inward, outward = (counted, owned) if by_source else (owned, counted)
    return _Facts(inward, outward, self_loops)


def _add_counts(counts: Counts, ids: npt.NDArray[Any]) -> None:
    if ids.size * 8 > counts.size:
        counts += np.bincount(ids, minlength=counts.size)
    else:
        some, times = np.unique(ids, return_counts=True)
        counts[some] += times


def _list_ranges(indptr: npt.NDArray[np.uint64], num_edges: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of lists of about four million edges each (one list at least)."""
    start, last = 0, len(indptr) - 1
    while start < last:
        limit = np.uint64(min(int(indptr[start]) + _CHUNK_EDGES, num_edges))
        stop = int(np.searchsorted(indptr, limit, side="right")) - 1
        stop = min(max(stop, start + 1), last)
        yield start, stop
        start = stop


def degree_summary(degrees: Counts) -> dict[str, Any]:
    """Return moments, percentiles, a histogram in powers of two, and the tail's exponent.

    ``tail_exponent`` is the maximum-likelihood exponent of a power law for the tenth of the nodes
    with the highest degrees (Clauset, Shalizi, Newman: "Power-law distributions in empirical data",
    2009, equation 3.7); None if it has fewer than 50 nodes or falls faster than d^-5.
    ``top_share`` is the share of the edges that belongs to the 1% of nodes with the most.
    """
    if degrees.size == 0:
        return {"mean": 0.0, "std": 0.0, "zero": 0, "max": 0, "max_node": None, "percentiles": {}}
    points = np.percentile(degrees, _PERCENTILES, method="inverted_cdf")
    largest = int(np.argmax(degrees))
    total = int(degrees.sum())
    few = max(1, degrees.size // 100)
    top = int(np.partition(degrees, degrees.size - few)[-few:].sum())
    return {
        "mean": total / degrees.size,
        "std": float(degrees.std()),
        "zero": int(np.count_nonzero(degrees == 0)),
        "min": int(degrees.min()),
        "max": int(degrees[largest]),
        "max_node": largest,
        "percentiles": {str(p): int(v) for p, v in zip(_PERCENTILES, points, strict=True)},
        "top_share": top / total if total else 0.0,
        "tail_exponent": _tail_exponent(degrees),
        "histogram": _histogram(degrees),
    }


def _tail_exponent(degrees: Counts) -> float | None:
    cutoff = max(1, int(np.percentile(degrees, 90)))
    tail = degrees[degrees >= cutoff]
    if tail.size < 50:
        return None
    logs = float(np.log(tail / (cutoff - 0.5)).sum())
    exponent = 1 + tail.size / logs
    return exponent if tail.max() > cutoff and exponent < 5 else None


def _histogram(degrees: Counts) -> list[dict[str, int]]:
    """Count nodes with degree 0, 1, 2-3, 4-7, ..."""
    top = int(degrees.max()).bit_length()
    edges = np.array([0, *(1 << k for k in range(top + 1))])
    nodes: list[int] = np.histogram(degrees, edges)[0].tolist() if top else [degrees.size]
    return [
        {"from": int(edges[k]), "to": int(edges[k + 1]) - 1, "nodes": n}
        for k, n in enumerate(nodes)
    ]


# ---- output ----------------------------------------------------------------------------------


def _print(report: dict[str, Any]) -> None:
    out = stdout()
    out.print(
        f"{report['path']}: {report['num_nodes']:,} nodes, {report['num_edges']:,} edges, "
        f"{report['self_loops']:,} self-loops, {report['isolated_nodes']:,} isolated nodes",
        markup=False,
        soft_wrap=True,
    )
    inward, outward = report["in_degree"], report["out_degree"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("degree", "in", "out"):
        table.add_column(name, justify="left" if name == "degree" else "right")
    table.add_row("mean", f"{inward['mean']:.2f}", f"{outward['mean']:.2f}")
    table.add_row("standard deviation", f"{inward['std']:.2f}", f"{outward['std']:.2f}")
    table.add_row("nodes with none", f"{inward['zero']:,}", f"{outward['zero']:,}")
    for name in inward["percentiles"]:
        table.add_row(
            f"{name}% have at most",
            f"{inward['percentiles'][name]:,}",
            f"{outward['percentiles'][name]:,}",
        )
    if report["num_nodes"]:
        table.add_row("largest", f"{inward['max']:,}", f"{outward['max']:,}")
        table.add_row("of node", f"{inward['max_node']}", f"{outward['max_node']}")
        table.add_row(
            "edges of the top 1%", f"{inward['top_share']:.1%}", f"{outward['top_share']:.1%}"
        )
        table.add_row("tail exponent", _exponent(inward), _exponent(outward))
    out.print(table)
    if "locality" in report:
        _print_locality(report["locality"])
    for name, summary in (("in-degree", inward), ("out-degree", outward)):
        _print_bars(name, summary.get("histogram", []))
    if "plot" in report:
        out.print(f"plot: {report['plot']}", markup=False, soft_wrap=True)


def _print_locality(pages: dict[str, Any]) -> None:
    out = stdout()
    out.print("A batch of 1,024 seeds with fanouts 15, 10, now and after aethergraph reorder:")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("per batch", "shuffled seeds", "reordered", "aligned seeds", "reordered"):
        table.add_column(name, justify="left" if name == "per batch" else "right")
    kinds = ("shuffled_before", "shuffled_after", "aligned_before", "aligned_after")
    for label, key in (
        ("nodes", "nodes"),
        ("pages of lists", "list_pages"),
        (f"pages of features of {pages['row_bytes']} bytes", "feature_pages"),
    ):
        table.add_row(label, *(f"{pages[kind][key]:,.0f}" for kind in kinds))
    out.print(table)


def _exponent(summary: dict[str, Any]) -> str:
    value = summary["tail_exponent"]
    return "-" if value is None else f"about {value:.2f}"


def _print_bars(name: str, bins: list[dict[str, int]]) -> None:
    if not bins:
        return
    largest = max(b["nodes"] for b in bins)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(name)
    table.add_column("nodes", justify="right")
    table.add_column("")
    for bar in bins:
        span = f"{bar['from']:,}"
        if bar["to"] > bar["from"]:
            span += f" - {bar['to']:,}"
        table.add_row(span, count(bar["nodes"]), _bar(bar["nodes"] / max(largest, 1)))
    stdout().print(table)


def _bar(share: float, width: int = 40) -> str:
    """Draw a bar in eighths of a block; a share above zero is always visible."""
    eighths = max(round(share * width * 8), 1 if share > 0 else 0)
    full, remainder = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[remainder] if remainder else "")


def _check_plot(path: Path) -> None:
    """Refuse names that no format goes with, to which matplotlib adds one, and what is no file."""
    if not path.suffix or (path.exists() and not path.is_file()):
        raise InvalidArgumentError(f"--plot {path} is no file of a plot: degrees.png would be one")


def _require_matplotlib() -> None:
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UnsupportedError(
            f"--plot needs matplotlib, which cannot be imported ({error}): {how_to_get('plot')}"
        ) from None
    mpl.use("Agg")


def _plot(path: Path, title: str, inward: Counts, outward: Counts) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    # The second curve is thin and dashed: where both are equal, the first remains visible around
    # it.
    for degrees, name, style in (
        (inward, "in-degree", {"color": "C0", "linewidth": 4, "alpha": 0.5}),
        (outward, "out-degree", {"color": "C1", "linewidth": 1.5, "linestyle": "--"}),
    ):
        bins = _histogram(degrees) if degrees.size else []
        visible = [b for b in bins if b["nodes"] and b["from"] > 0]
        middle = [(b["from"] + b["to"]) / 2 for b in visible]
        density = [b["nodes"] / (b["to"] - b["from"] + 1) for b in visible]
        axes[0].loglog(middle, density, marker="o", label=name, **style)
        values, nodes = np.unique(degrees, return_counts=True)
        above = nodes[::-1].cumsum()[::-1] / max(degrees.size, 1)
        positive = values > 0
        axes[1].loglog(values[positive], above[positive], label=name, **style)
    axes[0].set(xlabel="degree d", ylabel="nodes per degree", title=f"{title}: distribution")
    axes[1].set(xlabel="degree d", ylabel="share of nodes with degree >= d", title="tail")
    for axis in axes:
        axis.grid(True, which="both", alpha=0.2)
        axis.legend()
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:  # an unknown suffix
        raise UnsupportedError(f"{path}: {error}") from None
    finally:
        plt.close(figure)
