"""PyG's own sampler over our stores: found where it asks for all edges, and kept from the future.

PyG leaves to a ``GraphStore`` that lists are in the order of the times that it samples by, and does
not look. It takes times of a store without types for those of edges, whatever they are of, but for
the name ``time``. Both show in nothing but batches with nodes that are later than their seeds.

Source followed: ``torch_geometric/sampler/neighbor_sampler.py`` (``NeighborSampler.__init__``).
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aethergraph.errors import UnsupportedError

__all__ = ["StockSampler"]

_has_warned = False
_INSTEAD = "take aethergraph.pyg.NeighborLoader (or LinkNeighborLoader) with the same arguments"


class StockSampler:
    """Sampler of PyG's that is being made.

    Args:
        sampler: the sampler, which has its times by now.
        time_attr: name of the times; None: it draws without.
    """

    def __init__(self, sampler: Any, time_attr: Any) -> None:
        self._sampler, self._time_attr = sampler, time_attr

    @classmethod
    def asking(cls) -> StockSampler | None:
        """Return the sampler that has called one of our stores, and warn once; None: none has."""
        global _has_warned
        frame, names, caller = inspect.currentframe(), list[str](), None
        while frame is not None:
            names.append(frame.f_globals.get("__name__", ""))
            if caller is None and not names[-1].startswith("aethergraph."):
                caller = frame
            frame = frame.f_back
        if caller is None or not caller.f_globals["__name__"].startswith("torch_geometric.sampler"):
            return None
        if not _has_warned:
            _has_warned = True
            is_library = [name.startswith(("aethergraph.", "torch_geometric.")) for name in names]
            warnings.warn(
                "PyG's own sampler takes a copy of all edges out of this GraphStore and draws from "
                f"that, no faster than from a Data: {_INSTEAD}, or loader = "
                "aethergraph.pyg.accelerate(loader)",
                stacklevel=[*is_library, False].index(False) + 1,
            )
        return cls(caller.f_locals.get("self"), caller.f_locals.get("time_attr"))

    def check(self, lists: tuple[Any, Any, Any], node_attrs: Collection[str]) -> None:
        """Raise unless lists are in the order of the times that are sampled by.

        Args:
            lists: what ``csc()`` returns.
            node_attrs: names of what nodes of a graph without types have.

        Raises:
            UnsupportedError: they are not, or PyG would compare with other values.
        """
        for kind, ids, offsets, perm in _by_kind(lists):
            of_nodes = _times_of(self._sampler, "node_time", None if kind is None else kind[0])
            of_edges = _times_of(self._sampler, "edge_time", kind)
            if of_nodes is not None:
                self._check_order(kind, of_nodes[ids], offsets)
            elif of_edges is not None:
                if kind is None and self._time_attr in node_attrs:
                    raise UnsupportedError(
                        f"PyG's own sampler takes {self._time_attr!r} for times of edges, as all "
                        f"times of a store without types but 'time': {_INSTEAD}"
                    )
                if perm is not None:
                    raise UnsupportedError(
                        f"PyG's own sampler takes {self._time_attr!r} in the order of lists, and "
                        f"edge ids are not places in them: {_INSTEAD}"
                    )
                self._check_order(kind, of_edges, offsets)

    def _check_order(self, kind: Any, times: Tensor, offsets: Tensor) -> None:
        falls = (times[1:] < times[:-1]).numpy()
        begins = offsets[1:-1].numpy()
        falls[begins[(begins > 0) & (begins < len(times))] - 1] = False
        if falls.any():
            place = int(falls.argmax())
            node = int(np.searchsorted(offsets.numpy(), place, "right")) - 1
            of_kind = "" if kind is None else f" of {kind!r}"
            raise UnsupportedError(
                f"the list of node {node}{of_kind} is not in the order of {self._time_attr!r}, and "
                f"PyG's own sampler would let seeds see what is later: {_INSTEAD}, which look"
            )


def _by_kind(lists: tuple[Any, Any, Any]) -> Iterator[tuple[Any, Tensor, Tensor, Tensor | None]]:
    """Yield the lists of each edge type, after it; None: there are no types."""
    ids, offsets, perm = lists
    if not isinstance(ids, dict):
        yield None, ids, offsets, perm
        return
    for kind in ids:
        yield kind, ids[kind], offsets[kind], (perm or {}).get(kind)


def _times_of(sampler: Any, name: str, group: Any) -> Tensor | None:
    times = getattr(sampler, name, None)
    of_group = times.get(group) if isinstance(times, dict) else times
    return of_group if isinstance(of_group, torch.Tensor) else None
