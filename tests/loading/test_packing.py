"""Packed batches: the rows of gather, from one file in the order of their use."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.disks import small_disk
from support.strategies import examples
from support.threads import ahead_of, run_with_each

from aethergraph import FeatureTable, Graph, SubgraphLoader, errors
from aethergraph import _native as native
from aethergraph.packing import PackedFeatures, Packing, pack
from aethergraph.packing.layout import INDEX_COLUMNS, NAMES, SAMPLE_ROWS, sample_ids

Lists = list[Any]


@pytest.fixture(scope="module")
def rows() -> Any:
    return np.random.default_rng(0).normal(size=(2000, 128)).astype(np.float32)


@pytest.fixture
def path(rows: Any, tmp_path: Path) -> Path:
    np.save(tmp_path / "rows.npy", rows)
    return tmp_path / "rows.npy"


@pytest.fixture
def store(path: Path) -> FeatureTable:
    return FeatureTable.load(path, "uring", memory_budget="1M")


def make_lists(seed: int, count: int = 12) -> Lists:
    """Some rows are in most lists, with repetitions, as in sampled batches."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 600, count)
    return [(2000 * rng.random(int(size)) ** 3).astype(np.int64) for size in sizes]


@pytest.fixture
def lists() -> Lists:
    return make_lists(1)


@pytest.fixture
def packed_path(store: FeatureTable, lists: Lists, tmp_path: Path) -> Path:
    pack(lists, store, tmp_path / "epoch.packed", hot_budget="64K")
    return tmp_path / "epoch.packed"


# ---- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["mmap", "memory", "uring"])
def test_batches_are_those_of_gather(
    path: Path, rows: Any, lists: Lists, tmp_path: Path, storage: Any
) -> None:
    store = FeatureTable.load(path, storage)
    pack(iter(lists), store, tmp_path / "epoch", hot_budget="64K", memory_budget=40_000)
    packed = PackedFeatures.load(tmp_path / "epoch")
    assert packed.num_batches == len(lists)
    for number in np.random.default_rng(2).permutation(len(lists)):
        np.testing.assert_array_equal(packed.gather(lists[number]), rows[lists[number]])
        np.testing.assert_array_equal(packed.batch(number), rows[lists[number]])


@examples(40)
@given(
    lists=st.lists(st.lists(st.integers(0, 39), max_size=30), max_size=8),
    shape=st.sampled_from([(), (1,), (3,), (17,), (128,), (2, 5), (1024,), (1500,)]),
    dtype=st.sampled_from(["u1", "f2", "f4", "f8", "i8", "?"]),
    hot_rows=st.integers(0, 40), group_rows=st.integers(1, 60),
)  # fmt: skip
def test_any_lists_and_rows(
    tmp_path: Path, lists: Lists, shape: Any, dtype: str, hot_rows: int, group_rows: int
) -> None:
    rows = np.random.default_rng(3).integers(0, 100, (40, *shape)).astype(dtype)
    row_bytes = rows[:1].nbytes
    store = FeatureTable.from_array(rows)
    with Packing(
        lists, store, tmp_path / "epoch", hot_budget=hot_rows * row_bytes,
        memory_budget=2 * group_rows * (row_bytes + 24),
    ) as packing:  # fmt: skip
        packing.save()
        packing.save()  # once more, over it
        # The hot rows, by counting
        uses = Counter(row for one in lists for row in set(one))
        shared = sum(count > 1 for count in uses.values())
        assert packing.num_hot == min(hot_rows, shared)
        kept = sorted(uses.values(), reverse=True)[: packing.num_hot]
        cold = sum(len(set(one)) for one in lists) - sum(kept)
        least = packing.num_hot * row_bytes + cold * row_bytes + 4 * sum(map(len, lists))
        assert least <= packing.nbytes <= least + len(lists) * (4095 + 3 + 40)
        written = (tmp_path / "epoch").stat().st_size
        assert packing.nbytes <= written <= packing.nbytes + 12 * 4096
    packed = PackedFeatures.load(tmp_path / "epoch", packing.memory, features=store)
    assert packed.shape == rows.shape
    for number, ids in enumerate(lists):
        chosen = rows[np.array(ids, np.int64)]
        np.testing.assert_array_equal(packed.gather(np.array(ids, np.uint32)), chosen)
        np.testing.assert_array_equal(packed.batch(number, ids=ids), chosen)
    stats = packed.stats()
    assert stats.others == 0
    assert stats.batches == 2 * len(lists)
    assert stats.rows == 2 * sum(map(len, lists))
    if lists:
        with pytest.raises(errors.InvalidArgumentError, match=f"at least {packing.memory} are"):
            PackedFeatures.load(tmp_path / "epoch", packing.memory - 1)


