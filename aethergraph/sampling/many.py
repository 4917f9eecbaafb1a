"""Arguments of many batches side by side, for ``sample_many``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

from aethergraph._arrays import as_integer
from aethergraph._options import as_iterator
from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.keys import mix_key

__all__ = ["align_batches"]


def align_batches(
    seeds: Iterable[Any],
    keys: Iterable[int] | None,
    call_key: int,
    **options: Iterable[Any] | None,
) -> Iterator[tuple[Any, ...]]:
    """``(seeds, key, *options, "[i]")`` of batch i; the last is for the names in messages.

    Args:
        seeds: of each batch.
        keys: of each batch; None: made of ``call_key`` and i, so that how far ahead batches are
            made does not show in later calls.
        options: for each batch; None: None for all of them. They may be endless.

    Raises:
        InvalidArgumentError: keys or an option are for another number of batches.
    """
    others = {"keys": keys, **options}
    batches = _length(seeds)
    for name, of in others.items():
        items = _length(of)
        if batches is not None and items is not None and items != batches:
            raise InvalidArgumentError(
                f"{name} has {items} items for {batches} batches of seeds: give one for each"
            )
    return _align(seeds, others, call_key)


def _length(of: object) -> int | None:
    """Where it is known without iterating."""
    try:
        return len(of) if isinstance(of, Sized) else None
    except (TypeError, ValueError):  # of a tensor without dimensions
        return None


def _align(
    seeds: Iterable[Any], others: dict[str, Iterable[Any] | None], call_key: int
) -> Iterator[tuple[Any, ...]]:
    rest = {name: None if of is None else as_iterator(of, name) for name, of in others.items()}
    for number, batch in enumerate(as_iterator(seeds, "seeds", "batches")):
        given = []
        for name, of in rest.items():
            try:
                given.append(None if of is None else next(of))
            except StopIteration:
                raise InvalidArgumentError(
                    f"{name} ends after {number} batches, seeds goes on: give one for each",
                    position=number,
                ) from None
        place = f"[{number}]"
        if rest["keys"] is None:
            given[0] = mix_key(call_key, number)
        else:
            given[0] = as_integer(given[0], f"keys{place}")
        yield (batch, *given, place)
