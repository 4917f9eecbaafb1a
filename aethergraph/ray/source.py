"""SamplingDatasource: read tasks that open a graph by its path and sample a run of batches.

::

    driver     batches 0 .. 999 of an epoch ──> 8 tasks of 125 numbers, and one plan for all
    workers    a task ──> the process's loader of the plan ──> a table of one row per batch

A worker process opens the graph once and keeps it for its next tasks.

Source followed: ``ray/data/datasource/datasource.py``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import uuid4

import ray
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from aethergraph.errors import FileChangedError
from aethergraph.graph.graph import Graph
from aethergraph.loading.loader import SubgraphLoader
from aethergraph.loading.state import Told, describe_graph
from aethergraph.ray.rows import as_table

__all__ = ["GraphFile", "SamplingDatasource"]


class GraphFile(NamedTuple):
    """Where a graph is, and how to open it.

    Attributes:
        path: of the graph file.
        storage: as in ``Graph.load``.
        memory_budget: as in ``Graph.load``.
        features: paths of feature files by attribute of the nodes.
    """

    path: Any
    storage: Any
    memory_budget: Any
    features: dict[str, Any]

    def open(self) -> Graph:
        """Open the graph with its features."""
        graph = Graph.load(self.path, storage=self.storage, memory_budget=self.memory_budget)
        for name, path in self.features.items():
            graph.load_features(path, name)
        return graph


class _Plan(NamedTuple):
    """What makes a loader in a worker.

    Attributes:
        name: stands for the plan among those of a process.
        file: where the graph is.
        told: what tells the graph from others, to be compared.
        options: of :class:`SubgraphLoader`.
    """

    name: str
    file: GraphFile
    description: Told
    options: dict[str, Any]


#: Loader of this process by the name of its plan; the last one only.
_loaders: dict[str, SubgraphLoader[Any]] = {}


class SamplingDatasource(Datasource):  # type: ignore[misc]
    """Sampled batches of one epoch, a row for each.

    Args:
        file: where the graph is.
        graph: the graph, opened.
        options: of :class:`SubgraphLoader`.
        num_batches: batches of the epoch.
        batch_bytes: bytes of a batch's row, about.
        epoch: its number.
    """

    def __init__(
        self,
        file: GraphFile,
        graph: Graph,
        options: dict[str, Any],
        num_batches: int,
        batch_bytes: int,
        epoch: int,
    ) -> None:
        super().__init__()
        self._plan = _Plan(uuid4().hex, file, describe_graph(graph), options)
        self._num_batches, self._batch_bytes, self._epoch = num_batches, batch_bytes, epoch

    def get_name(self) -> str:
        """Return the name of the read in Ray's progress and statistics."""
        return "AetherGraphSampling"

    def estimate_inmemory_data_size(self) -> int | None:
        """Return the bytes of all rows, about."""
        return self._num_batches * self._batch_bytes

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Return tasks for equal runs of batches, at most ``parallelism``."""
        plan = ray.put(self._plan)  # seeds and partitions once, not in every task
        count = max(1, min(parallelism, self._num_batches))
        bounds = [self._num_batches * number // count for number in range(count + 1)]
        return [
            ReadTask(
                _reader(plan, self._epoch, start, stop),
                BlockMetadata(
                    num_rows=stop - start,
                    size_bytes=(stop - start) * self._batch_bytes,
                    input_files=None,
                    exec_stats=None,
                ),
                per_task_row_limit=per_task_row_limit,
            )
            for start, stop in pairwise(bounds)
            if stop > start
        ]


def _reader(plan: Any, epoch: int, start: int, stop: int) -> Callable[[], Iterator[Any]]:
    def read() -> Iterator[Any]:
        loader = _loader_of(ray.get(plan))
        batches = loader.batches_at(epoch, range(start, stop))
        for number, batch in zip(range(start, stop), batches, strict=True):
            yield as_table(batch, epoch, number)

    return read


def _loader_of(plan: _Plan) -> SubgraphLoader[Any]:
    loader = _loaders.get(plan.name)
    if loader is None:
        graph = plan.file.open()
        if describe_graph(graph) != plan.description:
            path = str(plan.file.path)
            raise FileChangedError(
                errno.ESTALE, f"{path}: the file is not the one that the dataset was made of", path
            )
        loader = SubgraphLoader(graph, **plan.options)
        _loaders.clear()
        _loaders[plan.name] = loader
    return loader
