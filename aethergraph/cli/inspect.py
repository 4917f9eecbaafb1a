"""``aethergraph info`` and ``aethergraph verify``."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from aethergraph import _native as native
from aethergraph.cli.leaks import sample_and_check
from aethergraph.cli.live_copies import ARENA_MB
from aethergraph.cli.terminal import (
    Stages,
    command,
    duration,
    print_error,
    print_json,
    print_table,
    size,
    stdout,
)
from aethergraph.columns import ColumnStore
from aethergraph.columns.file import is_column_file
from aethergraph.convert.readers.base import check_readable, read_beginning
from aethergraph.dynamic.descriptions import NODE_TIME
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.forms import read_time_dtype
from aethergraph.dynamic.hetero_snapshot import HeteroSnapshot
from aethergraph.dynamic.history import History
from aethergraph.dynamic.repair import truncate_log, verify_directory
from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.ids import IdMap
from aethergraph.storage.live_directory import is_live_directory
from aethergraph.storage.opening import open_container

__all__ = ["info_command", "verify_command"]

JsonOption = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


def file_kind(path: Path) -> str:
    """Return "graph", "features", "columns", "ids" or "npy".

    Raises:
        AetherError: the file is none of them, or cannot be opened; see the errors of opening.
    """
    check_readable(path)
    if read_beginning(path) == b"\x93NUMPY":
        return "npy"
    content = open_container(path).content
    if content == native.CONTENT_KEYS:
        return "ids"
    if content == native.CONTENT_FEATURES and is_column_file(path):
        return "columns"
    return "graph" if content == native.CONTENT_GRAPH else "features"


def _feature_info(path: Path) -> dict[str, Any]:
    with FeatureTable.load(path) as store:
        return {
            "path": store.path,
            "file_bytes": path.stat().st_size,
            "shape": list(store.shape),
            "dtype": store.dtype_name,
            "bytes": store.nbytes,
        }


def _graph_rows(info: dict[str, Any]) -> list[tuple[str, str]]:
    packed = ", compressed" if info["compressed"] else ""
    rows = [
        ("file", f"{info['path']} ({size(info['file_bytes'])})"),
        ("nodes", f"{info['num_nodes']:,}"),
        ("edges", f"{info['num_edges']:,}"),
        ("layout", f"{info['layout']} ({_LAYOUTS[info['layout']]})"),
        ("adjacency", f"{size(info['adjacency_bytes'])}, ids {info['id_dtype']}{packed}"),
    ]
    for name, text in (
        ("edge_weight", "edge weights"),
        ("edge_time", "edge times"),
        ("node_time", "node times"),
    ):
        if info[name]:
            timed = name != "edge_weight" and info["time_unit"] is not None
            since = f", {info['time_unit']} since 1970-01-01" if timed else ""
            rows.append((text, f"{info[name]}{since}"))
    if info["edge_order"]:
        rows.append(("edge order", "the input row of every edge is kept"))
    for kind in ("node", "edge"):
        for name, about in info[f"{kind}_attrs"].items():
            shape = " x ".join(f"{n:,}" for n in about["shape"])
            rows.append((f"{kind} attribute", f"{name}: {about['dtype']}, {shape}"))
    return rows


def _typed_info(graph: HeteroGraph) -> dict[str, Any]:
    """Describe a typed graph; edge types are lists of three names."""
    return {
        "path": graph.path,
        "storage": graph.storage,
        "time_unit": graph.time_unit,
        "node_types": [
            {"name": name, "num_nodes": count, "attributes": sorted(graph[name].attrs)}
            for name, count in graph.num_nodes.items()
        ],
        "edge_types": [
            {
                "name": list(kind),
                "num_edges": count,
                "layout": graph[kind].layout,
                "compressed": graph[kind].compressed,
                "values": sorted(graph[kind].edge_values),
                "attributes": sorted(graph[kind].attrs),
            }
            for kind, count in graph.num_edges.items()
        ],
    }


def _typed_rows(info: dict[str, Any], file_bytes: int) -> list[tuple[str, str]]:
    rows = [("file", f"{info['path']} ({size(file_bytes)})")]
    if info["time_unit"] is not None:
        rows.append(("times", f"{info['time_unit']} since 1970-01-01"))
    for node in info["node_types"]:
        names = "".join(f", {name}" for name in node["attributes"])
        rows.append(("node type", f"{node['name']}: {node['num_nodes']:,} nodes{names}"))
    for edge in info["edge_types"]:
        names = "".join(f", {name}" for name in (*edge["values"], *edge["attributes"]))
        names = f", compressed{names}" if edge["compressed"] else names
        kind = " -> ".join(edge["name"])
        rows.append(("edge type", f"{kind}: {edge['num_edges']:,} edges, {edge['layout']}{names}"))
    return rows


def _describe(path: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Describe a graph file, as a dict for JSON and as rows for the terminal."""
    with HeteroGraph.load(path) as graph:
        if (len(graph.node_types), len(graph.edge_types)) != (1, 1):
            info = _typed_info(graph)
            return info, _typed_rows(info, path.stat().st_size)
    with Graph.load(path) as plain:
        info = plain.info()
    return info, _graph_rows(info)


