"""Keys and hashes: the same numbers for ever, well spread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aethergraph.errors import InvalidArgumentError
from aethergraph.sampling.keys import hash_id_set, hash_ids, mix64, mix_key, permutation

ints = st.integers(-(2**70), 2**70)


def test_values_that_may_never_change() -> None:
    assert mix64(0) == 0
    assert mix64(1) == 0x5692161D100B05E5
    assert mix_key() == 0
    assert mix_key(0) == GOLDEN[0]
    assert mix_key(1, 2, 3) == GOLDEN[1]
    assert mix_key(-1) == mix_key(2**64 - 1) == GOLDEN[2]
    assert hash_ids(np.empty(0, np.int64)) == GOLDEN[3]
    assert hash_ids(np.arange(1000)) == GOLDEN[4]
    assert mix_key(7, np.arange(1000)) == mix_key(7, GOLDEN[4])
    assert permutation(8, 5).tolist() == GOLDEN_ORDER


GOLDEN = [
    258863698125685209,
    17824878756907967,
    4815193057359064352,
    537811230735318210,
    12832298883116900268,
]
GOLDEN_ORDER = [3, 1, 7, 5, 0, 4, 6, 2]


@given(st.lists(ints, max_size=5), st.lists(ints, max_size=5))
def test_different_parts_give_different_keys(a: list[int], b: list[int]) -> None:
    same = [x % 2**64 for x in a] == [x % 2**64 for x in b]
    assert (mix_key(*a) == mix_key(*b)) == same
    assert 0 <= mix_key(*a) < 2**64


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30))
def test_hashes_are_the_salted_sum(ids: list[int]) -> None:
    total = sum(mix64(id_ + (i + 1) * 0x9E3779B97F4A7C15) for i, id_ in enumerate(ids))
    assert hash_ids(np.array(ids, np.int64)) == mix_key(total, len(ids))


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30), st.randoms())
def test_hashes_of_sets_do_not_depend_on_order(ids: list[int], random: Any) -> None:
    array = np.array(ids, np.int64)
    value = hash_id_set(array)
    random.shuffle(ids)
    assert hash_id_set(np.array(ids, np.int64)) == value
    assert hash_id_set(np.append(array, 0)) != value
    if ids:
        array[0] ^= 1
        assert hash_id_set(array) != value


def test_hashes_are_of_vectors_of_ids() -> None:
    for ids in (np.arange(4, dtype=np.int32), np.zeros((2, 2), np.int64), np.ones(3)):
        with pytest.raises(InvalidArgumentError, match="int64 vector"):
            hash_ids(ids)  # type: ignore[arg-type]


def test_hashes_of_long_vectors() -> None:
    ids = np.arange(3_000_000)
    value = hash_ids(ids)
    ids[2_999_999] = 0
    assert hash_ids(ids) != value


def test_keys_are_spread() -> None:
    keys = np.array([mix_key(7, i) for i in range(4096)], np.uint64)
    bits = np.unpackbits(keys.view(np.uint8)).reshape(4096, 64)
    assert (abs(bits.mean(axis=0) - 0.5) < 0.05).all()
    flipped = np.bitwise_xor(keys[::2], keys[1::2])
    assert abs(np.unpackbits(flipped.view(np.uint8)).mean() - 0.5) < 0.01


def test_permutations() -> None:
    for count in (0, 1, 2, 1000):
        orders = [permutation(count, key) for key in range(5)]
        for order in orders:
            assert order.dtype == np.int64
            np.testing.assert_array_equal(np.sort(order), np.arange(count))
    assert len({tuple(order.tolist()) for order in orders}) == 5


def test_every_order_is_as_likely() -> None:
    counts: dict[tuple[int, ...], int] = {}
    for key in range(6000):
        order = tuple(permutation(3, key).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    assert all(abs(count - 1000) < 150 for count in counts.values())
