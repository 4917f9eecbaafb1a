"""Samples of every kind as trees of seeds: ids, and the seed that each node is there for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import to_array
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError

__all__ = ["SampledTrees", "trees_of"]

Array = NDArray[Any]


@dataclass
class SampledTrees:
    """Sample as arrays by type; None stands for the type of a graph that has one.

    Attributes:
        nodes: ids by node type.
        trees: by node type, the number of the seed that each node was sampled for.
        edges: by edge type (local source, local destination, id).
        num_seeds: by node type, how many of the first nodes are seeds.
        seed_time: times of the seeds by their number.
        fields: by node or edge type, the fields of the batch with a value for each node or edge;
            None: a sample without rows, for which any may be gathered.
    """

    nodes: dict[Any, Array]
    trees: dict[Any, Array]
    edges: dict[Any, tuple[Array, Array, Array]]
    num_seeds: dict[Any, int]
    seed_time: Array
    fields: dict[Any, set[str]] | None = None


def trees_of(graph: Any, batch: Any, seed_time: Any) -> SampledTrees:
    """Return a batch as trees.

    Raises:
        InvalidArgumentError: it is of another kind, or lacks trees, ids or times of seeds.
    """
    if hasattr(batch, "node") and hasattr(batch, "row"):
        return _of_ours(graph, batch, seed_time)
    if hasattr(batch, "node_types") and hasattr(batch, "edge_types"):
        return _of_hetero_data(graph, batch, seed_time)
    if hasattr(batch, "edge_index") and hasattr(batch, "to_dict"):
        return _of_data(graph, batch, seed_time)
    raise InvalidArgumentError(
        f"a batch is PyG's Data or HeteroData, or a Subgraph or HeteroSubgraph, got {shown(batch)}"
    )


def _array(value: Any) -> Array:
    return np.asarray(value.cpu() if hasattr(value, "cpu") else value)


def _vector(times: Any) -> Array:
    try:
        times = times.cpu() if hasattr(times, "cpu") else times
    except (NotImplementedError, RuntimeError) as error:  # of tensors without memory
        raise InvalidArgumentError(f"seed_time cannot be read: {error}") from None
    vector = to_array(times, "seed_time")
    if vector.ndim != 1 or vector.dtype.kind not in "iuf":
        raise InvalidArgumentError(
            "seed_time is a vector of numbers in the unit of the graph, got shape "
            f"{vector.shape} of {vector.dtype}"
        )
    return vector


def _fields(store: Any, count: int) -> set[str]:
    """Return the names of what has a row for each of ``count`` nodes or edges."""
    pairs = store.items()
    return {
        str(name) for name, value in pairs if tuple(getattr(value, "shape", ()))[:1] == (count,)
    }


def _need(value: Any, noun: str) -> Any:
    if value is None:
        raise InvalidArgumentError(f"the batch has no {noun}")
    return value


def _need_trees(trees: Any) -> Any:
    if trees is None:
        raise InvalidArgumentError(
            "the batch does not tell which seed each node is there for: give the loader or sampler "
            "time_attr=, or to look at what is drawn without times, disjoint=True"
        )
    return trees


# ---- our samples -------------------------------------------------------------------------------


def _of_ours(graph: Any, sub: Any, seed_time: Any) -> SampledTrees:
    trees = _need_trees(sub.batch)
    counts = sub.num_sampled_nodes
    if not isinstance(sub.node, Mapping):
        nodes, trees = {None: _array(sub.node)}, {None: _array(trees)}
        edges = {None: (_array(sub.row), _array(sub.col), _array(sub.edge))}
        first = {None: 0 if counts is None else int(counts[0])}
    else:
        nodes = {name: _array(ids) for name, ids in sub.node.items()}
        trees = {name: _array(ids) for name, ids in trees.items()}
        if not graph.is_typed:
            raise InvalidArgumentError("the samples are of many types, and the graph of one")
        edges = {k: (_array(sub.row[k]), _array(sub.col[k]), _array(sub.edge[k])) for k in sub.row}
        first = {name: 0 if counts is None else int(counts[name][0]) for name in nodes}
    if seed_time is None:
        times = _times_of_seeds(graph, nodes, trees, first)
    elif isinstance(seed_time, Mapping) and graph.is_typed:
        # Seeds are numbered through the node types in the order of the graph.
        vectors = [_vector(seed_time[name]) for name in graph.node_types if name in seed_time]
        times = np.concatenate(vectors) if vectors else np.empty(0, np.int64)
    else:
        times = _vector(seed_time)
    return _checked(SampledTrees(nodes, trees, edges, first, times))


# ---- PyG ---------------------------------------------------------------------------------------


def _of_hetero_data(graph: Any, data: Any, seed_time: Any) -> SampledTrees:
    if not graph.is_typed:
        raise InvalidArgumentError("the batches are of many types, and the graph of one")
    nodes, trees, first = {}, {}, {}
    fields: dict[Any, set[str]] = {}
    for name in data.node_types:
        store = data[name]
        if "n_id" not in store:
            continue
        nodes[name] = _array(store.n_id)
        fields[name] = _fields(store, len(nodes[name]))
        trees[name] = _array(_need_trees(store.get("batch")))
        counts = store.get("num_sampled_nodes")
        first[name] = 0 if counts is None else int(counts[0])
    edges = {}
    for kind in data.edge_types:
        store = data[kind]
        if "edge_index" in store:  # types of seed links have none
            row, col = _array(store.edge_index)
            fields[kind] = _fields(store, len(row))
            edges[kind] = (row, col, _array(_need(store.get("e_id"), f"e_id of {kind}")))
    stores = [data[kind] for kind in (*data.node_types, *data.edge_types)]
    times = _given_times(stores, seed_time)
    if times is None:
        times = _times_of_seeds(graph, nodes, trees, first)
    return _checked(SampledTrees(nodes, trees, edges, first, times, fields))


def _of_data(graph: Any, data: Any, seed_time: Any) -> SampledTrees:
    nodes = {None: _array(_need(data.get("n_id"), "n_id"))}
    trees = {None: _array(_need_trees(data.get("batch")))}
    row, col = _array(data.edge_index)
    edges = {None: (row, col, _array(_need(data.get("e_id"), "e_id")))}
    counts = data.get("num_sampled_nodes")
    first: dict[Any, int] = {None: 0 if counts is None else int(counts[0])}
    times = _given_times([data], seed_time)
    if times is None:
        times = _times_of_seeds(graph, nodes, trees, first)
    fields = {None: _fields(data, len(nodes[None])) | _fields(data, len(row))}
    return _checked(SampledTrees(nodes, trees, edges, first, times, fields))


def _given_times(stores: list[Any], seed_time: Any) -> Array | None:
    """Return the times that the caller or a batch gives; negatives of links come behind them."""
    ids = next(
        (_array(store.input_id) for store in stores if store.get("input_id") is not None), None
    )
    if seed_time is not None:
        vector = _vector(seed_time)
        chosen: Array = _need(ids, "input_id, so seed_time does not say whose times it has")
        if len(chosen) and int(chosen.max()) >= len(vector):
            raise InvalidArgumentError(
                f"seed_time has {len(vector)} times, but a batch has the seed {int(chosen.max())}"
            )
        return np.asarray(vector[chosen])
    for store in stores:
        for name in ("seed_time", "edge_label_time"):
            times = store.get(name)
            if times is not None:
                return _array(times)[: None if ids is None else len(ids)]
    return None


def _times_of_seeds(
    graph: Any, nodes: Mapping[Any, Array], trees: Mapping[Any, Array], first: Mapping[Any, int]
) -> Array:
    """Return the times of the seed nodes, which are theirs unless others are given."""
    time_by_seed: dict[int, Any] = {}
    for name, count in first.items():
        part = graph[name] if graph.is_typed else graph
        if count and part.node_time is None:
            raise InvalidArgumentError(
                "the batch has no times of its seeds, and their nodes have none: give seed_time"
            )
        if count:
            times = np.asarray(part.node_time[nodes[name][:count]])
            time_by_seed.update(zip(trees[name][:count].tolist(), times.tolist(), strict=True))
    if not time_by_seed:
        raise InvalidArgumentError("the batch does not say which nodes are seeds: give seed_time")
    return np.array([time_by_seed[number] for number in range(len(time_by_seed))])


def _checked(sample: SampledTrees) -> SampledTrees:
    last_seed = max((int(trees.max()) for trees in sample.trees.values() if len(trees)), default=-1)
    if last_seed >= len(sample.seed_time):
        raise InvalidArgumentError(
            f"there are {len(sample.seed_time)} times of seeds, but a node of seed {last_seed}"
        )
    return sample