def _ids_info(path: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Describe a map of ids."""
    with IdMap.load(path) as ids:
        info = {
            "path": ids.path,
            "file_bytes": path.stat().st_size,
            "num_keys": len(ids),
            "types": list(ids.types),
        }
        rows = [
            ("file", f"{ids.path} ({size(path.stat().st_size)})"),
            ("format", "map of ids"),
            ("keys", f"{len(ids):,} of type {ids.columns}"),
        ]
    return info, rows


def _columns_info(path: Path) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Describe a file of columns."""
    with ColumnStore.load(path) as store:
        columns = [
            {"name": column.name, "kind": column.kind, "dtype": column.dtype, "unit": column.unit}
            for column in store.columns.values()
        ]
        info = {
            "path": store.path,
            "file_bytes": path.stat().st_size,
            "num_rows": len(store),
            "columns": columns,
        }
        rows = [
            ("file", f"{store.path} ({size(path.stat().st_size)})"),
            ("format", "columns of several dtypes"),
            ("rows", f"{len(store):,}"),
        ]
        for entry in columns:
            more = entry["unit"] or (entry["dtype"] if entry["kind"] == "number" else None)
            rows.append(
                ("column", f"{entry['name']}: {entry['kind']}{f', {more}' if more else ''}")
            )
    return info, rows


_LAYOUTS = {
    "csc": "in-edges by destination",
    "csr": "out-edges by source",
    "both": "in-edges and out-edges",
}


#: Bytes of commits, and of a base, that ``info`` reads to count what the last commit has.
_MOST_COMMITS, _MOST_BASE = 64 << 20, 1 << 30
#: Partitions that are shown one by one; those of files are numbered by their names.
_FEW_PARTITIONS, _LAST_SHOWN = 8, 1 << 31


def _live_info(path: Path) -> dict[str, Any]:
    """Describe the directory of a live graph as of its last commit, or of its base.

    ``"lsn"`` is the number of that commit; None: the counts are those of the base, and
    ``"not_read"`` says why.
    """
    info: dict[str, Any] = LiveDirectory(path).info()
    info.update(lsn=None, not_read=None, streams={})
    if info["commit_bytes"] > _MOST_COMMITS or info["base_bytes"] > _MOST_BASE:
        info["not_read"] = "it is large: open or attach the graph to count what it adds"
    else:
        try:
            with History(path, ARENA_MB) as history:
                now = HeteroSnapshot.of(history.last())
                info.update(num_nodes=now.num_nodes, lsn=now.lsn, streams=history.streams)
                _take_counts(info, now)
        except AetherError as error:
            info["not_read"] = str(error)
    if info["lsn"] is None and info["base"] is not None:
        with HeteroGraph.load(Path(info["path"]) / info["base"]) as base:
            _take_counts(info, base)
    return info


def _take_counts(info: dict[str, Any], graph: HeteroGraph) -> None:
    for kind, count in zip(info["edge_types"], graph.num_edges.values(), strict=True):
        kind["num_edges"] = count


def _place_of(offsets: dict[int, int]) -> str:
    """Say up to where a stream was read."""
    if len(offsets) == 1:
        return f"read up to {next(iter(offsets.values())):,}"
    if len(offsets) > _FEW_PARTITIONS or max(offsets) > _LAST_SHOWN:
        return f"read up to {sum(offsets.values()):,} in {len(offsets):,} partitions together"
    places = (f"{number:,} in partition {name}" for name, number in sorted(offsets.items()))
    return f"read up to {', '.join(places)}"


def _times_in(unit: str | None) -> str:
    return "times" if unit is None else f"times in {unit} since 1970-01-01"


def _live_rows(info: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("directory", str(info["path"]))]
    for name, count in info["num_nodes"].items():
        kept = [f"{count:,} nodes"]
        if name in info["node_time"]:
            kept.append(_times_in(read_time_dtype(info["node_time"][name], NODE_TIME)))
        rows.append(("node type", f"{name}: {', '.join(kept)}"))
    for kind in info["edge_types"]:
        kept = [f"{kind['num_edges']:,} edges"] if "num_edges" in kind else []
        kept += [f"order {kind['order']}", kind["layout"]]
        kept += [_times_in(kind["time_unit"])] * kind["has_time"]
        kept += ["weights"] * kind["has_weight"] + [*kind["attrs"]]
        rows.append(("edge type", f"{' -> '.join(kind['name'])}: {', '.join(kept)}"))
    base = info["base"] or "none yet"
    if info["lsn"] is not None:
        rows.append(("counted", f"as of commit {info['lsn']} of the log, the last one"))
    else:
        rows.append(("counted", "in the base alone, without the commits of the log"))
        rows.append(("not read", f"the log: {info['not_read']}"))
    for name, offsets in info["streams"].items():
        rows.append(("stream", f"{name}: {_place_of(offsets)}"))
    rows.append(("base", f"{base}, of commit {info['base_lsn']} of the log"))
    room = f"{size(info['log_bytes'])} in {info['log_files']} files"
    rows.append(("log", f"{size(info['commit_bytes'])} of commits, {room}"))
    writer = "nobody" if info["writer"] is None else f"process {info['writer']}"
    rows.append(("written by", writer))
    return rows


@command
def info_command(
    path: Annotated[
        Path,
        typer.Argument(
            help="Graph, features, columns, map of ids, .npy, or directory of a live graph."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Show what a file holds; reads its header only.

    Of a live graph it is what the last commit has, for which it reads the log, if that has at most
    64 MiB of commits, and no base of more than 1 GiB is below it; else what the base has.
    """
    if is_live_directory(path):
        live = _live_info(path)
        if as_json:
            print_json({"kind": "live", **live})
        else:
            print_table(_live_rows(live))
        return
    kind = file_kind(path)
    if kind == "graph":
        info, rows = _describe(path)
    elif kind == "ids":
        info, rows = _ids_info(path)
    elif kind == "columns":
        info, rows = _columns_info(path)
    else:
        info = _feature_info(path)
        rows = [
            ("file", f"{info['path']} ({size(info['file_bytes'])})"),
            ("format", "numpy array" if kind == "npy" else "native features"),
            ("shape", " x ".join(f"{n:,}" for n in info["shape"])),
            ("dtype", str(info["dtype"])),
        ]
    if as_json:
        print_json({"kind": kind, **info})
    else:
        print_table(rows)


@command
def verify_command(
    paths: Annotated[
        list[Path], typer.Argument(help="Graphs, with what lies beside; other files, live graphs.")
    ],
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate",
            help="Let the damaged log of a live graph end before the damage; keeps the old files.",
        ),
    ] = False,
    time: Annotated[
        bool,
        typer.Option(
            "--time", help="Sample graphs with times, and prove that no seed sees its future."
        ),
    ] = False,
) -> None:
    """Read whole files and compare every checksum, id and offset.

    With --time also draw samples, and compare each of their nodes and edges with its seed's time.
    Of the directory of a live graph these are its base, rows and log.
    All files are read, whatever is wrong with one of them; the exit status tells.
    """
    failed = 0
    with Stages() as stages:
        for path in paths:
            began = perf_counter()
            try:
                if truncate:
                    _truncate(path)
                verdict = _verify(path, stages)
                if time:
                    verdict += f"; {_verify_times(path, stages)}"
            except (AetherError, OSError) as error:
                if len(paths) == 1:
                    raise
                failed += 1
                print_error(str(error))
                continue
            seconds = perf_counter() - began
            length = f"{size(path.stat().st_size)}, " if path.is_file() else ""
            text = f"{path}: {verdict} ({length}{duration(seconds)})"
            stdout().print(text, markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _truncate(path: Path) -> None:
    if not is_live_directory(path):
        raise InvalidArgumentError(f"--truncate: {path} is no directory of a live graph")
    done = truncate_log(path)
    if done is not None:
        stdout().print(f"{path}: {done}", markup=False, soft_wrap=True)


def _verify_times(path: Path, stages: Stages) -> str:
    progress = stages("Sampling", "batches")
    if is_live_directory(path):
        with History(path, ARENA_MB) as history:
            report = sample_and_check(HeteroSnapshot.of(history.last()), path, progress)
    elif file_kind(path) == "graph":
        with HeteroGraph.load(path) as graph:
            report = sample_and_check(graph, path, progress)
    else:
        raise InvalidArgumentError(f"--time: {path} is neither a graph file nor a live graph")
    text = (
        f"nothing is later than its seed in {report.batches:,} samples ({report.nodes:,} nodes and "
        f"{report.edges:,} edges with times)"
    )
    if report.untimed():
        text += f"; not compared, as they have no times: {', '.join(report.untimed())}"
    if report.undated:
        text += f"; of what time the rows are is not known of {', '.join(report.undated)}"
    return text


def _verify(path: Path, stages: Stages) -> str:
    if is_live_directory(path):
        return f"{verify_directory(path, stages('Verifying', 'B'))}: all checksums are right"
    kind = file_kind(path)
    if kind == "npy":
        FeatureTable.load(path).close()
        return "header and size are right; .npy files have no checksums"
    progress = stages("Verifying", "B")
    if kind == "graph":
        with HeteroGraph.load(path) as graph:
            graph.verify(progress)
            verdicts = [
                f"{Path(file.path).name}: {_verify(Path(file.path), stages)}"
                for files in (graph.ids, graph.columns)
                for file in files.values()
            ]
        return "; ".join(["all checksums, ids and offsets are right", *verdicts])
    if kind == "ids":
        with IdMap.load(path) as ids:
            ids.verify(progress)
            return f"all checksums are right, and {len(ids):,} keys are found by their ids"
    if kind == "columns":
        with ColumnStore.load(path) as columns:
            columns.verify(progress)
            return f"all checksums of {len(columns):,} rows are right"
    with FeatureTable.load(path) as store:
        store.verify(progress)
        return f"all checksums of {store.num_rows:,} rows are right"
