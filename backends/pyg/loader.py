"""PyG's neighbour loaders over our samplers: prefetched natively, with nothing left out.

Both classes are PyG's own with sampling and fetching replaced at PyG's public hooks,
``collate_fn`` and ``filter_fn``; see :mod:`aethergraph.pyg._loading`.

Source followed: ``torch_geometric/loader/{node_loader,link_loader,neighbor_loader,
link_neighbor_loader,utils}.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch_geometric.loader as pyg_loader
from torch import Tensor
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling

from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.feature_sources import FeatureSources
from aethergraph.loading.options import Ahead, Order
from aethergraph.pyg._batch import choose_names
from aethergraph.pyg._default_values import own_time_attr, own_weight_attr
from aethergraph.pyg._feature_sources import with_feature_source
from aethergraph.pyg._function_sampler import as_sampler
from aethergraph.pyg._inputs import seed_labels, seed_links, seed_nodes, seed_times
from aethergraph.pyg._links import split_negatives
from aethergraph.pyg._loading import LoaderMixin, NodeMixin, ahead_of
from aethergraph.pyg._sampler_base import KeyedSampler
from aethergraph.pyg._typed_seeds import TypedSeeds
from aethergraph.pyg.convert import as_stores
from aethergraph.pyg.sampler import NeighborSampler
from aethergraph.pyg.stores import Stores
from aethergraph.sampling.directions import SampleDirection
from aethergraph.sampling.two_step import Steps

if TYPE_CHECKING:
    from torch_geometric.sampler import BaseSampler


__all__ = ["LinkNeighborLoader", "NeighborLoader"]


class NeighborLoader(NodeMixin, pyg_loader.NeighborLoader):  # type: ignore[misc]
    """Loader of sampled neighbourhoods around seed nodes: PyG's ``NeighborLoader``, faster.

    Takes the arguments of PyG's and gives the same batches: a ``Data`` (or ``custom_cls``) with
    ``edge_index``, ``num_nodes``, every node tensor (``x``, ``y``, masks, ...), every edge tensor
    (``edge_attr``, ...; PyG's stock loader leaves those of custom stores out), ``n_id``,
    ``e_id``, ``batch`` if disjoint, ``num_sampled_nodes``, ``num_sampled_edges``, ``input_id``,
    ``batch_size``::

        loader = NeighborLoader(Graph.load("graph.aeg"), [15, 10], batch_size=128, shuffle=True)
        for batch in loader:
            out = model(batch.x, batch.edge_index)[: batch.batch_size]

    Each epoch draws anew. The draws follow the number that torch draws from its CPU generator (or
    ``generator=``) when the epoch begins, so ``torch.manual_seed`` reproduces a run, and the
    batches are the same for every ``num_workers``, start method, ``filter_per_worker`` and
    ``persistent_workers``. PyG's loader over our sampler gives the same ones (but for persistent
    workers after their first epoch). Nothing more is drawn from the generator than PyG's loader
    draws. With ``seed`` the draws depend on it and the number of the epoch alone; the order of
    shuffled seeds still is torch's, unless an ``order`` is given. :meth:`state_dict` keeps a
    place within an epoch.

    Large tensors of a batch lie in memory that is reused only once nothing refers to it any more,
    so a batch may be kept for any time.

    Args:
        data: an :class:`aethergraph.Graph`, the path of a graph file, ``(feature_store,
            graph_store)`` of any make, or a PyG ``Data``. Of many types: a ``HeteroGraph``, its
            file, stores or a ``HeteroData``; batches are then ``HeteroData``. Attributes are those
            that a ``Data`` or ``HeteroData`` has when an epoch begins; edges, and weights and times
            to draw by, those of now, and later changes bring a warning.
        num_neighbors: neighbours to take per hop, -1 for all; of typed graphs one such list for
            all edge types, or one by edge type (types that are missing are not followed).
        input_nodes: seed nodes: None (all nodes), ids as tensor, array or list, a mask, or a
            slice. With a mask or a slice ``input_id`` in the batch are node ids, else positions.
            Of a typed graph ``(node type, any of these)``, the node type alone, or, for seeds of
            several types, ``{node type: any of these}``: a batch has ``batch_size`` seeds of all
            types together, and ``input_id``, ``seed_time`` and ``batch_size`` of each of them.
        input_time: a time for each seed [number of seeds], by node type as ``input_nodes``;
            None: the times of the seed nodes. It
            comes back as ``seed_time``. datetime64 is taken where the graph's times are datetimes,
            and comes back as int64 in their unit, ``graph.time_unit``.
        time_attr: name of the times of nodes or edges to compare with. None: the graph's own
            ``edge_time`` or ``node_time`` if ``input_time`` or ``temporal_strategy="last"`` ask
            for times, else no times: seeds see edges of any time, as in PyG.
        weighted: draw by the graph's own edge weights, as ``weight_attr="edge_weight"`` does.
        replace, subgraph_type, disjoint, temporal_strategy, weight_attr, is_sorted,
            sample_direction, strict, window, exclude_edges, num_threads: see
            :class:`aethergraph.pyg.NeighborSampler`.
        transform: applied to each batch in the thread that iterates (with workers and
            ``filter_per_worker``: in the worker), so it need not be thread-safe.
        transform_sampler_output: applied to the ``SamplerOutput`` before features are fetched,
            where ``transform`` is; features are then not fetched ahead.
        directed: as in PyG.
        filter_per_worker: with workers, fetch features there (default) or in the main process. Of
            a graph that changes workers fetch the rows either way, at the commit of the edges,
            unless ``Order(snapshot="epoch")`` lets both processes read the same commit. In the main
            process rows of stores of other makers, and beside tensors that require grad, are those
            of now.
        neighbor_sampler: a ready sampler; the arguments above that describe one are then unused.
            With a seed of its own, and none of the loader, it draws by that: alike in every epoch,
            unless its ``set_epoch`` is called. Or a function from the seeds of a batch, an int64
            tensor [n] of global ids (for a typed graph ``{node type: ids}``), to a sample: a
            :class:`~aethergraph.sampling.subgraph.Subgraph` or ``HeteroSubgraph``, or PyG's
            ``SamplerOutput`` or ``HeteroSamplerOutput``, whose nodes begin with the seeds, and
            whose edge ids are those of the graph store. It is called in the thread that iterates,
            or in the workers; nothing is sampled ahead of it.
        seed: fixed number to draw from, with the number of the epoch, instead of from torch's
            generator.
        ahead: how far batches are made ahead with ``num_workers=0``, and by how many threads: a
            number of batches, or :class:`aethergraph.loading.Ahead`. torch's ``prefetch_factor``,
            if given without workers, replaces the number.
        feature_source: where ``x`` comes from instead of the graph: the address of a server
            (:func:`aethergraph.remote.open_source`), a source of rows, or an array; or a dict of
            such by name. Of typed graphs ``{node type: any of these}``.
        snapshot: of a graph that changes, ``"batch"``: each batch is of the last commit when it is
            sampled; ``"epoch"``: all batches of an epoch are of the last commit when it begins.
        node_attrs, edge_attrs: names of the tensors that batches hold; None: all. For typed graphs
            the names select tensors of every type. ``edge_attrs=()`` leaves out weights and times
            that only the sampler needs.
        order: the share of this process among several, seeds of few partitions in each batch, or
            one commit for each epoch: :class:`aethergraph.loading.Order`. With a ``world_size`` or
            ``partitions``, order and draws are those of ``seed`` and the number of the epoch;
            ``seed`` is then 0 if none is given. None: as in PyG, all ``input_nodes`` come, also in
            each of several processes.
        **kwargs: ``custom_cls``, ``input_id``, and those of ``torch.utils.data.DataLoader``:
            ``batch_size``, ``shuffle``, ``num_workers``, ``pin_memory``, ...

    Raises:
        InvalidArgumentError: seeds or their times of a wrong dtype or shape; invalid times or
            weights (see the sampler); ``input_time`` where the graph has no times of its own, or
            has times of nodes and of edges, and ``time_attr`` does not say which; a
            ``neighbor_sampler`` that is neither a sampler nor a function, or that returns no
            sample; when an epoch begins, of a graph that changes: ``Order(snapshot="epoch")`` with
            persistent workers, or ``transform_sampler_output`` in the main process of batches that
            workers draw from commits of their own.
        OutOfRangeError: a seed that is no node; names position and value.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | Mapping[str, Any] | None = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | Callable[[Any], Any] | None = None,
        directed: bool = True,
        *,
        weighted: bool = False,
        sample_direction: SampleDirection = "forward",
        strict: bool = False,
        window: float | int | None = None,
        exclude_edges: Any = None,
        seed: int | None = None,
        num_threads: int = 1,
        ahead: Ahead | int = 2,
        feature_source: FeatureSources | None = None,
        node_attrs: Iterable[str] | None = None,
        edge_attrs: Iterable[str] | None = None,
        order: Order | None = None,
        **kwargs: Any,
    ) -> None:
        stores = with_feature_source(as_stores(data), feature_source)
        self._check_stores(stores)
        sampler = None if neighbor_sampler is None else as_sampler(neighbor_sampler)
        if sampler is None:
            weight_attr = own_weight_attr(weight_attr, weighted)
            time_attr = own_time_attr(
                stores, time_attr, input_time, temporal_strategy, "input_time"
            )
            sampler = NeighborSampler(
                stores,
                num_neighbors,
                subgraph_type=subgraph_type,
                replace=replace,
                disjoint=disjoint,
                temporal_strategy=temporal_strategy,
                time_attr=time_attr,
                weight_attr=weight_attr,
                is_sorted=is_sorted,
                directed=directed,
                sample_direction=sample_direction,
                strict=strict,
                window=window,
                exclude_edges=exclude_edges,
                num_threads=num_threads,
            )
        elif isinstance(sampler, NeighborSampler):
            time_attr = sampler.time_attr
        names = choose_names(stores[0], node_attrs, edge_attrs)
        self._set_up(data, stores[0], seed, ahead_of(ahead, kwargs), names)
        self._set_order(kwargs, order)
        typed, times = None, None
        if isinstance(input_nodes, Mapping):
            typed = TypedSeeds.read(input_nodes, input_time, sampler)
            seeds: Any = typed.node
        else:
            kind, seeds, ids = seed_nodes(input_nodes, sampler, stores)
            kwargs.setdefault("input_id", ids)
            times = seed_times(input_time, len(seeds), "input_time", sampler)
            seeds = seeds if kind is None else (kind, seeds)
        super().__init__(
            stores,
            num_neighbors,
            input_nodes=seeds,
            input_time=times,
            time_attr=time_attr,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            neighbor_sampler=sampler,
            **kwargs,
        )
        self.input_nodes = input_nodes  # Lightning makes a loader anew from this attribute.
        if typed is not None:
            self.input_data = typed
        self._lighten()

    def _check_stores(self, stores: Stores) -> None:
        """Raise if the graph is not of the kind that this class is for."""


