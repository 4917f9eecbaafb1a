"""Edges, features and labels from files into a graph file and its companions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from aethergraph import _binding as native
from aethergraph.build.companions import Companions, output_names
from aethergraph.build.form import GraphForm
from aethergraph.build.inputs import expand_inputs, is_url
from aethergraph.build.outputs import check_outputs
from aethergraph.build.readers import AttrSpec, EdgePlan, EdgeTable, attr_specs, read_edges
from aethergraph.build.reorder import Room
from aethergraph.build.result import Clock, ConvertResult, Stages, check_density, silent
from aethergraph.build.source import ColumnSelector, PathLike, ProgressFn
from aethergraph.build.within import BoundedJob
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph import Graph

__all__ = ["ConvertResult", "Stages", "convert", "drop_duplicates", "with_reverses"]

Array = npt.NDArray[Any]


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
    memory_budget: int | str | None = None,
    restart: bool = False,
    force: bool = False,
    threads: int | None = None,
    stages: Stages | None = None,
    remark: Callable[[str], None] | None = None,
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
        memory_budget: bytes, or a text such as "1G", that the process may take in all; edges are
            then sorted on disk, in a folder beside ``output`` (``output.building``) that needs
            room for 8 bytes per edge and their values, or for the result once more, if that is
            larger. The files are the same. After a kill, the same call goes on where it was.
            None: in memory.
        restart: with ``memory_budget``: begin anew instead.
        force: overwrite outputs.
        stages: announces stages and takes progress.
        remark: takes what is worth telling at once, such as where a build goes on.

    Errors:
        InputError: what is wrong in an input, with file, line and column.
        StorageError: an output cannot be written. Nothing is left behind, but, with
            ``memory_budget``, the work folder, from which the same call goes on.
        InvalidArgumentError: among others, a budget that is too small (names the least), and a
            work folder of another command (names what changed).
    """
    files = expand_inputs(inputs)
    for path in (features, labels):
        if path is not None and is_url(path):
            raise UnsupportedError(f"{os.fspath(path)}: only edges may be given by URL")
    names = output_names(output, features, features_out, dtype, labels, labels_out)
    sources = [os.fspath(p) for p in [*files, features, labels] if p is not None]
    result = ConvertResult(os.fspath(output), layout=layout)
    show = stages or silent

    def open_companions(stack: ExitStack, room: Room | None = None) -> Companions:
        companions = Companions(stack, id_column, show, room)
        if features is not None:
            companions.open_features(features, names[1], dtype)
        if labels is not None:
            companions.open_labels(labels, names[2])
        return companions

    if memory_budget is not None:
        form = GraphForm(layout, keep_order, undirected, dedup, num_nodes, compress)
        plan = EdgePlan(src, dst, weight, time_column, attr_specs(attrs), time_type, num_nodes)
        reading = {"format": format, "delimiter": delimiter, "header": header}
        options = {
            **reading,
            "src": src,
            "dst": dst,
            "weight": weight,
            "time": time_column,
            "time_type": time_type,
            "attrs": [[one.name, one.columns, one.dtype] for one in plan.attrs],
            "companions": [str(c) for c in (features, features_out, dtype, labels, labels_out)],
        }
        check_outputs([os.fspath(output)], sources, force)
        job = BoundedJob(
            files,
            output,
            form,
            memory_budget,
            options,
            threads=threads,
            restart=restart,
            remark=remark,
        )
        try:
            check_outputs([n for n in names if n is not None], sources, force or job.has_companions)
            job.run(plan, reading, open_companions, result, show)
        finally:
            job.journal.remove_if_new()
        return result
    check_outputs([n for n in names if n is not None], sources, force)
    clock = Clock(result.seconds)
    with ExitStack() as stack:
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
        companions = open_companions(stack)
        clock.lap("features")
        result.num_nodes = companions.check_rows(table.num_nodes, num_nodes)
        check_density(files[0], result.num_nodes, table.num_edges)
        graph = _build(table, result, layout, keep_order, undirected, dedup, show)
        del table
        clock.lap("build")
        companions.commit_features(result)
        companions.commit_labels(result)
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
