"""Rows of users' own sources: attached to graphs, loaded, saved, drawn by, and checked."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import FeatureTable, Graph, HeteroGraph, NeighborSampler, SubgraphLoader
from aethergraph.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from aethergraph.features.adapters import as_row_source
from aethergraph.loading import Ahead
from aethergraph.packing import PackedFeatures, pack
from aethergraph.protocols import FeatureSource, RowSource
from aethergraph.testing import FeatureSourceContract

NUM_NODES = 40


class Minimal:
    """The three members."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.shape, self.dtype_name = rows.shape, rows.dtype.name

    def gather(self, ids: Any) -> Any:
        return self.rows[ids]


class Ranged(RowSource):
    """A subclass of the base, with one capability of its own."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.reads = rows, 0

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.rows.shape
        return shape

    @property
    def dtype_name(self) -> str:
        return str(self.rows.dtype.name)

    def gather_into(self, ids: Any, out: Any) -> None:
        self.rows.take(ids, 0, out)

    def read(self, start: int, stop: int) -> Any:
        self.reads += 1
        return self.rows[start:stop]


def ring() -> Graph:
    at = np.arange(NUM_NODES)
    return Graph.from_edges(NUM_NODES, np.tile(at, 2), np.append(at + 1, at + 3) % NUM_NODES)


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("kind", [Minimal, Ranged])
def test_an_attribute_may_be_any_source(kind: Any) -> None:
    graph, rows = ring(), numbers(NUM_NODES, 3)
    source = kind(rows)
    assert isinstance(source, FeatureSource)
    graph.node_attrs["x"] = source
    found = graph.node_attrs["x"]
    assert isinstance(found, RowSource) and found is graph.features
    assert (found is source) == (kind is Ranged)  # what has all members is attached itself
    assert (found.shape, found.dtype_name, found.nbytes) == ((NUM_NODES, 3), "float32", rows.nbytes)
    assert (found.row_shape, found.ndim, found.array_dtype) == ((3,), 2, np.float32)
    np.testing.assert_array_equal(found.array, rows)
    assert not found.is_in_memory and not found.can_plan and found.writable_array is None
    assert found.paged_column() is None and found.is_same_rows(found)
    with pytest.raises(NotImplementedError, match="plans no gathers"):
        found.plan([[1]])
    assert graph.info()["node_attrs"]["x"] == {
        "shape": (NUM_NODES, 3), "dtype": "float32", "storage": kind.__name__, "path": None,
    }  # fmt: skip
    for batch in SubgraphLoader(graph, [2], batch_size=16, ahead=Ahead(plan=2)):
        assert batch.x is not None
        np.testing.assert_array_equal(batch.x, rows[batch.subgraph.node])
    again = pickle.loads(pickle.dumps(graph))
    np.testing.assert_array_equal(again.node_attrs["x"].array, rows)


def test_a_typed_graph_takes_sources_too() -> None:
    graph = HeteroGraph.from_edges({("user", "buys", "item"): ([0], [1])}, {"user": 4, "item": 5})
    rows = numbers(4, 2)
    graph["user"].features = Minimal(rows)
    assert graph["user"].features is not None
    np.testing.assert_array_equal(graph["user"].features.array, rows)


@pytest.mark.parametrize("kind", [Minimal, Ranged])
def test_a_source_need_not_widen(kind: Any) -> None:
    class Bits(kind):  # type: ignore[misc]
        @property
        def dtype_name(self) -> str:
            return "bfloat16"

        @dtype_name.setter
        def dtype_name(self, name: str) -> None:
            assert name == "uint16"

    graph, bits = ring(), np.full((NUM_NODES, 2), 0x4000, np.uint16)
    graph.node_attrs["x"] = Bits(bits)
    batch = next(iter(SubgraphLoader(graph, [2], batch_size=16)))
    assert batch.x is not None and batch.x.dtype == np.float32 and (batch.x == 2.0).all()


def test_saving_reads_in_ranges(tmp_path: Path) -> None:
    graph, rows = ring(), numbers(NUM_NODES, 3)
    source = Ranged(rows)
    graph.node_attrs["x"], graph.edge_attrs["w"] = source, Minimal(numbers(2 * NUM_NODES))
    graph.save(tmp_path / "graph.aeg")
    assert source.reads == 1
    saved = Graph.load(tmp_path / "graph.aeg")
    np.testing.assert_array_equal(saved.node_attrs["x"].array, rows)
    np.testing.assert_array_equal(saved.edge_attrs["w"].array, numbers(2 * NUM_NODES))


def test_edges_carry_rows_of_a_source_into_their_order() -> None:
    rows = numbers(4, 2)
    src, dst = [3, 2, 1, 0], [2, 1, 3, 0]
    made = [
        Graph.from_edges(4, src, dst, edge_attrs={"e": value}).edge_attrs["e"].array
        for value in (rows, Minimal(rows))
    ]
    np.testing.assert_array_equal(*made)


def test_weights_and_times_may_come_from_a_source() -> None:
    graph, plain = ring(), ring()
    weights, times = numbers(2 * NUM_NODES), numbers(2 * NUM_NODES, dtype=np.int64) % 7
    graph.edge_attrs["w"], plain.edge_attrs["w"] = Minimal(weights), weights
    graph.edge_attrs["t"], plain.edge_attrs["t"] = Minimal(np.sort(times)), np.sort(times)
    for options, given in (
        ({"weight_attr": "w"}, {}),
        ({"time_attr": "t"}, {"seed_time": [5, 3]}),
        ({"time_attr": "t", "weight_attr": "w"}, {"seed_time": [6, 6]}),
    ):  # fmt: skip
        found, expected = (
            NeighborSampler(one, [1, 1], **options).sample([20, 5], key=3, **given)
            for one in (graph, plain)
        )
        np.testing.assert_array_equal(found.edge, expected.edge)
        assert len(found.edge)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": [40, 3]}, r"shape of Minimal = \[40, 3\] is not a tuple"),
        ({"shape": (40, -3)}, r"shape of Minimal = \(40, -3\) is not a tuple"),
        ({"shape": ()}, r"shape of Minimal = \(\) is not a tuple"),
        ({"dtype_name": "complex64"}, "dtype_name of Minimal = 'complex64' is not one of uint8"),
        ({"dtype_name": np.float32}, "dtype_name of Minimal = <class 'numpy.float32'> is not one"),
    ],
)  # fmt: skip
def test_a_source_that_contradicts_itself_is_refused(change: Any, message: str) -> None:
    source = Minimal(numbers(NUM_NODES, 3))
    source.__dict__.update(change)
    with pytest.raises(InvalidArgumentError, match=message):
        ring().node_attrs["x"] = source


class Wrong(Minimal):
    """Returns what it is told to."""

    answer: Any = None

    def gather(self, ids: Any) -> Any:
        return self.answer(len(ids))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: np.zeros((n + 1, 3), np.float32), r"Wrong returned shape \(\d+, 3\) instead of"),
        (lambda n: np.zeros((n, 4), np.float32), r"shape \(\d+, 4\) instead of \(\d+, 3\)"),
        (lambda n: np.zeros(n, np.float32), r"shape \(\d+,\) instead of \(\d+, 3\)"),
        (lambda n: np.zeros((n, 3)), "dtype float64 instead of float32"),
        (lambda n: [[0.0] * 3] * n, "a list instead of a numpy array"),
        (lambda n: np.ma.masked_array(np.zeros((n, 3), np.float32)), "a masked array, whose"),
        (lambda n: None, "a NoneType instead of a numpy array"),
    ],
)  # fmt: skip
def test_a_wrong_result_is_named(answer: Any, message: str, tmp_path: Path) -> None:
    graph, source = ring(), Wrong(numbers(NUM_NODES, 3))
    source.answer = answer
    graph.node_attrs["x"] = source
    with pytest.raises(InvalidArgumentError, match=message):
        next(iter(SubgraphLoader(graph, [2], batch_size=4)))
    with pytest.raises(InvalidArgumentError, match="returned"):
        graph.save(tmp_path / "graph.aeg")
    with pytest.raises(InvalidArgumentError, match="returned"):
        pack([[1, 2]], source, tmp_path / "packed")


class TestAdaptedRows(FeatureSourceContract):
    """The contract that a FeatureTable keeps, kept for a source that checks nothing."""

    dtypes = ("float32", "int32", "bfloat16")

    def make(self, rows: Any, dtype: str) -> Any:
        source = Minimal(rows)
        source.dtype_name = dtype
        return as_row_source(source, "source")


@pytest.mark.parametrize("kind", [Minimal, Ranged])
def test_a_source_gets_checked_ids_and_memory_of_its_own_dtype(kind: Any) -> None:
    asked: list[Any] = []

    class Noting(kind):  # type: ignore[misc]
        def gather(self, ids: Any, *rest: Any, **more: Any) -> Any:
            if kind is Minimal:
                asked.append((ids.dtype, ids.flags.c_contiguous, np.dtype(np.float32)))
            return super().gather(ids, *rest, **more)

        def gather_into(self, ids: Any, out: Any) -> None:
            asked.append((ids.dtype, ids.flags.c_contiguous, out.dtype))
            super().gather_into(ids, out)

    rows = as_row_source(Noting(numbers(NUM_NODES, 3)), "source")
    assert rows.gather([1], dtype="float64").dtype == np.float64
    assert rows.gather(np.arange(8, dtype=np.uint8)[::2], np.empty((4, 3), np.float32)).any()
    with pytest.raises(UnsupportedError):
        rows.gather([1], dtype="float16")
    with pytest.raises(OutOfRangeError, match=r"ids\[1\] = 40 is not in 0..39"):
        rows.gather([1, 40])
    assert asked == 2 * [(np.int64, True, np.float32)]


@pytest.mark.parametrize("width", [3, 3000])  # of small arrays, and of those from the pool
def test_a_shape_may_hold_numbers_of_numpy(width: int) -> None:
    class Numpy(Ranged):
        @property
        def shape(self) -> tuple[int, ...]:
            return tuple(map(np.int64, self.rows.shape))

    graph, rows = ring(), numbers(NUM_NODES, width)
    graph.node_attrs["x"] = Numpy(rows)
    batch = next(iter(SubgraphLoader(graph, [2], batch_size=30)))
    np.testing.assert_array_equal(batch.x, rows[batch.subgraph.node])


def test_a_row_source_that_does_not_fill_out_is_told() -> None:
    class Returning(Ranged):
        def gather_into(self, ids: Any, out: Any) -> None:
            return self.rows[ids]  # type: ignore[no-any-return]

    class Filling(Ranged):
        def gather_into(self, ids: Any, out: Any) -> Any:
            return self.rows.take(ids, 0, out)

    class Shifting(Ranged):
        def gather_into(self, ids: Any, out: Any) -> None:
            ids += 1

    graph, rows = ring(), numbers(NUM_NODES, 3)
    graph.node_attrs["x"] = Returning(rows)
    with pytest.raises(InvalidArgumentError, match=r"Returning returned a ndarray: .* into out"):
        next(iter(SubgraphLoader(graph, [2], batch_size=4)))
    with pytest.raises(InvalidArgumentError, match="Returning returned"):
        Returning(rows).gather([1], dtype="float64")
    np.testing.assert_array_equal(Filling(rows).gather([3, 1]), rows[[3, 1]])
    ids = np.arange(4)
    with pytest.raises(ValueError, match="read-only"):
        Shifting(rows).gather(ids)
    assert ids.tolist() == [0, 1, 2, 3]


def test_a_source_that_has_changed_is_not_saved(tmp_path: Path) -> None:
    graph, source = ring(), Ranged(numbers(NUM_NODES, 3))
    graph.node_attrs["x"] = source
    source.rows = numbers(NUM_NODES + 2, 3)
    with pytest.raises(InvalidArgumentError, match=r"node_attrs\['x'\] has 42 rows by now, .* 40 "):
        graph.save(tmp_path / "graph.aeg")
    assert not (tmp_path / "graph.aeg").exists()


def lacks(*names: str, **more: Any) -> Any:
    class Half:
        pass

    def gather(self: Any, ids: Any) -> Any:
        raise AssertionError("never asked")

    members = {"gather": gather, "shape": 3, "dtype_name": 3}
    for name, value in ({one: members[one] for one in members.keys() - set(names)} | more).items():
        setattr(Half, name, value)
    return Half()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lacks("shape"), r"attrs\['x'\] is a Half, which lacks shape: a source"),
        (lacks("shape", "dtype_name"), "which lacks dtype_name, shape: a source"),
        (lacks("gather"), "is a Half, which lacks gather: a source"),
        (lacks("gather", "shape"), "which lacks gather, shape: a source"),
        (lacks(gather=None), "which lacks gather: a source"),
        (Minimal, "is the class Minimal: make an object of it"),
        (lambda ids: ids, "is a function: give an object with shape, dtype_name and gather"),
    ],
)  # fmt: skip
def test_what_lacks_members_is_told_which(value: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ring().node_attrs["x"] = value


def test_packed_batches_of_a_source(tmp_path: Path) -> None:
    rows = numbers(NUM_NODES, 3)
    lists = [np.array([3, 1, 3]), np.array([7, 1])]
    source = Minimal(rows)
    pack(lists, source, tmp_path / "packed")
    packed = PackedFeatures.load(tmp_path / "packed", features=source)
    for number, ids in enumerate(lists):
        np.testing.assert_array_equal(packed.gather(ids), rows[ids])
        np.testing.assert_array_equal(packed.batch(number), rows[ids])
    np.testing.assert_array_equal(packed.gather([9, 8]), rows[[9, 8]])
    assert packed.stats().others == 1
    with pytest.raises(UnsupportedError, match="no FeatureTable"):
        packed.to_memory()


def test_stores_tell_their_capabilities(tmp_path: Path) -> None:
    store = FeatureTable.from_array(numbers(NUM_NODES, 3))
    path = tmp_path / "rows.aeg"
    store.save(path)
    read = FeatureTable.load(path, "uring", memory_budget="1M")
    mapped = FeatureTable.load(path)
    assert [one.is_in_memory for one in (store, mapped, read)] == [True, False, False]
    assert [one.can_plan for one in (store, mapped, read)] == [False, False, True]
    assert store.writable_array is not None
    store.writable_array[4] = 0
    np.testing.assert_array_equal(store.gather([4]), np.zeros((1, 3)))
    assert mapped.writable_array is None and read.writable_array is None
    for one in (mapped, read):
        np.testing.assert_array_equal(one.read(2, 5), numbers(NUM_NODES, 3)[2:5])
