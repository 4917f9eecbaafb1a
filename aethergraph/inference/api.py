"""embed: vectors of every node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_flag, as_list, as_text, shown
from aethergraph._checks.times import as_seed_times, datetime_of
from aethergraph.convert.arguments import as_file
from aethergraph.convert.readers.base import PathLike
from aethergraph.convert.result import Stages, silent
from aethergraph.errors import InvalidArgumentError, LayoutError, UnsupportedError
from aethergraph.features.adapters import attribute_store
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.files import is_npy_name
from aethergraph.graph.schema import NODE, Schema, as_typed
from aethergraph.inference.batches import Fanout, Until
from aethergraph.inference.descriptions import describe_command, describe_kept
from aethergraph.inference.job import Embedding, Layer, Options
from aethergraph.inference.planner import Planner
from aethergraph.inference.refresh import refresh_outputs
from aethergraph.inference.table import origin_of
from aethergraph.loading.columns import edge_columns
from aethergraph.protocols import AnyGraph, EdgeType, FeatureSource, HeterogeneousGraph, RowSource
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.fanouts import as_fanout, typed_fanouts
from aethergraph.sampling.plan import Times, lists_of, make_plan, own_times
from aethergraph.sampling.typed_arguments import check_types
from aethergraph.sampling.values import choose_times
from aethergraph.storage.budget import Budget

__all__ = ["embed"]

_DEFAULT = 4 << 30


def embed(
    layers: Sequence[Layer],
    graph: AnyGraph,
    features: FeatureSource | ArrayLike | Mapping[str, FeatureSource | ArrayLike] | None,
    out: PathLike,
    *,
    batch_size: int | None = None,
    num_neighbors: int | Sequence[int] | Mapping[EdgeType, int | Sequence[int]] | None = None,
    until: float | np.datetime64 | None = None,
    time_attr: str | None = None,
    edge_attrs: str | Sequence[str] | Mapping[EdgeType, Sequence[str]] = (),
    memory_budget: int | str | None = None,
    dtype: str | np.dtype[Any] | None = None,
    seed: int = 0,
    force: bool = False,
    restart: bool = False,
    refresh: bool = False,
    plan: bool = False,
    stages: Stages | None = None,
    remark: Callable[[str], None] | None = None,
) -> Any:
    """Compute a vector for every node, layer by layer, into a file.

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
    It is refused if the graph, the features or the layers have changed since. A warning names the
    first node whose row has NaN, and the first with a number that ``dtype`` makes infinite.

    Of a graph of many types every layer is done for one node type after the other. ``out`` is then
    a folder with a file for each type that the last layer returns rows of, ``out/paper.npy``; work
    files are in a folder beside the first of them. Other files there stay as they are. A ``/`` in
    the name of a type is ``%2F``.

    With ``refresh=True`` the rows of all layers stay in ``out.layers``, a folder beside the output,
    of a typed graph in ``out/.layers``, and the same call brings the output to the present commit
    of a live graph: it computes the rows that edges, nodes and features which have changed since
    may have changed, and no others. The output is that of a run over all nodes, to the last bit if
    the layers return a row that does not depend on which others are in the batch. Killed at any
    moment, it leaves the output of the commit before or of the present one, and the next call goes
    on from there. Files of types take their places one right after the other, when all are there.

    Args:
        layers: functions of a :class:`~aethergraph.loading.batch.Batch`, of a typed graph of a
            :class:`~aethergraph.loading.batch.HeteroBatch`, one for each layer: see
            :class:`Layer`. They are called in this thread, while others read ahead.
        graph: a graph that stores in-edges. One that changes is taken as it is now.
        features: what the first layer reads, a row for each node, of a typed graph by node type;
            types that are missing have no rows. None: ``graph.features``, or those of each type.
        out: the file to write, ``.npy``, of bfloat16 with another name; of a typed graph the
            folder of the files.
        batch_size: nodes of a batch at most; None: as many as have 16 MB of rows, about. Batches
            with many edges have fewer.
        num_neighbors: neighbours to draw for a node in each layer, or a number for each layer, of a
            typed graph also by edge type, where types that are missing have none; None, or -1: all
            of them, and so the output is exact.
        until: compute vectors as of this time: from edges whose time is at most this, or, where
            nodes have times, from neighbours of which that is so. Of a typed graph relations
            without times are whole. With ``num_neighbors``, neighbours in time are drawn alike.
        time_attr: with ``until``, the name of the times, as for
            :class:`aethergraph.NeighborSampler`; None: ``"edge_time"`` or ``"node_time"``,
            whichever the graph has.
        edge_attrs: names of attributes of edges that batches have, of a typed graph also by edge
            type; ``"edge_weight"`` and ``"edge_time"`` are those of the graph.
        memory_budget: bytes, or a text such as ``"4G"``, for the rows of layers and for batches.
            The graph and the features have budgets of their own. Default: 4 GiB, or half of the
            memory if that is less.
        dtype: ``"float16"``, ``"float32"`` or ``"float64"``: dtype of the output; None: that which
            the last layer returns. With ``"bfloat16"`` the output is a native file of rows, as no
            ``.npy`` holds it, of a typed graph ``out/paper.bin``.
        seed: with ``num_neighbors``, decides which are drawn.
        force: overwrite the output.
        restart: begin anew instead of going on; with ``refresh``, compute all nodes.
        refresh: keep the rows of all layers; compute what has changed since the last call. The
            graph must store out-edges, too, once something has changed.
        plan: return in which order each layer would be computed, what it reads and how long that
            takes, about, instead of working. Its text is a table. For graphs of one type.
        stages: called with name and unit of each layer; returns its progress function.
        remark: called with remarks, such as where the work goes on.

    Returns:
        The output, mapped, a :class:`aethergraph.FeatureTable`; of a typed graph a table by node
        type. ``table.path`` is the file. With ``plan`` a list with ``order``, ``parts``,
        ``bytes_read`` and ``seconds`` of each layer.

    Raises:
        InvalidArgumentError: a bad argument; a layer that does not take what the one before it
            returns, or returns something else than rows; a budget that is too small for the node
            with most neighbours, with the least; a work folder of another call, with what differs.
            With ``refresh``, an output of other layers, options or another graph, with what
            differs, or of a later commit.
        LayoutError: the graph does not store in-edges; or out-edges, which ``refresh`` needs.
        UnsupportedError: bfloat16 with a ``.npy`` file or ``refresh``; a typed graph with ``plan``.
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
    if as_flag(plan, "plan") and getattr(graph, "is_typed", False):
        raise UnsupportedError("graph has several types of nodes: plan=True takes graphs of one")
    if plan and as_flag(refresh, "refresh"):
        raise InvalidArgumentError("plan=True is for runs over all nodes: leave refresh=True out")
    at = _as_graph(graph)
    typed = as_typed(at)
    schema = Schema(at, edge_rows={kind: typed[kind].edge_values for kind in typed.edge_types})
    rows = _as_rows(features, as_typed(graph), schema)
    names = [edge_attrs] if isinstance(edge_attrs, str) else edge_attrs
    if not isinstance(names, Mapping):
        names = as_list(names, "edge_attrs")
    options = Options(
        _as_fanouts(num_neighbors, len(functions), schema), _as_batch_size(batch_size),
        _as_dtype(dtype), as_integer(seed, "seed"),
        Budget.optional(memory_budget) or Budget.default(_DEFAULT),
        _as_until(until, as_text(time_attr, "time_attr"), Schema(at)),
    )  # fmt: skip
    columns = edge_columns(schema, names)
    path, force, restart = as_file(out), as_flag(force, "force"), as_flag(restart, "restart")
    if schema.is_typed and is_npy_name(path):
        raise InvalidArgumentError(f"out = {path!r} is no folder: it gets a file of each type")
    if options.dtype == "bfloat16":
        _check_bfloat16(path, schema.is_typed, refresh)
    elif not schema.is_typed and not is_npy_name(path):
        raise InvalidArgumentError(f"out = {path!r} is no .npy file")
    note = remark or (lambda text: None)
    command = describe_command(functions, graph, at, rows, options, columns)
    if as_flag(refresh, "refresh"):
        command["refresh"] = True  # work files of layers stay
        if at.native_snapshot is not None:
            command["graph"]["origin"] = origin_of(at, int(at.native_snapshot.lsn))
    work = functions, at, rows, columns, options, command, stages or silent
    if plan:
        return Planner(*work).plan(path)
    job = Embedding(*work)
    if refresh:
        if graph.is_live:
            _flush(graph)
        same = describe_kept(command, graph, at, rows, columns)
        outputs = refresh_outputs(job, path, same, at, rows, force, restart, note)
    else:
        outputs = job.run(path, force, restart, note)
    tables = {name: FeatureTable.load(output) for name, output in outputs.items()}
    return tables if schema.is_typed else tables[NODE]


