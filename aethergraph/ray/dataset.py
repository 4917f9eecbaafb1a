"""create_sampling_dataset: a Ray dataset whose read tasks sample batches of a graph file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from numpy.typing import ArrayLike

from aethergraph._checks.arrays import as_count
from aethergraph._checks.optional import require
from aethergraph._checks.options import as_items
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.graph.ids import name_id
from aethergraph.loading.loader import SubgraphLoader
from aethergraph.loading.options import Ahead, Order
from aethergraph.ray.rows import RowsOfBlocks, as_table
from aethergraph.sampling.base import SubgraphType

__all__ = ["create_sampling_dataset"]

#: Batches of a read task at least, and tasks for each that can run at once: the last to end then
#: keeps few cores waiting.
_BATCHES_OF_TASK, _TASKS_AT_ONCE = 16, 4


def create_sampling_dataset(
    graph_path: Any,
    num_neighbors: Sequence[int],
    batch_size: int = 1024,
    *,
    input_nodes: ArrayLike | None = None,
    shuffle: bool = True,
    drop_last: bool = False,
    seed: int = 0,
    epoch: int = 0,
    replace: bool = False,
    disjoint: bool = False,
    subgraph_type: SubgraphType = "directional",
    features: Mapping[str, Any] | None = None,
    node_attrs: Iterable[str] | None = None,
    edge_attrs: Iterable[str] | None = None,
    partitions: ArrayLike | None = None,
    mix: int = 8,
    storage: Literal["mmap", "memory", "uring"] = "mmap",
    memory_budget: int | str | None = None,
    num_threads: int = 1,
    override_num_blocks: int | None = None,
    num_cpus: float | None = None,
    concurrency: int | None = None,
    compute: Any = None,
) -> Any:
    """Return a ``ray.data.Dataset`` of the sampled batches of one epoch, a row for each.

    A batch is a function of the arguments and its number: a task that Ray runs again, since its
    worker died, makes the batches that it made before, and they are those of a
    :class:`aethergraph.SubgraphLoader` with these arguments. Iterating over the dataset again
    gives the same epoch again; another one comes with another ``epoch``::

        for epoch in range(10):
            dataset = create_sampling_dataset(path, [25, 10], 1024, seed=1, epoch=epoch)

    ``iter_batches`` of the dataset gives one sampled batch at a time, unless ``batch_size`` is
    given, as it must be to ``iter_torch_batches`` and to the shards of Ray Train. With
    ``batch_format="pyarrow"`` it copies nothing; other ways copy each batch once or twice. Rows
    come in any order; their columns ``epoch`` and ``number`` say which they are.

    Args:
        graph_path: a graph file of one type of nodes, at this path on every machine; or the address
            of servers.
        num_neighbors: neighbours to take per hop, -1 for all.
        batch_size: seeds per sampled batch.
        input_nodes: seeds: ids or a mask; None: every node.
        shuffle: order the seeds anew in each epoch.
        drop_last: leave out a last batch that is smaller.
        seed: decides order and draws, with ``epoch``.
        epoch: number of the epoch.
        replace: draw with replacement.
        disjoint: as in :class:`aethergraph.NeighborSampler`.
        subgraph_type: as in :class:`aethergraph.NeighborSampler`.
        features: paths of feature files by attribute of the nodes, for graphs that were saved
            without them.
        node_attrs: names of node attributes to gather; None: all.
        edge_attrs: names of edge attributes to gather; None: all.
        partitions: as in :class:`aethergraph.SubgraphLoader`.
        mix: as in :class:`aethergraph.SubgraphLoader`.
        storage: as in ``Graph.load``, for each worker.
        memory_budget: as in ``Graph.load``, for each worker.
        num_threads: threads of a worker that sample ahead; 0: none.
        override_num_blocks: number of read tasks; None: four for each core that may run them, of
            at least 16 batches each. A task takes Ray as long as ten to twenty batches of 1024
            seeds, and when its worker dies, all of its batches are made again.
        num_cpus: cores to reserve for a read task; None: one.
        concurrency: most read tasks at a time; None: Ray chooses.
        compute: where read tasks run, such as ``ray.data.ActorPoolStrategy(size=2)``; None: in
            tasks.

    Raises:
        InvalidArgumentError: an argument is invalid, here and before any task runs.
        OutOfRangeError: a seed that is no node; names position and value.
        MissingFileError, FormatError: there is no such graph file.
        UnsupportedError: Ray is not installed, or the graph has several types.
    """
    data = require("ray.data", "sampling datasets need", "ray", "ray[data]")
    source = require("aethergraph.ray.source", "sampling datasets need", "ray", "ray[data]")
    pairs = as_items({} if features is None else features, "features", "paths")
    paths = {name: _path_of_workers(path, f"features[{name!r}]") for name, path in pairs}
    path = _path_of_workers(graph_path, "graph_path")
    file = source.GraphFile(path, storage, memory_budget, paths)
    graph = file.open()
    threads = as_count(num_threads, "num_threads")
    options: dict[str, Any] = {
        "fanouts": num_neighbors, "seeds": input_nodes, "batch_size": batch_size,
        "shuffle": shuffle, "drop_last": drop_last, "seed": seed, "replace": replace,
        "disjoint": disjoint, "subgraph_type": subgraph_type,
        "ahead": Ahead(2, threads) if threads else 0,
        "order": Order(partitions=partitions, mix=mix),
        "node_attrs": None if node_attrs is None else list(node_attrs),
        "edge_attrs": None if edge_attrs is None else list(edge_attrs),
    }  # fmt: skip
    try:
        loader = SubgraphLoader(graph, **options)  # checks everything before work begins
    except OutOfRangeError as error:
        raise name_id(error, "input_nodes", graph.num_nodes) from None
    options["seeds"] = loader.seeds
    number, count = as_count(epoch, "epoch"), len(loader)
    # How large batches are tells the first one.
    size = sum(
        as_table(batch, number, 0).nbytes for batch in loader.batches_at(number, [0][:count])
    )
    datasource = source.SamplingDatasource(file, graph, options, count, size, number)
    if override_num_blocks is None:
        cores = require("ray", "sampling datasets need", "ray").cluster_resources().get("CPU", 1)
        override_num_blocks = count_tasks(count, cores, num_cpus, concurrency)
    read_options = {
        "override_num_blocks": override_num_blocks, "num_cpus": num_cpus,
        "concurrency": concurrency, "compute": compute,
    }  # fmt: skip
    dataset = data.read_datasource(
        datasource, **{name: value for name, value in read_options.items() if value is not None}
    )
    dataset.iter_batches = partial(_iter_batches, dataset.iter_batches)
    return dataset


def count_tasks(num_batches: int, cores: float, num_cpus: Any, concurrency: Any) -> int:
    """Return the number of read tasks that an epoch is divided into.

    Args:
        num_batches: batches of the epoch.
        cores: cores of the cluster.
        num_cpus: cores of a task, and
        concurrency: most tasks at a time, as they were given: Ray judges them.
    """
    at_once = cores / num_cpus if isinstance(num_cpus, int | float) and num_cpus > 0 else cores
    if isinstance(concurrency, int) and concurrency > 0:
        at_once = min(at_once, concurrency)
    return max(1, min(num_batches // _BATCHES_OF_TASK, int(_TASKS_AT_ONCE * max(1, at_once))))


def _path_of_workers(path: Any, name: str) -> Any:
    """Return a path that workers find in whatever folder they run; addresses stay as they are."""
    if isinstance(path, str) and "://" in path:
        return path
    try:
        return os.path.abspath(path)
    except TypeError:
        raise InvalidArgumentError(
            f"{name} must be the path of a file, which every worker opens, got "
            f"{type(path).__name__}: save it first"
        ) from None


def _iter_batches(ray_batches: Callable[..., Any], **options: Any) -> Any:
    """Return Ray's batches, by default of one row; without copies where Ray would make some."""
    plain = options.keys() <= {"batch_format", "prefetch_batches"}
    if plain and options.get("batch_format") == "pyarrow":
        return RowsOfBlocks(ray_batches(batch_size=None, **options))
    return ray_batches(**{"batch_size": 1, **options})
