"""Common base of our samplers for PyG's loaders."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from torch_geometric.sampler import BaseSampler

from aethergraph._torch.iteration import iteration_key
from aethergraph._torch.keyed import Keyed
from aethergraph._torch.seeds import SharedCount

__all__ = ["KeyedSampler"]

#: Values of ``_first_iteration`` that are no keys; keys have their second bit set there.
_NONE, _DONE = 0, 1


class KeyedSampler(Keyed, BaseSampler):  # type: ignore[misc]
    """Sampler whose draws are a function of a key, so that any process may make a batch.

    In a batch of a ``DataLoader`` the number that torch draws for the iteration replaces the seed,
    unless a seed was given.
    """

    graph: Any  # the sampled Graph or HeteroGraph
    _first_iteration: SharedCount

    def _set_seed(self, seed: int | None) -> None:
        super()._set_seed(seed)
        self._first_iteration = SharedCount(_NONE)

    def set_epoch(self, epoch: int) -> None:
        """Change the draws of the batches to come, as ``DistributedSampler`` does.

        Call it in the main process before each epoch; running workers see it too. Copies of this
        sampler share its epoch. Epochs of a ``DataLoader`` draw anew without it, except with
        ``seed=``.

        Args:
            epoch: any integer of 64 bits; 0 at the start.
        """
        super().set_epoch(epoch)
        self._first_iteration.value = _DONE

    if not TYPE_CHECKING:  # hidden from type checkers, which would take every name to exist

        def __getattr__(self, name: str) -> Any:
            own = type(self).__name__
            message = f"{own!r} object has no attribute {name!r}"
            if name in ("sample", "sample_many"):
                message += (
                    f": this is aethergraph.pyg.{own}, which a loader asks for "
                    f"sample_from_nodes(); take aethergraph.{own} (from aethergraph import {own})"
                )
            raise AttributeError(message)

    @property
    def edge_permutation(self) -> Any:
        """None: samples hold the graph store's edge ids already."""
        return None

    def start_key(self) -> int | None:
        """Return the key that replaces the seed for the batch that is asked for now.

        None means the seed itself: the sampler's, or outside of a loader torch's.
        """
        if self.seed is None:
            return iteration_key()
        if self._first_iteration.value != _DONE:
            self._watch(iteration_key())
        return None

    def _batch_key(self, loader_key: int | None, *content: int) -> int:
        start = self.start_key() if loader_key is None else loader_key
        return super()._batch_key(start, *content)

    def _watch(self, iteration: int | None) -> None:
        """Warn if a second iteration begins with the draws of the first."""
        if iteration is None:
            return
        number = (iteration | 2) - (1 << 63)
        if self._first_iteration.value == _NONE:
            self._first_iteration.value = number
        elif self._first_iteration.value != number:
            self._first_iteration.value = _DONE
            warnings.warn(
                f"seed={self.seed}: batches of the same seeds are sampled alike in every epoch. "
                "Call set_epoch(epoch) of the sampler before each of them (set_epoch(0) once if "
                "that is what you want), or use the loaders of aethergraph.pyg with seed=, which "
                "count the epochs",
                stacklevel=2,
            )