def _check_bfloat16(path: str, is_typed: bool, refresh: bool) -> None:
    """Raise for an output that cannot be bfloat16."""
    if refresh:
        raise UnsupportedError(
            "dtype = 'bfloat16' goes without refresh=True, which keeps .npy files: leave dtype out"
        )
    if not is_typed and is_npy_name(path):
        raise UnsupportedError(
            f"dtype = 'bfloat16': a .npy file cannot hold it, such as out = {path!r}; with another "
            "name, such as 'vectors.bin', the output is a native file of rows"
        )


def _flush(graph: Any) -> None:
    """Wait until the log of a live graph is on disk, if this process writes it.

    After a crash of the system there would be other commits of the number that is recorded.
    """
    if graph.store.is_writer:
        graph.flush()


def _as_graph(graph: Any) -> AnyGraph:
    """Return a graph at this moment."""
    if not isinstance(graph, AnyGraph):
        raise not_a_graph(graph, "Graph", "embed")
    typed = as_typed(graph)
    for kind in typed.edge_types:
        if typed[kind].layout == "csr":
            named = f"graph[{kind!r}]" if graph.is_typed else "graph"
            raise LayoutError(f"{named} stores out-edges alone: embed needs layout 'csc' or 'both'")
    pinned: AnyGraph = graph.pinned()
    return pinned


