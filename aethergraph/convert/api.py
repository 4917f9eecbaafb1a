"""Conversion of edges, features and labels from files to a graph file and its companions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, get_args

from aethergraph._checks.options import as_choice, as_flag, as_list
from aethergraph.convert.arguments import as_file, as_reading, as_threads
from aethergraph.convert.companions import CompanionFiles
from aethergraph.convert.external.driver import convert_within
from aethergraph.convert.form import GraphForm
from aethergraph.convert.in_memory import convert_in_memory
from aethergraph.convert.inputs import expand_inputs
from aethergraph.convert.keyed import Ids, KeyedJob
from aethergraph.convert.readers.base import ColumnSelector, PathLike
from aethergraph.convert.readers.edge_plan import (
    AttrSpec,
    EdgePlan,
    TimeType,
    WeightType,
    attr_specs,
)
from aethergraph.convert.request import Request
from aethergraph.convert.result import ConvertResult, Stages, silent
from aethergraph.storage.budget import Budget

__all__ = ["ConvertResult", "Stages", "convert"]


def convert(
    inputs: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    num_nodes: int | None = None,
    src: ColumnSelector | None = None,
    dst: ColumnSelector | None = None,
    weight: ColumnSelector | None = None,
    time_column: ColumnSelector | None = None,
    time_type: TimeType = "auto",
    time_unit: str | None = None,
    weight_type: WeightType = "auto",
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
    feature_columns: Sequence[ColumnSelector] | None = None,
    dtype: str | None = None,
    labels: PathLike | None = None,
    labels_out: PathLike | None = None,
    id_column: ColumnSelector | None = None,
    ids: Ids = "dense",
    memory_budget: int | str | None = None,
    restart: bool = False,
    force: bool = False,
    threads: int | None = None,
    stages: Stages | None = None,
    remark: Callable[[str], None] | None = None,
) -> ConvertResult:
    """Convert edge lists (see :func:`aethergraph.convert.read_edges`) into a graph file.

    Args:
        inputs: files of edges, as ``paths`` of :func:`aethergraph.convert.read_edges`.
        output: the graph file to write.
        num_nodes: the number of nodes; None: the largest id + 1, or the rows of features and
            labels if there are more.
        src: as in :func:`aethergraph.convert.read_edges`.
        dst: as in :func:`aethergraph.convert.read_edges`.
        weight: as in :func:`aethergraph.convert.read_edges`.
        time_column: as ``time`` in :func:`aethergraph.convert.read_edges`.
        time_type: as in :func:`aethergraph.convert.read_edges`.
        time_unit: as in :func:`aethergraph.convert.read_edges`.
        weight_type: as in :func:`aethergraph.convert.read_edges`.
        attrs: as in :func:`aethergraph.convert.read_edges`.
        format: as in :func:`aethergraph.convert.read_edges`.
        delimiter: as in :func:`aethergraph.convert.read_edges`.
        header: as in :func:`aethergraph.convert.read_edges`.
        layout: as in :meth:`aethergraph.Graph.from_edges`.
        keep_order: as in :meth:`aethergraph.Graph.from_edges`.
        undirected: add the reverse of every edge that is not a self-loop.
        dedup: keep the first of edges with the same source and destination.
        compress: store the neighbours in compressed blocks, see :meth:`aethergraph.Graph.save`.
        features: table of features, one row per node: .npy, native, CSV or Parquet.
        features_out: file for the features; .npy, any other name is the native format. Default:
            beside the graph. A .npy input is used as it is unless ``features_out`` or ``dtype``
            is given.
        feature_columns: the columns that are features, by name or number from 0, of a text or
            Parquet file; default: all but the id column. A Parquet column of lists is as many
            columns as a list has numbers.
        dtype: store the features as "bfloat16", "float16", "float32" ... Text and Parquet files
            are read as float32 unless this is "float64".
        labels: one integer per node: .npy, CSV or Parquet -> int64 .npy.
        labels_out: file for the labels, .npy; default: beside the graph.
        id_column: the column of text and Parquet tables that holds the node id; default: row i
            belongs to node i.
        ids: what the end points of edges are. "dense": ids, 0 .. N-1. "string", "int64", "uint64"
            or "uuid": keys, which get ids in the order of their first appearance (row by row, the
            source first); a map of ids (:class:`aethergraph.ids.IdMap`) is written beside the
            graph, ``graph.node.ids`` beside ``graph.aeg``, and ``Graph.load(output).ids`` opens
            it. Of CSV, TSV and Parquet, without features and labels. It is done within a memory
            budget always; the default is 4 GiB, or half of the memory if that is less.
        memory_budget: bytes, or a text such as "1G", that the process may take in all; edges are
            then sorted on disk, in a folder beside ``output`` (``output.building``) that needs
            room for 8 bytes per edge and their values, or for the result once more, if that is
            larger. The files are the same. After a kill, the same call continues where it was.
            None: in memory.
        restart: with ``memory_budget``: begin anew instead of continuing.
        force: overwrite outputs.
        threads: parsing and sorting threads; None or 0: as many as the native core uses.
        stages: called with name and unit of a stage; returns the stage's progress function.
        remark: called at once with remarks, such as where a build continues.

    Returns:
        The files that were written, and their sizes.

    Raises:
        InputError: a bad input, with file, line and column of the fault.
        StorageError: an output cannot be written. Nothing is left behind, except, with
            ``memory_budget``, the work folder, from which the same call continues.
        InvalidArgumentError: among others, a budget that is too small (names the least), and a
            work folder of another command (names what changed).
    """
    carried = (weight, time_column, attr_specs(attrs), time_type)
    plan = EdgePlan(src, dst, *carried, num_nodes, time_unit, weight_type)
    columns = None
    if feature_columns is not None:
        selectors = [feature_columns] if isinstance(feature_columns, str) else feature_columns
        columns = tuple(as_list(selectors, "feature_columns", "columns"))
    request = Request(
        expand_inputs(inputs),
        as_file(output),
        GraphForm(layout, keep_order, undirected, dedup, num_nodes, compress),
        plan,
        as_reading(format, delimiter, header),
        CompanionFiles(features, features_out, dtype, labels, labels_out, id_column, columns),
    )
    threads, force = as_threads(threads), as_flag(force, "force")
    restart = as_flag(restart, "restart")
    show = stages or silent
    budget = Budget.optional(memory_budget, "memory_budget (--memory)")
    ids = as_choice(ids, get_args(Ids), "ids")
    if ids != "dense":
        say = remark or (lambda text: None)
        job = KeyedJob(
            request, ids, budget, threads=threads, restart=restart, show=show, remark=say
        )
        return job.run(force)
    if budget is None:
        return convert_in_memory(request, force=force, threads=threads, show=show)
    return convert_within(
        request,
        budget,
        force=force,
        threads=threads,
        restart=restart,
        show=show,
        remark=remark,
    )
