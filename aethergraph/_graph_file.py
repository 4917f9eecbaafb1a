"""Graph files: sections to :class:`GraphParts` and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _binding as native
from aethergraph._arrays import check_times, check_weights
from aethergraph._parts import AttributeTable, GraphParts, Lists, RawLists
from aethergraph._storage import choose_storage, copy_array
from aethergraph.container import (
    ArrayMeta,
    EdgeType,
    FileMeta,
    NodeType,
    SectionTable,
    write_meta,
)
from aethergraph.errors import AetherError, CorruptFileError, FormatError, UnsupportedError
from aethergraph.features import FeatureStore

__all__ = ["GraphReader", "GraphWriter", "verify_parts"]

_IDS = ("uint32", "uint64")
_WEIGHTS = ("float32", "float64")
_TIMES = ("int64", "float64")

#: (indptr, indices, edge ids, name) of the two directions.
_CSC = (native.SECTION_CSC_INDPTR, native.SECTION_CSC_INDICES, None, "CSC")
_CSR = (
    native.SECTION_CSR_INDPTR,
    native.SECTION_CSR_INDICES,
    native.SECTION_CSR_EDGE_IDS,
    "CSR",
)
_Kinds = tuple[int, int, int | None, str]


def _hint(path: native.Path) -> str:
    """What to do with a file that users take for a graph."""
    name = os.fsdecode(path)
    if name.lower().endswith((".csv", ".tsv", ".txt", ".parquet", ".gz")):
        return f"; convert edges first: aethergraph convert -i {name} -o graph.aeg"
    if name.lower().endswith((".npy", ".npz")):
        return "; features: graph.load_features(path); edges: Graph.from_edges or convert"
    return ""


class GraphReader:
    """Opens a graph file: finds the sections, checks them, maps or copies them.

    After :meth:`read`, ``storage`` says where the adjacency is and ``fingerprint`` identifies the
    content.
    """

    def __init__(self, path: native.Path) -> None:
        try:
            self.file = native.NativeFile(path)
        except FormatError as error:
            raise FormatError(f"{error}{_hint(path)}") from None
        self.table = SectionTable(self.file, native.CONTENT_GRAPH)
        self.guard = self.file.guard()
        self.path = self.table.path
        self.storage = "mmap"
        self.fingerprint = self.table.fingerprint()
        meta = self.table.meta
        if len(meta.node_types) != 1 or len(meta.edge_types) != 1:
            raise UnsupportedError(
                f"{self.path}: {len(meta.node_types)} node types and {len(meta.edge_types)} edge "
                "types; Graph opens files with one of each"
            )
        self.num_nodes = meta.node_types[0].num_nodes
        self.num_edges = meta.edge_types[0].num_edges

    def read(
        self, storage: str, budget: int | str | None, progress: native.Progress | None
    ) -> GraphParts:
        """The parts, with the adjacency mapped or in memory."""
        csc, csr = self._lists(_CSC), self._lists(_CSR)
        if csc is None and csr is None:
            raise CorruptFileError(f"{self.path}: the file has no adjacency")
        hot = [a for raw in (csc, csr) if raw is not None for a in raw if a is not None]
        size = sum(a.nbytes for a in hot)
        self.storage = choose_storage(storage, size, budget, self.path)
        guard: native.FileGuard | None = self.guard
        if self.storage == "memory":
            with native.reading(guard):
                csc, csr = native.run_long(
                    lambda task: (_copy_lists(csc, task), _copy_lists(csr, task)), progress, size
                )
            guard = None
        else:
            for array in hot:
                native.advise(array, native.ADVICE_RANDOM)
        parts = GraphParts(self.num_nodes, self.num_edges)
        parts.csc = self._topology(csc, guard)
        parts.csr = self._topology(csr, guard)
        self._read_values(parts)
        self._read_attributes(parts)
        return parts

    def _lists(self, kinds: _Kinds) -> RawLists | None:
        indptr_kind, indices_kind, ids_kind, name = kinds
        vector, nodes, edges = self.table.vector, self.num_nodes, self.num_edges
        indptr = vector(indptr_kind, 0, nodes + 1, ("uint64",), f"{name} indptr")
        indices = vector(indices_kind, 0, edges, _IDS, f"{name} indices")
        edge_ids = None
        if ids_kind is not None:
            edge_ids = vector(ids_kind, 0, edges, _IDS, f"{name} edge ids")
        if indptr is None and indices is None and edge_ids is None:
            return None
        if indptr is None or indices is None:
            raise CorruptFileError(f"{self.path}: the {name} adjacency is not complete")
        return indptr, indices, edge_ids

    def _topology(self, raw: RawLists | None, guard: native.FileGuard | None) -> Lists | None:
        if raw is None:
            return None
        try:
            return Lists(raw, self.num_nodes, guard)
        except AetherError as error:
            self.guard.check()
            raise CorruptFileError(f"{self.path}: {error}") from error

    def _read_values(self, parts: GraphParts) -> None:
        vector, nodes, edges = self.table.vector, self.num_nodes, self.num_edges
        parts.edge_order = vector(native.SECTION_EDGE_ORDER, 0, edges, _IDS, "edge order")
        parts.edge_weight = vector(native.SECTION_EDGE_WEIGHT, 0, edges, _WEIGHTS, "edge weight")
        parts.edge_time = vector(native.SECTION_EDGE_TIME, 0, edges, _TIMES, "edge time")
        parts.node_time = vector(native.SECTION_NODE_TIME, 0, nodes, _TIMES, "node time")

    def _read_attributes(self, parts: GraphParts) -> None:
        tables = {"node": parts.node_attrs, "edge": parts.edge_attrs}
        rows = {"node": self.num_nodes, "edge": self.num_edges}
        for number, meta in enumerate(self.table.meta.arrays):
            if meta.of not in tables:
                raise CorruptFileError(f"{self.path}: the array {meta.name!r} has no owner")
            if meta.shape[0] != rows[meta.of]:
                raise CorruptFileError(
                    f"{self.path}: the array {meta.name!r} has {meta.shape[0]} rows instead of "
                    f"{rows[meta.of]}"
                )
            tables[meta.of][meta.name] = FeatureStore.from_section(self.table, number)


def _copy_lists(raw: RawLists | None, task: native.Task | None) -> RawLists | None:
    if raw is None:
        return None
    indptr, indices, edge_ids = raw
    copied_ids = None if edge_ids is None else copy_array(edge_ids, task)
    return copy_array(indptr, task), copy_array(indices, task), copied_ids


class GraphWriter:
    """What a graph file holds: META, then its sections in the order of their kinds."""

    def __init__(self, parts: GraphParts) -> None:
        self.sections: list[tuple[int, NDArray[Any]]] = []
        self.stores: list[FeatureStore] = []
        arrays = [*self._attributes(parts.node_attrs), *self._attributes(parts.edge_attrs)]
        self.meta = FileMeta(
            (NodeType("node", parts.num_nodes),),
            (EdgeType(0, "to", 0, parts.num_edges),),
            tuple(arrays),
        )
        self._add_lists(parts.csc, _CSC)
        self._add_lists(parts.csr, _CSR)
        self._add(native.SECTION_EDGE_ORDER, parts.edge_order)
        self._add(native.SECTION_EDGE_WEIGHT, parts.edge_weight)
        self._add(native.SECTION_EDGE_TIME, parts.edge_time)
        self._add(native.SECTION_NODE_TIME, parts.node_time)
        self.size = sum(a.nbytes for _, a in self.sections) + sum(s.nbytes for s in self.stores)

    def _attributes(self, table: AttributeTable) -> list[ArrayMeta]:
        found = []
        for name in sorted(table):
            store = table[name]
            self.stores.append(store)
            found.append(ArrayMeta(name, table.kind, 0, store.dtype_name, store.shape))
        return found

    def _add_lists(self, lists: Lists | None, kinds: _Kinds) -> None:
        if lists is None:
            return
        self._add(kinds[0], lists.indptr)
        self._add(kinds[1], lists.indices)
        if kinds[2] is not None:
            self._add(kinds[2], lists.edge_ids)

    def _add(self, kind: int, array: NDArray[Any] | None) -> None:
        if array is not None:
            self.sections.append((kind, array))

    def write(
        self, path: native.Path, guard: native.FileGuard | None, task: native.Task | None
    ) -> None:
        """Write everything; ``guard`` watches the file that the arrays are mapped from."""
        with native.NativeWriter(path, native.CONTENT_GRAPH) as writer, native.reading(guard):
            write_meta(writer, self.meta)
            for kind, array in self.sections:
                writer.begin(kind, 0, native.dtype_code(array.dtype))
                writer.append(array, task)
                writer.end()
            for number, store in enumerate(self.stores):
                store.write_section(writer, number, task)


#: Rows that are checked at a time.
_CHUNK = 1 << 22


def verify_parts(parts: GraphParts, label: str, task: native.Task | None) -> None:
    """Check every offset and id of the adjacency, permutation, weight and time."""
    for name, lists in (("CSC", parts.csc), ("CSR", parts.csr)):
        if lists is None:
            continue
        try:
            native.check_lists(lists.indptr, lists.indices, parts.num_nodes, task)
        except AetherError as error:
            raise CorruptFileError(
                f"{label}: {name}: {error}", position=error.position, value=error.value
            ) from error
    csr_ids = None if parts.csr is None else parts.csr.edge_ids
    for name, ids in (("CSR edge ids", csr_ids), ("edge order", parts.edge_order)):
        if ids is not None and not _is_permutation(ids, task):
            raise CorruptFileError(f"{label}: {name} are not a permutation of the edges")
    checks: list[tuple[str, NDArray[Any] | None, Callable[[NDArray[Any], str], None]]] = [
        ("edge_weight", parts.edge_weight, check_weights),
        ("edge_time", parts.edge_time, check_times),
        ("node_time", parts.node_time, check_times),
    ]
    for name, values, check in checks:
        if values is not None:
            _check_values(values, label, name, check, task)


def _check_values(
    values: NDArray[Any],
    label: str,
    name: str,
    check: Callable[[NDArray[Any], str], None],
    task: native.Task | None,
) -> None:
    for start in range(0, len(values), _CHUNK):
        if task is not None:
            task.check()
        try:
            check(values[start : start + _CHUNK], name)
        except AetherError as error:
            at = start + (error.position or 0)
            raise CorruptFileError(
                f"{label}: {name}[{at}] = {values[at]} is not a number that it may hold",
                position=at,
            ) from error


def _is_permutation(ids: NDArray[Any], task: native.Task | None) -> bool:
    seen = np.zeros(len(ids), np.bool_)
    for start in range(0, len(ids), _CHUNK):
        if task is not None:
            task.check()
        piece = ids[start : start + _CHUNK]
        if piece.size and int(piece.max()) >= len(ids):
            return False
        seen[piece] = True
    return bool(seen.all())