def _as_rows(features: Any, graph: HeterogeneousGraph, schema: Schema) -> dict[str, RowSource]:
    """Return what the first layer reads, by node type.

    Args:
        features: as the user gives them.
        graph: the graph as it was given, with its types.
        schema: the types of the graph at its moment.
    """
    if features is None:
        attrs = {name: schema.typed[name].node_attrs.get("x") for name in schema.node_types}
        by_type = {name: rows for name, rows in attrs.items() if rows is not None}
        if not by_type:
            raise InvalidArgumentError(
                "features is None, and the graph has none: give rows of nodes"
            )
    elif schema.is_typed:
        check_types(features, "features", schema.node_types)
        by_type = features
    else:
        by_type = {NODE: features}
    return {name: _as_rows_of(rows, name, graph, schema) for name, rows in by_type.items()}


def _as_rows_of(
    features: Any, node_type: str, graph: HeterogeneousGraph, schema: Schema
) -> RowSource:
    """Return the rows of a type, of a graph that changes those at its moment."""
    label = schema.label("features", node_type)
    counted = schema.label("num_nodes", node_type)
    rows = attribute_store(features, schema.num_nodes(node_type), label, counted)
    for name, attr in graph[node_type].node_attrs.items() if rows.is_live and graph.is_live else ():
        if attr.is_same_rows(rows):
            rows = schema.typed[node_type].node_attrs[name]
    if rows.is_live:
        raise InvalidArgumentError(
            f"{label} are rows that change meanwhile: give those of now, features.array"
        )
    return rows


def _as_fanouts(value: Any, count: int, schema: Schema) -> list[Fanout]:
    """Return the neighbours to draw in each layer."""
    if not schema.is_typed:
        return [*_as_numbers(value, count, "num_neighbors")]
    if not isinstance(value, Mapping):
        numbers = _as_numbers(value, count, "num_neighbors")
        return [dict.fromkeys(schema.edge_types, number) for number in numbers]
    by_type = {
        kind: _as_numbers(of_type, count, f"num_neighbors[{kind!r}]")
        for kind, of_type in value.items()
    }
    # Names types that do not exist; those that are missing have zeros.
    fanouts = typed_fanouts(by_type, schema.edge_types, "num_neighbors")
    return [
        {kind: fanouts[kind][number] if fanouts[kind] else 0 for kind in schema.edge_types}
        for number in range(count)
    ]


def _as_numbers(value: Any, count: int, label: str) -> list[int]:
    """Return a number for each layer."""
    if value is None:
        return [-1] * count
    if isinstance(value, (list, tuple, np.ndarray)):
        fanouts = [as_fanout(number, label, at) for at, number in enumerate(value)]
        if len(fanouts) != count:
            raise InvalidArgumentError(
                f"{label} has {len(fanouts)} numbers, but there are {count} layers"
            )
        return fanouts
    return [as_fanout(value, label)] * count


def _as_until(value: Any, time_attr: str | None, schema: Schema) -> Until | None:
    """Return the time as of which vectors are, in the unit of the graph's times."""
    if value is None:
        if time_attr is not None:
            raise InvalidArgumentError(
                f"time_attr = {time_attr!r} names times for until=: give that, or leave it out"
            )
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number, np.datetime64)):
        raise InvalidArgumentError(
            f"until = {shown(value)} is no time: give a number, or a np.datetime64 where the times "
            "of the graph are datetimes"
        )
    if time_attr is None:
        time_attr = choose_times(schema.graph, own_times(schema), f"until = {value}")
    plan = make_plan(schema, lists_of(schema.edge_types), times=Times(time_attr))
    assert plan.times_dtype is not None
    values: Any = [value]
    unit = plan.time_unit
    (time,) = as_seed_times(values, 1, "until", unit, plan.times_dtype)
    return Until(time_attr, time if unit is None else datetime_of(int(time), unit))


def _as_batch_size(value: Any) -> int | None:
    if value is None:
        return None
    if as_count(value, "batch_size") < 1:
        raise InvalidArgumentError(f"batch_size = {value} is not at least 1")
    return int(value)


def _as_dtype(value: Any) -> str | None:
    """Return the name of a float dtype."""
    if value is None:
        return None
    name = native.DTYPE_NAMES[native.dtype_code(value)]
    if name not in ("float16", "bfloat16", "float32", "float64"):
        raise InvalidArgumentError(f"dtype = {shown(value)} is no float")
    return name
