"""LookAhead: coming batches of PyG's stock NodeLoader, sampled together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import torch
from torch_geometric.sampler import NodeSamplerInput

from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.pipeline import prefetch_map
from aethergraph.pyg._inputs import as_index, seed_nodes, seed_times
from aethergraph.pyg._neighbors import NeighborSamplerBase

__all__ = ["LookAhead"]


class LookAhead(torch.utils.data.Sampler[Any]):
    """The ``batch_sampler`` of a stock loader, which tells our sampler what comes.

    PyG's loaders ask a sampler for one batch at a time. Out of core it pays to know the next ones,
    whose samples then read each page once for all of them::

        graph = Graph.load("graph.aeg", storage="uring", memory_budget="1G")
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        sampler = NeighborSampler(stores, [15, 10])
        batches = BatchSampler(RandomSampler(train_nodes), batch_size=1024, drop_last=False)
        loader = NodeLoader(
            stores, sampler, train_nodes,
            batch_sampler=LookAhead(sampler, train_nodes, batches),
        )

    Batches are those that the loader makes without it. While those of one group are used, a thread
    samples the next group; each has half of the graph's budget. Where nothing is out of core, and
    for loaders with worker processes, which sample one batch each, nothing is done ahead.

    Args:
        sampler: the one that the loader has.
        input_nodes: those that the loader has.
        batches: lists of positions in ``input_nodes``, such as torch's ``BatchSampler``.
        input_time: that of the loader.

    Raises:
        InvalidArgumentError: ``sampler`` is not one of ours.
    """

    def __init__(
        self, sampler: NeighborSamplerBase, input_nodes: Any, batches: Iterable[Any], *,
        input_time: Any = None,
    ) -> None:  # fmt: skip
        if not isinstance(sampler, NeighborSamplerBase):
            raise InvalidArgumentError(
                "sampler must be a NeighborSampler or HeteroNeighborSampler of aethergraph.pyg, "
                f"got {type(sampler).__name__}"
            )
        self.sampler = sampler
        self.batches = batches
        self._kind, self._nodes, _ = seed_nodes(input_nodes, sampler, None)
        self._time = seed_times(input_time, len(self._nodes), "input_time")

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        groups = self.sampler.groups
        if groups is None:
            yield from self.batches
            return
        rest, sampler = iter(self.batches), self.sampler

        def chunks() -> Iterator[list[Any]]:
            for first in rest:
                size = groups.size(len(first), shares=2)
                yield [first, *islice(rest, size - 1)]

        def sample(chunk: list[Any]) -> tuple[list[Any], Any]:
            requests = [next(sampler.node_steps(self._seeds(positions))) for positions in chunk]
            return chunk, zip(requests, groups.sample(requests), strict=True)

        with prefetch_map(sample, chunks(), num_threads=1, depth=1) as made:
            for chunk, samples in made:
                for number, positions in enumerate(chunk):
                    sampler.expect(samples)
                    yield positions
                    if sampler.is_expecting:  # nobody in this process asks for samples
                        yield from chunk[number + 1 :]
                        yield from rest
                        return

    def _seeds(self, positions: Any) -> NodeSamplerInput:
        index = as_index(positions)
        time = None if self._time is None else self._time[index]
        return NodeSamplerInput(
            input_id=index, node=self._nodes[index], time=time, input_type=self._kind
        )
