"""Order of the seeds of our loaders, the share of this process, and states of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch_geometric.sampler import BaseSampler

from aethergraph._checks.options import as_flag, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.epoch import Batches
from aethergraph.loading.options import Order, as_order
from aethergraph.loading.resume import Resumable
from aethergraph.loading.state import Told, describe, describe_sampler
from aethergraph.pyg._order import IndexSampler
from aethergraph.pyg._sampler_base import KeyedSampler

__all__ = ["OrderMixin"]


class OrderMixin(Resumable):
    """Order, shares and states of our loaders; comes before PyG's class in the bases."""

    seed: int | None

    # Attributes of PyG's and torch's loaders:
    input_data: Any
    batch_size: int | None
    drop_last: bool
    generator: torch.Generator | None
    sampler: Any
    batch_sampler: Any
    dataset: Any

    _begun: Any = None  # what the order of the epoch is replayed from

    def _sampler(self) -> BaseSampler:
        raise NotImplementedError

    @property
    def _seeded_sampler(self) -> KeyedSampler | None:
        """The sampler, if it draws by a seed of its own: the loader was given none."""
        sampler = self._sampler()
        if self._has_seed or not isinstance(sampler, KeyedSampler) or sampler.seed is None:
            return None
        return sampler

    def _set_order(
        self,
        options: Mapping[str, Any],
        order: Order | None,
    ) -> None:
        """Choose the order of the seeds and the share of this process; before torch's class.

        Args:
            options: those of ``torch.utils.data.DataLoader``.
            order: what the loader was given.
        """
        self.order = chosen = as_order(order)
        self._own_share = chosen.share()
        self.snapshot = chosen.snapshot
        samplers = [name for name in ("sampler", "batch_sampler") if options.get(name) is not None]
        if options.get("batch_size", 1) is None:
            samplers.append("batch_size=None")
        share_options = [
            name for name, is_asked in (
                ("world_size", self._share.world_size > 1),
                ("partitions", chosen.partitions is not None),
            ) if is_asked
        ]  # fmt: skip
        if samplers and share_options:
            raise InvalidArgumentError(
                f"{share_options[0]} goes without {samplers[0]}, which decides the order of "
                "the seeds itself (Lightning gives a sampler unless use_distributed_sampler=False)"
            )
        if samplers:
            self._own_share = Order(last_round=chosen.last_round).share()
        self._is_ordered = (
            chosen.world_size is not None or chosen.partitions is not None
        ) and not samplers
        self._has_seed = self.seed is not None
        if self._is_ordered and self.seed is None:
            self.seed = 0  # all ranks must draw the same order, as DistributedSampler
        self._is_shuffled = as_flag(options.get("shuffle", False), "shuffle")

    def _order_seeds(self) -> None:
        """Order the seeds, after torch's class has made its samplers."""
        batches = None
        if self._is_ordered:
            batches = Batches(
                len(self.dataset), self.batch_size or 1, self._is_shuffled, self.drop_last,
                self.order.partitions, self.order.mix,
            )  # fmt: skip
        sampler = self.sampler if self.batch_sampler is None else self.batch_sampler
        self._numbers = IndexSampler(sampler, batches, self.generator)

    @property
    def _index_sampler(self) -> IndexSampler:
        return self._numbers  # which torch's iterators take the numbers of batches from

    def __len__(self) -> int:
        is_ordered = self._numbers.batches is not None
        return self._share.count(self._numbers.total) if is_ordered else len(self._numbers.sampler)

    # ---- states ----------------------------------------------------------------------------

    @property
    def _total(self) -> int:
        return self._numbers.total

    def _tell_arrays(self) -> dict[str, Any]:
        seeds = self.input_data
        names = ("input_type", "node", "row", "col", "time", "label")
        arrays = {name: getattr(seeds, name, None) for name in names}
        batches = self._numbers.batches
        return arrays if batches is None else arrays | batches.aligned

    def _tell_options(self) -> Told:
        options = {
            name: describe(getattr(self, name)) for name in ("batch_size", "seed", "snapshot")
        }
        options["shuffle"] = describe(self._is_shuffled)
        options["drop_last"] = describe(self.drop_last)
        outer = self._numbers.sampler
        names = (
            type(sampler).__name__
            for sampler in (outer, getattr(outer, "sampler", None))
            if sampler
        )
        options["order"] = "of seed and epoch" if self._is_ordered else " of ".join(names)
        if (seeded := self._seeded_sampler) is not None:
            options["sampler_seed"] = describe(seeded.seed)
        return {"loader": type(self).__name__, **options, **describe_sampler(self._sampler())}

    @property
    def _told_graph(self) -> Any:
        sampler = self._sampler()
        return sampler.graph if isinstance(sampler, KeyedSampler) else None

    def _tell_order(self) -> Any:
        if self._is_ordered:
            return None
        if self._position is not None and not self._position.is_over:
            return self._begun
        return self._tell_generators() if self._order_state is None else self._order_state

    def _tell_generators(self) -> Any:
        epoch = getattr(self._own_epochs(), "epoch", None)
        return {"generators": self._numbers.generators.states(), "sampler_epoch": epoch}

    def _check_order(self, order: Any) -> None:
        if self._is_ordered:
            return
        if not isinstance(order, Mapping) or "generators" not in order:
            raise InvalidArgumentError(f"state has no generators, got order = {shown(order)}")
        self._numbers.generators.check(order["generators"])

    def _own_epochs(self) -> Any:
        """Return the user's sampler that counts epochs, such as a DistributedSampler, or None."""
        outer = self._numbers.sampler
        inner = getattr(outer, "sampler", None)
        return next((sampler for sampler in (outer, inner) if hasattr(sampler, "set_epoch")), None)

    def _set_sampler_epoch(self, epoch: Any) -> None:
        sampler = self._own_epochs()
        if sampler is not None and epoch is not None:
            sampler.set_epoch(epoch)
