"""Reading ranges of a file: every tier against plain slices of its bytes.

Faults, threads, forks and queues are tested in C: native/tests/test_io*.c.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.strategies import examples

from aethergraph import errors
from aethergraph._native import FileReader, io_problem
from aethergraph._native.memory import buffer_alloc

pytestmark = pytest.mark.any_python

SIZE = 300_001
CONTENT = np.random.default_rng(4).integers(0, 256, SIZE).astype(np.uint8)
TIERS = [tier for tier in ("uring", "pread") if io_problem(tier) is None]
past_and_through_the_page_cache = pytest.mark.parametrize("direct", [True, False])


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = tmp_path_factory.mktemp("io") / "content.bin"
    CONTENT.tofile(name)
    return name


def slices(offsets: Any, lengths: Any) -> NDArray[np.uint8]:
    parts = [CONTENT[a : a + n] for a, n in zip(offsets, lengths, strict=True)]
    return np.concatenate([*parts, CONTENT[:0]])


@st.composite
def range_lists(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Ranges within the file: unaligned and aligned, overlapping, empty, up to its end."""
    offsets, lengths = [], []
    step = draw(st.sampled_from([1, 1, 512, 4096]))
    for _ in range(draw(st.integers(0, 40))):
        offset = draw(st.one_of(st.integers(0, SIZE), st.sampled_from([0, 4096, 299_520, SIZE])))
        offset -= offset % step
        left = SIZE - offset
        length = draw(st.one_of(st.integers(0, min(left, 9000)), st.sampled_from([0, left])))
        offsets.append(offset)
        lengths.append(length - length % step if draw(st.booleans()) else length)
    return offsets, lengths


@examples(80)
@given(
    tier=st.sampled_from(TIERS), direct=st.booleans(), ranges=range_lists(),
    depth=st.sampled_from([0, 1, 3, 256]),
)  # fmt: skip
def test_random_ranges(
    path: Path, tier: str, direct: bool, ranges: tuple[list[int], list[int]], depth: int
) -> None:
    with FileReader(path, tier=tier, direct=direct, depth=depth) as reader:
        np.testing.assert_array_equal(reader.read(*ranges), slices(*ranges))
        assert reader.stats().requests == len(ranges[0])


@examples(100)
@given(
    tier=st.sampled_from(TIERS), direct=st.booleans(),
    offset=st.integers(-5, 2 * SIZE) | st.sampled_from([-(2**63), 2**63 - 1]),
    length=st.integers(0, 2 * SIZE) | st.sampled_from([2**63 - 1]),
)  # fmt: skip
def test_ranges_beyond_the_end(
    path: Path, tier: str, direct: bool, offset: int, length: int
) -> None:
    with FileReader(path, tier=tier, direct=direct) as reader:
        if offset >= 0 and offset + length <= SIZE:
            assert len(reader.read([7, offset], [3, length])) == 3 + length
            return
        with pytest.raises(errors.OutOfRangeError, match=f"({SIZE} bytes)") as caught:
            reader.read([7, offset], [3, length])
        assert caught.value.position == 1 and caught.value.value == offset


@past_and_through_the_page_cache
def test_into_an_array(path: Path, direct: bool) -> None:
    with FileReader(path, direct=direct) as reader:
        offsets = np.arange(0, 40 * 4096, 4096)[::-1]
        out = buffer_alloc(41 * 4096)
        out[:] = 0xEE
        assert reader.read(offsets, 4096, out) is out
        np.testing.assert_array_equal(out[: 40 * 4096], slices(offsets, [4096] * 40))
        assert (out[40 * 4096 :] == 0xEE).all()
        stats = reader.stats()
        assert stats.copied == 0 and stats.reads == 40 and stats.bytes == 40 * 4096
        reader.read([1], 3, out)
        assert reader.stats().copied == reader.direct
        rows = np.empty((5, 2), np.int64)
        reader.read([8], 80, rows)
        np.testing.assert_array_equal(rows.view(np.uint8).ravel(), CONTENT[8:88])


