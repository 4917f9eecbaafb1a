"""PyG's sampler for graphs of many types, over our native one.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``node_sample``, ``edge_sample``)
and ``HeteroSamplerOutput``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import (
    BaseSampler,
    EdgeSamplerInput,
    HeteroSamplerOutput,
    NegativeSampling,
    NodeSamplerInput,
    NumNeighbors,
)
from torch_geometric.sampler.base import DataType, SubgraphType

from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.hetero import HeteroGraph
from aethergraph.pyg._links import Links
from aethergraph.pyg._negatives import NegativeNodes, count_negatives
from aethergraph.pyg._seeds import MainSeed, SharedCount, make_generator
from aethergraph.pyg._tensors import seed_ids
from aethergraph.pyg.graph_store import GraphStore
from aethergraph.sampling import hetero as core
from aethergraph.sampling.keys import hash_ids, mix_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.hetero import EdgeType
    from aethergraph.sampling.base import TemporalStrategy

__all__ = ["HeteroNeighborSampler", "hetero_graph_of"]

Ids: TypeAlias = "NDArray[np.int64]"
_NEGATIVES = 1  # the stream of make_generator that negatives are drawn from


class HeteroNeighborSampler(BaseSampler):  # type: ignore[misc]
    """Samples neighbourhoods through all edge types of an :class:`aethergraph.HeteroGraph`.

    Driven by PyG's stock loaders::

        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        sampler = HeteroNeighborSampler(stores, {("user", "votes", "post"): [15, 10], ...})
        loader = NodeLoader(stores, sampler, input_nodes=("post", train_posts), batch_size=128)

    What comes back is PyG's ``HeteroSamplerOutput`` of int64 CPU tensors, with all node types and
    edge types of the graph as keys. One native call makes a batch. Random draws, ``seed`` and
    :meth:`set_epoch` are as in :class:`aethergraph.pyg.NeighborSampler`.

    Args:
        data: the graph, or ``(feature_store, graph_store)`` whose graph store is over one.
        num_neighbors: by edge type a list per hop; types that are missing are not followed (PyG
            refuses that). Or one list for all types.
        subgraph_type, replace, disjoint, temporal_strategy, time_attr, weight_attr, is_sorted: as
            in PyG; the values are the graph's, see :class:`aethergraph.HeteroNeighborSampler`.
        share_memory: accepted, not needed.
        strict, window: as there.
        seed: a number of its own instead of torch's seed.
        num_threads: threads per batch; 1 is the calling thread, 0 all cores the process may use.

    Raises:
        UnsupportedError: data that is no graph of many types of ours.
        InvalidArgumentError: an argument of the wrong type or value.
        OutOfRangeError (when sampling): a seed that is not a node, with its type and position.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        subgraph_type: SubgraphType | str = "directional",
        replace: bool = False,
        disjoint: bool = False,
        temporal_strategy: TemporalStrategy = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        is_sorted: bool = False,
        share_memory: bool = False,
        *,
        strict: bool = False,
        window: float | int | None = None,
        seed: int | None = None,
        num_threads: int = 1,
    ) -> None:
        if isinstance(num_neighbors, NumNeighbors):
            num_neighbors = num_neighbors.values
        self._kind = SubgraphType(subgraph_type)
        induced = self._kind == SubgraphType.induced
        self._sampler = core.HeteroNeighborSampler(
            hetero_graph_of(data), num_neighbors, replace=replace, disjoint=disjoint,
            subgraph_type="induced" if induced else "directional", num_threads=num_threads,
            weight_attr=weight_attr, time_attr=time_attr, temporal_strategy=temporal_strategy,
            strict=strict, window=window, is_sorted=is_sorted,
        )  # fmt: skip
        self.keep_orig_edges = False
        self._seed = MainSeed(seed)
        self._epoch = SharedCount()

    # ---- what PyG and its users look at ----------------------------------------------------

    @property
    def graph(self) -> HeteroGraph:
        """The graph that is sampled from."""
        return self._sampler.graph

    @property
    def num_neighbors(self) -> NumNeighbors:
        """Neighbours per edge type and hop, as PyG's ``NumNeighbors``."""
        return NumNeighbors({kind: list(row) for kind, row in self._sampler.fanouts.items()})

    @property
    def disjoint(self) -> bool:
        """Whether each seed has a tree of its own; sampling in time always does so."""
        return self._sampler.disjoint

    @property
    def data_type(self) -> DataType:
        """PyG's name for a pair of stores."""
        return DataType.remote

    @property
    def is_hetero(self) -> bool:
        """True."""
        return True

    @property
    def is_temporal(self) -> bool:
        """Whether there is a ``time_attr``."""
        return self._sampler.time_attr is not None

    @property
    def edge_permutation(self) -> None:
        """None: ``HeteroSamplerOutput.edge`` holds the graph's edge ids already."""
        return None

    @property
    def epoch(self) -> int:
        """The epoch that goes into the key of every batch."""
        return self._epoch.value

    def set_epoch(self, epoch: int) -> None:
        """Make the draws of the batches to come other ones; see ``NeighborSampler.set_epoch``."""
        self._epoch.value = int(epoch)

    # ---- sampling --------------------------------------------------------------------------

    def sample_from_nodes(self, index: NodeSamplerInput, **_: Any) -> HeteroSamplerOutput:
        """Sample around ``index.node``, nodes of type ``index.input_type``.

        Returns:
            A ``HeteroSamplerOutput`` with metadata ``(input_id, time)``.
        """
        index = NodeSamplerInput.cast(index)
        kind = _check_type(index.input_type, self.graph.node_types, "input_nodes")
        seeds = seed_ids(index.node, "input_nodes")
        out = self._sample(
            {kind: seeds},
            None if index.time is None else {kind: index.time.numpy()},
            self._key(kind, index.time, seeds),
        )
        out.metadata = (index.input_id, index.time)
        return self._finish(out)

    def sample_from_edges(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None = None, **_: Any
    ) -> HeteroSamplerOutput:
        """Sample around the ends of links of type ``index.input_type``, and of negative ones.

        Negatives are drawn over all nodes of the two types, uniformly or by PyG's weights, and may
        hit links that exist; negative ``i`` has the time of link ``i % P``.

        Returns:
            A ``HeteroSamplerOutput`` with the metadata of PyG's, in local ids.
        """
        index = EdgeSamplerInput.cast(index)
        neg_sampling = NegativeSampling.cast(neg_sampling)
        kind = _check_type(index.input_type, self.graph.edge_types, "edge_label_index")
        src, dst = seed_ids(index.row, "row"), seed_ids(index.col, "col")
        if len(src) != len(dst):
            raise InvalidArgumentError(f"row has {len(src)} ids, but col has {len(dst)}")
        key = self._key(repr(kind), index.time, src, dst)
        ends = [torch.from_numpy(src), torch.from_numpy(dst)]
        if neg_sampling is not None:
            ends = self._with_negatives(kind, ends, neg_sampling, key)
        links = Links(ends, len(src), neg_sampling)
        seeds, local, link_of = self._place(kind, ends, links)
        times = None
        if index.time is not None:
            times = {name: index.time[links_].numpy() for name, links_ in link_of.items()}
        out = self._sample({name: ids.numpy() for name, ids in seeds.items()}, times, key)
        if out.batch is not None:
            number = torch.cat([link_of[name] for name in self.graph.node_types if name in seeds])
            out.batch = {name: number[batch] for name, batch in out.batch.items()}
        out.metadata = links.metadata(index, local, self.disjoint)
        return self._finish(out)

    def _place(
        self, kind: EdgeType, ends: list[Tensor], links: Links
    ) -> tuple[dict[str, Tensor], Tensor, dict[str, Tensor]]:
        """Seeds by node type, the local id of every end, and the link of every seed."""
        names, groups = [kind[0], kind[2]], list(ends)
        numbers = list(torch.split(links.trees(), [len(end) for end in ends]))
        if kind[0] == kind[2]:
            names, groups, numbers = names[:1], [torch.cat(groups)], [torch.cat(numbers)]
        local = [torch.arange(len(group)) for group in groups]
        if not self.disjoint:
            unique = [torch.unique(group, return_inverse=True) for group in groups]
            groups, local = [ids for ids, _ in unique], [inverse for _, inverse in unique]
        return (
            dict(zip(names, groups, strict=True)),
            torch.cat(local),
            dict(zip(names, numbers, strict=True)),
        )

    def _with_negatives(
        self, kind: EdgeType, ends: list[Tensor], neg_sampling: NegativeSampling, key: int
    ) -> list[Tensor]:
        count = count_negatives(len(ends[0]), neg_sampling)
        generator = make_generator(key, _NEGATIVES)
        drawn = list(ends)
        for side, name in enumerate(("src", "dst")):
            if name == "dst" or neg_sampling.is_binary():
                nodes = NegativeNodes(self.graph.num_nodes[kind[2 * side]])
                more = nodes.draw(neg_sampling, name, count, generator, None)
                drawn[side] = torch.cat([ends[side], more])
        return drawn

    def _key(self, name: str, times: Tensor | None, *content: Ids) -> int:
        parts = [hash_ids(np.frombuffer(name.encode(), np.uint8).astype(np.int64))]
        parts += [hash_ids(ids) for ids in content]
        if times is not None:
            parts.append(hash_ids(times.to(torch.float64).numpy().view(np.int64)))
        return mix_key(self._seed.value(), self._epoch.value, *parts)

    def _sample(
        self, seeds: dict[str, Ids], times: dict[str, Any] | None, key: int
    ) -> HeteroSamplerOutput:
        found = self._sampler.sample(seeds, key, seed_time=times)

        def tensors(arrays: dict[Any, Ids]) -> dict[Any, Tensor]:
            return {name: torch.from_numpy(ids) for name, ids in arrays.items()}

        counted = self._kind != SubgraphType.induced
        return HeteroSamplerOutput(
            node=tensors(found.node),
            row=tensors(found.row),
            col=tensors(found.col),
            edge=tensors(found.edge),
            batch=None if found.batch is None else tensors(found.batch),
            num_sampled_nodes=found.num_sampled_nodes if counted else None,
            num_sampled_edges=found.num_sampled_edges if counted else None,
        )

    def _finish(self, out: HeteroSamplerOutput) -> HeteroSamplerOutput:
        if self._kind == SubgraphType.bidirectional:
            return out.to_bidirectional(keep_orig_edges=self.keep_orig_edges)
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sampler!r})"


def _check_type(kind: Any, known: list[Any], option: str) -> Any:
    if kind not in known:
        names = ", ".join(map(repr, known)) or "none"
        raise InvalidArgumentError(
            f"{option} of type {kind!r}: give (type, ids) with one of {names}"
        )
    return kind


def hetero_graph_of(data: Any) -> HeteroGraph:
    """The graph of whatever a typed sampler may be given."""
    if isinstance(data, HeteroGraph):
        return data
    store = data[1] if isinstance(data, (tuple, list)) and len(data) == 2 else data
    if isinstance(store, GraphStore) and store.hetero is not None:
        return store.hetero
    raise UnsupportedError(
        "typed sampling needs an aethergraph.HeteroGraph, or stores over one, got "
        f"{type(data).__name__}: HeteroGraph.from_edges makes one"
    )
