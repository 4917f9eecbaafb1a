"""Base of our neighbour sampler: options, checks of seed links, sampling in two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling
from torch_geometric.sampler.base import DataType, SubgraphType

from aethergraph._checks.options import as_choice, as_flag, shown
from aethergraph._torch.tensors import seed_ids
from aethergraph.errors import InvalidArgumentError
from aethergraph.pyg._sampler_base import KeyedSampler
from aethergraph.sampling.two_step import Steps, end_steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from aethergraph import _native as native
    from aethergraph.sampling.engine import SampleEngine
    from aethergraph.sampling.groups import SampleGroups

__all__ = ["NEGATIVES", "NeighborSamplerBase"]

Ids: TypeAlias = "NDArray[np.int64]"

#: Stream of a batch's key that negative links are drawn from; the native sampler has its own.
NEGATIVES = 1


class NeighborSamplerBase(KeyedSampler):
    """Options of a neighbour sampler, its checks of seed links, and its two-step sampling."""

    keep_orig_edges: bool
    _time_attr: str | None
    _weight_attr: str | None

    # ---- options ---------------------------------------------------------------------------

    @property
    def subgraph_type(self) -> SubgraphType:
        """PyG's ``SubgraphType``; may be assigned by name as well."""
        return self._subgraph_type

    @subgraph_type.setter
    def subgraph_type(self, value: SubgraphType | str) -> None:
        try:
            self._subgraph_type = SubgraphType(value)
        except (ValueError, TypeError, RuntimeError):  # RuntimeError: comparing a tensor
            known = ", ".join(kind.value for kind in SubgraphType)
            raise InvalidArgumentError(
                f"subgraph_type = {shown(value)} is not one of {known}"
            ) from None

    @property
    def disjoint(self) -> bool:
        """True if each seed has a tree of its own, as always when sampling in time."""
        return self._disjoint or self.is_temporal

    @disjoint.setter
    def disjoint(self, value: bool) -> None:
        self._disjoint = as_flag(value, "disjoint")

    @property
    def temporal_strategy(self) -> str:
        """Choice among the neighbours in time, ``"uniform"`` or ``"last"``."""
        strategy: str = self._temporal_strategy
        return strategy

    @temporal_strategy.setter
    def temporal_strategy(self, value: str) -> None:
        self._temporal_strategy = as_choice(value, ("uniform", "last"), "temporal_strategy")

    @property
    def time_attr(self) -> str | None:
        """Name of the times of nodes or of edges, or None."""
        return self._time_attr

    @property
    def weight_attr(self) -> str | None:
        """Name of the weights of edges, or None."""
        return self._weight_attr

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, such as ``"s"``; None unless they are the graph's own datetimes."""
        raise NotImplementedError

    @property
    def is_temporal(self) -> bool:
        """True if the sampler has a ``time_attr``."""
        return self._time_attr is not None

    @property
    def data_type(self) -> DataType:
        """PyG's data type for a pair of stores, ``DataType.remote``."""
        return DataType.remote

    # ---- two-step sampling -----------------------------------------------------------------

    @property
    def engine(self) -> SampleEngine[native.NativeSample]:
        """Maker of the samples with the present options."""
        raise NotImplementedError

    @property
    def groups(self) -> SampleGroups[native.NativeSample] | None:
        """Maker of samples of coming batches together; None where that saves nothing."""
        return self.engine.groups

    def node_steps(self, index: Any, loader_key: int | None = None) -> Steps:
        """Run ``sample_from_nodes`` as a generator of two steps."""
        raise NotImplementedError

    _expected: Iterator[tuple[native.NativeBatch, native.NativeSample]] | None = None
    #: True if the call after :meth:`expect` was for another batch than the expected one.
    has_missed = False

    def expect(self, samples: Iterator[tuple[native.NativeBatch, native.NativeSample]]) -> None:
        """Use the next of ``samples`` for the next call, if that call asks for the same batch."""
        self._expected, self.has_missed = samples, False

    @property
    def is_expecting(self) -> bool:
        """True if there was no call since :meth:`expect`."""
        return self._expected is not None

    def _run(self, steps: Steps) -> Any:
        return end_steps(steps, self._run_draw(next(steps)))

    def _run_draw(self, batch: native.NativeBatch) -> native.NativeSample:
        """Return the sample of a batch: the expected one, or one that is drawn now."""
        expected, self._expected = self._expected, None
        if expected is not None:
            request, sample = next(expected)
            if request.is_like(batch):
                return sample
            self.has_missed = True
        return self.engine.draw(batch)

    @property
    def _is_counted(self) -> bool:
        """True if a sample is in order of hops."""
        return bool(self._subgraph_type != SubgraphType.induced)

    @property
    def _adds_reverses(self) -> bool:
        return bool(self._subgraph_type == SubgraphType.bidirectional)

    def _finish(self, out: Any) -> Any:
        if self._adds_reverses:
            return out.to_bidirectional(keep_orig_edges=self.keep_orig_edges)
        return out

    def _read_links(
        self, index: EdgeSamplerInput, neg_sampling: NegativeSampling | None, *, timed: bool
    ) -> tuple[Ids, Ids]:
        """Return sources and destinations of seed links, int64 [P] each.

        Args:
            index: PyG's input.
            neg_sampling: PyG's ``NegativeSampling``, or None.
            timed: the sampler compares times, so that negatives need the times of their links.
        """
        src, dst = seed_ids(index.row, "row"), seed_ids(index.col, "col")
        if len(src) != len(dst):
            raise InvalidArgumentError(f"row has {len(src)} ids, but col has {len(dst)}")
        if neg_sampling is None:
            return src, dst
        if neg_sampling.is_triplet() and index.label is not None:
            raise InvalidArgumentError("triplet negative sampling takes no edge_label")
        if timed and index.time is None:
            raise InvalidArgumentError(
                "edge_label_time is needed: negative links get the times of the links"
            )
        return src, dst
