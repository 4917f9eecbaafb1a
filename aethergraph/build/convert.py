"""Edges, features and labels from files into a graph file and its companions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from aethergraph import _binding as native
from aethergraph.build.outputs import NpyWriter, check_outputs
from aethergraph.build.readers import AttrSpec, EdgeTable, read_edges
from aethergraph.build.rows import is_array_file, read_labels, write_rows
from aethergraph.build.source import ColumnSelector, InputError, PathLike, ProgressFn
from aethergraph.errors import InvalidArgumentError, LimitError
from aethergraph.features import FeatureStore
from aethergraph.graph import Graph

__all__ = ["ConvertResult", "Stages", "convert", "drop_duplicates", "with_reverses"]

#: ``stages(name, unit)`` announces a stage and returns where to report (done, total).
Stages = Callable[[str, str], ProgressFn]
Array = npt.NDArray[Any]


@dataclass
class ConvertResult:
    """What was written.

    Attributes:
        graph, features, labels: the files; None where nothing was asked for. ``features`` may be
            the input itself, if it can be used as it is.
        seconds: seconds per stage ("read", "features", "build", "write").
        notes: remarks worth telling the user.
    """

    graph: str
    num_nodes: int = 0
    num_edges: int = 0
    read_edges: int = 0
    layout: str = "csc"
    features: str | None = None
    feature_shape: tuple[int, ...] = ()
    labels: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def convert(
    inputs: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    num_nodes: int | None = None,
    src: ColumnSelector | None = None,
    dst: ColumnSelector | None = None,
    weight: ColumnSelector | None = None,
    time_column: ColumnSelector | None = None,
    time_type: Literal["auto", "int64", "float64"] = "auto",
    attrs: Sequence[AttrSpec | str] = (),
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    layout: Literal["csc", "csr", "both"] = "csc",
    keep_order: bool = False,
    undirected: bool = False,
    dedup: bool = False,
    compress: bool = False,
    features: PathLike | None = None,
    features_out: PathLike | None = None,
    dtype: str | None = None,
    labels: PathLike | None = None,
    labels_out: PathLike | None = None,
    id_column: ColumnSelector | None = None,
    force: bool = False,
    threads: int | None = None,
    stages: Stages | None = None,
) -> ConvertResult:
    """Convert edge lists (see :func:`aethergraph.build.read_edges`) into a graph file.

    Arguments:
        num_nodes: the number of nodes; None: the largest id + 1, or the rows of features and
            labels if there are more.
        undirected: add the reverse of every edge that is not a self-loop.
        dedup: keep the first of edges with the same source and destination.
        compress: store the neighbours in compressed blocks, see :meth:`aethergraph.Graph.save`.
        features: table of features, one row per node: .npy, native, CSV or Parquet.
        features_out: where they go; .npy, any other name is the native format. Default: beside
            the graph. A .npy input is used as it is unless ``features_out`` or ``dtype`` is given.
        dtype: store the features as "bfloat16", "float16", "float32" ...
        labels: one integer per node: .npy, CSV or Parquet -> int64 .npy.
        id_column: the column of text and Parquet tables that holds the node id; default: row i
            belongs to node i.
        force: overwrite outputs.
        stages: announces stages and takes progress.

    Errors:
        InputError: what is wrong in an input, with file, line and column.
        StorageError: an output cannot be written. Nothing is left behind.
    """
    files = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    names = _output_names(output, features, features_out, dtype, labels, labels_out)
    sources = [os.fspath(p) for p in [*files, features, labels] if p is not None]
    check_outputs([n for n in names if n is not None], sources, force)
    result = ConvertResult(os.fspath(output), layout=layout)
    show = stages or _silent
    with ExitStack() as stack, _Clock(result.seconds) as clock:
        table = read_edges(
            files,
            src=src,
            dst=dst,
            weight=weight,
            time=time_column,
            attrs=attrs,
            time_type=time_type,
            num_nodes=num_nodes,
            format=format,
            delimiter=delimiter,
            header=header,
            threads=threads,
            progress=show("Reading edges", "B"),
        )
        clock.lap("read")
        result.read_edges = table.num_edges
        if table.unused:
            result.notes.append(f"columns not used: {', '.join(table.unused)}")
        tables = _Tables(stack, id_column, show)
        if features is not None:
            tables.open_features(features, names[1], dtype)
        if labels is not None:
            tables.open_labels(labels, names[2])
        clock.lap("features")
        result.num_nodes = tables.check_rows(table.num_nodes, num_nodes)
        _check_density(files[0], result.num_nodes, table.num_edges)
        graph = _build(table, result, layout, keep_order, undirected, dedup, show)
        del table
        clock.lap("build")
        tables.commit_features(result)
        tables.commit_labels(result)
        graph.save(output, compress=compress, progress=show("Writing graph", "B"))
        clock.lap("write")
    return result


def _build(
    table: EdgeTable,
    result: ConvertResult,
    layout: Literal["csc", "csr", "both"],
    keep_order: bool,
    undirected: bool,
    dedup: bool,
    show: Stages,
) -> Graph:
    if undirected and keep_order:
        raise InvalidArgumentError(
            "keep_order keeps the input row of every edge, which the reverse edges of undirected "
            "do not have: leave one of them out"
        )
    if undirected:
        table = with_reverses(table)
    if dedup:
        before = table.num_edges
        table = drop_duplicates(table, show("Finding duplicates", "B"))
        result.notes.append(f"{before - table.num_edges:,} duplicate edges dropped")
    result.num_edges = table.num_edges
    return Graph.from_edges(
        result.num_nodes,
        table.src,
        table.dst,
        edge_weight=table.weight,
        edge_time=table.time,
        edge_attrs=dict(table.attrs) or None,
        layout=layout,
        keep_order=keep_order,
        progress=show("Building lists", "B"),
    )


class _Tables:
    """Features and labels on their way: opened early, put in place only when all is well."""

    def __init__(self, stack: ExitStack, id_column: ColumnSelector | None, show: Stages) -> None:
        self._stack = stack
        self._id_column = id_column
        self._show = show
        self._rows: dict[str, tuple[str, int]] = {}
        self._store: FeatureStore | None = None
        self._writer: NpyWriter | None = None
        self._features_name: str | None = None
        self._features_path = ""
        self._dtype: str | None = None
        self._labels: npt.NDArray[np.int64] | None = None
        self._labels_name = ""

    def open_features(self, path: PathLike, name: str | None, dtype: str | None) -> None:
        self._features_path = os.fspath(path)
        self._features_name = name
        self._dtype = dtype
        if not is_array_file(path):
            assert name is not None
            self._writer = self._stack.enter_context(
                write_rows(
                    path,
                    name,
                    id_column=self._id_column,
                    progress=self._show("Reading features", "B"),
                )
            )
            path = self._writer.temporary
        # Copied row by row, so any layout will do for an output; else it must be mappable.
        storage: Literal["mmap", "memory"] = "memory" if _column_major(path) and name else "mmap"
        self._store = self._stack.enter_context(FeatureStore.load(path, storage=storage))
        self._rows["features"] = (self._features_path, self._store.num_rows)

    def open_labels(self, path: PathLike, name: str | None) -> None:
        assert name is not None
        self._labels = read_labels(
            path, id_column=self._id_column, progress=self._show("Reading labels", "B")
        )
        self._labels_name = name
        self._rows["labels"] = (os.fspath(path), int(self._labels.size))

    def check_rows(self, from_edges: int, asked: int | None) -> int:
        """The number of nodes, with which all tables agree."""
        nodes = asked
        if nodes is None:
            nodes = max([from_edges, *(rows for _, rows in self._rows.values())])
        for what, (path, rows) in self._rows.items():
            if rows != nodes:
                why = "-n" if asked is not None else "the ids and tables given"
                raise InputError(path, f"{rows:,} rows of {what} for {nodes:,} nodes (by {why})")
        return nodes

    def commit_features(self, result: ConvertResult) -> None:
        if self._store is None:
            return
        result.feature_shape = self._store.shape
        if self._features_name is None:
            result.features = self._features_path
            return
        result.features = self._features_name
        as_it_is = self._dtype is None or self._dtype == self._store.dtype_name
        if self._writer is not None and as_it_is and self._features_name.endswith(".npy"):
            self._store.close()
            self._writer.commit()
            return
        progress = self._show("Writing features", "B")
        self._store.save(self._features_name, dtype=self._dtype, progress=progress)

    def commit_labels(self, result: ConvertResult) -> None:
        if self._labels is None:
            return
        with NpyWriter(self._labels_name, np.int64, ()) as writer:
            writer.append(self._labels)
            writer.commit()
        result.labels = self._labels_name


def _column_major(path: PathLike) -> bool:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError):
        return False
    return array.ndim > 1 and not array.flags.c_contiguous


def _output_names(
    output: PathLike,
    features: PathLike | None,
    features_out: PathLike | None,
    dtype: str | None,
    labels: PathLike | None,
    labels_out: PathLike | None,
) -> tuple[str, str | None, str | None]:
    """The files to write: graph, features (None: the input is used as it is), labels."""
    if features is None and (features_out is not None or dtype is not None):
        raise InvalidArgumentError("an output or a dtype of features was given, but no features")
    if labels is None and labels_out is not None:
        raise InvalidArgumentError("an output of labels was given, but no labels")
    base = Path(output).with_suffix("")
    feature_name = None if features_out is None else os.fspath(features_out)
    if features is not None and feature_name is None and (dtype or not is_array_file(features)):
        feature_name = f"{base}.features.{'bin' if dtype == 'bfloat16' else 'npy'}"
    label_name = None
    if labels is not None:
        label_name = f"{base}.labels.npy" if labels_out is None else os.fspath(labels_out)
    return os.fspath(output), feature_name, label_name


def _check_density(path: PathLike, num_nodes: int, num_edges: int) -> None:
    """Refuse ids so sparse that the node arrays alone would not fit: a sign of hashed ids."""
    if num_nodes > 1 << 26 and num_nodes // 256 > num_edges:
        raise LimitError(
            f"{os.fspath(path)}: the largest node id is {num_nodes - 1}, far above the "
            f"{num_edges:,} edges; ids should be 0..N-1 without gaps, map them first, for "
            "example with numpy.unique(ids, return_inverse=True)"
        )


def with_reverses(table: EdgeTable) -> EdgeTable:
    """The edges and, behind them, the reverse of each that is not a self-loop."""
    back = np.flatnonzero(table.src != table.dst)

    def twice(array: Array | None) -> Array | None:
        return None if array is None else np.concatenate([array, array[back]])

    return EdgeTable(
        np.concatenate([table.src, table.dst[back]]),
        np.concatenate([table.dst, table.src[back]]),
        twice(table.weight),
        twice(table.time),
        {name: np.concatenate([a, a[back]]) for name, a in table.attrs.items()},
        table.num_nodes,
        table.unused,
    )


def drop_duplicates(table: EdgeTable, progress: ProgressFn | None = None) -> EdgeTable:
    """The first of the edges with the same source and destination, in their order.

    Two stable counting sorts, by source and then by destination, bring equal edges together.
    """
    first = np.flatnonzero(_first_of_equal(table.src, table.dst, table.num_nodes, progress))

    def pick(array: Array | None) -> Array | None:
        return None if array is None else array[first]

    return EdgeTable(
        table.src[first],
        table.dst[first],
        pick(table.weight),
        pick(table.time),
        {name: array[first] for name, array in table.attrs.items()},
        table.num_nodes,
        table.unused,
    )


def _first_of_equal(
    src: Array, dst: Array, num_nodes: int, progress: ProgressFn | None
) -> npt.NDArray[np.bool_]:
    def sort(major: Array, minor: Array, half: int) -> Array:
        def report(done: int, total: int) -> None:
            if progress is not None:
                progress(half * total + done, 2 * total)

        def call(task: native.Task | None) -> Array:
            order = native.build_lists(
                major, minor, num_nodes, num_nodes, id_bytes=8, with_order=True, task=task
            )[2]
            assert order is not None
            return order

        return native.run_long(call, report, 16 * len(major))

    order = sort(src, dst, 0)
    order = order[sort(dst[order], src[order], 1)]
    some_src, some_dst = src[order], dst[order]
    new = np.ones(order.size, np.bool_)
    new[1:] = (some_src[1:] != some_src[:-1]) | (some_dst[1:] != some_dst[:-1])
    first = np.zeros(order.size, np.bool_)
    first[order[new]] = True
    return first


def _silent(_name: str, _unit: str) -> ProgressFn:
    return lambda done, total: None


class _Clock:
    """Seconds per lap, into a dict."""

    def __init__(self, laps: dict[str, float]) -> None:
        self._laps = laps
        self._last = time.perf_counter()

    def __enter__(self) -> _Clock:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self._laps[name] = now - self._last
        self._last = now
