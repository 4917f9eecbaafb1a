"""GraphBolt's graph and sampler keep the core's contract, seen through the layers that they give.

A layer holds fresh draws of all nodes so far. What each hop draws for the nodes that the hop before
has added is the sample of the contract: the same nodes, edges and order.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from support.graphbolt import at_once, colon

from aethergraph import Graph, HeteroSubgraph, Subgraph
from aethergraph._checks.arrays import as_ids
from aethergraph.dgl.graphbolt import SamplingGraph
from aethergraph.errors import UnsupportedError
from aethergraph.sampling import mix_key
from aethergraph.testing import HeteroSamplerContract, SamplerContract

KEY: ContextVar[int] = ContextVar("key")
NODE, EDGE = "_N", ("_N", "_E", "_N")

#: Far nodes and edge ids of a node that draws, by its place among those of its type that do.
Lists = Callable[[int], tuple[Any, Any]]


class KeyedGraph(SamplingGraph):
    """Takes the key that it is given, not one of seed, epoch and nodes."""

    def _batch_key(self, loader_key: int | None, *content: int, iteration: Any = None) -> int:
        return KEY.get()


class Expansion:
    """A sample that grows hop by hop; nodes are called by what ``draw`` calls them."""

    def __init__(self, graph: Any, seeds: dict[str, list[int]], trees: bool) -> None:
        self.typed = not isinstance(graph, Graph)
        self.kinds = graph.edge_types if self.typed else [EDGE]
        self.types = graph.node_types if self.typed else [NODE]
        self.name = {name: list(seeds.get(name, [])) for name in self.types}
        self.place: dict[str, dict[int, int]] = {}
        for name, ids in self.name.items():
            self.place[name] = {own: i for i, own in reversed(list(enumerate(ids)))}
        self.hop_nodes = {name: [len(ids)] for name, ids in self.name.items()}
        self.edges: dict[Any, list[Any]] = {kind: [] for kind in self.kinds}
        self.hop_edges: dict[Any, list[int]] = {kind: [] for kind in self.kinds}
        self.tree: dict[str, list[int]] | None = None
        if trees:
            ends = np.cumsum([0, *(len(ids) for ids in self.name.values())]).tolist()
            starts = zip(self.types, ends, strict=False)
            self.tree = {name: [at + i for i in range(len(self.name[name]))] for name, at in starts}
        self._begin = dict.fromkeys(self.types, 0)

    def frontier(self) -> dict[str, list[int]]:
        """The nodes that the hop before has added."""
        return {name: ids[self._begin[name] :] for name, ids in self.name.items()}

    def hop(self, lists: dict[Any, Lists]) -> None:
        """Those nodes have drawn."""
        end = {name: len(ids) for name, ids in self.name.items()}
        for kind in self.kinds:
            source, _, target = kind
            slots = range(self._begin[target], end[target])
            before = len(self.edges[kind])
            for at, slot in enumerate(slots):
                far, ids = lists[kind](at)
                for own, edge in zip(far.tolist(), ids.tolist(), strict=True):
                    if own not in self.place[source]:
                        self.place[source][own] = len(self.name[source])
                        self.name[source].append(own)
                        if self.tree is not None:
                            self.tree[source].append(self.tree[target][slot])
                    self.edges[kind].append((self.place[source][own], slot, edge))
            self.hop_edges[kind].append(len(self.edges[kind]) - before)
        for name in self.types:
            self.hop_nodes[name].append(len(self.name[name]) - end[name])
        self._begin = end

    def subgraph(self, ids: Callable[[str, list[int]], Any]) -> Any:
        """The sample; ``ids`` makes global ids of names."""
        node = {name: np.array(ids(name, own), np.int64) for name, own in self.name.items()}
        table = {
            kind: np.array(edges, np.int64).reshape(-1, 3).T for kind, edges in self.edges.items()
        }
        row, col, edge = ({kind: part[i].copy() for kind, part in table.items()} for i in range(3))
        batch = None
        if self.tree is not None:
            batch = {name: np.array(own, np.int64) for name, own in self.tree.items()}
        if self.typed:
            return HeteroSubgraph(node, row, col, edge, batch, self.hop_nodes, self.hop_edges)
        return Subgraph(
            node[NODE], row[EDGE], col[EDGE], edge[EDGE], None if batch is None else batch[NODE],
            self.hop_nodes[NODE], self.hop_edges[EDGE],
        )  # fmt: skip


class AtOnce:
    """``sample_neighbor_at_once`` as the contract calls a sampler."""

    def __init__(self, graph: Any, fanouts: Any, options: dict[str, Any]) -> None:
        _check(options, {"replace", "weight_attr", "time_attr", "strict"})
        self.graph, self.fanouts = graph, _by_layer(graph, fanouts)
        self.time, self.strict = options.get("time_attr"), options.get("strict", False)
        named = {} if self.time is None else {f"{self.time[:4]}_timestamp_attr_name": self.time}
        self.pipe = at_once(
            KeyedGraph(graph), self.fanouts[::-1], options.get("replace", False),
            options.get("weight_attr"), **named,
        )  # fmt: skip

    def sample(self, seeds: Any, key: int, seed_time: Any = None, exclude: Any = None) -> Any:
        if exclude is not None:
            raise UnsupportedError("exclude")
        KEY.set(key)
        inputs, layers = self.pipe.sample_subgraphs(_tensors(seeds), self._times(seed_time))
        node = inputs if isinstance(inputs, dict) else {NODE: inputs}
        counts = {name: len(ids) for name, ids in _typed(seeds).items()}
        first = {name: list(range(count)) for name, count in counts.items()}
        found = Expansion(self.graph, first, self.time is not None)
        for layer in reversed(layers):
            nodes = found.frontier()
            lists = {kind: _lists(layer, kind, found.typed) for kind in found.kinds}
            found.hop({kind: _renamed(lists[kind], nodes[kind[2]]) for kind in found.kinds})
        return found.subgraph(lambda name, own: node[name].numpy()[own])

    def _times(self, times: Any) -> Any:
        """GraphBolt's times are those that are not seen any more."""
        if times is None or isinstance(times, dict):
            return None if times is None else {k: self._times(v) for k, v in times.items()}
        if not self.strict:
            times = np.nextafter(times, np.inf) if times.dtype.kind == "f" else times + 1
        return torch.from_numpy(times)


