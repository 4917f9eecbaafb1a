"""Proof on samples that no seed sees its future, stated with numpy alone.

::

    tree of a seed at time 7       node b: time 9        edge (b, a): time 8
        seed ── a ── b             9 > 7: a leak         8 > 7: a leak

What a batch holds is compared with the times of the graph, by the ids of its nodes and edges: no
code of a sampler takes part, and a batch is not asked for its own times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.options import as_flag, as_text, shown
from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.graph import EdgeType
from aethergraph.testing.leak_batches import SampledTrees, trees_of

__all__ = ["LeakError", "LeakReport", "check_no_leak"]


class LeakError(AetherError, AssertionError):
    """Error of a sample that holds what its seed may not know: the first offence of a batch.

    Attributes:
        what: "node" or "edge".
        type: node type or edge type; None of a graph of one type.
        id: id of the node or edge.
        time: its time; None for an edge that joins the trees of two seeds.
        seed: number of the seed in the batch.
        seed_time: time of the seed.
    """

    def __init__(
        self, message: str, what: str, kind: Any, number: int, time: Any, seed: int, seed_time: Any
    ) -> None:
        super().__init__(message)
        self.what = what
        self.type = kind
        self.id = number
        self.time = time
        self.seed = seed
        self.seed_time = seed_time


@dataclass
class LeakReport:
    """Count of what was compared with the times of seeds.

    Attributes:
        batches: number of batches.
        seeds: number of seeds, each with a tree of its own.
        nodes: number of nodes with a time.
        edges: number of edges with a time.
    """

    batches: int = 0
    seeds: int = 0
    nodes: int = 0
    edges: int = 0


def check_no_leak(
    graph: Any,
    batches: Any,
    *,
    strict: bool = False,
    time_attr: str | None = None,
    seed_time: ArrayLike | Mapping[str, ArrayLike] | None = None,
) -> LeakReport:
    """Check that samples hold nothing later than their seeds: no node, and no edge.

    A node or edge with a time may be in the tree of a seed if its time is not later than that of
    the seed; with ``strict`` only if it is earlier. The seeds themselves may be as late as their
    own time in both cases. Types without times are always visible. An edge has to join two nodes of
    one tree.

    Args:
        graph: the graph that was sampled, of one type or of many, with the times.
        batches: a batch, or an iterable of batches such as a loader: PyG's ``Data`` and
            ``HeteroData`` of any temporal loader (around nodes or links), or :class:`Subgraph` and
            :class:`HeteroSubgraph` of our samplers, disjoint.
        strict: the seeds may see only what is earlier than they are.
        time_attr: as of the sampler: "edge_time" compares edges alone, "node_time" nodes alone,
            another name the attribute of that name. None: all times that the graph has.
        seed_time: times of the seeds, in the unit of the graph, where batches do not bring them: of
            our samples those of its seeds, [n] or by node type; of PyG's those of all seeds of the
            loader, by ``input_id``. None: those of the batch, else those of the seed nodes.

    Returns:
        How much was compared. A test should look that it is not nothing.

    Raises:
        LeakError: names the first offence with its id and both times.
        InvalidArgumentError: the graph has no such times, a batch is of another kind, or has no
            trees (``disjoint``), ids or times of seeds.

    Example::

        report = check_no_leak(graph, loader, strict=True)
        assert report.nodes + report.edges > 0
    """
    strict = as_flag(strict, "strict")
    if not isinstance(getattr(graph, "is_typed", None), bool):
        raise InvalidArgumentError(f"graph is a graph of one type or of many, got {shown(graph)}")
    times = _Times(graph, as_text(time_attr, "time_attr"))
    report = LeakReport()
    for batch in _each(batches):
        sample = trees_of(graph, batch, seed_time)
        _check(sample, times, strict, report)
        report.batches += 1
        report.seeds += len(sample.seed_time)
    if not report.batches:
        raise InvalidArgumentError("there are no batches: nothing was compared")
    return report


def _each(batches: Any) -> Iterator[Any]:
    """Yield batches; PyG's ``Data`` is iterable itself, but is one batch."""
    single = hasattr(batches, "node") or hasattr(batches, "to_dict")
    try:
        return iter([batches] if single else batches)
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            f"batches are samples, or an iterable of them, got {shown(batches)}"
        ) from None


