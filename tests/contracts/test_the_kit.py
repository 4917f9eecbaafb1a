"""The kit can fail: every mutant breaks the rule that it was made to break.

The unmutated reference keeps all rules, so a rule that is broken is broken by the mutation. Mutants
of samplers are in ``test_sampler_mutants.py``, those of PyG's classes in ``test_pyg_mutants.py``.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pytest
from support.reference import Lists, Rows

from aethergraph import errors
from aethergraph.testing import AdjacencyContract, FeatureSourceContract, broken_rules
from aethergraph.testing.rules import Contract

MAIN, PROCESS = threading.main_thread(), os.getpid()


class TestReferenceTopology(AdjacencyContract):
    supports = {"edge_ids"}

    def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
        return Lists(num_nodes, src, dst)


class TestReferenceRows(FeatureSourceContract):
    dtypes = ("float32", "float64", "int16", "uint8", "bool", "bfloat16")

    def make(self, rows: Any, dtype: str) -> Any:
        return Rows(rows, dtype)


# ---- topologies ------------------------------------------------------------------------------


class WithoutDuplicates(Lists):
    def __init__(self, num_nodes: int, src: Any, dst: Any) -> None:
        pairs = np.unique(np.stack([dst, src]), axis=1)
        super().__init__(num_nodes, pairs[1], pairs[0])


class OutEdges(Lists):
    def __init__(self, num_nodes: int, src: Any, dst: Any) -> None:
        super().__init__(num_nodes, dst, src)


def answering(name: str, method: str, change: Any) -> type[Lists]:
    """Make a mutant whose answer is this change of the right one."""

    def answer(self: Any, node: int) -> Any:
        return change(getattr(Lists, method)(self, node))

    return type(name, (Lists,), {method: answer})


NarrowIds = answering("NarrowIds", "in_neighbors", lambda ids: ids.astype(np.int32))
UniqueNeighbors = answering("UniqueNeighbors", "in_neighbors", np.unique)
IdsByNode = answering("IdsByNode", "in_edges", lambda ids: np.arange(len(ids)))
ShortIds = answering("ShortIds", "in_edges", lambda ids: ids[:-1])


class FromTheEnd(Lists):
    def in_neighbors(self, node: int) -> Any:
        return super().in_neighbors(node + self.num_nodes if node < 0 else node)


class FloatNodes(Lists):
    def in_degrees(self, nodes: Any = None) -> Any:
        return super().in_degrees(nodes if nodes is None else np.asarray(nodes).astype(np.int64))


class SharedLists(Lists):
    def in_neighbors(self, node: int) -> Any:
        return self.indices[self._span(node)]


class DegreesOfLists(Lists):
    def in_degrees(self, nodes: Any = None) -> Any:
        if nodes is not None and not isinstance(nodes, (list, np.ndarray)):
            raise errors.InvalidArgumentError("nodes must be an array")
        return super().in_degrees(nodes)


class PlainIndexError(Lists):
    def in_degrees(self, nodes: Any = None) -> Any:
        return np.diff(self.indptr)[slice(None) if nodes is None else np.asarray(nodes, np.int64)]


class NoPosition(Lists):
    def in_degrees(self, nodes: Any = None) -> Any:
        try:
            return super().in_degrees(nodes)
        except errors.OutOfRangeError as error:
            raise errors.OutOfRangeError(str(error), value=error.value) from None


class OneCursor(Lists):
    """Keeps the node that it was asked for in the object."""

    def in_neighbors(self, node: int) -> Any:
        if threading.current_thread() is MAIN:
            return super().in_neighbors(node)
        return super().in_neighbors(node)[:0]


class Unpicklable(Lists):
    def __reduce__(self) -> Any:
        raise TypeError("no pickle")


class ParentOnly(Lists):
    def in_neighbors(self, node: int) -> Any:
        if os.getpid() != PROCESS:
            raise errors.ClosedError("the handle belongs to the parent")
        return super().in_neighbors(node)


TOPOLOGIES = [
    (WithoutDuplicates, "test_counts_of_nodes_and_edges"),
    (OutEdges, "test_degrees"),
    (OutEdges, "test_neighbors_are_the_sources_with_their_multiplicities"),
    (DegreesOfLists, "test_degrees_take_integers_in_any_form"),
    (NarrowIds, "test_neighbors_are_the_sources_with_their_multiplicities"),
    (UniqueNeighbors, "test_neighbors_are_the_sources_with_their_multiplicities"),
    (IdsByNode, "test_edge_ids_are_a_bijection"),
    (ShortIds, "test_edge_ids_are_a_bijection"),
    (SharedLists, "test_answers_are_the_same_again"),
    (FromTheEnd, "test_a_node_out_of_range_is_named"),
    (PlainIndexError, "test_a_node_out_of_range_is_named"),
    (NoPosition, "test_a_node_out_of_range_is_named"),
    (FloatNodes, "test_what_is_no_node_id_is_refused"),
    (OneCursor, "test_threads_share_it"),
    (Unpicklable, "test_it_pickles"),
    (ParentOnly, "test_a_forked_child_uses_it"),
]


def verdict(contract: type[Contract], rule: str) -> str:
    """What the rule says of the mutant; it must be broken."""
    broken = broken_rules(contract)
    assert rule in broken, f"broken: {sorted(broken)}"
    return broken[rule]


@pytest.mark.parametrize(("mutant", "rule"), TOPOLOGIES)
def test_topology_mutants(mutant: type[Lists], rule: str) -> None:
    class Mutant(TestReferenceTopology):
        def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
            return mutant(num_nodes, src, dst)

    verdict(Mutant, rule)


# ---- feature sources -------------------------------------------------------------------------


class FlatShape(Rows):
    def __init__(self, rows: Any, dtype: str) -> None:
        super().__init__(rows, dtype)
        self.shape = (len(rows),)


def asking(name: str, change: Any) -> type[Rows]:
    """Make a mutant that gathers other ids: this change of those that are given."""

    def gather(self: Any, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        return Rows.gather(self, change(ids), out, dtype)

    return type(name, (Rows,), {"gather": gather})


SortedIds = asking("SortedIds", np.sort)
DroppedDuplicates = asking("DroppedDuplicates", np.unique)
Masks = asking(
    "Masks", lambda ids: np.flatnonzero(ids) if np.asarray(ids).dtype == np.bool_ else ids
)


class AlwaysFloat64(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        found = super().gather(ids, out, dtype)
        return found.astype(np.float64) if out is None and dtype is None else found


class PositiveZero(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        found = super().gather(ids, out, dtype)
        if found.dtype.kind == "f":
            found += 0.0
        return found


class NoRowsNoShape(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        found = super().gather(ids, out, dtype)
        return found if len(found) else np.empty(0)


class NativeIdsOnly(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        if isinstance(ids, np.ndarray) and not ids.dtype.isnative:
            ids = ids.view(ids.dtype.newbyteorder())
        return super().gather(ids, out, dtype)


class Views(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        found = super().gather(ids, out, dtype)
        array = np.asarray(ids)
        if out is None and dtype is None and len(array) and (np.diff(array) == 1).all():
            return self.rows[array[0] : array[-1] + 1]
        return found


class IgnoredOut(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        return super().gather(ids, None, dtype)


class OutTooLong(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        found = super().gather(ids, out, dtype)
        if out is not None and out.base is not None and len(out.base) > len(out):
            out.base[-1] = 0
        return found


class UncheckedOut(Rows):
    def check_out(self, out: Any, chosen: Any) -> None:
        pass


class NarrowingOut(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        if isinstance(out, np.ndarray) and out.dtype.itemsize < self.rows.dtype.itemsize:
            with np.errstate(over="ignore"):
                out[...] = super().gather(ids)
            return out
        return super().gather(ids, out, dtype)


class IgnoredDtype(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        return super().gather(ids, out, None)


class Bits(Rows):
    """bfloat16 widened as the integers that they are stored as."""

    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        if self.dtype_name == "bfloat16" and dtype is not None:
            return super().gather(ids).astype(dtype)
        return super().gather(ids, out, dtype)


class RowsFromTheEnd(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        array = np.asarray(ids)
        if array.dtype.kind == "i" and self.num_rows:
            array = np.where(array < 0, array % self.num_rows, array)
            return super().gather(array, out, dtype)
        return super().gather(ids, out, dtype)


class Truncated(Rows):
    """Ids cut to 32 bits."""

    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        array = np.asarray(ids)
        if array.dtype == np.int64:
            ids = array.astype(np.int32)
        return super().gather(ids, out, dtype)


class OneBuffer(Rows):
    """Gathers in pieces into a buffer that all threads share."""

    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        if threading.current_thread() is MAIN or out is not None or dtype is not None:
            return super().gather(ids, out, dtype)
        self.buffer = super().gather(ids)
        for _ in range(20):
            threading.Event().wait(0.0005)
        return self.buffer


class UnpicklableRows(Rows):
    def __getstate__(self) -> Any:
        return {**self.__dict__, "rows": np.zeros_like(self.rows)}


class ParentRows(Rows):
    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        if os.getpid() != PROCESS:
            os._exit(3)
        return super().gather(ids, out, dtype)


SOURCES = [
    (FlatShape, "test_shape_and_dtype"),
    (SortedIds, "test_rows_come_in_the_order_of_the_ids"),
    (DroppedDuplicates, "test_rows_come_in_the_order_of_the_ids"),
    (AlwaysFloat64, "test_rows_come_in_the_order_of_the_ids"),
    (PositiveZero, "test_rows_come_in_the_order_of_the_ids"),
    (NoRowsNoShape, "test_no_ids_keep_shape_and_dtype"),
    (NativeIdsOnly, "test_ids_are_integers_in_any_form"),
    (Views, "test_results_belong_to_the_caller"),
    (IgnoredOut, "test_out_is_filled"),
    (OutTooLong, "test_out_is_filled"),
    (UncheckedOut, "test_an_out_that_does_not_fit_is_refused"),
    (NarrowingOut, "test_an_out_that_does_not_fit_is_refused"),
    (IgnoredDtype, "test_widening"),
    (IgnoredDtype, "test_other_dtypes_are_refused"),
    (Bits, "test_widening"),
    (RowsFromTheEnd, "test_an_id_out_of_range_is_named"),
    (Truncated, "test_an_id_out_of_range_is_named"),
    (Masks, "test_what_is_no_id_is_refused"),
    (OneBuffer, "test_threads_gather_at_once"),
    (UnpicklableRows, "test_it_pickles"),
    (ParentRows, "test_a_forked_child_gathers"),
]


@pytest.mark.parametrize(("mutant", "rule"), SOURCES)
def test_feature_source_mutants(mutant: type[Rows], rule: str) -> None:
    class Mutant(TestReferenceRows):
        dtypes = ("float64", "float32", "bfloat16")

        def make(self, rows: Any, dtype: str) -> Any:
            return mutant(rows, dtype)

    verdict(Mutant, rule)
