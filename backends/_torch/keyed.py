"""Keys of the random draws of a batch."""

from __future__ import annotations

import warnings

from aethergraph._checks.arrays import as_integer
from aethergraph._torch.iteration import Iteration, iteration_key
from aethergraph._torch.random_seeds import MainSeed, SharedCount
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.keys import mix_key

__all__ = ["Keyed"]

#: Values of ``_first_iteration`` that are no keys; keys have their second bit set there.
_NONE, _DONE = 0, 1


class Keyed:
    """Sampler whose draws are a function of a key, so that any process may make a batch.

    The key of a batch is mixed from the seed, the epoch and the content of the batch. In a batch of
    a ``DataLoader`` the number that torch draws for the iteration replaces the seed, unless a seed
    was given. A loader may put a number of its own, ``loader_key``, there.
    """

    #: End of the warning that epochs repeat: other means than ``set_epoch``.
    _other_ways = ""
    _main_seed: MainSeed
    _shared_epoch: SharedCount
    _first_iteration: SharedCount

    def _set_seed(self, seed: int | None) -> None:
        self._main_seed = MainSeed(seed)
        self._shared_epoch = SharedCount()
        self._first_iteration = SharedCount(_NONE)

    @property
    def seed(self) -> int | None:
        """Seed that was given; None: torch's seed."""
        return self._main_seed.seed

    @property
    def epoch(self) -> int:
        """Epoch that is mixed into the key of every batch."""
        return self._shared_epoch.value

    def set_epoch(self, epoch: int) -> None:
        """Change the draws of the batches to come, as ``DistributedSampler`` does.

        Call it in the main process before each epoch; running workers see it too. Its
        copies share its epoch. Epochs of a ``DataLoader`` draw anew without it, except with
        ``seed=``.

        Args:
            epoch: any integer of 64 bits; 0 at the start.
        """
        value = as_integer(epoch, "epoch", bools=False)
        if not -(1 << 63) <= value < 1 << 63:
            raise InvalidArgumentError(f"epoch = {value} does not fit 64 bits")
        self._shared_epoch.value = value
        self._first_iteration.value = _DONE

    def start_key(self, iteration: Iteration | None = None) -> int | None:
        """Return the key that replaces the seed for the batch that is asked for now.

        None means the seed itself: the sampler's, or outside of a loader torch's.

        Args:
            iteration: the iteration that asks for it, if it is known.
        """
        if self.seed is None:
            return iteration_key(iteration)
        if self._first_iteration.value != _DONE:
            self._watch(iteration_key(iteration))
        return None

    def begin_iteration(self, number: int) -> None:
        """Warn, as a stock loader's batches do, if an iteration has the draws of another one.

        Args:
            number: what torch draws for the iteration that begins.
        """
        if self.seed is not None and self._first_iteration.value != _DONE:
            self._watch(number)

    def _batch_key(
        self, loader_key: int | None, *content: int, iteration: Iteration | None = None
    ) -> int:
        start = self.start_key(iteration) if loader_key is None else loader_key
        if start is None:
            start = self._main_seed.value()
        return mix_key(start, self._shared_epoch.value, *content)

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
                f"Call set_epoch(epoch) of the {type(self).__name__} before each of them "
                f"(set_epoch(0) once if that is what you want){self._other_ways}",
                stacklevel=2,
            )