def test_reads_are_counted_by_size(path: Path) -> None:
    lengths = [512, 4096, 4608, 8192, 65536, 65536 + 512]
    with FileReader(path, direct=False) as reader:
        reader.read([0] * len(lengths), lengths)
        assert reader.stats().sizes == (
            (2, 4608), (2, 12800), (0, 0), (0, 0), (1, 65536), (1, 66048), (0, 0), (0, 0), (0, 0),
        )  # fmt: skip
        assert sum(reads for reads, _ in reader.stats().sizes) == reader.stats().reads


def test_arguments_that_are_refused(path: Path, tmp_path: Path) -> None:
    with FileReader(path) as reader:
        small, constant = np.empty(3, np.uint8), np.empty(4, np.uint8)
        constant.flags.writeable = False
        for out in (small, constant, np.empty(8, np.uint8)[::2], np.empty(9, object)):
            with pytest.raises(errors.InvalidArgumentError, match="room for 4 bytes"):
                reader.read([0], 4, out)
        with pytest.raises(errors.InvalidArgumentError, match="2 offsets, but 3 lengths"):
            reader.read([0, 1], [1, 2, 3])
        with pytest.raises(errors.InvalidArgumentError, match="integers"):
            reader.read([0.5], 4)
        with pytest.raises(errors.OutOfRangeError) as caught:
            reader.read([0, 1], [1, -1])
        assert caught.value.position == 1
    with pytest.raises(errors.ClosedError):
        reader.read([0], 1)
    with pytest.raises(errors.ClosedError):
        reader.stats()
    assert reader.closed
    with pytest.raises(errors.MissingFileError):
        FileReader(tmp_path / "none")
    with pytest.raises(errors.StorageError):
        FileReader(tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match="tier = 'fast'"):
        FileReader(path, tier="fast")
    for depth in (257, 2**40):
        with pytest.raises(errors.InvalidArgumentError, match="depth"):
            FileReader(path, depth=depth)


@past_and_through_the_page_cache
def test_a_file_that_shrinks(tmp_path: Path, direct: bool) -> None:
    name = tmp_path / "shrinks.bin"
    CONTENT.tofile(name)
    with FileReader(name, direct=direct) as reader:
        os.truncate(name, 100_001)
        for ranges in ([100_000], [0, 100_000]):  # what is there still is of a changed file, too
            with pytest.raises(errors.FileChangedError, match=r"shrinks\.bin") as caught:
                reader.read(ranges, len(ranges))
            assert caught.value.position == 100_001


@past_and_through_the_page_cache
def test_progress_and_interruption(path: Path, direct: bool) -> None:
    with FileReader(path, direct=direct) as reader:
        seen: list[tuple[int, int]] = []
        reader.read([0] * 20, SIZE, progress=lambda *now: seen.append(now))
        assert seen[-1] == (20 * SIZE, 20 * SIZE)

        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            reader.read(np.zeros(2000, np.int64), SIZE, progress=interrupt)
        np.testing.assert_array_equal(reader.read([5], 9), CONTENT[5:14])


def test_the_environment_chooses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AETHERGRAPH_IO", "pread")
    assert FileReader(path).tier == "pread"
    if io_problem("uring") is None:
        monkeypatch.setenv("AETHERGRAPH_IO", "uring")
        assert FileReader(path).tier == "uring"
        assert FileReader(path, tier="pread").tier == "pread"
        monkeypatch.delenv("AETHERGRAPH_IO")
        assert FileReader(path).tier == "uring"
    monkeypatch.setenv("AETHERGRAPH_IO", "fast")
    with pytest.raises(errors.InvalidArgumentError, match="AETHERGRAPH_IO is 'fast'"):
        FileReader(path)
    assert FileReader(path, tier="pread").tier == "pread"


def test_threads_that_end_leave_no_rings(path: Path) -> None:
    with FileReader(path) as reader:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            thread = threading.Thread(target=reader.read, args=([0], 10))
            thread.start()
            thread.join()
        # A thread's own memory goes a moment after join() returns.
        deadline = time.monotonic() + 120
        while len(os.listdir("/proc/self/fd")) > before and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(os.listdir("/proc/self/fd")) <= before
