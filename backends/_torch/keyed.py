"""Keys of the random draws of a batch."""

from __future__ import annotations

from aethergraph._arrays import as_integer
from aethergraph._torch.seeds import MainSeed, SharedCount
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.keys import mix_key

__all__ = ["Keyed"]


class Keyed:
    """Sampler whose draws are a function of a key, so that any process may make a batch.

    The key of a batch is mixed from the seed, the epoch and the content of the batch. A loader may
    put a number of its own, ``loader_key``, in the place of the seed.
    """

    _main_seed: MainSeed
    _shared_epoch: SharedCount

    def _set_seed(self, seed: int | None) -> None:
        self._main_seed = MainSeed(seed)
        self._shared_epoch = SharedCount()

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

        Call it in the main process before each epoch; running workers see it too.
        Copies of this sampler share its epoch.

        Args:
            epoch: any integer of 64 bits; 0 at the start.
        """
        if isinstance(epoch, bool):
            raise InvalidArgumentError("epoch must be an integer, got bool")
        value = as_integer(epoch, "epoch")
        if not -(1 << 63) <= value < 1 << 63:
            raise InvalidArgumentError(f"epoch = {value} does not fit 64 bits")
        self._shared_epoch.value = value

    def _batch_key(self, loader_key: int | None, *content: int) -> int:
        start = self._main_seed.value() if loader_key is None else loader_key
        return mix_key(start, self._shared_epoch.value, *content)
