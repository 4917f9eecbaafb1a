"""DGL's ``DataLoader``, with coming batches drawn together.

Source followed: ``dgl/dataloading/dataloader.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import IterableDataset

import dgl.dataloading
from aethergraph.dgl._ahead import Coming, SteppedSampler, look_ahead, takes_steps
from aethergraph.dgl.storage import GraphStorage
from aethergraph.loading.profiled import Profiled
from dgl.dataloading.dataloader import create_tensorized_dataset

__all__ = ["DataLoader"]


class DataLoader(Profiled, dgl.dataloading.DataLoader):  # type: ignore[misc]
    """DGL's ``DataLoader``, which samples coming batches together where that saves reading.

    ::

        storage = GraphStorage(Graph.load("graph.aeg", storage="uring", memory_budget="1G"))
        loader = DataLoader(storage, nodes, NeighborSampler([10, 10]), batch_size=1024)

    Batches, their order and the arguments are those of ``dgl.dataloading.DataLoader``, which asks a
    sampler for one batch at a time. Over a graph with ``storage="uring"`` this one prepares as many
    batches as the graph's ``memory_budget`` has room for and has a thread read the lists for all of
    them, while the batches before are used; in each worker process, if there are some. Sampled
    ahead are the seed nodes of :class:`NeighborSampler`, under all its names, and
    :class:`ShaDowKHopSampler`. With other samplers and other storages it is DGL's loader unchanged.

    Args:
        graph: a :class:`GraphStorage`, or another graph that DGL takes.
        indices, graph_sampler, device, use_ddp, ddp_seed, batch_size, drop_last, shuffle,
            **options: see ``dgl.dataloading.DataLoader``.
    """

    def __init__(
        self,
        graph: Any,
        indices: Any,
        graph_sampler: Any,
        device: Any = None,
        use_ddp: bool = False,
        ddp_seed: int = 0,
        batch_size: int | None = 1,
        drop_last: bool = False,
        shuffle: bool = False,
        **options: Any,
    ) -> None:
        given: Any = indices
        sampler = graph_sampler
        # With collate_fn Lightning makes a loader anew, of the parts of another one.
        if (
            "collate_fn" not in options
            and isinstance(graph, GraphStorage)
            and takes_steps(graph_sampler)
            and not options.get("use_uva", False)
            and (tensors := _as_tensors(indices)) is not None
        ):
            batches = create_tensorized_dataset(
                tensors, batch_size, drop_last, use_ddp, ddp_seed, shuffle,
                options.get("persistent_workers", False),
            )  # fmt: skip
            given = _BatchesAhead(batches, graph, graph_sampler)
            sampler = _Finisher(graph_sampler)
        super().__init__(
            graph, given, sampler, device, use_ddp, ddp_seed, batch_size, drop_last, shuffle,
            **options,
        )  # fmt: skip
        self.indices, self.graph_sampler = indices, graph_sampler


class _BatchesAhead(IterableDataset[Any]):
    """Seeds of the batches of an epoch, as a loader's dataset; out of core, batches being drawn.

    Args:
        batches: DGL's dataset of seeds by batch.
        graph: the loader's graph.
        sampler: the loader's sampler.
    """

    device = torch.device("cpu")  # of the seeds, which DGL asks for

    def __init__(self, batches: Any, graph: GraphStorage, sampler: SteppedSampler) -> None:
        self._batches = batches
        self._graph = graph
        self._sampler = sampler

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        walk = self._sampler.walk_of(self._graph)
        groups = walk.engine.groups
        if groups is None:
            yield from self._batches
            return
        coming = (Coming(self._sampler.steps(self._graph, seeds), walk) for seeds in self._batches)
        yield from look_ahead(coming, groups)

    def shuffle(self) -> None:
        """Shuffle the seeds, as DGL does before an epoch."""
        self._batches.shuffle()


class _Finisher:
    """Sampler that a loader calls for every item of :class:`_BatchesAhead`."""

    def __init__(self, sampler: Any) -> None:
        self._sampler = sampler

    def sample(self, graph: Any, item: Any) -> Any:
        """Return the batch of ``item``, which is on its way, or the seeds of one."""
        return item.finish() if isinstance(item, Coming) else self._sampler.sample(graph, item)


def _as_tensors(indices: Any) -> Any:
    """Return seeds as DGL's tensors, by type if they are; None: a dataset of the user's."""
    try:
        if isinstance(indices, Mapping):
            return {name: torch.as_tensor(ids) for name, ids in indices.items()}
        return torch.as_tensor(indices)
    except (TypeError, ValueError, RuntimeError):  # as DGL, which asks such an object for batches
        return None
