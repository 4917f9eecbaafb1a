"""Proof on samples that no seed sees its future, stated with numpy alone.

::

    tree of a seed at time 7       node b: time 9     edge (b, a): time 8     x of a: version 8
        seed ── a ── b             9 > 7: a leak      8 > 7: a leak           8 > 7: a leak

What a batch holds is compared with the times of the graph and the versions of its rows, by the ids
of nodes and edges: no code of a sampler takes part, and a batch is not asked for its own times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph._checks.options import as_flag, as_list, as_text, shown
from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.graph.hetero import EdgeType
from aethergraph.testing.leak_batches import SampledTrees, trees_of
from aethergraph.testing.leak_rows import DatedRows, Dates, compare, is_shown, time_text

__all__ = ["LeakError", "LeakReport", "check_no_leak"]


class LeakError(AetherError, AssertionError):
    """Error of a sample that holds what its seed may not know: the first offence of a batch.

    Attributes:
        what: "node", "edge" or "row".
        type: node type or edge type; None of a graph of one type.
        id: id of the node or edge; of a row, of the one that it belongs to.
        time: its time; None for an edge that joins the trees of two seeds. Of a row its version, in
            the unit that the message tells.
        seed: number of the seed in the batch.
        seed_time: time of the seed.
        attribute: name of the attribute of a row; else None.
    """

    def __init__(
        self, message: str, what: str, kind: Any, number: int, time: Any, seed: int,
        seed_time: Any, attribute: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.what = what
        self.type = kind
        self.id = number
        self.time = time
        self.seed = seed
        self.seed_time = seed_time
        self.attribute = attribute


@dataclass
class LeakReport:
    """Count of what was compared with the times of seeds.

    Attributes:
        batches: number of batches.
        seeds: number of seeds, each with a tree of its own.
        nodes: number of nodes with a time.
        edges: number of edges with a time.
        rows: number of rows of attributes whose version was compared.
        undated: attributes that batches show, and whose rows may be of any time: neither they nor
            their nodes or edges have times that were compared; such as ``"'x' of 'user'"``.
        untimed_nodes: number of nodes without a time that was compared, by node type, None of a
            graph of one type: nobody knows whether they were there at the time of their seed.
        untimed_edges: number of such edges, by edge type.
    """

    batches: int = 0
    seeds: int = 0
    nodes: int = 0
    edges: int = 0
    rows: int = 0
    undated: tuple[str, ...] = ()
    untimed_nodes: dict[str | None, int] = field(default_factory=dict)
    untimed_edges: dict[EdgeType | None, int] = field(default_factory=dict)

    def add(self, other: LeakReport) -> None:
        """Count what another report has counted, too."""
        self.batches += other.batches
        self.seeds += other.seeds
        self.nodes += other.nodes
        self.edges += other.edges
        self.rows += other.rows
        self.undated = tuple(sorted({*self.undated, *other.undated}))
        self.untimed_nodes = dict(Counter(self.untimed_nodes) + Counter(other.untimed_nodes))
        self.untimed_edges = dict(Counter(self.untimed_edges) + Counter(other.untimed_edges))

    def untimed(self) -> list[str]:
        """Return what has no time that was compared, in words, such as "7 nodes of 'user'"."""
        return [
            f"{count:,} {noun}{_of(kind)}"
            for noun, counts in (("nodes", self.untimed_nodes), ("edges", self.untimed_edges))
            for kind, count in counts.items()
        ]


def check_no_leak(
    graph: Any,
    batches: Any,
    *,
    strict: bool = False,
    time_attr: str | None = None,
    seed_time: ArrayLike | Mapping[str, ArrayLike] | None = None,
    row_time: Mapping[Any, Any] | None = None,
    labels: Sequence[str] = ("y",),
) -> LeakReport:
    """Check that samples hold nothing later than their seeds: no node, no edge, no row.

    A node or edge with a time may be in the tree of a seed if its time is not later than that of
    the seed; with ``strict`` only if it is earlier. The seeds themselves may be as late as their
    own time in both cases. Types without times are always visible, so nothing is proven of them:
    the report counts them (``untimed_nodes``, ``untimed_edges``). An edge has to join two nodes of
    one tree.

    A row is later if it was written later: the attributes that a batch shows may not be of a higher
    version than the time of the seed, where their versions are times
    (:meth:`RowSource.versions <aethergraph.protocols.RowSource.versions>`, say of a
    :class:`~aethergraph.LiveFeatureTable`), which count from 1970 UTC. They are looked up now, so
    let writers rest between batch and check: a row that was written meanwhile is said to be late.
    Rows of a node or edge with a time count as written then, unless their attribute knows better.

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
        row_time: times since when rows are what they are, of attributes that do not know: by
            attribute a vector, one for each row, of datetimes or in the unit of the graph,
            ``{"x": times}``; of a graph of many types by type first, ``{"user": {"x": times}}``.
        labels: attributes that are to be predicted, and so may be later: they are not compared.

    Returns:
        How much was compared, and what could not be. A test should look that the first is not
        nothing, and the second what it expects.

    Raises:
        LeakError: names the first offence with its id and both times, and of a row the attribute.
        InvalidArgumentError: the graph has no such times, a batch is of another kind, or has no
            trees (``disjoint``), ids or times of seeds.

    Example::

        report = check_no_leak(graph, loader, strict=True)
        assert report.nodes + report.edges > 0
    """
    strict = as_flag(strict, "strict")
    if not isinstance(getattr(graph, "is_typed", None), bool):
        raise InvalidArgumentError(f"graph is a graph of one type or of many, got {shown(graph)}")
    names = as_list(labels, "labels", "names")
    if isinstance(labels, str) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(f"labels are names of attributes, got {shown(labels)}")
    dates = Dates(graph, row_time, tuple(names))
    times = _Times(graph, as_text(time_attr, "time_attr"), dates)
    report = LeakReport()
    for batch in _each(batches):
        sample = trees_of(graph, batch, seed_time)
        _check(sample, times, dates.unit, strict, report)
        for rows in dates.dated:
            if is_shown(sample, rows.type, rows.name):
                _check_rows(sample, rows, dates.unit, strict, report)
        undated = dates.undated(sample, (times.nodes, times.edges))
        report.add(LeakReport(1, len(sample.seed_time), undated=tuple(undated)))
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

    def __init__(self, graph: Any, name: str | None, dates: Dates) -> None:
        self.nodes: dict[Any, Any] = {}
        self.edges: dict[Any, Any] = {}
        for node in graph.node_types if graph.is_typed else [None]:
            part = graph[node] if graph.is_typed else graph
            self._add(self.nodes, node, part.node_values, "node_time", part.node_attrs, name)
        for edge in graph.edge_types if graph.is_typed else [None]:
            part = graph[edge] if graph.is_typed else graph
            self._add(self.edges, edge, part.edge_values, "edge_time", part.edge_attrs, name)
        if not self.nodes and not self.edges and (name is not None or not dates.dated):
            noun = "no times" if name is None else f"no times called {name!r}"
            raise InvalidArgumentError(f"the graph has {noun}: there is nothing to compare")

    @staticmethod
    def _add(
        into: dict[Any, Any], kind: Any, values: Any, value_name: str, attrs: Any, name: str | None
    ) -> None:
        if name is None or name == value_name:
            if value_name in values:
                into[kind] = values[value_name]
        elif name in attrs:
            into[kind] = attrs[name]


def _values(times: Any, ids: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(times.gather(ids)).reshape(len(ids))


def _check(
    sample: SampledTrees, times: _Times, unit: str | None, strict: bool, report: LeakReport
) -> None:
    for name, ids in sample.nodes.items():
        if not len(ids):
            continue
        known = times.nodes.get(name)
        if known is None:
            report.add(LeakReport(untimed_nodes={name: len(ids)}))
            continue
        trees = sample.trees[name]
        node_times, limits = _values(known, ids), sample.seed_time[trees]
        late = node_times > limits
        if strict:
            late |= (node_times == limits) & ~_is_seed(sample, name, len(ids))
        report.nodes += len(ids)
        if late.any():
            _complain("node", name, ids, node_times, trees, limits, int(late.argmax()), unit)
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
            report.add(LeakReport(untimed_edges={kind: len(ids)}))  # none: no count
            continue
        edge_times, limits = _values(times.edges[kind], ids), sample.seed_time[trees]
        late = edge_times >= limits if strict else edge_times > limits
        report.edges += len(ids)
        if late.any():
            _complain("edge", kind, ids, edge_times, trees, limits, int(late.argmax()), unit)


def _check_rows(
    sample: SampledTrees, rows: DatedRows, unit: str | None, strict: bool, report: LeakReport
) -> None:
    if rows.owner == "node":
        ids = sample.nodes.get(rows.type, np.empty(0, np.int64))
        trees = sample.trees.get(rows.type, ids)
        may_equal = _is_seed(sample, rows.type, len(ids)) if len(ids) else np.empty(0, np.bool_)
    else:
        _, col, ids = sample.edges.get(rows.type, (np.empty(0, np.int64),) * 3)
        trees = sample.trees[None if rows.type is None else rows.type[2]][col] if len(ids) else ids
        may_equal = np.zeros(len(ids), np.bool_)
    versions, is_known = rows.look_up(ids)
    limits = sample.seed_time[trees]
    after, equal = compare(versions, rows.unit, limits, unit)
    late = after | (equal & ~may_equal) if strict else after
    late &= is_known
    report.rows += int(is_known.sum())
    if not late.any():
        return
    at = int(late.argmax())
    time, limit = time_text(versions[at], rows.unit), time_text(limits[at], unit)
    raise LeakError(
        f"row {ids[at]} of {rows.name!r}{_of(rows.type)} is of version {time}, "
        f"{'after' if after[at] else 'at'} the time {limit} of seed {trees[at]} of the batch, "
        "which shows it",
        "row", rows.type, int(ids[at]), versions[at].item(), int(trees[at]), limits[at].item(),
        rows.name,
    )  # fmt: skip


def _is_seed(sample: SampledTrees, name: Any, count: int) -> NDArray[np.bool_]:
    is_seed = np.zeros(count, np.bool_)
    is_seed[: sample.num_seeds[name]] = True
    return is_seed


def _complain(
    noun: str, kind: Any, ids: NDArray[Any], times: NDArray[Any], trees: NDArray[Any],
    limits: NDArray[Any], at: int, unit: str | None,
) -> None:  # fmt: skip
    time, limit = times[at].item(), limits[at].item()
    order = "at" if time == limit else "after"
    raise LeakError(
        f"{noun} {ids[at]}{_of(kind)} is of time {time_text(times[at], unit)}, {order} the time "
        f"{time_text(limits[at], unit)} of seed {trees[at]} of the batch, which holds it",
        noun, kind, int(ids[at]), time, int(trees[at]), limit,
    )  # fmt: skip


def _of(kind: str | EdgeType | None) -> str:
    return "" if kind is None else f" of {kind!r}"
