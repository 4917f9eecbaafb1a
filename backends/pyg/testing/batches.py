"""Rules of PyG's ``BaseSampler`` about the batches of nodes that its stock ``NodeLoader`` makes.

Source followed: ``torch_geometric/sampler/base.py``, ``torch_geometric/loader/node_loader.py``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import NodeSamplerInput

from aethergraph import testing as core
from aethergraph.testing import structure, subgraphs
from aethergraph.testing.combined import Choice, bind, certain_fanouts, choices
from aethergraph.testing.rules import Contract, equal, given, refused, require
from aethergraph.testing.sample_rules import OPTIONS, Instance
from aethergraph.testing.structure import NODE, EdgeType, Walk

__all__ = ["BATCH", "BatchRules"]

Ids = NDArray[np.int64]

_SEED = 11
BATCH = 7


class BatchRules(Contract):
    """Rules about batches of nodes, common to both sampler contracts."""

    known = frozenset({*OPTIONS, "links"})
    #: Contract of the core, whose graphs and expected samples are used.
    core: ClassVar[core.SamplerContract | core.HeteroSamplerContract]
    #: Numbers of worker processes to try.
    num_workers: ClassVar[Collection[int]] = (0, 2)

    def make(self, graph: Any, num_neighbors: Any, **options: Any) -> Any:
        """Make ``(data, sampler)``, the first two arguments of PyG's loaders."""
        raise NotImplementedError("define make(self, graph, num_neighbors, **options)")

    def instances(self) -> list[Instance]:
        """Return graphs whose node attribute "x" holds the ids: float64 [N, 1]."""
        raise NotImplementedError

    def add_features(self, graph: Any) -> None:
        """Set the node attribute "x" of a graph."""
        raise NotImplementedError

    def fanout_sets(self, graph: Any) -> list[Any]:
        """Return the fanouts to try, as ``make`` takes them."""
        raise NotImplementedError

    def by_kind(self, fanouts: Any) -> dict[EdgeType, Sequence[int]]:
        """Return fanouts by edge type."""
        raise NotImplementedError

    def seed_kinds(self, graph: Any) -> list[tuple[str, int]]:
        """Return node types to take seeds of, and their counts."""
        raise NotImplementedError

    def input_nodes(self, kind: str, ids: Tensor) -> Any:
        """Return seeds as loaders take them."""
        raise NotImplementedError

    def node_store(self, batch: Any, kind: str) -> Any:
        """Return the part of the batch for a node type."""
        raise NotImplementedError

    def edge_store(self, batch: Any, kind: EdgeType) -> Any:
        """Return the part of the batch for an edge type."""
        raise NotImplementedError

    # ---- batches -----------------------------------------------------------------------------

    def walk(
        self, batch: Any, graph: Any, fanouts: Any, kind: str, seeds: Tensor, options: Any
    ) -> Walk:  # fmt: skip
        """Convert a batch around ``seeds`` to a sample by type."""
        time = options.get("time_attr")
        truth = structure.edges_of(graph, options.get("weight_attr"), time)
        kinds = graph.node_types if graph.is_typed else [NODE]
        nodes = {k: self.node_store(batch, k) for k in kinds}
        edges = {k: self.edge_store(batch, k) for k in truth}
        disjoint = options.get("disjoint", False) or time is not None
        counted = "subgraph_type" not in options
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
        """Apply ``check`` to the batches of a stock NodeLoader, for every number of workers."""
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
                            batch_size=BATCH, num_workers=workers,
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
            part = slice(BATCH * number, BATCH * (number + 1))
            walk = self.walk(batch, instance.graph, fanouts, kind, ids[part], options)
            if times is not None:
                walk.until = times[part].numpy()
            store = self.node_store(batch, kind)
            require(store.batch_size == len(ids[part]), f"batch_size is {store.batch_size}")
            expected = np.arange(len(ids))[part]
            equal(store.input_id.numpy(), expected, "input_id")
            check(walk, batch)
            count += 1
        require(count == -(-len(ids) // BATCH), f"the loader gave {count} batches")

    def test_batches_are_samples(self) -> None:
        """Seeds first, nodes in order of appearance, edges of the graph with their ids."""

        def check(walk: Walk, _: Any) -> None:
            structure.check_arrays(walk)
            structure.check_seeds(walk)
            structure.check_local_ids(walk)
            structure.check_order(walk)
            structure.check_edges(walk)

        self.each(check, {})

    def test_every_node_draws_as_many_as_it_should(self) -> None:
        """min(fanout, degree) distinct edges; exactly fanout with replacement; -1: all of them."""
        self.each(lambda walk, _: structure.check_draws(walk), {})

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
        self.each(lambda walk, _: subgraphs.check_sample(walk, "induced"), OPTIONS["induced"])

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

    def test_options_hold_together(self) -> None:
        """Any one or two declared options hold together: a batch has what each asks for.

        Where all neighbours are taken, or the latest one, the whole batch is compared.
        """
        for repeated in (True, False):
            instance = self.mixture(repeated)
            for choice in choices(self.supports, most=2):
                for fanouts in [(3, 2)] if repeated else certain_fanouts(choice):
                    core_fanouts = self.core.mixture_fanouts(instance.graph, *fanouts)
                    for kind, seeds in self.core.mixture_seeds().items():
                        self._try(instance, core_fanouts, choice, kind, seeds, certain=not repeated)

    def mixture(self, repeated: bool) -> Instance:
        """Return the core's graph in which every option has an effect, with features."""
        instance = self.core.mixture(repeated)
        self.add_features(instance.graph)
        return instance

    def _try(
        self, instance: Instance, fanouts: Any, choice: Choice, kind: str, ids: Ids, certain: bool
    ) -> None:  # fmt: skip
        graph, options = instance.graph, choice.options
        none: dict[str, Ids] = dict.fromkeys(self.core.counts(graph), np.empty(0, np.int64))
        seeds = {**none, kind: ids}
        arguments = self.core.chosen_arguments(graph, seeds, choice)
        times = arguments["seed_time"]
        with given(
            instance.name, **instance.inputs, fanouts=fanouts, options=options, seeds=seeds,
            **arguments,
        ):  # fmt: skip
            data, sampler = self.make(graph, fanouts, **options)
            loader = NodeLoader(
                data, sampler, self.input_nodes(kind, torch.from_numpy(ids)),
                input_time=None if times is None else torch.from_numpy(times[kind]),
                batch_size=len(ids),
            )  # fmt: skip
            (batch,) = loader
            walk = self.walk(batch, graph, fanouts, kind, torch.from_numpy(ids), options)
            bind(walk, choice, **arguments)
            subgraphs.check_sample(walk, choice.subgraph_type)
            if certain:
                expected = self.core.expected(
                    graph, seeds, fanouts, 0, **options, since=walk.since, until=walk.until
                )
                names = ("node", "row", "col", "edge", "batch")
                contents = {name: getattr(walk, name) for name in names}
                subgraphs.check_contents(contents, expected, choice.subgraph_type)

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
                data, sampler, self.input_nodes(kind, ids), batch_size=BATCH, shuffle=True,
                num_workers=workers,
            )  # fmt: skip
            runs.append([self._edges(batch, last.graph) for batch in loader])
        for run in runs[1:]:
            for edge_ids, expected in zip(run, runs[0], strict=True):
                equal(edge_ids, expected, "the edge ids of a batch in another run")

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
        for candidate in (sampler, pickle.loads(pickle.dumps(sampler))):
            torch.manual_seed(_SEED)
            edge = candidate.sample_from_nodes(index).edge
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
                    out = sampler.sample_from_nodes(index)
                except IndexError:
                    continue
                require(False, f"seed {bad} of {kind} must be an IndexError, found {out}")

    def test_undeclared_options_are_refused(self) -> None:
        """An option that is not in ``supports`` is an error, never a sample that ignores it."""
        *_, last = self.instances()
        fanouts = self.fanout_sets(last.graph)[-1]
        kind, _ = self.seed_kinds(last.graph)[-1]
        for word in sorted((self.known & set(OPTIONS)) - set(self.supports)):
            subject = f"options {OPTIONS[word]}, as {word!r} is not declared,"
            refused(subject, self._make_and_sample, last.graph, fanouts, kind, OPTIONS[word])

    def _make_and_sample(self, graph: Any, fanouts: Any, kind: str, options: Any) -> Any:
        _, sampler = self.make(graph, fanouts, **options)
        time = torch.zeros(3, dtype=torch.int64) if "time_attr" in options else None
        name = None if kind == NODE else kind
        return sampler.sample_from_nodes(NodeSamplerInput(None, torch.arange(3), time, name))


def _some_ids(count: int) -> Tensor:
    """Return seeds: the last node, duplicates, more in random order."""
    rng = np.random.default_rng(count)
    ids = np.concatenate([[count - 1, 0, count - 1], rng.integers(0, count, 17)])
    return torch.from_numpy(ids)


def _counts(stores: dict[Any, Any], name: str) -> dict[Any, list[int]] | None:
    counts_by_kind: dict[Any, Any] = {
        kind: getattr(store, name, None) for kind, store in stores.items()
    }
    if any(counts is None for counts in counts_by_kind.values()):
        return None
    return {kind: [int(count) for count in counts] for kind, counts in counts_by_kind.items()}
