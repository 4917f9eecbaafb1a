"""SubgraphLoader: seeds -> sample -> gather -> Batch, for any framework or none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids, as_integer, to_array
from aethergraph._checks.options import as_choice, as_flag, as_iterator, as_list, shown
from aethergraph._parallel.prefetch import PrefetchIterator, prefetch_map
from aethergraph._tracepoints import stage
from aethergraph.errors import InvalidArgumentError, LimitError, OutOfRangeError
from aethergraph.features.sources import gather_rows
from aethergraph.graph.ids import check_ids
from aethergraph.loading.buffers import BufferPool, pool_of
from aethergraph.loading.epoch import Batches, Delivery
from aethergraph.loading.feature_sources import FeatureSources, open_feature_source
from aethergraph.loading.grouped import grouped_map
from aethergraph.loading.planned import at_commits, choose_plans, planned_map
from aethergraph.loading.profiled import Profiled
from aethergraph.loading.resume import Resumable
from aethergraph.loading.shares import LastRound, RankShare
from aethergraph.loading.state import Told, describe, describe_sampler
from aethergraph.protocols import GatherPlan, HomogeneousGraph, RowSource, SampledSubgraph, Sampler
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.base import SubgraphType
from aethergraph.sampling.engine import as_two_step
from aethergraph.sampling.keys import mix_key
from aethergraph.sampling.neighbor import NeighborSampler

__all__ = ["Batch", "SubgraphLoader"]

Ids = NDArray[np.int64]
Plans = dict[int, GatherPlan]  # by position of the store, those of edges behind those of nodes
#: Positions of the seeds, their sample, and the graph as it was when that was drawn.
Planned = tuple[Ids, SampledSubgraph, HomogeneousGraph]
R = TypeVar("R")
#: Most batches that are asked for by their numbers in one call.
_MOST_NUMBERS = 1 << 20


@dataclass(frozen=True, eq=False)
class Batch:
    """Mini-batch: a sampled subgraph with the attributes of its nodes and edges.

    Attributes:
        subgraph: the sample; its first ``batch_size`` nodes are the seeds.
        seeds: int64 [batch_size], node ids.
        index: int64 [batch_size], positions of the seeds in the loader's ``seeds``.
        node_attrs: arrays by name, one row per ``subgraph.node``.
        edge_attrs: arrays by name, one row per ``subgraph.edge``.
    """

    subgraph: SampledSubgraph
    seeds: Ids
    index: Ids
    node_attrs: dict[str, NDArray[Any]] = field(default_factory=dict)
    edge_attrs: dict[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def batch_size(self) -> int:
        """Number of seeds."""
        return int(self.seeds.shape[0])

    @property
    def x(self) -> NDArray[Any] | None:
        """``node_attrs["x"]``, or None."""
        return self.node_attrs.get("x")

    @property
    def y(self) -> NDArray[Any] | None:
        """``node_attrs["y"]``, or None."""
        return self.node_attrs.get("y")

    @property
    def edge_index(self) -> Ids:
        """Local ids of the edges' ends, int64 [2, E]: source over destination."""
        return np.stack((self.subgraph.row, self.subgraph.col))