class LinkNeighborLoader(LoaderMixin, pyg_loader.LinkNeighborLoader):  # type: ignore[misc]
    """Loader of sampled neighbourhoods around links: PyG's ``LinkNeighborLoader``, faster.

    Takes the arguments of PyG's and gives the same batches: the attributes of
    :class:`NeighborLoader` (without ``batch_size``), and ``edge_label_index`` and ``edge_label``,
    or for triplets ``src_index``, ``dst_pos_index`` and ``dst_neg_index``, all in local ids (of
    typed graphs under the edge type, or the types of its ends, as in PyG). Draws, memory and
    prefetching are as in :class:`NeighborLoader`; negative links are reproduced too.

    Args:
        data: as in :class:`NeighborLoader`.
        num_neighbors: neighbours to take per hop, -1 for all.
        edge_label_index: seed links: None (all edges, by edge id), an integer tensor, array or
            pair of lists [2, P], or ``(None, tensor)`` as PyG asks for with stores. Of a typed
            graph ``(edge type, any of these)``, or the edge type alone. Links that are given may
            be of a type that the graph does not hold, between node types that it does.
        edge_label: a label per seed link [P, ...], or None.
        edge_label_time: a time for each seed link [P], needed with ``time_attr``; datetime64 as in
            :class:`NeighborLoader`. Without it links see edges of any time, also of a graph that
            has times, as in PyG. It comes back as ``edge_label_time``, negatives included, or
            for triplets as ``seed_time``.
        neg_sampling: PyG's ``NegativeSampling``, its mode, or its arguments as a dict or tuple.
            ``{"mode": "binary", "true_negatives": True}``: no negative link is an edge of the
            graph.
        neg_sampling_ratio: deprecated by PyG: binary negatives per seed link.
        replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr, transform,
            transform_sampler_output, is_sorted, filter_per_worker, directed, weighted,
            sample_direction, strict, window, exclude_edges, seed, num_threads, ahead,
            feature_source, node_attrs, edge_attrs, order, **kwargs: as in
            :class:`NeighborLoader`; partitions of an ``order`` are those of the seed links.
        neighbor_sampler: a ready sampler with ``sample_from_edges``; its seed counts as in
            :class:`NeighborLoader`.
        exclude: ``"self"`` or ``"reverse"``: leave the seed links of a batch (and their reverses)
            out of its edges; see the samplers.

    Raises:
        InvalidArgumentError: links, labels or times of a wrong dtype or shape; invalid times or
            weights (see the sampler).
        ValueError: ``time_attr`` without ``edge_label_time``.
        OutOfRangeError: an end that is no node; names position and value.
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        transform_sampler_output: Callable[[Any], Any] | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: BaseSampler | None = None,
        directed: bool = True,
        *,
        weighted: bool = False,
        sample_direction: SampleDirection = "forward",
        strict: bool = False,
        window: float | int | None = None,
        exclude_edges: Any = None,
        exclude: Any = None,
        seed: int | None = None,
        num_threads: int = 1,
        ahead: Ahead | int = 2,
        feature_source: FeatureSources | None = None,
        node_attrs: Iterable[str] | None = None,
        edge_attrs: Iterable[str] | None = None,
        order: Order | None = None,
        **kwargs: Any,
    ) -> None:
        stores = with_feature_source(as_stores(data), feature_source)
        sampler = None if neighbor_sampler is None else as_sampler(neighbor_sampler)
        neg_sampling, true_negatives = split_negatives(neg_sampling)
        if true_negatives and sampler is not None:
            raise InvalidArgumentError(
                "neg_sampling: true_negatives is the sampler's, which is given: make it with "
                "true_negatives=True"
            )
        if sampler is None:
            weight_attr = own_weight_attr(weight_attr, weighted)
            time_attr = own_time_attr(
                stores, time_attr, edge_label_time, temporal_strategy, "edge_label_time"
            )
            sampler = NeighborSampler(
                stores,
                num_neighbors,
                subgraph_type=subgraph_type,
                replace=replace,
                disjoint=disjoint,
                temporal_strategy=temporal_strategy,
                time_attr=time_attr,
                weight_attr=weight_attr,
                is_sorted=is_sorted,
                directed=directed,
                sample_direction=sample_direction,
                strict=strict,
                window=window,
                exclude_edges=exclude_edges,
                exclude=exclude,
                true_negatives=true_negatives,
                num_threads=num_threads,
            )
        elif isinstance(sampler, NeighborSampler):
            time_attr = None if edge_label_time is None else sampler.time_attr
        names = choose_names(stores[0], node_attrs, edge_attrs)
        self._set_up(data, stores[0], seed, ahead_of(ahead, kwargs), names)
        self._set_order(kwargs, order)
        kind, links = seed_links(edge_label_index, sampler, stores)
        labels = seed_labels(edge_label, links)
        super().__init__(
            stores,
            num_neighbors,
            edge_label_index=(kind, links),
            edge_label=labels,
            edge_label_time=seed_times(edge_label_time, links.shape[1], "edge_label_time", sampler),
            time_attr=time_attr,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            neighbor_sampler=sampler,
            **kwargs,
        )
        drawn = self.neg_sampling
        if labels is not None and drawn is not None and drawn.is_binary() and labels.min() == 0:
            warnings.warn(
                "edge_label: drawn negatives have the label 0, so that yours move up by one, as in "
                "PyG: 0 and 1 become 1 and 2",
                stacklevel=2,
            )
        self.edge_label_index = edge_label_index  # Lightning makes a loader from this attribute
        self._lighten()

    seed_fields = frozenset(
        (
            "input_id", "edge_label_index", "edge_label", "edge_label_time",
            "src_index", "dst_pos_index", "dst_neg_index", "seed_time",
        )
    )  # fmt: skip

    def _tell_arrays(self) -> dict[str, Any]:
        arrays, sampling = super()._tell_arrays(), self.neg_sampling
        if sampling is None:
            return arrays
        names = ("mode", "amount", "src_weight", "dst_weight", "weight")
        values = {f"neg_sampling.{name}": getattr(sampling, name, None) for name in names}
        return {**arrays, "neg_sampling": type(sampling).__name__, **values}

    def _can_prefetch(self) -> bool:
        # A subclass of NegativeSampling may draw from torch's global generator: stay in this
        # thread.
        kind = type(self.neg_sampling)
        is_custom = self.neg_sampling is not None and kind.sample is not NegativeSampling.sample
        return not is_custom and super()._can_prefetch()

    def _sampler(self) -> BaseSampler:
        return self.link_sampler

    def _sample(self, seeds: EdgeSamplerInput, key: int | None) -> Any:
        sampler = self.link_sampler
        if isinstance(sampler, KeyedSampler):
            return sampler.sample_from_edges(seeds, neg_sampling=self.neg_sampling, loader_key=key)
        return sampler.sample_from_edges(seeds, neg_sampling=self.neg_sampling)

    def _steps(self, seeds: EdgeSamplerInput, key: int | None) -> Steps:
        sampler: Any = self.link_sampler
        steps: Steps = sampler.edge_steps(seeds, self.neg_sampling, key)
        return steps

    def _add_metadata(self, batch: dict[str, Any], metadata: tuple[Any, ...]) -> None:
        names: tuple[str, ...] = (
            "input_id", "edge_label_index", "edge_label", "edge_label_time",
        )  # fmt: skip
        if self.neg_sampling is not None and self.neg_sampling.is_triplet():
            names = ("input_id", "src_index", "dst_pos_index", "dst_neg_index", "seed_time")
            batch.pop("edge_label_index", None)  # labels of the graph before its split
            batch.pop("edge_label_time", None)
        batch.update(zip(names, metadata, strict=True))

    def _add_typed_metadata(self, data: Any, metadata: tuple[Any, ...]) -> None:
        kind = self.input_data.input_type
        links, source, target = data[kind], data[kind[0]], data[kind[-1]]
        links.input_id = metadata[0]
        if self.neg_sampling is None or self.neg_sampling.is_binary():
            links.edge_label_index, links.edge_label, links.edge_label_time = metadata[1:]
            return
        source.src_index, target.dst_pos_index, target.dst_neg_index = metadata[1:4]
        source.seed_time = target.seed_time = metadata[4]
        for name in ("edge_label_index", "edge_label_time"):  # labels of the graph before its split
            links.pop(name, None)
