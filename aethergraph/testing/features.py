"""Contract of feature sources: tables of rows to gather from."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.features.adapters import as_row_source
from aethergraph.features.bfloat16 import bfloat16_to_float32
from aethergraph.protocols import RowSource
from aethergraph.testing import cases
from aethergraph.testing.loading import CoreLoadingRules
from aethergraph.testing.rules import (
    equal,
    given,
    in_child,
    in_threads,
    out_of_range,
    refused,
    require,
)

__all__ = ["FeatureSourceContract"]

_INTEGERS = {
    "int8": ("int16", "int32", "int64", "float32"),
    "int16": ("int32", "int64", "float32"),
    "int32": ("int64", "float64"),
    "uint8": ("int16", "int32", "int64", "float32"),
    "uint32": (),
    "bool": (),
    "int64": (),
    "uint64": (),
}
#: Dtypes that each dtype is widened to without loss.
_WIDER: dict[str, tuple[str, ...]] = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
    "float64": (),
    **_INTEGERS,
}
#: (stored dtype, requested dtype) that would lose values.
_NARROWER = {"float64": "float32", "float32": "float16", "int64": "int32", "int32": "int16"}
_SHAPES = ((7,), (7, 1), (7, 5), (7, 2, 3), (1, 4), (0, 4), (0,), (6, 0), (400, 33))


class FeatureSourceContract(CoreLoadingRules):
    """Rules of :class:`aethergraph.protocols.FeatureSource`, by itself and in batches.

    ::

        class TestMyRows(FeatureSourceContract):
            dtypes = ("float32",)

            def make(self, rows, dtype):
                return MyRows(rows)

    A source with no more than the members of a ``FeatureSource`` is asked as loaders ask it, behind
    checks of the package (:func:`~aethergraph.features.adapters.as_row_source`).

    Attributes:
        dtypes: names of the dtypes that can be stored; ``"bfloat16"`` rows are uint16 bit patterns.
    """

    def _rows(self, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """Return random rows: extremes of the dtype, infinities, NaN, both zeros."""
        rng = np.random.default_rng([*shape, len(dtype)])
        stored = np.dtype("uint16" if dtype == "bfloat16" else dtype)
        count = int(np.prod(shape))
        if stored == np.bool_:
            return (rng.random(count) < 0.5).reshape(shape)
        if dtype == "bfloat16":  # no signalling NaN: a conversion makes it a quiet one
            numbers = np.append(rng.normal(size=count), [np.inf, -0.0, 1e-39])[:count]
            bits = numbers.astype(np.float32).view(np.uint32) >> np.uint32(16)
            return bits.astype(np.uint16).reshape(shape)
        if stored.kind == "f":
            values = rng.normal(size=count).astype(stored)
            special = [np.nan, np.inf, -np.inf, -0.0, np.finfo(stored).max]
        else:
            limits = np.iinfo(stored)
            values = rng.integers(limits.min, limits.max, count, stored, endpoint=True)
            special = [limits.min, limits.max]
        for place in range(0, count, 3):
            values[place] = special[place % len(special)]
        return values.reshape(shape)

    def _each(self) -> Iterator[tuple[str, NDArray[Any], RowSource]]:
        for dtype in self.dtypes:
            for shape in _SHAPES:
                rows = self._rows(shape, dtype)
                with given("rows", dtype=dtype, rows=rows):
                    source = self._made(rows, dtype)
                yield dtype, rows, source

    def _one(self, num_rows: int = 50) -> tuple[NDArray[Any], RowSource]:
        dtype = next(iter(self.dtypes))
        rows = self._rows((num_rows, 4), dtype)
        return rows, self._made(rows, dtype)

    def _made(self, rows: NDArray[Any], dtype: str) -> RowSource:
        return as_row_source(self.make(rows.copy(), dtype), "the source")

    # ---- rows ------------------------------------------------------------------------------

    def test_shape_and_dtype(self) -> None:
        """``shape`` and ``dtype_name`` say what was stored."""
        for dtype, rows, source in self._each():
            with given("rows", rows=rows):
                facts = tuple(source.shape), source.num_rows, source.dtype_name
                expected = rows.shape, len(rows), dtype
                require(
                    facts == expected,
                    f"(shape, num_rows, dtype_name) must be {expected}, found {facts}",
                )

    def test_rows_come_in_the_order_of_the_ids(self) -> None:
        """``gather(ids)`` has the row of every id, in that order, duplicates too, bit by bit."""
        for _, rows, source in self._each():
            for ids in cases.seed_vectors(len(rows)):
                with given("rows and ids", rows=rows, ids=ids):
                    result = source.gather(ids)
                    equal(result, rows[ids], "gather(ids)", rows.dtype)
                    require(result.tobytes() == rows[ids].tobytes(), "gather(ids): bits differ")

    def test_ids_are_integers_in_any_form(self) -> None:
        """Ids may be lists and arrays of any integer dtype, byte order and stride."""
        rows, source = self._one()
        ids = np.array([49, 0, 7, 7, 3], np.int64)
        for form, values in cases.id_forms(ids):
            with given(f"ids as {form}", ids=values):
                equal(source.gather(values), rows[ids], "gather(ids)", rows.dtype)

    def test_no_ids_keep_shape_and_dtype(self) -> None:
        """Without ids the result has no rows, but their shape and dtype."""
        for _, rows, source in self._each():
            empty: list[Any] = [[], np.empty(0, np.int64), np.empty(0, np.uint8)]
            for ids in empty:
                with given("rows and ids", rows=rows, ids=ids):
                    equal(source.gather(ids), rows[:0], "gather(ids)", rows.dtype)

    def test_results_belong_to_the_caller(self) -> None:
        """Writing to a result changes nothing in the source."""
        rows, source = self._one()
        for ids in (np.arange(50), np.array([3, 4, 5]), np.array([49])):
            result = source.gather(ids)
            result[...] = 0
            with given("ids", ids=ids):
                equal(source.gather(ids), rows[ids], "gather(ids), after writing to the first,")

    # ---- out and dtype ---------------------------------------------------------------------

    def test_out_is_filled(self) -> None:
        """``out`` is filled, no byte beside it is touched, and it is what is returned."""
        for _, rows, source in self._each():
            for ids in cases.seed_vectors(len(rows)):
                around = np.ones((len(ids) + 2, *rows.shape[1:]), rows.dtype)
                out = around[1:-1]
                with given("rows and ids", rows=rows, ids=ids):
                    require(source.gather(ids, out=out) is out, "gather(ids, out) must return out")
                    equal(out, rows[ids], "out")
                    for edge in (around[:1], around[-1:]):
                        equal(edge, np.ones_like(edge), "the rows beside out")

    def test_an_out_that_does_not_fit_is_refused(self) -> None:
        """``out`` of another shape, not C-contiguous, read-only or too narrow is refused."""
        dtype = next(iter(self.dtypes))
        rows, source = self._one()
        ids, kind = np.array([1, 2, 3]), rows.dtype
        fixed = np.zeros((3, 4), kind)
        fixed.flags.writeable = False
        bad = {
            "one row too few": np.zeros((2, 4), kind),
            "one row too many": np.zeros((4, 4), kind),
            "another row shape": np.zeros((3, 5), kind),
            "one dimension": np.zeros(12, kind),
            "Fortran order": np.zeros((3, 4), kind, order="F"),
            "rows apart": np.zeros((3, 8), kind)[:, :4],
            "read-only": fixed,
            "a list": [[0] * 4] * 3,
        }
        if dtype in _NARROWER:
            bad["a narrower dtype"] = np.zeros((3, 4), _NARROWER[dtype])
        for name, out in bad.items():
            refused(f"out with {name}", source.gather, ids, out=out)

    def test_widening(self) -> None:
        """A wider dtype holds the same values, as a new array and in ``out``."""
        for dtype, rows, source in self._each():
            for target in _WIDER.get(dtype, ()):
                for ids in cases.seed_vectors(len(rows)):
                    expected = rows[ids]
                    expected = bfloat16_to_float32(expected) if dtype == "bfloat16" else expected
                    out = np.empty(expected.shape, target)
                    with given(f"{dtype} as {target}", rows=rows, ids=ids):
                        equal(source.gather(ids, dtype=target), expected.astype(target), "gather",
                              target)  # fmt: skip
                        source.gather(ids, out=out)
                        equal(out, expected.astype(target), "out")

    def test_other_dtypes_are_refused(self) -> None:
        """A dtype that would lose values is refused."""
        for dtype in self.dtypes:
            if dtype in _NARROWER:
                source, narrower = self._made(self._rows((5, 2), dtype), dtype), _NARROWER[dtype]
                refused(f"{dtype} as {narrower}", source.gather, [1], dtype=narrower)

    # ---- capabilities ----------------------------------------------------------------------

    def test_what_a_row_source_offers_is_its_rows(self) -> None:
        """``read``, ``array``, ``plan`` and the facts of a RowSource agree with its rows."""
        for _, rows, source in self._each():
            with given("rows", rows=rows):
                facts = source.row_shape, source.ndim, source.nbytes, source.array_dtype
                expected = rows.shape[1:], rows.ndim, rows.nbytes, rows.dtype
                require(
                    facts == expected,
                    f"(row_shape, ndim, nbytes, array_dtype) must be {expected}, found {facts}",
                )
                for start, stop in ((0, len(rows)), (len(rows) // 3, len(rows) // 2)):
                    equal(source.read(start, stop), rows[start:stop], "read(start, stop)")
                with suppress(NotImplementedError):  # too many rows for an array of them all
                    equal(source.array, rows, "array", rows.dtype)
                if source.writable_array is not None:
                    equal(source.writable_array, rows, "writable_array", rows.dtype)
                versions = source.versions(np.arange(len(rows)))
                if versions is not None:
                    shape = (len(rows),)
                    require(versions.shape == shape, f"versions are {versions.shape}, not {shape}")
                    require(versions.dtype == np.int64, f"versions are {versions.dtype}, not int64")
                if source.can_plan:
                    self._check_plan(source, rows)

    def _check_plan(self, source: RowSource, rows: NDArray[Any]) -> None:
        lists = [ids for ids in cases.seed_vectors(len(rows)) if len(ids)]
        if not lists:
            return
        plan = source.plan(lists)
        try:
            scratch = np.empty((1, *rows.shape[1:]), rows.dtype)
            require(
                not plan.gather_if_next(np.array([0], np.int64), scratch),
                "gather_if_next(ids) must be False for ids that are not the next list",
            )
            for number, ids in enumerate(lists):
                out = np.empty((len(ids), *rows.shape[1:]), rows.dtype)
                if number % 2:
                    plan.gather(ids, out)
                else:
                    require(plan.gather_if_next(ids, out), "gather_if_next(next list) is False")
                equal(out, rows[ids], f"list {number} of the plan")
        finally:
            plan.close()

    # ---- refusals --------------------------------------------------------------------------

    def test_an_id_out_of_range_is_named(self) -> None:
        """The first id that does not exist is an OutOfRangeError with its value and position."""
        for _, rows, source in self._each():
            for bad in cases.bad_ids(len(rows)):
                ids = np.array([0, bad, 0, -5][len(rows) == 0 :], np.int64)
                with given("rows and ids", rows=rows, ids=ids):
                    where = int(len(rows) > 0)
                    out = np.empty((len(ids), *rows.shape[1:]), rows.dtype)
                    out_of_range(bad, where, source.gather, ids)
                    out_of_range(bad, where, source.gather, ids, out=out)

    def test_what_is_no_id_is_refused(self) -> None:
        """Floats, bools and tables are not ids."""
        _, source = self._one()
        for ids in ([0.5], np.array([1.0]), np.zeros(50, bool), [[1, 2]], 3):
            refused(f"gather({ids!r})", source.gather, ids)

    # ---- threads and processes -------------------------------------------------------------

    def test_threads_gather_at_once(self) -> None:
        """Several threads may gather other rows at the same time."""
        rows, source = self._one(3000)
        rng = np.random.default_rng(6)
        lists = [rng.integers(0, 3000, 2000) for _ in range(6)]
        thread_results = in_threads([partial(source.gather, ids) for ids in lists])
        for ids, results in zip(lists, thread_results, strict=True):
            for result in results:
                with given("the ids of one of six threads", ids=ids):
                    equal(result, rows[ids], "gather(ids)")

    def test_it_pickles(self) -> None:
        """A pickled copy has the same rows."""
        rows, source = self._one()
        copy = pickle.loads(pickle.dumps(source))
        require(copy.dtype_name == source.dtype_name, "the copy has another dtype_name")
        equal(copy.gather(np.arange(50)), rows, "the rows of the copy", rows.dtype)

    def test_a_forked_child_gathers(self) -> None:
        """A forked child gathers the same rows."""
        rows, source = self._one()
        equal(in_child(lambda: source.gather(np.arange(50))), rows, "the rows that the child got")