class SubgraphLoader(Resumable, Profiled):
    """Loader of mini-batches; sampling and gathering run ahead in background threads.

    ::

        loader = SubgraphLoader(graph, [15, 10], train_ids, batch_size=1024, shuffle=True)
        for batch in loader:
            step(batch.x, batch.edge_index, batch.y[: batch.batch_size])

    The order and the content of the batches depend only on ``seed``, the epoch and the arguments,
    not on threads. Each ``iter(loader)`` is the next epoch; :meth:`set_epoch` chooses one, and
    :meth:`state_dict` keeps a place within one.

    For a graph with ``storage="uring"`` several batches are sampled at once, as many as its
    ``memory_budget`` allows.

    Args:
        graph: a graph that stores in-neighbours, a ``Graph`` or one of yours by
            :func:`aethergraph.as_graph`; batches carry its attributes.
        fanouts: as in :class:`NeighborSampler`; or None, with ``sampler``.
        seeds: node ids, or a boolean mask over the nodes; None takes every node.
        batch_size: seeds per batch.
        shuffle: use a new order of the seeds in each epoch.
        drop_last: leave out a last batch that is smaller.
        seed: decides order and samples.
        replace: as in :class:`NeighborSampler`.
        disjoint: as in :class:`NeighborSampler`.
        subgraph_type: as in :class:`NeighborSampler`.
        node_attrs: names of node attributes to gather; None takes all. bfloat16 becomes float32.
        edge_attrs: names of edge attributes to gather; None takes all. bfloat16 becomes float32.
        feature_source: where ``x`` comes from instead of the graph: the address of a server
            (:func:`aethergraph.remote.open_source`), a source of rows, or an array; or a dict of
            such by name.
        plan_ahead: number of batches that are sampled before the first of them is gathered, so
            that the cache of attributes with ``storage="uring"`` knows the coming rows: see
            :meth:`aethergraph.FeatureStore.plan`. Useful if the batches ask for more rows than the
            cache holds. Up to twice as many samples are held, about 30 bytes for each sampled
            edge. 0, the default: no plan. The batches are equal either way; those of a plan are of
            one commit. Short rows of a graph with ``storage="uring"`` are read for several batches
            anyway, as its budget allows.
        num_threads: background threads; 0 does everything in the caller's thread, which else
            makes a batch too where it would wait for one. With ``storage="uring"`` there are two,
            one that reads and one that completes batches, or none.
        prefetch: number of batches computed ahead.
        buffers: pool for the memory of the attributes; None: the one that all loaders of the graph
            share, and that goes with the graph.
        sampler: what samples, instead of a :class:`NeighborSampler` of ``fanouts``: one with
            weights, times or threads, or any other :class:`aethergraph.protocols.Sampler` of the
            graph's nodes. It is called as ``sample(seeds, key)``, from background threads unless
            ``num_threads`` is 0. Samplers of this package sample several batches at once where
            that pays.
        seed_time: with a ``sampler`` that goes by time, the latest time that each of ``seeds`` may
            see; it is passed on as ``seed_time``. None: the sampler's own default.
        snapshot: of a graph that changes, ``"batch"``: each batch is of the last commit when it is
            drawn; ``"epoch"``: all batches of an epoch are of the last commit when it begins.
        rank: number of this process among those that train together; None: that of
            ``torch.distributed``.
        world_size: number of these processes: batch i of the epoch goes to rank
            ``i % world_size``, so that together they see what one process sees. ``"auto"``: that of
            ``torch.distributed`` if it is initialised when the first epoch begins, else 1. None: 1,
            all batches come.
        last_round: what becomes of the last batches if they are fewer than the ranks: ``"repeat"``:
            the other ranks get the first batches of the epoch once more; ``"drop"``: nobody gets
            them; ``"keep"``: some ranks have a batch less, as torch's ``Join`` allows.
        partitions: the partition of each seed, integers [number of seeds], such as
            ``graph.rabbit_partitions()[seeds]``: batches have seeds of ``mix`` partitions, so that
            their neighbourhoods overlap. It needs ``shuffle``.
        mix: see ``partitions``.

    Raises:
        InvalidArgumentError: an argument is invalid; both or neither of ``fanouts`` and ``sampler``
            are given; or options of sampling beside a ``sampler``, which has its own.
        OutOfRangeError: one of ``seeds`` is no node. Of a graph that changes, its batch raises it.
    """

    def __init__(
        self,
        graph: HomogeneousGraph,
        fanouts: Sequence[int] | NDArray[Any] | None = None,
        seeds: ArrayLike | None = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        replace: bool = False,
        disjoint: bool = False,
        subgraph_type: SubgraphType = "directional",
        node_attrs: Iterable[str] | None = None,
        edge_attrs: Iterable[str] | None = None,
        feature_source: FeatureSources | None = None,
        plan_ahead: int = 0,
        num_threads: int = 1,
        prefetch: int = 2,
        buffers: BufferPool | None = None,
        sampler: Sampler | None = None,
        seed_time: ArrayLike | None = None,
        snapshot: Literal["batch", "epoch"] = "batch",
        rank: int | None = None,
        world_size: int | Literal["auto"] | None = None,
        last_round: LastRound = "repeat",
        partitions: ArrayLike | None = None,
        mix: int = 8,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("prefetch", prefetch)):
            if as_count(value, name) < 1:
                raise InvalidArgumentError(f"{name} = {value} is not at least 1")
        if not isinstance(graph, HomogeneousGraph):
            raise not_a_graph(graph, "Graph", "NeighborSampler")
        self.graph = graph
        options = {"replace": replace, "disjoint": disjoint, "subgraph_type": subgraph_type}
        self.sampler = _as_sampler(graph, fanouts, sampler, options)
        self.seeds = _as_seeds(seeds, graph)
        if sampler is None and seed_time is not None:
            raise InvalidArgumentError("seed_time needs a sampler with time_attr")
        self.seed_time = None if seed_time is None else to_array(seed_time, "seed_time")
        if self.seed_time is not None and self.seed_time.shape != self.seeds.shape:
            raise InvalidArgumentError(
                f"seed_time has shape {self.seed_time.shape}, but there are {len(self.seeds)} "
                "seeds: give one time for each"
            )
        self.snapshot = as_choice(snapshot, ("batch", "epoch"), "snapshot")
        self.batch_size = int(batch_size)
        self.shuffle = as_flag(shuffle, "shuffle")
        self.drop_last = as_flag(drop_last, "drop_last")
        self.seed = as_integer(seed, "seed")
        self.plan_ahead = as_count(plan_ahead, "plan_ahead")
        self.num_threads = as_count(num_threads, "num_threads")
        self.prefetch = int(prefetch)
        if buffers is not None and not isinstance(buffers, BufferPool):
            raise InvalidArgumentError(
                f"buffers must be a BufferPool, got {type(buffers).__name__}"
            )
        self.buffers = pool_of(graph) if buffers is None else buffers
        rows = {**graph.node_attrs, **open_feature_source(feature_source, graph.num_nodes)}
        self._node_stores = _pick(rows, node_attrs, "node_attrs")
        self._edge_stores = _pick(graph.edge_attrs, edge_attrs, "edge_attrs")
        self._own_share = RankShare(rank, world_size, last_round)
        self._batches = Batches(
            len(self.seeds), self.batch_size, self.shuffle, self.drop_last, partitions, mix
        )

    def __len__(self) -> int:
        return self._share.count(self._batches.total)

    def set_epoch(self, epoch: int) -> None:
        """Make the next ``iter`` epoch number ``epoch``, from where a state said to go on."""
        self._set_next_epoch(as_count(epoch, "epoch"))

    @property
    def _total(self) -> int:
        return self._batches.total

    def _tell_arrays(self) -> dict[str, Any]:
        return {"seeds": self.seeds, "seed_time": self.seed_time, **self._batches.aligned}

    def _tell_options(self) -> Told:
        names = ("batch_size", "shuffle", "drop_last", "seed", "snapshot")
        told = {name: describe(getattr(self, name)) for name in names}
        return {"loader": type(self).__name__, **told, **describe_sampler(self.sampler)}

    @property
    def _told_graph(self) -> Any:
        return self.graph

    def __iter__(self) -> Iterator[Batch]:
        at = self._pin()
        position = self._begin()
        self._note_commit(at)
        return Delivery(self._run(position.epoch, position.numbers(), at), position)

    def _pin(self) -> Any:
        """Return the graph at the commit of all batches of an epoch; None: each has its own."""
        return self.graph.pinned() if self.snapshot == "epoch" else None

    def batches_at(self, epoch: int, numbers: Iterable[int]) -> Iterator[Batch]:
        """Return batches of an epoch by their numbers, which may come from any rank and twice.

        The place of :meth:`state_dict` stays where it is.

        Args:
            epoch: number of the epoch.
            numbers: numbers of batches, below that of all ranks' batches of an epoch.

        Raises:
            OutOfRangeError: a number that no batch has; at once.
            LimitError: more than 2^20 numbers.
        """
        some = islice(as_iterator(numbers, "numbers"), _MOST_NUMBERS + 1)
        chosen = [as_integer(number, "numbers") for number in some]
        if len(chosen) > _MOST_NUMBERS:
            raise LimitError(f"numbers has more than {_MOST_NUMBERS} items: give some at a time")
        for at, number in enumerate(chosen):
            if not 0 <= number < self._total:
                raise OutOfRangeError(
                    f"numbers[{at}] = {number} is not in 0..{self._total - 1}",
                    position=at, value=number,
                )  # fmt: skip
        return self._run(as_integer(epoch, "epoch"), iter(chosen), self._pin())

    def _run(self, epoch: int, numbers: Iterator[int], at: Any) -> PrefetchIterator[Any, Batch]:
        """Return the batches ``numbers`` of an epoch, made ahead, at the commit of :meth:`_pin`."""
        order = self._batches.order(mix_key(self.seed, epoch))

        def index_of(number: int) -> Ids:
            return self._batches.index(order, number)

        def sample(number: int) -> tuple[Ids, SampledSubgraph]:
            index = index_of(number)
            return index, self._sample(index, mix_key(self.seed, epoch, number))

        def make(number: int, commit: Any, end: Callable[[Ids, SampledSubgraph], R]) -> R:
            with stage("batch"), self.graph.reading(commit):  # rows of the commit that was sampled
                return end(*sample(number))

        own = as_two_step(self.sampler)
        groups = None if own is None else own.engine.groups
        # A user's sampler is called in one thread at a time, and commits are seen in their order.
        helping = own is not None and (at is not None or not self.graph.is_live)
        stores = [*self._node_stores.values(), *self._edge_stores.values()]
        coming = choose_plans(stores, self.plan_ahead, groups, self.batch_size)

        def samples(
            end: Callable[[Ids, SampledSubgraph], R], depth: int
        ) -> PrefetchIterator[Any, R]:
            if own is None or groups is None:
                commits = at_commits(numbers, at, self.graph.pinned, coming.num_samples)
                return prefetch_map(
                    lambda one: make(*one, end), commits,
                    num_threads=self.num_threads, depth=depth, helping=helping,
                )  # fmt: skip

            def prepare(number: int) -> tuple[Ids, native.NativeBatch]:
                index = index_of(number)
                return index, self._draw(own.prepare, index, mix_key(self.seed, epoch, number))

            return grouped_map(
                prepare, lambda index, made: end(index, own.finish(made)), numbers, groups,
                num_seeds=self.batch_size, columns=coming.columns,
                reading=lambda commit: self.graph.reading(commit or at),
                num_threads=self.num_threads, depth=depth,
            )  # fmt: skip

        if not coming.num_samples:
            return samples(self._assemble, self.prefetch)

        def keep(index: Ids, subgraph: SampledSubgraph) -> Planned:
            return index, subgraph, self.graph.pinned()  # the commit that was sampled

        def plan(made: Sequence[Planned]) -> Plans:
            lists = [[getattr(sub, name) for _, sub, _ in made] for name in ("node", "edge")]
            return {i: s.plan(lists[i >= len(self._node_stores)]) for i, s in coming.chosen}

        def finish(made: Planned, plans: Plans) -> Batch:
            index, subgraph, commit = made
            with self.graph.reading(commit):
                return self._assemble(index, subgraph, plans)

        return planned_map(
            samples(keep, coming.num_samples), plan, finish, coming=coming,
            num_threads=self.num_threads, depth=self.prefetch,
        )  # fmt: skip

    def collate(self, index: Ids, key: int) -> Batch:
        """Return the batch of the seeds at positions ``index``, drawn with ``key``."""
        with stage("batch"), self.graph.reading():
            return self._assemble(index, self._sample(index, key))

    def _sample(self, index: Ids, key: int) -> SampledSubgraph:
        with stage("sample"):
            return self._draw(self.sampler.sample, index, key)

    def _draw(self, call: Callable[..., R], index: Ids, key: int) -> R:
        """Return ``call`` of the seeds at positions ``index``, and of their times if any."""
        if self.seed_time is None:
            return call(self.seeds[index], key)
        return call(self.seeds[index], key, seed_time=self.seed_time[index])

    def _assemble(self, index: Ids, subgraph: SampledSubgraph, plans: Plans | None = None) -> Batch:
        place = count()

        def gather(name: str, store: RowSource, ids: Ids) -> NDArray[Any]:
            dtype = "float32" if store.dtype_name == "bfloat16" else store.dtype_name
            out = self.buffers.empty((ids.shape[0], *store.row_shape), dtype)
            plan = None if plans is None else plans.get(next(place))
            with stage("gather", name, store):
                return gather_rows(store, ids, out) if plan is None else plan.gather(ids, out)

        nodes = {name: gather(name, s, subgraph.node) for name, s in self._node_stores.items()}
        edges = {name: gather(name, s, subgraph.edge) for name, s in self._edge_stores.items()}
        return Batch(subgraph, self.seeds[index], index, nodes, edges)