def test_dtypes_and_out(rows: Any, lists: Lists, tmp_path: Path) -> None:
    FeatureTable.from_array(rows).save(tmp_path / "half", dtype="bfloat16")
    store = FeatureTable.load(tmp_path / "half")
    pack(lists, store, tmp_path / "epoch")
    packed = PackedFeatures.load(tmp_path / "epoch", features=store)
    assert packed.dtype_name == "bfloat16"
    for number, ids in enumerate(lists):
        expected = store.gather(ids, dtype="float32")
        np.testing.assert_array_equal(packed.gather(ids, dtype="float32"), expected)
        np.testing.assert_array_equal(packed.batch(number, dtype="float32"), expected)
        out = np.empty(expected.shape, np.float64)
        assert packed.gather(ids, out) is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(packed.batch(number), store.gather(ids))


def test_a_source_of_no_rows(tmp_path: Path) -> None:
    none = np.empty((0, 2), np.float32)
    pack([[]], none, tmp_path / "epoch")
    packed = PackedFeatures.load(tmp_path / "epoch", features=none)
    assert packed.gather([]).shape == packed.batch(0).shape == (0, 2)


def test_a_batch_is_one_range_of_the_file(store: FeatureTable, tmp_path: Path) -> None:
    """Only rows that are not hot are read, each once, and their places."""
    lists = [np.arange(100), np.arange(90, 200).repeat(2), np.arange(5)]
    with Packing(lists, store, tmp_path / "epoch", hot_budget=10 * 512) as packing:
        assert packing.num_hot == 10  # of the fifteen that two lists have, the first
        assert packing.rows_read == 90 + 105
        packing.save()
    packed = PackedFeatures.load(tmp_path / "epoch")
    expected = packed.stats().device_bytes
    for number, cold in enumerate([95 - 5, 110 - 5, 0]):
        packed.batch(number)
        expected += -(-(cold * 512 + 4 * len(lists[number])) // 4096) * 4096
        assert packed.stats().device_bytes == expected


def test_packing_reads_near_batches_together(path: Path, tmp_path: Path) -> None:
    """With room for the rows of all batches, each is read once; else more often."""
    lists, reads = make_lists(5, 30), []
    for memory in (2 << 20, "64M"):
        store = FeatureTable.load(path, "uring", memory_budget="700K")
        pack(lists, store, tmp_path / "epoch", hot_budget=0, memory_budget=memory)
        reads.append(store.stats().rows)
    assert reads[1] == len(np.unique(np.concatenate(lists)))
    assert reads[0] >= reads[1]


# ---- in place of a store ---------------------------------------------------------------------


def test_other_ids_are_refused_or_served_by_the_store(
    packed_path: Path, store: FeatureTable, rows: Any, lists: Lists
) -> None:
    packed = PackedFeatures.load(packed_path)
    for ids in ([1, 2, 3, 4], lists[3][::-1], lists[3][:-1]):
        with pytest.raises(errors.InvalidArgumentError, match="none of the 12 packed batches"):
            packed.gather(ids)
    with pytest.raises(errors.InvalidArgumentError, match="those of batch 4, not of batch 3"):
        packed.batch(3, ids=lists[4])
    with pytest.raises(errors.InvalidArgumentError, match="no packed batch, not of batch 3"):
        packed.batch(3, ids=[1])
    with pytest.raises(errors.OutOfRangeError, match=r"batch 12 is not in 0\.\.11"):
        packed.batch(12)
    with pytest.raises(errors.UnsupportedError, match=r"12 batches only.*rows\.npy"):
        packed.to_memory()
    with pytest.raises(errors.UnsupportedError, match="storage='uring'"):
        packed.plan(lists)
    both = PackedFeatures.load(packed_path, features=store)
    np.testing.assert_array_equal(both[100:300], rows[100:300])
    np.testing.assert_array_equal(both.gather([5, 5, 1]), rows[[5, 5, 1]])
    with pytest.raises(errors.OutOfRangeError, match=r"ids\[1\] = 2000"):
        both.gather([5, 2000])
    np.testing.assert_array_equal(both.gather(lists[3]), rows[lists[3]])
    assert (both.stats().batches, both.stats().others) == (1, 3)
    np.testing.assert_array_equal(both.to_memory().array, rows)


def test_loaders_that_repeat_the_epoch_are_served(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    graph = Graph.from_edges(2000, *rng.integers(0, 2000, (2, 9000)))
    rows = rng.normal(size=(2000, 20)).astype(np.float32)
    np.save(tmp_path / "x.npy", rows)

    def loader(**options: Any) -> SubgraphLoader:
        return SubgraphLoader(graph, [5, 5], batch_size=150, shuffle=True, seed=4, **options)

    store = FeatureTable.load(tmp_path / "x.npy", "uring", memory_budget="1M")
    lists = (batch.subgraph.node for batch in loader())
    pack(lists, store, tmp_path / "epoch", hot_budget="20K")
    graph.node_attrs["x"] = packed = PackedFeatures.load(tmp_path / "epoch")
    for threads in (0, 1, 2):
        for batch in loader(ahead=ahead_of(threads, plan=3)):
            assert batch.x is not None
            np.testing.assert_array_equal(batch.x, rows[batch.subgraph.node])
    assert packed.stats().batches == 3 * 14
    again = loader()
    again.set_epoch(1)
    with pytest.raises(errors.InvalidArgumentError, match="none of the 14 packed batches"):
        next(iter(again))


@pytest.mark.forks
def test_threads_forks_and_pickles(packed_path: Path, rows: Any, lists: Lists) -> None:
    packed = PackedFeatures.load(packed_path)

    def serves(source: PackedFeatures) -> bool:
        # not np.testing: a thread may be importing it during the fork
        return all(np.array_equal(source.gather(ids), rows[ids]) for ids in lists * 5)

    def use(is_forking: bool) -> bool:
        if not is_forking:
            return serves(packed)
        child = os.fork()
        if child == 0:
            os._exit(0 if serves(packed) else 1)
        return os.waitpid(child, 0)[1] == 0

    assert run_with_each(use, [False, False, True, False]) == [True] * 4
    assert serves(pickle.loads(pickle.dumps(packed)))
    assert packed.stats().batches == 3 * 5 * len(lists)


@pytest.mark.forks
def test_a_forked_child_has_one_lock(packed_path: Path, rows: Any, lists: Lists) -> None:
    packed = PackedFeatures.load(packed_path)
    with packed._packed._lock:  # as if another thread held it during the fork
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            lock = packed._packed._lock  # two threads here must not have two
            same = np.array_equal(packed.gather(lists[0]), rows[lists[0]])
            os._exit(int(not same or packed._packed._lock is not lock))
        assert os.waitpid(child, 0)[1] == 0


def test_closed(packed_path: Path, store: FeatureTable, lists: Lists) -> None:
    with Packing(lists, store, packed_path) as packing:
        pass
    with pytest.raises(errors.ClosedError, match="12 batches"):
        packing.save()
    with PackedFeatures.load(packed_path) as packed:
        pass
    packed.close()
    for call in (lambda: packed.gather(lists[0]), lambda: packed.batch(0), packed.stats):
        with pytest.raises(errors.ClosedError):
            call()


# ---- what was packed --------------------------------------------------------------------------


def test_another_store_is_refused(packed_path: Path, path: Path, rows: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"float32 \(2000, 128\) were packed"):
        PackedFeatures.load(packed_path, features=FeatureTable.from_array(rows[:100]))
    with pytest.raises(errors.FileChangedError, match="pack again"):
        PackedFeatures.load(packed_path, features=FeatureTable.from_array(rows))
    PackedFeatures.load(packed_path, features=FeatureTable.load(path))
    os.utime(path, ns=(0, 0))
    with pytest.raises(errors.FileChangedError, match=r"rows\.npy were packed as they were"):
        PackedFeatures.load(packed_path, features=FeatureTable.load(path))


@pytest.mark.parametrize("count", [1, 256, 257, 2000])
def test_another_array_is_refused(count: int, tmp_path: Path, rows: Any) -> None:
    mine = FeatureTable.from_array(rows[:count])
    where = tmp_path / "epoch"
    pack([[0]], mine, where)
    both = PackedFeatures.load(where, features=FeatureTable.from_array(rows[:count].copy()))
    np.testing.assert_array_equal(both.gather(np.arange(count)), rows[:count])
    for changed in (0, count - 1):
        other = rows[:count].copy()
        other[changed, 127] += 1
        with pytest.raises(errors.FileChangedError, match=rf"epoch: row {changed} of FeatureTable"):
            PackedFeatures.load(where, features=FeatureTable.from_array(other))
    with pytest.raises(
        errors.FileChangedError, match=r"row 0 of .* is not the one that was packed"
    ):
        PackedFeatures.load(where, features=FeatureTable.from_array(rows[:count] + 1))
    PackedFeatures.load(where)


def test_the_rows_of_a_sample() -> None:
    for num_rows in (1, 2, 255, 256, 257, 10**12, 2**62):
        ids = sample_ids(num_rows, min(num_rows, SAMPLE_ROWS))
        assert len(ids) == min(num_rows, SAMPLE_ROWS)
        assert (ids[0], ids[-1]) == (0, num_rows - 1)
        assert (np.diff(ids) > 0).all()


def test_a_pickle_wants_the_same_file(packed_path: Path, store: FeatureTable) -> None:
    found = pickle.dumps(PackedFeatures.load(packed_path))
    pack([[1, 2]], store, packed_path)
    with pytest.raises(errors.FileChangedError):
        pickle.loads(found)


def test_bad_input(store: FeatureTable, lists: Lists, tmp_path: Path) -> None:
    where = tmp_path / "epoch"
    with pytest.raises(errors.OutOfRangeError, match=r"lists\[1\]\[2\] = 2000 is not in 0\.\.1999"):
        pack([[1], [0, 1, 2000]], store, where)
    with pytest.raises(errors.OutOfRangeError, match=r"lists\[0\]\[0\] = -1 "):
        pack([[-1]], store, where)
    with pytest.raises(errors.InvalidArgumentError, match="lists must hold integers"):
        pack([[0.5]], store, where)
    with pytest.raises(errors.InvalidArgumentError, match="at least 1072"):
        pack(lists, store, where, memory_budget=1071)
    with pytest.raises(errors.InvalidArgumentError, match="hot_budget = 'much'"):
        pack(lists, store, where, hot_budget="much")
    with pytest.raises(errors.InvalidArgumentError, match="rows of no bytes"):
        pack(lists, FeatureTable.from_array(np.zeros((5, 0))), where)
    with pytest.raises(errors.MissingFileError, match="missing"):
        pack(lists, store, tmp_path / "missing" / "epoch")
    with pytest.raises(errors.FormatError, match=r"PackedFeatures\.load"):
        pack(lists, store, where)
        FeatureTable.load(where)
    store.save(tmp_path / "plain")
    with pytest.raises(errors.FormatError, match="not a file of packed batches"):
        PackedFeatures.load(tmp_path / "plain")


# ---- failures -----------------------------------------------------------------------------------


class Stop(Exception):
    pass


def test_what_is_interrupted_leaves_the_old_file(
    packed_path: Path, store: FeatureTable, lists: Lists
) -> None:
    before, there = packed_path.read_bytes(), sorted(os.listdir(packed_path.parent))
    told: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        if done > total // 2:
            raise Stop

    with pytest.raises(Stop):
        pack(make_lists(7), store, packed_path, hot_budget=0, progress=progress)
    assert len(told) > 1
    assert told == sorted(told)

    def broken() -> Iterator[Any]:
        yield lists[0]
        raise Stop

    with pytest.raises(Stop):
        pack(broken(), store, packed_path)
    assert packed_path.read_bytes() == before
    assert sorted(os.listdir(packed_path.parent)) == there


def test_a_full_disk(
    packed_path: Path, store: FeatureTable, lists: Lists, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, there = packed_path.read_bytes(), sorted(os.listdir(packed_path.parent))
    usage = shutil.disk_usage(packed_path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with pytest.raises(errors.StorageError, match=r"No space left.*are needed, 1000 B are free"):
        pack(lists, store, packed_path)
    monkeypatch.undo()

    def full(*_: Any) -> None:
        raise errors.StorageError(errno.ENOSPC, "No space left on device", str(packed_path))

    monkeypatch.setattr(native.NativeWriter, "append", full)
    with pytest.raises(errors.StorageError, match="No space left") as caught:
        pack(lists, store, packed_path)
    assert caught.value.errno == errno.ENOSPC
    assert packed_path.read_bytes() == before
    assert sorted(os.listdir(packed_path.parent)) == there


def test_no_room_for_the_notes(tmp_path: Path, rows: Any) -> None:
    with small_disk(tmp_path / "disk", "1M") as folder:
        store = FeatureTable.from_array(rows)
        with pytest.raises(errors.DiskFullError, match="cannot be noted here: No space") as caught:
            pack([np.arange(2000)] * 100, store, folder / "epoch")
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(errors.StorageError, match="No space left"):
            pack([np.arange(2000)] * 2, store, folder / "epoch", hot_budget=0)
        assert os.listdir(folder) == []
        pack([np.arange(500)] * 2, store, folder / "epoch", hot_budget=0)
        assert os.listdir(folder) == ["epoch"]


def test_rows_that_change_while_they_are_packed(path: Path, lists: Lists, tmp_path: Path) -> None:
    store = FeatureTable.load(path)
    with Packing(lists, store, tmp_path / "epoch") as packing:
        os.utime(path, ns=(0, 0))
        with pytest.raises(errors.FileChangedError, match=r"rows\.npy' was written to"):
            packing.save()
    assert os.listdir(tmp_path) == ["rows.npy"]


def test_a_truncated_file(packed_path: Path, lists: Lists) -> None:
    packed = PackedFeatures.load(packed_path)
    size = packed_path.stat().st_size
    for length in (size - 1, size // 2, 4096, 100, 0):
        os.truncate(packed_path, length)
        with pytest.raises(errors.FormatError):
            PackedFeatures.load(packed_path)
    with pytest.raises(errors.FileChangedError):
        packed.gather(lists[-1])


def test_a_file_that_is_written_to(packed_path: Path, lists: Lists) -> None:
    packed = PackedFeatures.load(packed_path)
    packed.gather(lists[-1])
    os.utime(packed_path, ns=(0, 0))
    for use in (lambda: packed.gather(lists[-1]), lambda: packed.batch(0)):
        with pytest.raises(errors.FileChangedError, match=r"epoch\.packed' was written to"):
            use()


def test_a_file_that_is_replaced_while_it_is_opened(
    packed_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(path: str) -> Any:
        shutil.copy(packed_path, packed_path.with_name("other"))
        packed_path.with_name("other").replace(packed_path)
        return opened(path)

    opened = native.FileReader
    monkeypatch.setattr(native, "FileReader", replaced)
    with pytest.raises(errors.FileChangedError, match="replaced while it was opened"):
        PackedFeatures.load(packed_path)


def test_damage(packed_path: Path, rows: Any, lists: Lists) -> None:
    """Any flipped byte: a named error at once, or by verify; the process lives on."""
    whole = packed_path.read_bytes()
    packed = PackedFeatures.load(packed_path)
    packed.verify()
    rng = np.random.default_rng(8)
    found = Counter[str]()
    for at in rng.integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        packed_path.write_bytes(damaged)
        try:
            opened = PackedFeatures.load(packed_path)
            opened.verify()
            found["unused"] += 1  # between sections
        except errors.FormatError as error:
            assert str(packed_path) in str(error)
            found["told"] += 1
        else:
            for ids in lists:
                np.testing.assert_array_equal(opened.gather(ids), rows[ids])
    assert found["told"] > 40


@pytest.mark.parametrize("place", [8, 2**32 - 1])
def test_places_that_do_not_exist_are_told(
    store: FeatureTable, tmp_path: Path, place: int
) -> None:  # fmt: skip
    """Behind the rows of a batch, in memory, lie those of a larger one that was read before."""
    where = tmp_path / "epoch"
    pack([np.arange(100)[::-1], np.arange(8)], store, where, hot_budget=0)
    data = bytearray(where.read_bytes())
    places = np.arange(8, dtype=np.uint32).tobytes()
    at = data.rindex(places)
    data[at : at + 4] = place.to_bytes(4, "little")
    where.write_bytes(data)
    packed = PackedFeatures.load(where)
    packed.batch(0)
    with pytest.raises(errors.CorruptFileError, match="batch 1 is damaged"):
        packed.batch(1)
    with pytest.raises(errors.CorruptFileError):
        packed.verify()


@pytest.mark.parametrize("count", [7, 9, 900])
def test_another_count_of_ids_than_those_packed_is_told(
    store: FeatureTable, tmp_path: Path, rewrite_container: Any, count: int
) -> None:
    """Checksums are right: what is gathered is of the size that the caller's ids ask for."""
    where, ids = tmp_path / "epoch", np.arange(8)
    pack([np.arange(3), ids], store, where, hot_budget=0)

    def change(section: native.Section, array: Any) -> Any:
        if section.kind == native.SECTION_ARRAY and section.owner == NAMES.index("index"):
            array.reshape(-1, INDEX_COLUMNS)[1, 2] = count
        return array

    rewrite_container(where, tmp_path / "bad", change)
    packed = PackedFeatures.load(tmp_path / "bad")
    out = np.full((8, 128), 7, np.float32)
    uses: Any = (
        lambda: packed.gather(ids), lambda: packed.gather(ids, out),
        lambda: packed.batch(1, ids=ids), lambda: packed.batch(1, out, ids=ids),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(errors.CorruptFileError, match=rf"bad: batch 1 has .* {count} ids"):
            use()
    assert (out == 7).all()
    assert packed.gather(np.arange(3)).shape == (3, 128)
    # Without ids the file alone says how many there are.
    assert packed.batch(1).shape == (count, 128)


def test_verify_compares_batches_with_their_index(
    store: FeatureTable, tmp_path: Path, rewrite_container: Any
) -> None:
    """Checksums are right, but the parts of the file contradict each other."""
    where, ids = tmp_path / "epoch", np.arange(8)
    pack([ids, np.arange(90, 100), ids], store, where, hot_budget=2 * 512)
    PackedFeatures.load(where).verify()

    def change(section: native.Section, array: Any) -> Any:
        if section.kind == native.SECTION_ARRAY and NAMES[section.owner] == name:
            edit(array)
        return array

    def other_count(index: Any) -> None:
        index.reshape(-1, INDEX_COLUMNS)[2, 2] = 9

    def place(value: int) -> Any:
        def edit(batches: Any) -> None:
            # Batch 0: 6 rows that are not hot, then its places
            batches[6 * 512 : 6 * 512 + 32].view(np.uint32)[5] = value

        return edit

    name, edit = "index", other_count
    rewrite_container(where, tmp_path / "bad", change)
    with pytest.raises(errors.CorruptFileError, match="index: batches 0 and 2 have the same"):
        PackedFeatures.load(tmp_path / "bad").verify()
    name = "batches"
    # Hot rows are 0 and 1, a page is 8 rows, those of the batch are 8 to 13.
    for value, there in [(1, True), (2, False), (7, False), (13, True), (14, False), (99, False)]:
        edit = place(value)
        rewrite_container(where, tmp_path / "bad", change)
        packed = PackedFeatures.load(tmp_path / "bad")
        if there:
            packed.verify()
            continue
        with pytest.raises(errors.CorruptFileError, match=f"batch 0 takes row {value} for id 5"):
            packed.verify()
        if value > 13:
            with pytest.raises(errors.CorruptFileError, match="batch 0 is damaged"):
                packed.batch(0)


def test_memory_stays_within_the_budget(tmp_path: Path, run_python: Any) -> None:
    """Packing 40 MB of rows with 8 MB, and using them with what Packing says."""
    if os.environ.get("AETHERGRAPH_EXPECT_SANITIZER"):
        pytest.skip("a sanitizer's allocator keeps what is freed: ./scripts/test.sh python")
    script = """
import resource, sys
import numpy as np
from aethergraph import FeatureTable
from aethergraph.packing import PackedFeatures, Packing
folder = sys.argv[1] + "/"
def peak():
    return int(next(l for l in open("/proc/self/status") if l.startswith("RssAnon")).split()[1])
def watch(*_):
    global most
    most = max(most, peak())
store = FeatureTable.load(folder + "rows.npy", "uring", memory_budget="2M")
lists = np.array_split(np.random.default_rng(0).permutation(20_000), 20)
store.gather([1]); before = most = peak()
with Packing(lists, store, folder + "epoch", hot_budget=0, memory_budget="8M") as packing:
    packing.save(watch)
assert most - before < 14 << 10, most - before
del store
packed = PackedFeatures.load(folder + "epoch", packing.memory)
for ids in lists:
    packed.gather(ids)
print("done")
"""
    np.save(tmp_path / "rows.npy", np.zeros((20_000, 512), np.float32))
    assert run_python(script, str(tmp_path)).stdout == "done\n"


def test_progress_ends_at_the_whole(store: FeatureTable, lists: Lists, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    pack(lists, store, tmp_path / "epoch", progress=lambda *now: told.append(now))
    assert told[-1][0] == told[-1][1] > 0
    assert {total for _, total in told} == {told[-1][1]}
