"""``LookAhead``: samples coming batches of PyG's stock ``NodeLoader`` together."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch_geometric.sampler import NodeSamplerInput

from aethergraph._parallel.prefetch import prefetch_map
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.loading.pipeline import chunked
from aethergraph.pyg._inputs import as_index, check_count, seed_nodes, seed_times
from aethergraph.pyg._neighbors import NeighborSamplerBase
from aethergraph.pyg.feature_store import FeatureStore

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from aethergraph import _native as native
    from aethergraph.protocols import GatherPlan
    from aethergraph.sampling.groups import SampleGroups

__all__ = ["LookAhead"]

Ids: TypeAlias = "NDArray[np.int64]"


_OTHERS = (
    "LookAhead samples other batches than the loader asks for, and stops: give it the sampler, "
    "input_nodes and input_time of the loader"
)


class LookAhead(torch.utils.data.Sampler[Any]):
    """A ``batch_sampler`` for a stock loader that tells our sampler the coming batches.

    PyG's loaders ask a sampler for one batch at a time. Out of core it pays to know the next ones:
    their samples then read each page once for all of them::

        graph = Graph.load("graph.aeg", storage="uring", memory_budget="1G")
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        sampler = NeighborSampler(stores, [15, 10])
        batches = BatchSampler(RandomSampler(train_nodes), batch_size=1024, drop_last=False)
        loader = NodeLoader(
            stores, sampler, train_nodes,
            batch_sampler=LookAhead(sampler, train_nodes, batches),
        )

    With ``plan`` and the loader's feature store, reads of node tensors with
    ``storage="uring"`` are planned for that many batches too: see
    :meth:`aethergraph.FeatureTable.plan`::

        LookAhead(sampler, train_nodes, batches, plan=64, features=stores[0])

    Rows of a server (:func:`aethergraph.remote.open_source`) are asked for ahead then: while one
    batch is used, the server sends the next.

    Batches are those that the loader makes without it. While the batches of one group are used, a
    thread samples the next group; each has half of the graph's budget. Nothing is done ahead where
    nothing is out of core or elsewhere, for loaders with worker processes, which sample one batch
    each, and, after a warning, where the loader asks for other batches.

    Args:
        sampler: the loader's sampler.
        input_nodes: the loader's ``input_nodes``.
        batches: lists of positions in ``input_nodes``, such as torch's ``BatchSampler``.
        input_time: the loader's ``input_time``.
        plan: batches to sample and hold, about 30 bytes for each sampled edge, so that their
            rows are planned together; the next ones are sampled meanwhile. 0: no planning.
        features: the loader's feature store; for ``plan``.

    Raises:
        InvalidArgumentError: ``sampler`` or ``features`` is not one of ours.
        UnsupportedError: ``plan`` for a typed graph, or links instead of nodes.
    """

    def __init__(
        self, sampler: NeighborSamplerBase, input_nodes: Any, batches: Iterable[Any], *,
        input_time: Any = None, plan: int = 0, features: FeatureStore | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(sampler, NeighborSamplerBase):
            raise InvalidArgumentError(
                "sampler must be a NeighborSampler or HeteroNeighborSampler of aethergraph.pyg, "
                f"got {type(sampler).__name__}"
            )
        if getattr(input_nodes, "ndim", 1) == 2:
            raise UnsupportedError(
                "LookAhead knows the seeds of NodeLoader: input_nodes must be one-dimensional, got "
                f"shape {tuple(input_nodes.shape)}: for links take LinkNeighborLoader of "
                "aethergraph.pyg, which samples ahead by itself"
            )
        self.plan = check_count(plan, "plan", 0)
        if self.plan and sampler.is_hetero:
            raise UnsupportedError("plan: graphs of many types are not planned for")
        if self.plan and not isinstance(features, FeatureStore):
            raise InvalidArgumentError(
                "plan needs features, an aethergraph.pyg.FeatureStore, got "
                f"{type(features).__name__}"
            )
        self.features = features
        self.sampler = sampler
        self.batches = batches
        self._kind, self._nodes, _ = seed_nodes(input_nodes, sampler, None)
        self._time = seed_times(input_time, len(self._nodes), "input_time", sampler)

    def __len__(self) -> int:
        return len(self.batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        groups = self.sampler.groups
        if groups is None and not self.plan:
            yield from self.batches
            return
        remaining, sampler = iter(self.batches), self.sampler
        key = sampler.start_key()  # here, since the thread below has no loader among its callers
        begun: deque[list[Any]] = deque()  # chunks taken from remaining, but not yielded yet

        def size(first: Any) -> int:
            if self.plan or groups is None:
                return self.plan
            return groups.size(len(first), shares=2)

        def chunks() -> Iterator[list[Any]]:
            for chunk in chunked(remaining, size):
                begun.append(chunk)
                yield chunk

        def sample(chunk: list[Any]) -> tuple[list[Any], Any, list[Ids]]:
            requests = [
                next(sampler.node_steps(self._seeds(positions), key)) for positions in chunk
            ]
            samples = self._draw(requests, groups)
            if not self.plan:
                return chunk, zip(requests, samples, strict=True), []
            drawn = list(samples)
            return (
                chunk,
                zip(requests, drawn, strict=True),
                [native_sample.node[0] for native_sample in drawn],
            )

        with prefetch_map(sample, chunks(), num_threads=1, depth=1) as results:
            for chunk, samples, nodes in results:
                begun.popleft()
                plans = self._plan(nodes)  # plans are in force for as long as they are referenced
                for number, positions in enumerate(chunk):
                    sampler.expect(samples)
                    yield positions
                    # No call in this process asked for the sample (workers sample), or it was for
                    # another batch.
                    if sampler.is_expecting or sampler.has_missed:
                        if sampler.has_missed:
                            warnings.warn(_OTHERS, stacklevel=2)
                        results.close()
                        plans.clear()
                        yield from chain(chunk[number + 1 :], *begun, remaining)
                        return

    def _draw(
        self, requests: list[native.NativeBatch], groups: SampleGroups[Any] | None
    ) -> Iterator[native.NativeSample]:
        if groups is None:
            return map(self.sampler.engine.draw, requests)
        if not self.plan:
            return groups.sample(requests)
        return self._draw_groups(requests, groups)

    def _draw_groups(
        self, requests: list[native.NativeBatch], groups: SampleGroups[Any]
    ) -> Iterator[native.NativeSample]:
        begin = 0
        while begin < len(requests):
            end = begin + groups.size(len(requests[begin].seeds[0]), shares=2)
            yield from groups.sample(requests[begin:end])
            begin = end

    def _plan(self, nodes: list[Ids]) -> list[GatherPlan]:
        if not nodes or self.features is None:
            return []
        columns = self.features.batch_columns()[0]
        return [plan for _, column in columns if (plan := column.plan(nodes)) is not None]

    def _seeds(self, positions: Any) -> NodeSamplerInput:
        index = as_index(positions)
        time = None if self._time is None else self._time[index]
        return NodeSamplerInput(
            input_id=index, node=self._nodes[index], time=time, input_type=self._kind
        )