class SingleHops:
    """``SamplingGraph.sample_neighbors`` for one hop after the other."""

    def __init__(self, graph: Any, fanouts: Any, options: dict[str, Any]) -> None:
        _check(options, {"replace", "weight_attr"})
        self.graph, self.fanouts = graph, _by_layer(graph, fanouts)
        self.stock = KeyedGraph(graph)
        self.options = options.get("replace", False), options.get("weight_attr")

    def sample(self, seeds: Any, key: int, seed_time: Any = None, exclude: Any = None) -> Any:
        if exclude is not None or seed_time is not None:
            raise UnsupportedError("exclude" if seed_time is None else "seed_time")
        given, found = _tensors(seeds), None
        for hop, fanout in enumerate(self.fanouts):
            KEY.set(mix_key(key, hop))
            typed = isinstance(fanout, dict)
            counts = [fanout]
            if isinstance(fanout, dict):
                counts = [fanout[tuple(name.split(":"))] for name in self.stock.edge_type_to_id]
            layer = self.stock.sample_neighbors(given, torch.tensor(counts), *self.options)
            if found is None:
                ids = {name: own.tolist() for name, own in _typed(given).items()}
                found = Expansion(self.graph, ids, False)
            found.hop({kind: _lists(layer, kind, typed) for kind in found.kinds})
            added = {k: torch.tensor(v, dtype=torch.int64) for k, v in found.frontier().items()}
            given = added if typed else added[NODE]
        assert found is not None
        return found.subgraph(lambda name, own: own)


def _lists(layer: Any, kind: Any, typed: bool) -> Lists:
    csc, ids = layer.sampled_csc, layer.original_edge_ids
    if typed:
        csc, ids = csc[colon(kind)], ids[colon(kind)]
    start = csc.indptr.tolist()
    return lambda at: (csc.indices[start[at] : start[at + 1]], ids[start[at] : start[at + 1]])


def _renamed(lists: Lists, nodes: list[int]) -> Lists:
    return lambda at: lists(nodes[at])


def _by_layer(graph: Any, fanouts: Any) -> list[Any]:
    """By hop: numbers, or dicts of them with all edge types."""
    if not isinstance(fanouts, dict):
        return list(fanouts)
    hops = max(map(len, fanouts.values()), default=0)
    rows = {kind: list(fanouts.get(kind, [])) for kind in graph.edge_types}
    return [{kind: row[hop] if row else 0 for kind, row in rows.items()} for hop in range(hops)]


def _check(options: dict[str, Any], known: set[str]) -> None:
    if set(options) - known:
        raise UnsupportedError(f"{sorted(set(options) - known)}")


def _typed(ids: Any) -> Any:
    return ids if isinstance(ids, dict) else {NODE: ids}


def _tensors(ids: Any) -> Any:
    if isinstance(ids, dict):
        return {name: _tensors(values) for name, values in ids.items()}
    array = np.asarray(ids)
    if array.dtype.kind in "iu":
        array = np.array(as_ids(ids, "seeds"))
    return torch.from_numpy(array)


class Rules:
    """Those of at least one hop: no layers are no sample."""

    def fanout_sets(self, graph: Any) -> Any:
        sets = super().fanout_sets(graph)  # type: ignore[misc]
        return [fanouts for fanouts in sets if _by_layer(graph, fanouts)]


class RulesOfAtOnce(Rules):
    supports = {"replace", "weight", "time", "node_time", "strict"}
    exact = True

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        return AtOnce(graph, fanouts, options)

    def _each_in_time(self, word: str, *beside: str) -> None:
        """By GraphBolt's rule: what is not strict cannot be said of infinite times."""
        plain = self.variants  # type: ignore[has-type]
        self.variants = lambda *words: [{**options, "strict": True} for options in plain(*words)]
        super()._each_in_time(word, *beside)  # type: ignore[misc]


class RulesOfSingleHops(Rules):
    supports = {"replace", "weight"}

    def make(self, graph: Any, fanouts: Any, **options: Any) -> Any:
        return SingleHops(graph, fanouts, options)


class TestAtOnce(RulesOfAtOnce, SamplerContract):
    pass


class TestAtOnceOfManyTypes(RulesOfAtOnce, HeteroSamplerContract):
    pass


class TestSingleHops(RulesOfSingleHops, SamplerContract):
    pass


class TestSingleHopsOfManyTypes(RulesOfSingleHops, HeteroSamplerContract):
    pass
