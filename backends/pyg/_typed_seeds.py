"""Seeds of several node types in one loader: ``input_nodes={"user": ids, "item": ids}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.sampler import NodeSamplerInput

from aethergraph._checks.arrays import to_array
from aethergraph._checks.options import as_items
from aethergraph._checks.times import as_seed_times
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.seeds import Seeds

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TypedSeeds"]

Ids: TypeAlias = "NDArray[np.int64]"


class TypedSeeds(NodeSamplerInput):  # type: ignore[misc]
    """Some of the seeds of a loader, in one row: those of one node type behind those of another.

    PyG's loaders take some of them by their places, ``seeds[places]``.

    Attributes:
        node: ids of the seeds, int64 [n].
        by_type: ids of the seeds by node type.
        times: times of the seeds by node type, of the types for which they were given.
        input_ids: by node type, positions of the seeds among those that were given of the type, or
            ids where a mask, a slice or None was, as PyG has it.

    Args:
        seeds: all seeds of the loader.
        with_ids: node types whose ``input_ids`` are ids.
        places: places of these seeds in the row of all, int64; None: all of them.
    """

    def __init__(self, seeds: Seeds, with_ids: frozenset[str], places: Ids | None = None) -> None:
        self._seeds, self._with_ids = seeds, with_ids
        places = np.arange(len(seeds)) if places is None else places
        positions = seeds.split(places)
        self.by_type, times = seeds.arguments(places)
        self.times: Mapping[str, Any] = times or {}
        self.input_ids = {
            node_type: torch.from_numpy(self.by_type[node_type] if node_type in with_ids else at)
            for node_type, at in positions.items()
        }
        ids = [np.empty(0, np.int64), *self.by_type.values()]
        super().__init__(None, torch.from_numpy(np.concatenate(ids)))
        #: What a state compares: the types with their numbers of seeds.
        self.label = [(name, len(ids), name in with_ids) for name, ids in self.by_type.items()]
        self.row = None if not self.times else [self.times.get(name) for name in self.by_type]

    def __getitem__(self, index: Any) -> TypedSeeds:
        places = index.numpy() if isinstance(index, Tensor) else np.asarray(index, np.int64)
        return TypedSeeds(self._seeds, self._with_ids, places)

    @classmethod
    def read(cls, nodes_by_type: Mapping[str, Any], times: Any, sampler: Any) -> TypedSeeds:
        """Read ``input_nodes`` and ``input_time`` that go by node type.

        Args:
            nodes_by_type: by node type ids, a mask, a slice, or None for all nodes.
            times: None, or the times of the seeds by node type.
            sampler: the sampler of the loader, one of ours over a typed graph.

        Raises:
            InvalidArgumentError: another sampler, or as for :class:`Seeds`.
        """
        if not getattr(sampler, "is_hetero", False) or not hasattr(sampler, "schema"):
            raise InvalidArgumentError(
                "input_nodes by node type are for samplers of aethergraph.pyg over a typed graph: "
                "give the ids alone, or (node type, ids)"
            )
        if isinstance(times, Mapping):
            times = {
                node_type: _as_numbers(of_type, f"input_time[{node_type!r}]", sampler.time_unit)
                for node_type, of_type in times.items()
            }
        ids, with_ids = {}, set()
        for node_type, nodes in as_items(nodes_by_type, "input_nodes", "ids"):
            is_mask = str(getattr(nodes, "dtype", "")) in ("bool", "torch.bool")
            if nodes is None or isinstance(nodes, slice) or is_mask:
                with_ids.add(node_type)
            if isinstance(nodes, slice) and node_type in sampler.schema.node_types:
                nodes = np.arange(*nodes.indices(sampler.schema.num_nodes(node_type)))
            ids[node_type] = nodes
        seeds = Seeds(sampler.schema, ids, times, ("input_nodes", "input_time"))
        return cls(seeds, frozenset(with_ids))


def _as_numbers(times: Any, name: str, unit: str | None) -> Any:
    """Return times that are datetimes as counts of the unit of the graph's times."""
    array = to_array(times, name)
    if array.dtype.kind in "mM":
        return as_seed_times(array, len(array), name, unit, np.dtype(np.int64))
    return array
