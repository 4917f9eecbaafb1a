"""Arguments of many batches side by side, for ``sample_many``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

from aethergraph._checks.arrays import as_integer
from aethergraph._checks.options import as_iterator
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.keys import mix_key

__all__ = ["align_batches"]


def align_batches(
    seeds: Iterable[Any],
    keys: Iterable[int] | None,
    call_key: int,
    **options: Iterable[Any] | None,
) -> Iterator[tuple[Any, ...]]:
    """Yield ``(seeds, key, *options, "[i]")`` of batch i; messages append the last to names.

    Args:
        seeds: seeds of each batch.
        keys: key of each batch. None: made of ``call_key`` and i, so that later calls do not
            depend on how many batches are sampled ahead.
        call_key: key of the whole call.
        **options: values of each batch, possibly endless; None stands for None in all batches.

    Raises:
        InvalidArgumentError: keys or an option are for another number of batches.
    """
    series = {"keys": keys, **options}
    batches = _length(seeds)
    for name, of in series.items():
        items = _length(of)
        if batches is not None and items is not None and items != batches:
            raise InvalidArgumentError(
                f"{name} has {items} items for {batches} batches of seeds: give one for each"
            )
    return _align(seeds, series, call_key)


def _length(of: object) -> int | None:
    """Return the length if it is known without iterating, else None."""
    try:
        return len(of) if isinstance(of, Sized) else None
    except (TypeError, ValueError):  # a tensor without dimensions
        return None


def _align(
    seeds: Iterable[Any], series: dict[str, Iterable[Any] | None], call_key: int
) -> Iterator[tuple[Any, ...]]:
    iterators = {name: None if of is None else as_iterator(of, name) for name, of in series.items()}
    for number, batch in enumerate(as_iterator(seeds, "seeds", "batches")):
        values = []
        for name, of in iterators.items():
            try:
                values.append(None if of is None else next(of))
            except StopIteration:
                raise InvalidArgumentError(
                    f"{name} ends after {number} batches, seeds goes on: give one for each",
                    position=number,
                ) from None
        place = f"[{number}]"
        if iterators["keys"] is None:
            values[0] = mix_key(call_key, number)
        else:
            values[0] = as_integer(values[0], f"keys{place}")
        yield (batch, *values, place)
