"""Building graphs: Graph.from_edges and convert, edges per second.

    python benchmarks/build.py [--quick]

From arrays, side by side with what a PyG user runs for the same result (CSC by destination):
torch_geometric's sort and numpy's. From files: `convert` of CSV, Parquet and npy, beside
reading the same CSV with pyarrow and numpy into arrays, which builds nothing yet.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Report

Ids = common.Ids


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def turns(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Median seconds of each call, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        shift = number % len(calls)
        for name in [*calls][shift:] + [*calls][:shift]:
            times[name].append(seconds(calls[name]))
    return {name: statistics.median(values) for name, values in times.items()}


def from_arrays(num_nodes: int, num_edges: int, rounds: int) -> dict[str, float]:
    import torch
    from torch_geometric.utils import index_sort

    from aethergraph import Graph

    src, dst = common.power_law_edges(num_nodes, num_edges)
    src_tensor, dst_tensor = torch.from_numpy(src), torch.from_numpy(dst)

    def by_pyg() -> Any:
        sorted_dst, order = index_sort(dst_tensor, max_value=num_nodes, stable=True)
        return torch._convert_indices_from_coo_to_csr(sorted_dst, num_nodes), src_tensor[order]

    def by_numpy() -> Any:
        order = np.argsort(dst, kind="stable")
        return np.cumsum(np.bincount(dst, minlength=num_nodes)), src[order]

    return turns(
        {
            "aethergraph from_edges": lambda: Graph.from_edges(num_nodes, src, dst),
            "aethergraph from_edges, layout both": lambda: Graph.from_edges(
                num_nodes, src, dst, layout="both"
            ),
            "PyG index_sort + CSC": by_pyg,
            "numpy argsort + CSC": by_numpy,
        },
        rounds,
    )


def write_inputs(folder: Path, num_nodes: int, num_edges: int) -> dict[str, Path]:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    src, dst = common.power_law_edges(num_nodes, num_edges)
    paths = {kind: folder / f"edges.{kind}" for kind in ("csv", "parquet", "npy")}
    table = pa.table({"src": src, "dst": dst})
    pyarrow.csv.write_csv(table, paths["csv"])
    pyarrow.parquet.write_table(table, paths["parquet"])
    np.save(paths["npy"], np.stack((src, dst), axis=1))
    return paths


def from_files(folder: Path, num_nodes: int, num_edges: int, rounds: int) -> dict[str, float]:
    import pyarrow.csv

    from aethergraph.convert import convert

    paths = write_inputs(folder, num_nodes, num_edges)
    output = folder / "graph.aeg"
    calls: dict[str, Callable[[], Any]] = {
        f"aethergraph convert, {kind}": lambda path=path: convert(path, output, force=True)  # type: ignore[misc]
        for kind, path in paths.items()
    }
    calls["pyarrow read_csv, nothing built"] = lambda: pyarrow.csv.read_csv(paths["csv"])
    calls["numpy loadtxt, nothing built"] = lambda: np.loadtxt(
        paths["csv"], np.int64, delimiter=",", skiprows=1
    )
    return turns(calls, rounds)


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(common.parser(__doc__), argv)
    report = Report("build", "Building graphs", args)
    cores = len(os.sched_getaffinity(0))
    arrays = [(10_000, 100_000)] if args.quick else [(1_000_000, 10_000_000), (10_000_000, 10**8)]
    nodes, edges = arrays[0] if args.quick else (1_000_000, 20_000_000)
    rounds = 1 if args.quick else 3
    rows: list[list[common.Cell]] = []

    def add(what: str, count: int, found: dict[str, float]) -> None:
        rows.extend(
            [what, name, taken, count / taken / 1e6, count / taken / cores / 1e6]
            for name, taken in found.items()
        )

    for num_nodes, num_edges in arrays:
        common.say(f"{common.short(num_edges)} edges from arrays")
        found = from_arrays(num_nodes, num_edges, rounds)
        add(f"arrays, {common.short(num_edges)} edges", num_edges, found)
    folder = args.dir / "build"
    folder.mkdir(exist_ok=True)
    common.say(f"{common.short(edges)} edges from files")
    try:
        add(f"files, {common.short(edges)} edges", edges,
            from_files(folder, nodes, edges, rounds))  # fmt: skip
    finally:
        shutil.rmtree(folder)
    report.parameters = {"rounds": rounds, "cores": cores}
    report.table(
        f"medians of {rounds}, all {cores} cores",
        ["input", "by", "seconds", "M edges/s", "M edges/s per core"],
        rows,
    )
    report.note("Files are in the page cache. numpy's and PyG's sorts give the same lists.")

    def draw(axes: Sequence[Any]) -> None:
        groups = list(dict.fromkeys(row[0] for row in rows))
        for axis, group in zip(axes, groups, strict=True):
            mine = [row for row in rows if row[0] == group]
            values = [row[3] if isinstance(row[3], float) else None for row in mine]
            common.bars(axis, [str(row[1]) for row in mine], values, "million edges/s")
            axis.set_title(str(group), fontsize=9)

    common.plot(report, len({row[0] for row in rows}), draw)
    report.finish()


if __name__ == "__main__":
    main()