class _Times:
    """Times of nodes and edges of a graph by id."""

    def __init__(self, graph: Any, name: str | None) -> None:
        self.nodes: dict[Any, Any] = {}
        self.edges: dict[Any, Any] = {}
        if graph.is_typed:
            for node in graph.node_types:
                self._add(self.nodes, node, graph[node], "node_time", graph[node].attrs, name)
            for edge in graph.edge_types:
                self._add(self.edges, edge, graph[edge], "edge_time", graph[edge].attrs, name)
        else:
            self._add(self.nodes, None, graph, "node_time", graph.node_attrs, name)
            self._add(self.edges, None, graph, "edge_time", graph.edge_attrs, name)
        if not self.nodes and not self.edges:
            what = "no times" if name is None else f"no times called {name!r}"
            raise InvalidArgumentError(f"the graph has {what}: there is nothing to compare")

    @staticmethod
    def _add(
        into: dict[Any, Any], kind: Any, part: Any, own: str, attrs: Any, name: str | None
    ) -> None:
        if name is None or name == own:
            found = getattr(part, own, None)
            if found is not None:
                into[kind] = found
        elif name in attrs:
            into[kind] = attrs[name]


def _values(times: Any, ids: NDArray[Any]) -> NDArray[Any]:
    found = times.gather(ids) if hasattr(times, "gather") else times[ids]
    return np.asarray(found).reshape(len(ids))


def _check(sample: SampledTrees, times: _Times, strict: bool, report: LeakReport) -> None:
    for name, known in times.nodes.items():
        ids = sample.nodes.get(name)
        if ids is None or not len(ids):
            continue
        trees = sample.trees[name]
        found, limits = _values(known, ids), sample.seed_time[trees]
        late = found > limits
        if strict:
            is_seed = np.zeros(len(ids), np.bool_)
            is_seed[: sample.num_seeds[name]] = True
            late |= (found == limits) & ~is_seed
        report.nodes += len(ids)
        if late.any():
            _complain("node", name, ids, found, trees, limits, int(late.argmax()), strict)
    for kind, (row, col, ids) in sample.edges.items():
        source, target = (None, None) if kind is None else (kind[0], kind[2])
        trees = sample.trees[target][col]
        across = sample.trees[source][row] != trees
        if across.any():
            at = int(across.argmax())
            seed = int(trees[at])
            raise LeakError(
                f"edge {ids[at]}{_of(kind)} joins the tree of seed {seed} with that of seed "
                f"{sample.trees[source][row[at]]}",
                "edge", kind, int(ids[at]), None, seed, sample.seed_time[seed],
            )  # fmt: skip
        if kind not in times.edges or not len(ids):
            continue
        found, limits = _values(times.edges[kind], ids), sample.seed_time[trees]
        late = found >= limits if strict else found > limits
        report.edges += len(ids)
        if late.any():
            _complain("edge", kind, ids, found, trees, limits, int(late.argmax()), strict)


def _complain(
    what: str, kind: Any, ids: NDArray[Any], found: NDArray[Any], trees: NDArray[Any],
    limits: NDArray[Any], at: int, strict: bool,
) -> None:  # fmt: skip
    time, limit = found[at].item(), limits[at].item()
    order = "at" if strict and time == limit else "after"
    raise LeakError(
        f"{what} {ids[at]}{_of(kind)} is of time {time}, {order} the time {limit} of seed "
        f"{trees[at]} of the batch, which holds it",
        what, kind, int(ids[at]), time, int(trees[at]), limit,
    )  # fmt: skip


def _of(kind: str | EdgeType | None) -> str:
    return "" if kind is None else f" of {kind!r}"
