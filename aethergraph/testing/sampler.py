"""Contracts of samplers of one node type and of many, and how these are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import HeteroGraph
from aethergraph.protocols import HeterogeneousGraph
from aethergraph.testing import cases, oracle, structure
from aethergraph.testing.combined import CombinedRules
from aethergraph.testing.sample_rules import Instance
from aethergraph.testing.structure import KIND, NODE, EdgeType

__all__ = ["HeteroSamplerContract", "SamplerContract"]

Ids = NDArray[np.int64]

_INTS = np.array([-3, -2, -1, 0, 0, 1, 2, 3])
_FLOATS = np.array([-np.inf, -2.5, -0.0, 0.0, 1e-310, 0.6, 1.5, np.inf])


class SamplerContract(CombinedRules):
    """Rules of :class:`aethergraph.protocols.Sampler`.

    ::

        class TestMySampler(SamplerContract):
            supports = {"replace", "weight"}

            def make(self, graph, fanouts, **options):
                return MySampler(graph, fanouts, **options)

    ``graph`` is an :class:`aethergraph.Graph` with ``edge_weight``, ``edge_time`` and ``node_time``
    whose lists are sorted by the time that is asked for; ``fanouts`` is a list with a number per
    hop. The sampler is called as ``sampler.sample(seeds, key=...)``, with times also with
    ``seed_time=...``.

    Attributes:
        supports: options that the sampler declares. ``make`` gets these as ``replace=True``,
            ``disjoint=True``, ``subgraph_type="induced"`` or ``"bidirectional"``,
            ``weight_attr="edge_weight"`` (for ``"weight"``), ``time_attr="edge_time"``
            (``"time"``), ``time_attr="node_time"`` (``"node_time"``), and with times
            ``temporal_strategy="last"``, ``strict=True`` and ``window=2``. ``"exclude"``:
            ``sample`` takes ``exclude=`` edge ids. Options that are not declared must raise, in
            ``make`` or in ``sample``. Declared options must work together, two and three at a time.
        exact: samples equal those of :mod:`aethergraph.testing.oracle`, bit by bit.
    """

    def instances(self, floats: bool = False) -> Iterator[Instance]:
        """Yield the graphs of :mod:`aethergraph.testing.cases`, with weights and times."""
        for case in cases.graphs():
            rng = np.random.default_rng(len(case.src))
            weight = rng.integers(0, 4, len(case.src)).astype(np.float32)
            times = _FLOATS if floats else _INTS
            of_nodes = rng.choice(times, case.num_nodes)
            of_edges = 2 * of_nodes[case.src]  # lists sorted by either are sorted by the other
            graph = Graph.from_edges(
                case.num_nodes, case.src, case.dst,
                edge_weight=weight, edge_time=of_edges, node_time=of_nodes,
            )  # fmt: skip
            values = {"edge_weight": graph.edge_weight, "edge_time": graph.edge_time}
            yield Instance(case.name, graph, {**case.inputs, **values})

    def fanout_sets(self, graph: Graph) -> list[Any]:
        """Return fanouts of no hop, one, all, several.

        Rules without statistics draw with the last.
        """
        return [[], [1], [-1, 2], [0, 5], [200], [3, 2]]

    def seed_sets(self, graph: Graph) -> list[dict[str, Ids]]:
        """Return the seeds of :mod:`aethergraph.testing.cases`."""
        return [{NODE: seeds} for seeds in cases.seed_vectors(graph.num_nodes)]

    def by_kind(self, graph: Graph, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """Return the fanouts under the one edge type."""
        return {KIND: fanouts}

    def counts(self, graph: Graph) -> dict[str, int]:
        """Return the number of nodes under the one node type."""
        return {NODE: graph.num_nodes}

    def call(
        self, sampler: Any, seeds: dict[str, Any], key: int, seed_time: Any = None,
        exclude: Any = None,
    ) -> Any:  # fmt: skip
        """Call ``sampler.sample(seeds, key=key)`` with times and excluded edges if given."""
        more = {}
        if seed_time is not None:
            more["seed_time"] = seed_time[NODE]
        if exclude is not None:
            more["exclude"] = exclude[KIND]
        return sampler.sample(seeds[NODE], key=key, **more)

    def expected(
        self, graph: Graph, seeds: dict[str, Ids], fanouts: Any, key: int, **options: Any
    ) -> dict[str, Any]:
        """Return the sample of ``oracle.sample``."""
        values: dict[str, Any] = {n: options.pop(n) for n in ("since", "until") if n in options}
        time = options.get("time_attr")
        if options.get("exclude") is not None:
            values["exclude"] = options["exclude"][KIND]
        sample = oracle.sample(
            *graph.csc(), seeds[NODE], fanouts, key,
            replace=options.get("replace", False),
            disjoint=options.get("disjoint", False) or time is not None,
            subgraph_type=options.get("subgraph_type", "directional"),
            weight=graph.edge_weight if "weight_attr" in options else None,
            time=graph.edge_time if time == "edge_time" else None,
            node_time=graph.node_time if time == "node_time" else None,
            latest=options.get("temporal_strategy") == "last", **values,
        )  # fmt: skip
        return structure.typed(sample, graph)

    def star(
        self, count: int, degree: int, weight: Any = None, time: Any = None
    ) -> tuple[Graph, EdgeType]:
        """Return the graph of :meth:`DrawRules.star`."""
        src, dst = np.tile(np.arange(degree), count), np.repeat(np.arange(count), degree)
        graph = Graph.from_edges(
            max(count, degree), src, dst,
            edge_weight=None if weight is None else np.tile(weight, count),
            edge_time=None if time is None else np.tile(time, count),
            node_time=None if time is None else np.zeros(max(count, degree), np.int64),
        )  # fmt: skip
        return graph, KIND

    def mixture(self, repeated: bool) -> Instance:
        """Return a graph with times: of nodes their ids modulo 5, of edges twice the source's."""
        src, dst = cases.mixed_ends(40, 40, repeated)
        weight = np.arange(len(src)) % 3
        graph = Graph.from_edges(
            40, src, dst, edge_weight=weight.astype(np.float32), edge_time=2 * (src % 5),
            node_time=np.arange(40) % 5,
        )  # fmt: skip
        return Instance("mixed edges", graph, {"src": src, "dst": dst})

    def mixture_seeds(self) -> dict[str, Ids]:
        """Return seeds with a duplicate."""
        return {NODE: np.array([7, 0, 7, 33])}

    def mixture_fanouts(self, graph: Graph, *fanouts: int) -> list[int]:
        """Return the fanouts as a list."""
        return list(fanouts)

    def fanouts_of_star(self, graph: Graph, kind: EdgeType, fanout: int) -> list[int]:
        """Return one hop."""
        return [fanout]


