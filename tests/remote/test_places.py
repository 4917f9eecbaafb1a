"""Errors about a row name its place in the ids that were given, however they were split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from aethergraph import LiveFeatureTable, _native, errors
from aethergraph._checks.places import move_error, reword
from aethergraph.errors import OutOfRangeError
from aethergraph.protocols import RowSource
from aethergraph.remote import FeatureServer, open_source

#: A row that was never written, one that a writer left in the middle, one whose bits have changed.
MISSING, TORN, DAMAGED = 19_999, 19_998, 19_997
WRONG = {
    MISSING: errors.MissingRowError,
    TORN: errors.TornRowError,
    DAMAGED: errors.CorruptFileError,
}
#: More ids than a request has.
MANY = [1] * 9000


@pytest.fixture(scope="module")
def table() -> LiveFeatureTable:
    made = LiveFeatureTable.create(None, 20_000, 4, check=True)
    made.put_many(np.arange(MISSING), np.ones((MISSING, 4)))
    slots = _native.without_read_only(_native.LiveSlots.attach(made.descriptor, True).slots)
    slots[TORN, 0] |= 1
    slots[DAMAGED, 16] ^= 1
    return made


@pytest.fixture(scope="module")
def places(
    table: LiveFeatureTable, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, RowSource]]:
    """Return the table's rows by each way that splits a gather or not."""
    path = tmp_path_factory.mktemp("places") / "s"
    with (
        FeatureServer(table, port=0, unix=path) as whole,
        FeatureServer(table, port=0, shard=(0, 2)) as first,
        FeatureServer(table, port=0, shard=(1, 2)) as second,
    ):
        yield {
            "tcp": open_source(whole.address),
            "cached": open_source(f"{whole.address}?max_age=10&memory_budget=1M"),
            "map": open_source(f"unix://{path}"),
            "shards": open_source(f"tcp://127.0.0.1:{second.port},127.0.0.1:{first.port}"),
        }


@pytest.mark.parametrize(
    ("way", "row"),
    [
        *((way, row) for way in ("tcp", "cached", "map", "shards") for row in (MISSING, TORN)),
        ("tcp", DAMAGED),
        ("cached", DAMAGED),
        ("shards", DAMAGED),
    ],
)
@pytest.mark.parametrize("before", [MANY, [1] * 100 + [15_000] * 3, [1] * 100, []])
def test_the_place_is_that_among_all_ids(
    places: dict[str, RowSource], way: str, row: int, before: list[int]
) -> None:
    with pytest.raises(WRONG[row], match=rf"row {row} \(ids\[{len(before)}\]\)") as caught:
        places[way].gather([*before, row, 2])
    assert (caught.value.position, caught.value.value) == (len(before), row)


@pytest.mark.parametrize("way", ["tcp", "cached", "map", "shards"])
def test_the_advice_is_for_a_client(
    table: LiveFeatureTable, places: dict[str, RowSource], way: str
) -> None:
    with pytest.raises(errors.MissingRowError, match="aethergraph serve --missing zero") as caught:
        places[way].gather([MISSING])
    assert "another `missing`" not in str(caught.value)
    with pytest.raises(errors.MissingRowError, match="read with another `missing`"):
        table.gather([MISSING])


class _Failing:
    """Source whose errors are of its own."""

    shape, dtype_name = (20_000, 1), "int64"

    def __init__(self, error: Callable[[int], Exception]) -> None:
        self._error = error

    def gather(self, ids: Any) -> Any:
        if 7 in ids:
            raise self._error(int(np.argmax(np.asarray(ids) == 7)))
        return np.zeros((len(ids), 1), np.int64)


def test_positions_without_a_text() -> None:
    """A source may name a place by its position alone; an offset in a file stays what it is."""
    with FeatureServer(_Failing(lambda at: OutOfRangeError("row 7", position=at)), port=0) as one:
        with pytest.raises(OutOfRangeError) as caught:
            open_source(one.address).gather([*MANY, 7])
        assert caught.value.position == 9000
    wrong = errors.CorruptFileError("byte 4 is wrong", position=4)
    with FeatureServer(_Failing(lambda at: wrong), port=0) as one:
        with pytest.raises(errors.CorruptFileError) as other:
            open_source(one.address).gather([*MANY, 7])
        assert other.value.position == 4


def test_the_texts_of_system_errors() -> None:
    """Errors of the system have their text twice, and the name of a file."""
    error = errors.StorageError(5, "ids[3] of /a cannot be read", "/a", position=3)
    move_error(error, 8)
    reword(error, lambda text: text.replace("/a", "/b"))
    assert str(error) == "ids[8] of /b cannot be read" and error.filename == "/b"
    assert (error.errno, error.position) == (5, 8)
