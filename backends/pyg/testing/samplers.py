"""The contracts of PyG's ``BaseSampler``: driven by its stock ``NodeLoader`` and ``LinkLoader``.

Source followed: ``torch_geometric/sampler/base.py``, ``torch_geometric/loader/node_loader.py`` and
``torch_geometric/loader/link_loader.py``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.loader import LinkLoader, NodeLoader
from torch_geometric.sampler import NodeSamplerInput

from aethergraph import testing as core
from aethergraph.graph import Graph
from aethergraph.hetero import HeteroGraph
from aethergraph.testing import structure
from aethergraph.testing.rules import Contract, equal, given, refused, require
from aethergraph.testing.samples import OPTIONS, Instance
from aethergraph.testing.structure import KIND, NODE, EdgeType, Walk

__all__ = ["HeteroSamplerContract", "SamplerContract"]

Ids = NDArray[np.int64]

_SEED = 11
_BATCH = 7


class _Rules(Contract):
    """What both contracts share."""

    known = frozenset(set(OPTIONS) - {"strict", "window", "bidirectional"} | {"links"})
    #: Numbers of worker processes that are tried.
    num_workers: ClassVar[Collection[int]] = (0, 2)

    def make(self, graph: Any, num_neighbors: Any, **options: Any) -> Any:
        """``(data, sampler)``: what PyG's loaders take as their first two arguments."""
        raise NotImplementedError("define make(self, graph, num_neighbors, **options)")

    def instances(self) -> list[Instance]:
        """Graphs whose node attribute "x" holds the ids: float64 [N, 1]."""
        raise NotImplementedError

    def fanout_sets(self, graph: Any) -> list[Any]:
        """Fanouts as ``make`` takes them."""
        raise NotImplementedError

    def by_kind(self, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """Fanouts by edge type."""
        raise NotImplementedError

    def seed_kinds(self, graph: Any) -> list[tuple[str, int]]:
        """Node types to take seeds of, and their counts."""
        raise NotImplementedError

    def input_nodes(self, kind: str, ids: Tensor) -> Any:
        """Seeds as loaders take them."""
        raise NotImplementedError

    def node_store(self, batch: Any, kind: str) -> Any:
        """What the batch has of a node type."""
        raise NotImplementedError

    def edge_store(self, batch: Any, kind: EdgeType) -> Any:
        """What the batch has of an edge type."""
        raise NotImplementedError

    # ---- batches -----------------------------------------------------------------------------

    def walk(
        self, batch: Any, graph: Any, fanouts: Any, kind: str, seeds: Tensor, options: Any
    ) -> Walk:  # fmt: skip
        """A batch around ``seeds`` as a sample by type."""
        time = options.get("time_attr")
        truth = structure.edges_of(graph, options.get("weight_attr"), time)
        kinds = [NODE] if isinstance(graph, Graph) else graph.node_types
        nodes = {k: self.node_store(batch, k) for k in kinds}
        edges = {k: self.edge_store(batch, k) for k in truth}
        disjoint = options.get("disjoint", False) or time is not None
        counted = options.get("subgraph_type") is None
        return Walk(
            node={k: part.n_id.numpy() for k, part in nodes.items()},
            row={k: part.edge_index[0].numpy() for k, part in edges.items()},
            col={k: part.edge_index[1].numpy() for k, part in edges.items()},
            edge={k: part.e_id.numpy() for k, part in edges.items()},
            batch={k: part.batch.numpy() for k, part in nodes.items()} if disjoint else None,
            hop_nodes=_counts(nodes, "num_sampled_nodes") if counted else None,
            hop_edges=_counts(edges, "num_sampled_edges") if counted else None,
            seeds={k: seeds.numpy() if k == kind else np.empty(0, np.int64) for k in kinds},
            fanouts=self.by_kind(fanouts), truth=truth,
            replace=options.get("replace", False), disjoint=disjoint,
            latest=options.get("temporal_strategy") == "last",
        )  # fmt: skip

    def each(self, check: Callable[[Walk, Any], None], options: dict[str, Any]) -> None:
        """``check`` the batches of a stock NodeLoader, for every number of workers."""
        for number, instance in enumerate(self.instances()):
            graph = instance.graph
            for fanouts in self.fanout_sets(graph):
                data, sampler = self.make(graph, fanouts, **options)
                for kind, count in self.seed_kinds(graph):
                    ids = _some_ids(count)
                    times = torch.arange(len(ids)) % 7 - 3 if "time_attr" in options else None
                    for workers in self.num_workers if number == 0 else (0,):
                        inputs = {"fanouts": fanouts, "options": options, "num_workers": workers}
                        loader = NodeLoader(
                            data, sampler, self.input_nodes(kind, ids), input_time=times,
                            batch_size=_BATCH, num_workers=workers,
                        )  # fmt: skip
                        with given(instance.name, **inputs, input_nodes=(kind, ids)):
                            self._check_batches(
                                check, loader, instance, fanouts, options, kind, ids, times
                            )

    def _check_batches(
        self, check: Callable[[Walk, Any], None], loader: Any, instance: Instance, fanouts: Any,
        options: dict[str, Any], kind: str, ids: Tensor, times: Tensor | None,
    ) -> None:  # fmt: skip
        count = 0
        for number, batch in enumerate(loader):
            part = slice(_BATCH * number, _BATCH * (number + 1))
            walk = self.walk(batch, instance.graph, fanouts, kind, ids[part], options)
            if times is not None:
                walk.until = times[part].numpy()
            store = self.node_store(batch, kind)
            require(store.batch_size == len(ids[part]), f"batch_size is {store.batch_size}")
            expected = np.arange(len(ids))[part]
            equal(store.input_id.numpy(), expected, "input_id")
            check(walk, batch)
            count += 1
        require(count == -(-len(ids) // _BATCH), f"the loader gave {count} batches")

    def variants(self, *words: str) -> Iterator[dict[str, Any]]:
        """No options, and those of each of ``words`` that is declared."""
        yield {}
        for word in words:
            if word in self.supports:
                yield OPTIONS[word]

    def test_batches_are_samples(self) -> None:
        """Seeds first, nodes in order of appearance, edges of the graph with their ids."""

        def check(walk: Walk, _: Any) -> None:
            structure.check_arrays(walk)
            structure.check_seeds(walk)
            structure.check_local_ids(walk)
            structure.check_order(walk)
            structure.check_edges(walk)

        for options in self.variants("replace", "disjoint"):
            self.each(check, options)

    def test_every_node_draws_as_many_as_it_should(self) -> None:
        """min(fanout, degree) distinct edges; exactly fanout with replacement; -1: all of them."""
        for options in self.variants("replace", "disjoint", "weight"):
            self.each(lambda walk, _: structure.check_draws(walk), options)

    def test_counts_by_hop(self) -> None:
        """``num_sampled_nodes`` and ``num_sampled_edges`` of a batch count each hop."""
        self.each(lambda walk, _: structure.check_counts(walk), {})

    def test_batches_hold_the_features_of_their_nodes(self) -> None:
        """``x`` has the row of every node."""

        def check(walk: Walk, batch: Any) -> None:
            for kind, ids in walk.node.items():
                store = self.node_store(batch, kind)
                equal(store.x.numpy(), ids[:, None].astype(np.float64), f"x of {kind}")

        self.each(check, {})

    def test_disjoint_trees(self) -> None:
        """``batch`` numbers the seeds' trees, and no edge leads from one to another."""
        self.need("disjoint")
        self.each(lambda walk, _: structure.check_trees(walk), OPTIONS["disjoint"])

    def test_induced_batches(self) -> None:
        """``subgraph_type="induced"``: every edge whose ends were sampled, and no other."""
        self.need("induced")

        def check(walk: Walk, _: Any) -> None:
            structure.check_seeds(walk)
            structure.check_edges(walk)
            for kind, edges in walk.truth.items():
                sampled = np.isin(edges.src, walk.node[kind[0]])
                for local, node in enumerate(walk.node[kind[2]].tolist()):
                    ids = edges.into(node)
                    found = np.sort(walk.edge[kind][walk.col[kind] == local])
                    equal(found, np.sort(ids[sampled[ids]]), f"edges of {kind} to slot {local}")

        self.each(check, OPTIONS["induced"])

    def test_no_edge_is_later_than_its_seed(self) -> None:
        """With ``input_time`` an edge, or its far node, is at most as late as its tree."""
        self.need("time")

        def check(walk: Walk, _: Any) -> None:
            structure.check_trees(walk)
            structure.check_times(walk)
            structure.check_draws(walk)

        for word in ("time", "node_time", "last"):
            if word in self.supports:
                self.each(check, OPTIONS[word])

    def test_workers_draw_the_same(self) -> None:
        """After the same ``torch.manual_seed`` any number of workers gives the same batches."""
        *_, last = self.instances()
        fanouts = self.fanout_sets(last.graph)[-1]
        data, sampler = self.make(last.graph, fanouts)
        kind, count = self.seed_kinds(last.graph)[-1]
        ids = _some_ids(count)
        runs = []
        for workers in (*self.num_workers, next(iter(self.num_workers))):
            torch.manual_seed(_SEED)
            loader = NodeLoader(
                data, sampler, self.input_nodes(kind, ids), batch_size=_BATCH, shuffle=True,
                num_workers=workers,
            )  # fmt: skip
            runs.append([self._edges(batch, last.graph) for batch in loader])
        for run in runs[1:]:
            for found, expected in zip(run, runs[0], strict=True):
                equal(found, expected, "the edge ids of a batch in another run")

    def _edges(self, batch: Any, graph: Any) -> Ids:
        kinds = structure.edges_of(graph)
        return np.concatenate([self.edge_store(batch, kind).e_id.numpy() for kind in kinds])

    def test_it_pickles(self) -> None:
        """A pickled copy of the sampler draws the same."""
        *_, last = self.instances()
        _, sampler = self.make(last.graph, self.fanout_sets(last.graph)[-1])
        kind, count = self.seed_kinds(last.graph)[-1]
        name = None if kind == NODE else kind
        index = NodeSamplerInput(None, _some_ids(count), input_type=name)
        drawn = []
        for one in (sampler, pickle.loads(pickle.dumps(sampler))):
            torch.manual_seed(_SEED)
            edge = one.sample_from_nodes(index).edge
            drawn.append(torch.cat(list(edge.values()) if isinstance(edge, dict) else [edge]))
        equal(drawn[1].numpy(), drawn[0].numpy(), "the edges that the copy drew")

    def test_seeds_out_of_range_are_refused(self) -> None:
        """A seed that is no node is an error of bad input."""
        *_, last = self.instances()
        _, sampler = self.make(last.graph, self.fanout_sets(last.graph)[-1])
        for kind, count in self.seed_kinds(last.graph):
            name = None if kind == NODE else kind
            for bad in (count, -1, 2**40):
                index = NodeSamplerInput(None, torch.tensor([0, bad]), input_type=name)
                try:
                    found = sampler.sample_from_nodes(index)
                except IndexError:
                    continue
                require(False, f"seed {bad} of {kind} must be an IndexError, found {found}")

    def test_undeclared_options_are_refused(self) -> None:
        """An option that is not in ``supports`` is an error, never a sample that ignores it."""
        *_, last = self.instances()
        fanouts = self.fanout_sets(last.graph)[-1]
        kind, _ = self.seed_kinds(last.graph)[-1]
        for word in sorted((self.known & set(OPTIONS)) - set(self.supports)):
            what = f"options {OPTIONS[word]}, as {word!r} is not declared,"
            refused(what, self._make_and_sample, last.graph, fanouts, kind, OPTIONS[word])

    def _make_and_sample(self, graph: Any, fanouts: Any, kind: str, options: Any) -> Any:
        _, sampler = self.make(graph, fanouts, **options)
        time = torch.zeros(3, dtype=torch.int64) if "time_attr" in options else None
        name = None if kind == NODE else kind
        return sampler.sample_from_nodes(NodeSamplerInput(None, torch.arange(3), time, name))

    # ---- links -------------------------------------------------------------------------------

    def test_link_batches(self) -> None:
        """Links, binary and triplet negatives: the ends are those given, edges are the graph's."""
        self.need("links")
        *_, last = self.instances()
        graph = last.graph
        fanouts = self.fanout_sets(graph)[-1]
        data, sampler = self.make(graph, fanouts)
        kind = max(
            structure.edges_of(graph), key=lambda k: len(structure.edges_of(graph)[k].src)
        )  # fmt: skip
        truth = structure.edges_of(graph)[kind]
        links = torch.from_numpy(np.stack([truth.src, truth.dst])[:, ::40].copy())
        named = None if kind == KIND else kind
        for workers in self.num_workers:
            for mode in (None, "binary", "triplet"):
                loader = LinkLoader(
                    data, sampler, (named, links), neg_sampling=mode, batch_size=_BATCH,
                    num_workers=workers,
                )  # fmt: skip
                for number, batch in enumerate(loader):
                    own = links[:, _BATCH * number : _BATCH * (number + 1)]
                    with given(last.name, num_workers=workers, neg_sampling=mode, links=own):
                        self._check_links(batch, graph, kind, own, mode)

    def _check_links(
        self, batch: Any, graph: Any, kind: EdgeType, own: Tensor, mode: str | None
    ) -> None:  # fmt: skip
        structure.check_edges(self.walk(batch, graph, {}, "", own[0], {}))
        source, target = self.node_store(batch, kind[0]), self.node_store(batch, kind[2])
        count = own.shape[1]
        if mode == "triplet":
            ends = source.src_index, target.dst_pos_index
            negatives = target.dst_neg_index.numel()
        else:
            label = self.edge_store(batch, kind).edge_label_index
            ends, negatives = (label[0, :count], label[1, :count]), label.shape[1] - count
        equal(source.n_id[ends[0]].numpy(), own[0].numpy(), "the sources of the links")
        equal(target.n_id[ends[1]].numpy(), own[1].numpy(), "the destinations of the links")
        expected = 0 if mode is None else count
        require(negatives == expected, f"{expected} negatives, found {negatives}")


def _some_ids(count: int) -> Tensor:
    """Seeds: the last node, duplicates, more in random order."""
    rng = np.random.default_rng(count)
    ids = np.concatenate([[count - 1, 0, count - 1], rng.integers(0, count, 17)])
    return torch.from_numpy(ids)


def _counts(stores: dict[Any, Any], name: str) -> dict[Any, list[int]] | None:
    found: dict[Any, Any] = {kind: getattr(store, name, None) for kind, store in stores.items()}
    if any(counts is None for counts in found.values()):
        return None
    return {kind: [int(count) for count in counts] for kind, counts in found.items()}


class SamplerContract(_Rules):
    """Rules of ``torch_geometric.sampler.BaseSampler`` over one node type.

    ::

        class TestMySampler(SamplerContract):
            supports = {"replace", "links"}

            def make(self, graph, num_neighbors, **options):
                stores = ...
                return stores, MySampler(stores, num_neighbors, **options)

    ``graph`` is an :class:`aethergraph.Graph` with the node attribute ``x``, which the stores must
    serve, with weights, and with integer times; options are those of
    :class:`aethergraph.testing.SamplerContract`.

    Attributes:
        supports: words as there, and ``"links"``: the sampler works in a ``LinkLoader``.
        num_workers: numbers of worker processes that loaders are tried with.
    """

    def instances(self) -> list[Instance]:
        """Those of the core's contract that have edges to speak of."""
        names = ("many edges", "duplicate edges", "isolated nodes", "a hub")
        found = [one for one in core.SamplerContract().instances() if one.name in names]
        for _, graph, _ in found:
            graph.features = np.arange(graph.num_nodes, dtype=np.float64)[:, None]
        return found

    def fanout_sets(self, graph: Graph) -> list[Any]:
        """One number per hop."""
        return [[-1], [3, 2]]

    def by_kind(self, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """The one edge type."""
        return {KIND: fanouts}

    def seed_kinds(self, graph: Graph) -> list[tuple[str, int]]:
        """The one node type."""
        return [(NODE, graph.num_nodes)]

    def input_nodes(self, kind: str, ids: Tensor) -> Tensor:
        """The ids."""
        return ids

    def node_store(self, batch: Any, kind: str) -> Any:
        """The batch."""
        return batch

    def edge_store(self, batch: Any, kind: EdgeType) -> Any:
        """The batch."""
        return batch


class HeteroSamplerContract(_Rules):
    """Rules of ``torch_geometric.sampler.BaseSampler`` over many types, by edge type.

    As :class:`SamplerContract`, with an :class:`aethergraph.HeteroGraph` and a dict of fanouts.
    """

    def instances(self) -> list[Instance]:
        """Those of the core's contract that have nodes of every type and edges."""
        found = list(core.HeteroSamplerContract().instances())[2:]
        for _, graph, _ in found:
            for kind, count in graph.num_nodes.items():
                graph[kind].features = np.arange(count, dtype=np.float64)[:, None]
        return found

    def fanout_sets(self, graph: HeteroGraph) -> list[Any]:
        """By edge type a number per hop."""
        return core.HeteroSamplerContract().fanout_sets(graph)[-2:]

    def by_kind(self, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """As they are."""
        by_kind: dict[EdgeType, Sequence[int]] = fanouts
        return by_kind

    def seed_kinds(self, graph: HeteroGraph) -> list[tuple[str, int]]:
        """All node types."""
        return list(graph.num_nodes.items())

    def input_nodes(self, kind: str, ids: Tensor) -> tuple[str, Tensor]:
        """With their type."""
        return kind, ids

    def node_store(self, batch: Any, kind: str) -> Any:
        """The batch's part of that type."""
        return batch[kind]

    def edge_store(self, batch: Any, kind: EdgeType) -> Any:
        """The batch's part of that type."""
        return batch[kind]
