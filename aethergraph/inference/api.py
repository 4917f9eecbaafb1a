"""embed: vectors of every node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_flag, as_list, shown
from aethergraph.convert.arguments import as_file
from aethergraph.convert.external.journal import left_behind
from aethergraph.convert.outputs import check_outputs
from aethergraph.convert.readers.base import PathLike
from aethergraph.convert.result import Stages, silent
from aethergraph.errors import InvalidArgumentError, LayoutError, UnsupportedError
from aethergraph.features import FeatureTable, attribute_store
from aethergraph.features.files import is_npy_name
from aethergraph.graph.schema import EDGE, Schema
from aethergraph.inference.job import Embedding, Layer, Options, describe_command
from aethergraph.loading.columns import edge_columns
from aethergraph.protocols import AnyGraph, FeatureSource, HomogeneousGraph
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.fanouts import as_fanout
from aethergraph.storage.budget import Budget

__all__ = ["embed"]

_DEFAULT = 4 << 30


def embed(
    layers: Sequence[Layer],
    graph: HomogeneousGraph,
    features: FeatureSource | ArrayLike | None,
    out: PathLike,
    *,
    batch_size: int | None = None,
    num_neighbors: int | Sequence[int] | None = None,
    edge_attrs: str | Sequence[str] = (),
    memory_budget: int | str | None = None,
    dtype: str | np.dtype[Any] | None = None,
    seed: int = 0,
    force: bool = False,
    restart: bool = False,
    stages: Stages | None = None,
    remark: Callable[[str], None] | None = None,
) -> FeatureTable:
    """Compute a vector for every node, layer by layer, into a ``.npy`` file.

    Every layer is done for all nodes before the next one, in the order of their ids, with all of
    their neighbours: each row is computed once, not again for each node that it is in reach of.
    What a layer returns is a file that the next one reads, in ``out.building``, a folder beside the
    output. ::

        def total(batch):                             # of a node and its neighbours
            rows, (row, col) = batch.x[: batch.batch_size].copy(), batch.edge_index
            np.add.at(rows, col, batch.x[row])
            return rows

        table = embed([total, total], graph, graph.features, "vectors.npy")

    A call that was killed goes on where it was, at most a few seconds before, when it is repeated.
    It is refused if the graph, the features or the layers have changed since.

    Args:
        layers: functions of a :class:`aethergraph.loading.Batch`, one for each layer: see
            :class:`Layer`. They are called in this thread, while others read ahead.
        graph: a graph of one type, which stores in-edges. One that changes is taken as it is now.
        features: what the first layer reads, a row for each node; None: ``graph.features``.
        out: the file to write, ``.npy``.
        batch_size: nodes of a batch at most; None: as many as have 16 MB of rows, about. Batches
            with many edges have fewer.
        num_neighbors: neighbours to draw for a node in each layer, or a number for each layer;
            None, or -1: all of them, and so the output is exact.
        edge_attrs: names of attributes of edges that batches have; ``"edge_weight"`` and
            ``"edge_time"`` are those of the graph.
        memory_budget: bytes, or a text such as ``"4G"``, for the rows of layers and for batches.
            The graph and the features have budgets of their own. Default: 4 GiB, or half of the
            memory if that is less.
        dtype: ``"float16"``, ``"float32"`` or ``"float64"``: dtype of the output; None: that which
            the last layer returns.
        seed: with ``num_neighbors``, decides which are drawn.
        force: overwrite the output.
        restart: begin anew instead of going on.
        stages: called with name and unit of each layer; returns its progress function.
        remark: called with remarks, such as where the work goes on.

    Returns:
        The output, mapped; its ``path`` is ``out``.

    Raises:
        InvalidArgumentError: a bad argument; a layer that does not take what the one before it
            returns, or returns something else than rows; a budget that is too small for the node
            with most neighbours, with the least; a work folder of another call, with what differs.
        LayoutError: the graph does not store in-edges.
        UnsupportedError: a graph of several types.
        DiskFullError, StorageError: the files cannot be written. The work goes on when the call is
            repeated.
        FileChangedError: the graph or the features were written to meanwhile.
    """
    functions = as_list(layers, "layers", "functions")
    if not functions:
        raise InvalidArgumentError("layers has no layer")
    for number, layer in enumerate(functions):
        if not callable(layer):
            raise InvalidArgumentError(f"layers[{number}] = {shown(layer)} is no function")
    at = _as_graph(graph)
    count = at.num_nodes
    if features is None and at.node_attrs.get("x") is None:
        raise InvalidArgumentError("features is None, and the graph has none: give rows of nodes")
    rows = attribute_store(
        at.node_attrs["x"] if features is None else features, count, "features", "num_nodes"
    )
    for name, attr in graph.node_attrs.items() if rows.is_live and graph.is_live else ():
        if attr.is_same_rows(rows):
            rows = at.node_attrs[name]
    if rows.is_live:
        raise InvalidArgumentError(
            "features are rows that change meanwhile: give those of now, features.array"
        )
    names = [edge_attrs] if isinstance(edge_attrs, str) else as_list(edge_attrs, "edge_attrs")
    options = Options(
        _as_fanouts(num_neighbors, len(functions)), _as_batch_size(batch_size), _as_dtype(dtype),
        as_integer(seed, "seed"), Budget.optional(memory_budget) or Budget.default(_DEFAULT),
    )  # fmt: skip
    columns = edge_columns(Schema(at, edge_rows={EDGE: at.edge_values}), names)
    path, force, restart = as_file(out), as_flag(force, "force"), as_flag(restart, "restart")
    if not is_npy_name(path):
        raise InvalidArgumentError(f"out = {path!r} is no .npy file")
    inputs = [name for name in (graph.path, rows.path) if name]
    # A call that was killed at its end may have written the output.
    goes_on = not restart and left_behind(path) is not None
    check_outputs([path], inputs, force or goes_on)
    command = describe_command(functions, graph, at, rows, options, columns)
    job = Embedding(functions, at, rows, columns, options, command, stages or silent)
    job.run(path, force, restart, remark or (lambda text: None))
    return FeatureTable.load(path)


def _as_graph(graph: Any) -> HomogeneousGraph:
    """Return a graph at this moment."""
    if not isinstance(graph, AnyGraph):
        raise not_a_graph(graph, "Graph", "embed")
    if graph.is_typed:
        raise UnsupportedError("graph has several types of nodes: embed takes graphs of one")
    if graph.layout == "csr":
        raise LayoutError("graph stores out-edges alone: embed needs layout 'csc' or 'both'")
    pinned: HomogeneousGraph = graph.pinned()
    return pinned


def _as_fanouts(value: Any, count: int) -> list[int]:
    if value is None:
        return [-1] * count
    if isinstance(value, (list, tuple, np.ndarray)):
        fanouts = [as_fanout(n, "num_neighbors", at) for at, n in enumerate(value)]
        if len(fanouts) != count:
            raise InvalidArgumentError(
                f"num_neighbors has {len(fanouts)} numbers, but there are {count} layers"
            )
        return fanouts
    return [as_fanout(value, "num_neighbors")] * count


def _as_batch_size(value: Any) -> int | None:
    if value is None:
        return None
    if as_count(value, "batch_size") < 1:
        raise InvalidArgumentError(f"batch_size = {value} is not at least 1")
    return int(value)


def _as_dtype(value: Any) -> np.dtype[Any] | None:
    if value is None:
        return None
    name = native.DTYPE_NAMES[native.dtype_code(value)]
    if name == "bfloat16":
        raise UnsupportedError(
            "dtype = 'bfloat16': a .npy file cannot hold it; leave dtype out, and "
            "FeatureTable.load(out).save('vectors.feat', 'bfloat16') makes a native file of it"
        )
    if name not in ("float16", "float32", "float64"):
        raise InvalidArgumentError(f"dtype = {shown(value)} is no float")
    return np.dtype(name)
