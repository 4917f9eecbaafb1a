"""Rules of PyG's ``BaseSampler`` about links: batches of the stock ``LinkLoader``, negatives.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``edge_sample``, ``neg_sample``)
and ``torch_geometric/loader/link_loader.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.loader import LinkLoader
from torch_geometric.sampler import NegativeSampling

from aethergraph.pyg.testing.batches import BATCH, BatchRules
from aethergraph.testing import structure
from aethergraph.testing.rules import equal, given, require
from aethergraph.testing.sample_rules import OPTIONS
from aethergraph.testing.structure import KIND, EdgeType

__all__ = ["LinkRules"]

_AMOUNTS = (
    ("binary", 1.0), ("binary", 0.5), ("binary", 1.3), ("triplet", 1), ("triplet", 3)
)  # fmt: skip


class LinkRules(BatchRules):
    """Rules about batches of links, common to both sampler contracts."""

    def test_link_batches(self) -> None:
        """Links, binary and triplet negatives: the ends are those given, edges are the graph's."""
        self.need("links")
        *_, last = self.instances()
        graph = last.graph
        fanouts = self.fanout_sets(graph)[-1]
        data, sampler = self.make(graph, fanouts)
        kind, links = _some_links(graph, 40)
        named = None if kind == KIND else kind
        for workers in self.num_workers:
            for mode in (None, "binary", "triplet"):
                loader = LinkLoader(
                    data, sampler, (named, links), neg_sampling=mode, batch_size=BATCH,
                    num_workers=workers,
                )  # fmt: skip
                for number, batch in enumerate(loader):
                    batch_links = links[:, BATCH * number : BATCH * (number + 1)]
                    with given(
                        last.name, num_workers=workers, neg_sampling=mode, links=batch_links
                    ):
                        self._check_links(batch, graph, kind, batch_links, mode)

    def _check_links(
        self, batch: Any, graph: Any, kind: EdgeType, links: Tensor, mode: str | None,
        amount: float = 1,
    ) -> None:  # fmt: skip
        structure.check_edges(self.walk(batch, graph, {}, "", links[0], {}))
        source, target = self.node_store(batch, kind[0]), self.node_store(batch, kind[2])
        count = links.shape[1]
        if mode == "triplet":
            ends = source.src_index, target.dst_pos_index
            negatives = target.dst_neg_index.numel()
        else:
            label = self.edge_store(batch, kind).edge_label_index
            ends, negatives = (label[0, :count], label[1, :count]), label.shape[1] - count
        equal(source.n_id[ends[0]].numpy(), links[0].numpy(), "the sources of the links")
        equal(target.n_id[ends[1]].numpy(), links[1].numpy(), "the destinations of the links")
        expected = 0 if mode is None else math.ceil(amount * count)
        require(negatives == expected, f"{expected} negatives, found {negatives}")

    def test_negative_links(self) -> None:
        """As many negatives as ``amount`` says, labelled 0; given labels go up by one."""
        self.need("links")
        instance = self.mixture(repeated=True)
        kind, links = _some_links(instance.graph, 4)
        label = torch.arange(links.shape[1]) % 3
        for mode, amount in _AMOUNTS:
            for own_label in (None, label) if mode == "binary" else (None,):
                negative = NegativeSampling(mode, amount)
                with given(instance.name, negative=negative, links=links, edge_label=own_label):
                    for part, batch in self._link_batches(
                        instance.graph, kind, links, negative, {}, edge_label=own_label
                    ):
                        batch_links = links[:, part]
                        self._check_links(batch, instance.graph, kind, batch_links, mode, amount)
                        if mode == "binary":
                            labels = self.edge_store(batch, kind).edge_label
                            default_label = torch.ones(batch_links.shape[1])
                            link_labels = (
                                default_label if own_label is None else own_label[part] + 1
                            )
                            zeros = link_labels.new_zeros(len(labels) - len(link_labels))
                            expected = torch.cat([link_labels, zeros]).numpy()
                            equal(labels.numpy(), expected, "edge_label")

    def test_negative_links_are_in_time(self) -> None:
        """With times of nodes negative i has nodes that link i % P may see, as its tree."""
        self.need("links", "node_time")
        instance = self.mixture(repeated=False)
        graph, options = instance.graph, OPTIONS["node_time"]
        kind, links = _some_links(graph, 4)
        times = torch.arange(links.shape[1]) % 4
        for mode, amount in _AMOUNTS:
            negative = NegativeSampling(mode, amount)
            with given(instance.name, negative=negative, links=links, edge_label_time=times):
                for part, batch in self._link_batches(
                    graph, kind, links, negative, options, edge_label_time=times
                ):
                    batch_links = links[:, part]
                    self._check_links(batch, graph, kind, batch_links, mode, amount)
                    self._check_link_times(
                        batch, graph, kind, batch_links, times[part].numpy(), mode
                    )

    def _link_batches(
        self, graph: Any, kind: EdgeType, links: Tensor, negative: Any, options: Any, **more: Any
    ) -> Iterator[tuple[slice, Any]]:
        data, sampler = self.make(graph, self.core.mixture_fanouts(graph, 3, 2), **options)
        named = None if kind == KIND else kind
        loader = LinkLoader(
            data, sampler, (named, links), neg_sampling=negative, batch_size=BATCH, **more
        )
        for number, batch in enumerate(loader):
            yield slice(BATCH * number, BATCH * (number + 1)), batch

    def _check_link_times(
        self, batch: Any, graph: Any, kind: EdgeType, links: Tensor, times: Any, mode: str
    ) -> None:  # fmt: skip
        count = len(times)
        target = self.node_store(batch, kind[2])
        if mode == "triplet":
            late = times.reshape(-1, 1)
            sides = [(kind[2], target.dst_neg_index.view(count, -1))]
        else:
            label = self.edge_store(batch, kind).edge_label_index[:, count:]
            late = times[np.arange(label.shape[1]) % count]
            sides = [(kind[0], label[0]), (kind[2], label[1])]
        for name, local in sides:
            of_nodes: Any = graph[name].node_time if graph.is_typed else graph.node_time
            node_times = of_nodes[self.node_store(batch, name).n_id[local].numpy()]
            require(
                (node_times <= late).all(),
                f"negatives of {name} have the times {node_times}, later than their links, {late}",
            )
        walk = self.walk(batch, graph, {}, "", links[0], OPTIONS["node_time"])
        walk.until = times
        structure.check_times(walk)


def _some_links(graph: Any, step: int) -> tuple[EdgeType, Tensor]:
    """Return every ``step``-th edge of the type that has most of them."""
    edges = structure.edges_of(graph)
    kind = max(edges, key=lambda edge_type: len(edges[edge_type].src))
    ends = np.stack([edges[kind].src, edges[kind].dst])[:, ::step]
    return kind, torch.from_numpy(ends.copy())