VOTES, WRITES = ("user", "votes", "post"), ("user", "writes", "post")
ANSWERS, IN = ("post", "answers", "post"), ("post", "in", "forum")
BACK = ("post", "rev_votes", "user")


class HeteroSamplerContract(CombinedRules):
    """Rules of samplers over typed graphs, such as ``HeteroNeighborSampler``.

    Used like :class:`SamplerContract`, with a :class:`aethergraph.HeteroGraph`, fanouts by edge
    type
    (``make`` gets a dict with a list for every type), seeds and ``seed_time`` by node type, and
    samples whose fields are by type. Edge types are sampled in the order of the graph.
    """

    def instances(self, floats: bool = False) -> Iterator[Instance]:
        """Yield graphs with no edges, an unreached type, few edges, and many edges."""
        sizes: dict[str, tuple[dict[str, int], dict[EdgeType, int]]] = {
            "no edges": ({"user": 3, "post": 2, "forum": 0}, {VOTES: 0, IN: 0}),
            "a type that is never reached": ({"user": 9, "post": 20, "forum": 4}, {IN: 20}),
            "few edges": (
                {"user": 9, "post": 20, "forum": 4}, {IN: 20, VOTES: 30, ANSWERS: 9, WRITES: 20}
            ),
            "many edges": (
                {"user": 60, "post": 50, "forum": 2},
                {VOTES: 700, IN: 300, WRITES: 50, ANSWERS: 250},
            ),
        }  # fmt: skip
        for name, (nodes, edges) in sizes.items():
            yield self._instance(name, nodes, edges, _FLOATS if floats else _INTS)

    def _instance(
        self, name: str, nodes: dict[str, int], edges: dict[EdgeType, int], times: NDArray[Any]
    ) -> Instance:
        rng = np.random.default_rng(len(edges))
        ends: dict[EdgeType, Any] = {
            kind: (
                rng.integers(0, nodes[kind[0]] or 1, count),
                rng.integers(0, nodes[kind[2]] or 1, count),
            )
            for kind, count in edges.items()
        }
        of_nodes = {kind: rng.choice(times, count) for kind, count in nodes.items()}
        graph = HeteroGraph.from_edges(
            ends, nodes,
            edge_weight={k: rng.integers(0, 4, n) for k, n in edges.items() if k != WRITES},
            edge_time={kind: 2 * of_nodes[kind[0]][src] for kind, (src, _) in ends.items()},
            node_time=of_nodes,
        )  # fmt: skip
        return Instance(name, graph, {"num_nodes": nodes, "edges": ends})

    def fanout_sets(self, graph: HeterogeneousGraph) -> list[Any]:
        """Return fanouts by edge type: no hop, all, some, and types that are not followed."""
        kinds = graph.edge_types
        rows: list[list[list[int]]] = [
            [[]], [[-1]], [[0, 4], [2, 0]], [[100, 1], [1, -1]], [[3, 2], [2, 2], [2, 3]]
        ]  # fmt: skip
        return [{kind: row[i % len(row)] for i, kind in enumerate(kinds)} for row in rows]

    def seed_sets(self, graph: HeterogeneousGraph) -> list[dict[str, Ids]]:
        """Return seeds: none, of one type, of all types, with duplicates."""
        vectors = {kind: cases.seed_vectors(count) for kind, count in graph.num_nodes.items()}
        none = {kind: seeds[0] for kind, seeds in vectors.items()}
        return [
            none,
            {**none, "post": vectors["post"][1]},
            {kind: seeds[-1][:15] for kind, seeds in vectors.items()},
        ]

    def by_kind(self, graph: HeterogeneousGraph, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """Return the fanouts unchanged."""
        by_kind: dict[EdgeType, Sequence[int]] = fanouts
        return by_kind

    def counts(self, graph: HeterogeneousGraph) -> dict[str, int]:
        """Return the number of nodes by type."""
        return graph.num_nodes

    def call(
        self, sampler: Any, seeds: dict[str, Any], key: int, seed_time: Any = None,
        exclude: Any = None,
    ) -> Any:  # fmt: skip
        """Call ``sampler.sample(seeds, key=key)`` with times and excluded edges if given."""
        more = {}
        if seed_time is not None:
            more["seed_time"] = seed_time
        if exclude is not None:
            more["exclude"] = exclude
        return sampler.sample(seeds, key=key, **more)

    def expected(
        self,
        graph: HeterogeneousGraph,
        seeds: dict[str, Ids],
        fanouts: Any,
        key: int,
        **options: Any,
    ) -> dict[str, Any]:
        """Return the sample of ``oracle.sample_typed``."""
        number = {name: i for i, name in enumerate(graph.node_types)}
        time, mode = options.get("time_attr"), options.get("subgraph_type", "directional")
        relations = []
        for kind in graph.edge_types:
            view = graph[kind]
            relations.append(oracle.Relation(
                *view.csc(), None, number[kind[2]], number[kind[0]],
                weight=view.edge_weight if "weight_attr" in options else None,
                time=view.edge_time if time == "edge_time" else None,
                node_time=graph[kind[0]].node_time if time == "node_time" else None,
            ))  # fmt: skip
        disjoint = options.get("disjoint", False) or time is not None
        left_out = options.get("exclude")
        if left_out is not None:
            left_out = [frozenset(left_out[kind].tolist()) for kind in graph.edge_types]
        sample = oracle.sample_typed(
            relations, [seeds[name] for name in graph.node_types],
            [fanouts[kind] for kind in graph.edge_types], key,
            replace=options.get("replace", False), disjoint=disjoint, induced=mode == "induced",
            latest=options.get("temporal_strategy") == "last",
            since=options.get("since"), until=options.get("until"), exclude=left_out,
        )  # fmt: skip

        def by_type(values: Any) -> dict[str, Any]:
            return dict(zip(graph.node_types, values, strict=True))

        def by_kind(values: Any) -> dict[EdgeType, Any]:
            return dict(zip(graph.edge_types, values, strict=True))

        ends = [by_kind(sample.row), by_kind(sample.col), by_kind(sample.edge)]
        if mode == "bidirectional":
            lists = {
                kind: list(zip(*(part[kind].tolist() for part in ends), strict=True))
                for kind in graph.edge_types
            }
            for kind, edges in oracle.bidirectional_typed(lists).items():
                for place, part in enumerate(ends):
                    part[kind] = np.array([edge[place] for edge in edges], np.int64)
        row, col, edge = ends
        return {
            "node": by_type(sample.node), "row": row, "col": col, "edge": edge,
            "batch": by_type(sample.batch) if disjoint else None,
            "hop_nodes": None if mode == "bidirectional" else by_type(sample.hop_nodes),
            "hop_edges": by_kind(sample.hop_edges) if mode == "directional" else None,
        }  # fmt: skip

    def star(
        self, count: int, degree: int, weight: Any = None, time: Any = None
    ) -> tuple[HeteroGraph, EdgeType]:
        """Return the graph of :meth:`DrawRules.star`, with another edge type before its own."""
        src, dst = np.tile(np.arange(degree), count), np.repeat(np.arange(count), degree)
        kind: EdgeType = ("leaf", "to", "hub")
        graph = HeteroGraph.from_edges(
            {("hub", "back", "leaf"): (dst, src), kind: (src, dst)},
            {"hub": count, "leaf": degree},
            edge_weight=None if weight is None else {kind: np.tile(weight, count)},
            edge_time=None if time is None else {kind: np.tile(time, count)},
            node_time=None
            if time is None
            else {"hub": np.zeros(count, np.int64), "leaf": np.zeros(degree, np.int64)},
        )
        return graph, kind

    def mixture(self, repeated: bool) -> Instance:
        """Return a graph as in :class:`SamplerContract`; one type is the reverse of another."""
        sizes = {"user": 20, "post": 25, "forum": 5}
        ends = {
            kind: cases.mixed_ends(sizes[kind[0]], sizes[kind[2]], repeated)
            for kind in (VOTES, BACK, ANSWERS, IN)
        }
        weight = {
            kind: (np.arange(len(src)) % 3).astype(np.float32) for kind, (src, _) in ends.items()
        }
        del weight[IN]
        graph = HeteroGraph.from_edges(
            ends, sizes, edge_weight=weight,
            edge_time={kind: 2 * (src % 5) for kind, (src, _) in ends.items()},
            node_time={kind: np.arange(count) % 5 for kind, count in sizes.items()},
        )  # fmt: skip
        return Instance("mixed edges", graph, {"edges": ends})

    def mixture_seeds(self) -> dict[str, Ids]:
        """Return seeds of all types, with a duplicate."""
        return {"user": np.array([8]), "post": np.array([7, 0, 7]), "forum": np.array([2])}

    def mixture_fanouts(
        self, graph: HeterogeneousGraph, *fanouts: int
    ) -> dict[EdgeType, list[int]]:
        """Return equal fanouts for all types."""
        return {kind: list(fanouts) for kind in graph.edge_types}

    def fanouts_of_star(
        self, graph: HeterogeneousGraph, kind: EdgeType, fanout: int
    ) -> dict[EdgeType, list[int]]:
        """Return one hop, along that type alone."""
        return {edge_type: [fanout if edge_type == kind else 0] for edge_type in graph.edge_types}