def _as_sampler(
    graph: HomogeneousGraph, fanouts: Any, sampler: Sampler | None, options: dict[str, Any]
) -> Sampler:
    """Return the sampler that was given, or one of ``fanouts`` and ``options``."""
    if sampler is None:
        if fanouts is None:
            raise InvalidArgumentError("fanouts or sampler is needed: give fanouts=[15, 10]")
        return NeighborSampler(graph, fanouts, **options)
    if fanouts is not None:
        raise InvalidArgumentError(
            "fanouts and sampler exclude each other: the sampler has its own"
        )
    if not isinstance(sampler, Sampler):
        raise InvalidArgumentError(
            f"sampler must have a method sample(seeds, key), got {type(sampler).__name__}"
        )
    for name, value in options.items():
        if not (value is False or (isinstance(value, str) and value == "directional")):
            raise InvalidArgumentError(
                f"{name} = {shown(value)} goes without sampler: give it to the sampler"
            )
    return sampler


def _as_seeds(seeds: ArrayLike | None, graph: HomogeneousGraph) -> Ids:
    num_nodes = graph.num_nodes
    if seeds is None:
        return np.arange(num_nodes, dtype=np.int64)
    array = to_array(seeds, "seeds")
    if array.dtype.kind == "b":
        if array.shape != (num_nodes,):
            raise InvalidArgumentError(
                f"seeds is a mask of shape {array.shape}, the graph has {num_nodes} nodes"
            )
        return np.flatnonzero(array).astype(np.int64, copy=False)
    ids = as_ids(seeds, "seeds")
    if not graph.is_live:  # else there may be more nodes by the time that they are drawn from
        check_ids(ids, num_nodes, "seeds")
    return ids


def _pick(
    table: Mapping[str, RowSource], names: Iterable[str] | None, argument: str
) -> dict[str, RowSource]:
    if names is None:
        return dict(table)
    picked = {}
    for name in as_list(names, argument, "names"):
        if not isinstance(name, str) or name not in table:
            known = ", ".join(table) or "none"
            raise InvalidArgumentError(
                f"{argument}: {shown(name)} does not exist; there are: {known}"
            )
        picked[name] = table[name]
    return picked
