"""What our two neighbour samplers share: the options that PyG's users read and assign to, how
seed links are read, and that they sample in two steps.

A generator of ``Steps`` yields what is to be drawn and is sent the sample, for which it makes
PyG's output. In between a loader may draw for several batches at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch_geometric.sampler import EdgeSamplerInput, NegativeSampling
from torch_geometric.sampler.base import DataType, SubgraphType

from aethergraph._options import as_choice, as_flag, shown
from aethergraph._torch.tensors import seed_ids
from aethergraph.errors import InvalidArgumentError
from aethergraph.pyg._keyed import KeyedSampler

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from numpy.typing import NDArray

    from aethergraph import _binding as native
    from aethergraph.sampling.groups import SampleGroups

__all__ = ["NEGATIVES", "NeighborSamplerBase", "Steps", "end_steps"]

Ids: TypeAlias = "NDArray[np.int64]"

#: The stream of a batch's key that negative links are drawn from, beside the native sampler's own.
NEGATIVES = 1


Steps: TypeAlias = "Generator[native.NativeBatch, native.NativeSample, Any]"


def end_steps(steps: Steps, sample: native.NativeSample) -> Any:
    """The output for a sample."""
    try:
        steps.send(sample)
    except StopIteration as end:
        return end.value
    raise AssertionError("a sampler that asks for more than one sample")


class NeighborSamplerBase(KeyedSampler):
    """Options, and the checks of seed links."""

    keep_orig_edges: bool
    _time_attr: str | None
    _weight_attr: str | None

    # ---- options ---------------------------------------------------------------------------

    @property
    def subgraph_type(self) -> SubgraphType:
        """PyG's ``SubgraphType``; takes its name as well."""
        return self._subgraph_type

    @subgraph_type.setter
    def subgraph_type(self, value: SubgraphType | str) -> None:
        try:
            self._subgraph_type = SubgraphType(value)
        except (ValueError, TypeError, RuntimeError):  # the last of tensors
            known = ", ".join(kind.value for kind in SubgraphType)
            raise InvalidArgumentError(
                f"subgraph_type = {shown(value)} is not one of {known}"
            ) from None

    @property
    def disjoint(self) -> bool:
        """Whether each seed has a tree of its own; sampling in time always does so."""
        return self._disjoint or self.is_temporal

    @disjoint.setter
    def disjoint(self, value: bool) -> None:
        self._disjoint = as_flag(value, "disjoint")

    @property
    def temporal_strategy(self) -> str:
        """``"uniform"`` or ``"last"``."""
        strategy: str = self._temporal_strategy
        return strategy

    @temporal_strategy.setter
    def temporal_strategy(self, value: str) -> None:
        self._temporal_strategy = as_choice(value, ("uniform", "last"), "temporal_strategy")

    @property
    def time_attr(self) -> str | None:
        """The name of the times, of nodes or of edges, or None."""
        return self._time_attr

    @property
    def weight_attr(self) -> str | None:
        """The name of the weights of edges, or None."""
        return self._weight_attr

    @property
    def time_unit(self) -> str | None:
        """Unit of the times, if they are the graph's own and were datetimes, such as ``"s"``."""
        raise NotImplementedError

    @property
    def is_temporal(self) -> bool:
        """Whether there is a ``time_attr``."""
        return self._time_attr is not None

    @property
    def data_type(self) -> DataType:
        """PyG's name for a pair of stores."""
        return DataType.remote

    # ---- what both do alike ----------------------------------------------------------------

    def _draw(self, batch: native.NativeBatch) -> native.NativeSample:
        raise NotImplementedError

    def draw(self, batch: native.NativeBatch) -> native.NativeSample:
        """One sample, alone."""
        return self._draw(batch)

    def node_steps(self, index: Any, loader_key: int | None = None) -> Steps:
        """``sample_from_nodes`` in two steps."""
        raise NotImplementedError

    @property
    def groups(self) -> SampleGroups | None:
        """Makes samples of coming batches together; None where that saves nothing."""
        raise NotImplementedError

    _expected: Iterator[tuple[native.NativeBatch, native.NativeSample]] | None = None
    #: Whether the call after :meth:`expect` was for something else.
    has_missed = False

    def expect(self, samples: Iterator[tuple[native.NativeBatch, native.NativeSample]]) -> None:
        """The next of ``samples`` is that of the next call, if it asks for what it was made for."""
        self._expected, self.has_missed = samples, False

    @property
    def is_expecting(self) -> bool:
        """Whether there was no call since :meth:`expect`."""
        return self._expected is not None

    def _run(self, steps: Steps) -> Any:
        batch, expected = next(steps), self._expected
        self._expected = None
        if expected is not None:
            made, sample = next(expected)
            if made.is_like(batch):
                return end_steps(steps, sample)
            self.has_missed = True
        return end_steps(steps, self._draw(batch))

    @property
    def _is_counted(self) -> bool:
        """Whether a sample is in order of hops."""
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
        """Sources and destinations of seed links, int64 [P] each.

        Args:
            timed: the sampler compares times, so that negatives need those of their links.
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
