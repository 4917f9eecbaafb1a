"""Profiled: the method ``profile`` of loaders of every framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aethergraph.observe.profiling import Profile

__all__ = ["Profiled"]


class Profiled:
    """Base of loaders that can say where the time of their batches goes."""

    def profile(
        self, batches: int = 50, step: Callable[[Any], object] | None = None, *, warmup: int = 2
    ) -> Profile:
        """Run batches and return where their time went: waiting, sampling, gathering, your step.

        ::

            print(loader.profile(50, step=train_on))       # a table
            loader.profile(50, step=train_on).plot("batches.png")

        Epochs that this begins count as any other. See :func:`aethergraph.observe.profile`.

        Args:
            batches: number of batches to measure, at least 1.
            step: called with each batch, as training would be; None: the batches are dropped.
            warmup: batches before, which are not measured.

        Raises:
            InvalidArgumentError: an argument is invalid, or there are no batches.
        """
        from aethergraph.observe import profile

        return profile(self, batches, step, warmup=warmup)
