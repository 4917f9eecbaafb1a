"""Graph files: reading sections into :class:`GraphParts`, and writing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_flag
from aethergraph.errors import (
    AetherError,
    CorruptFileError,
    InvalidArgumentError,
    UnsupportedError,
)
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.files import write_rows
from aethergraph.graph.attributes import AttributeTable
from aethergraph.graph.beside import GraphFile
from aethergraph.graph.lists import Lists, RawLists
from aethergraph.graph.parts import EdgeParts, GraphParts, NodeParts
from aethergraph.graph.sections import ArrayContent, Content, EncodedIds, EncodedIndex, id_content
from aethergraph.protocols import RowSource
from aethergraph.storage.budget import Budget
from aethergraph.storage.choice import choose_storage, copy_array, log, map_instead
from aethergraph.storage.live_directory import check_outside
from aethergraph.storage.memory import format_size
from aethergraph.storage.meta import (
    ArrayMeta,
    EdgeType,
    FileMeta,
    NodeType,
    SectionTable,
)
from aethergraph.storage.opening import open_container
from aethergraph.storage.paging import Paging

__all__ = ["ONE_TYPE", "GraphReader", "GraphWriter"]

#: Names of the types of nodes and of edges in a graph that has one of each and names neither.
ONE_TYPE = ("node", "to")
_IDS = ("uint32", "uint64")
_WEIGHTS = ("float32", "float64")
_TIMES = ("int64", "float64")


class _Kinds(NamedTuple):
    """Section kinds of one direction; ``edge_ids`` is None if positions are edge ids."""

    name: str
    indptr: int
    indices: int
    blocks: int
    block_index: int
    edge_ids: int | None


_CSC = _Kinds(
    "CSC",
    native.SECTION_CSC_INDPTR,
    native.SECTION_CSC_INDICES,
    native.SECTION_CSC_BLOCKS,
    native.SECTION_CSC_INDEX,
    None,
)
_CSR = _Kinds(
    "CSR",
    native.SECTION_CSR_INDPTR,
    native.SECTION_CSR_INDICES,
    native.SECTION_CSR_BLOCKS,
    native.SECTION_CSR_INDEX,
    native.SECTION_CSR_EDGE_IDS,
)


class GraphReader:
    """Reader of a graph file: finds the sections, checks them, maps or copies them.

    After :meth:`read`, ``storage`` is the place of the adjacency, ``paging`` its reader if it stays
    in the file, and ``fingerprint`` identifies the content.
    """

    def __init__(self, path: native.Path) -> None:
        self.file = open_container(path)
        self.table = SectionTable(self.file, native.CONTENT_GRAPH)
        self.guard = self.file.guard()
        self.path = self.table.path
        self.storage = "mmap"
        self.paging: Paging | None = None
        self.fingerprint = self.table.fingerprint()
        self.meta = self.table.meta

    def make_one(self) -> GraphParts:
        """Return the empty parts of a graph with one node type and one edge type."""
        meta = self.meta
        if len(meta.node_types) != 1 or len(meta.edge_types) != 1:
            raise UnsupportedError(
                f"{self.path}: {len(meta.node_types)} node types and {len(meta.edge_types)} edge "
                "types; Graph opens files with one of each, HeteroGraph.load opens this one"
            )
        return GraphParts(meta.node_types[0].num_nodes, meta.edge_types[0].num_edges)

    def make_all(self) -> tuple[list[NodeParts], list[EdgeParts]]:
        """Return the empty parts of every node type and every edge type."""
        nodes = [NodeParts(kind.num_nodes) for kind in self.meta.node_types]
        edges = [
            EdgeParts(
                nodes[kind.source].num_nodes, nodes[kind.destination].num_nodes, kind.num_edges
            )
            for kind in self.meta.edge_types
        ]
        return nodes, edges

    def read(
        self,
        nodes: Sequence[NodeParts],
        edges: Sequence[EdgeParts],
        storage: str,
        budget: Budget | None,
        progress: native.Progress | None,
    ) -> None:
        """Fill the parts; the adjacency is mapped, copied or left in the file, by ``storage``."""
        self._read_adjacency(edges, storage, budget, progress)
        for owner, part in enumerate(edges):
            self._read_edge_values(part, owner)
        for owner, kind in enumerate(nodes):
            vector = self.table.vector
            kind.node_time = vector(
                native.SECTION_NODE_TIME, owner, kind.num_nodes, _TIMES, "node time"
            )
            if _is_int64(kind.node_time):
                kind.time_unit = self.meta.time_unit
        self._read_attributes(nodes, edges)

    def _read_adjacency(
        self,
        edges: Sequence[EdgeParts],
        storage: str,
        budget: Budget | None,
        progress: native.Progress | None,
    ) -> None:
        lists = [
            (
                self._lists(_CSC, owner, part.num_dst, part.num_src, part.num_edges),
                self._lists(_CSR, owner, part.num_src, part.num_dst, part.num_edges),
            )
            for owner, part in enumerate(edges)
        ]
        for csc, csr in lists:
            if csc is None and csr is None:
                raise CorruptFileError(f"{self.path}: the file has no adjacency")
        hot = [a for pair in lists for raw in pair if raw is not None for a in _arrays(raw)]
        size = sum(a.nbytes for a in hot)
        self.storage = choose_storage(storage, size, budget, self.path)
        guard: native.FileGuard | None = self.guard
        if self.storage == "uring":
            try:
                self._open_paged(edges, lists, budget, progress)
                return
            except UnsupportedError as error:  # neither io_uring nor pread works here
                map_instead(error, storage, budget, self.path)
            except InvalidArgumentError as error:
                if storage == "auto" and budget is not None:
                    raise InvalidArgumentError(
                        f"{error}; {format_size(size)} would hold all of them in memory"
                    ) from None
                map_instead(error, storage, budget, self.path)
            self.storage, self.paging = "mmap", None
        if self.storage == "memory":
            with native.reading(guard):
                lists = native.run_long(
                    lambda task: [
                        (_copy_lists(csc, task), _copy_lists(csr, task)) for csc, csr in lists
                    ],
                    progress,
                    size,
                )
            guard = None
        else:
            for array in hot:
                native.advise(array, native.ADVICE_RANDOM)
        for part, (csc, csr) in zip(edges, lists, strict=True):
            part.csc = self._topology(csc, part.num_src, guard)
            part.csr = self._topology(csr, part.num_dst, guard)

    def _open_paged(
        self,
        edges: Sequence[EdgeParts],
        lists: Sequence[tuple[RawLists | None, RawLists | None]],
        budget: Budget | None,
        progress: native.Progress | None,
    ) -> None:
        self.paging = paging = Paging(self.file, budget)

        def open_lists(
            raw: RawLists | None,
            kinds: _Kinds,
            owner: int,
            num_minor: int,
            task: native.Task | None,
        ) -> Lists | None:
            if raw is None:
                return None
            places: list[int] = [kinds.indptr, kinds.indices]
            if isinstance(raw[1], native.CompressedIds):
                places = [kinds.indptr, kinds.blocks, kinds.block_index]
            offsets = [self.table.offset(kind, owner) for kind in places]
            topology = paging.open(raw, num_minor, self.guard, offsets, task)
            return Lists(raw, num_minor, self.guard, topology)

        def open_all(task: native.Task | None) -> None:
            for owner, (part, (csc, csr)) in enumerate(zip(edges, lists, strict=True)):
                part.csc = open_lists(csc, _CSC, owner, part.num_src, task)
                part.csr = open_lists(csr, _CSR, owner, part.num_dst, task)

        size = sum(raw[0].nbytes for pair in lists for raw in pair if raw is not None)
        native.run_long(open_all, progress, size)
        paging.check_budget()
        paging.keep_pages()

    def _lists(
        self, kinds: _Kinds, owner: int, num_major: int, num_minor: int, count: int
    ) -> RawLists | None:
        vector, name = self.table.vector, kinds.name
        indptr = vector(kinds.indptr, owner, num_major + 1, ("uint64",), f"{name} indptr")
        ids: NDArray[Any] | native.CompressedIds | None
        ids = vector(kinds.indices, owner, count, _IDS, f"{name} indices")
        if ids is None:
            ids = self._compressed(kinds, owner, num_minor, count)
        edge_ids = None
        if kinds.edge_ids is not None:
            edge_ids = vector(kinds.edge_ids, owner, count, _IDS, f"{name} edge ids")
        if indptr is None and ids is None and edge_ids is None:
            return None
        if indptr is None or ids is None:
            raise CorruptFileError(f"{self.path}: the {name} adjacency is not complete")
        return indptr, ids, edge_ids

    def _compressed(
        self, kinds: _Kinds, owner: int, num_minor: int, count: int
    ) -> native.CompressedIds | None:  # fmt: skip
        vector, name = self.table.vector, kinds.name
        blocks = vector(kinds.blocks, owner, None, ("uint8",), f"{name} blocks")
        length = native.index_words(count)
        index = vector(kinds.block_index, owner, length, ("uint64",), f"{name} index")
        if blocks is None or index is None:
            return None
        dtype = native.id_dtype(native.id_bytes_for(num_minor))
        return native.CompressedIds(blocks, index, count, dtype)

    def _topology(
        self, raw: RawLists | None, num_minor: int, guard: native.FileGuard | None
    ) -> Lists | None:
        if raw is None:
            return None
        try:
            return Lists(raw, num_minor, guard, path=self.path)
        except AetherError as error:
            self.guard.check()
            raise CorruptFileError(f"{self.path}: {error}") from error

    def _read_edge_values(self, part: EdgeParts, owner: int) -> None:
        vector, count = self.table.vector, part.num_edges
        part.edge_order = vector(native.SECTION_EDGE_ORDER, owner, count, _IDS, "edge order")
        part.edge_weight = vector(native.SECTION_EDGE_WEIGHT, owner, count, _WEIGHTS, "edge weight")
        part.edge_time = vector(native.SECTION_EDGE_TIME, owner, count, _TIMES, "edge time")
        if _is_int64(part.edge_time):
            part.time_unit = self.meta.time_unit

    def _read_attributes(self, nodes: Sequence[NodeParts], edges: Sequence[EdgeParts]) -> None:
        for number, meta in enumerate(self.meta.arrays):
            edges_of = None
            if meta.of == "node":
                table, rows = nodes[meta.type].node_attrs, nodes[meta.type].num_nodes
            elif meta.of == "edge":
                table, rows = edges[meta.type].edge_attrs, edges[meta.type].num_edges
                edges_of = edges[meta.type].any_lists.topology
            else:
                raise CorruptFileError(f"{self.path}: the array {meta.name!r} has no owner")
            if meta.shape[0] != rows:
                raise CorruptFileError(
                    f"{self.path}: the array {meta.name!r} has {meta.shape[0]} rows instead of "
                    f"{rows}"
                )
            table[meta.name] = FeatureTable.from_section(self.table, number, self.paging, edges_of)


def _is_int64(times: NDArray[Any] | None) -> bool:
    return times is not None and times.dtype == np.int64


def _arrays(raw: RawLists) -> list[NDArray[Any]]:
    indptr, ids, edge_ids = raw
    id_arrays = [ids.blocks, ids.index] if isinstance(ids, native.CompressedIds) else [ids]
    return [indptr, *id_arrays, *([] if edge_ids is None else [edge_ids])]


def _copy_lists(raw: RawLists | None, task: native.Task | None) -> RawLists | None:
    if raw is None:
        return None
    indptr, ids, edge_ids = raw
    copied: NDArray[Any] | native.CompressedIds
    if isinstance(ids, native.CompressedIds):
        blocks, index = copy_array(ids.blocks, task), copy_array(ids.index, task)
        copied = native.CompressedIds(blocks, index, ids.count, ids.dtype)
    else:
        copied = copy_array(ids, task)
    edge_copy = None if edge_ids is None else copy_array(edge_ids, task)
    return copy_array(indptr, task), copied, edge_copy


class GraphWriter:
    """Writer of a graph file: META, then the sections of each edge type and node type."""

    def __init__(
        self,
        node_types: Sequence[tuple[NodeType, NodeParts]],
        edge_types: Sequence[tuple[EdgeType, EdgeParts]],
        compress: bool | None = None,
        *,
        attrs: bool = True,
    ) -> None:
        self.sections: list[tuple[int, int, Content]] = []
        self.compress = None if compress is None else as_flag(compress, "compress")
        self.stores: list[RowSource] = []
        self.attrs = attrs
        arrays = list[ArrayMeta]()
        parts: list[NodeParts | EdgeParts] = [node for _, node in node_types]
        parts += [edge for _, edge in edge_types]
        for owner, (node_type, node) in enumerate(node_types):
            arrays += self._attributes(node.node_attrs, owner, node_type.num_nodes)
        for owner, (edge_type, edge) in enumerate(edge_types):
            arrays += self._attributes(edge.edge_attrs, owner, edge_type.num_edges)
        self.meta = FileMeta(
            tuple(kind for kind, _ in node_types),
            tuple(kind for kind, _ in edge_types),
            tuple(arrays),
            next((p.time_unit for p in parts if p.time_unit is not None), None),
        )
        for owner, (_, edge) in enumerate(edge_types):
            self._add_lists(edge.csc, _CSC, owner)
            self._add_lists(edge.csr, _CSR, owner)
            self._add(native.SECTION_EDGE_ORDER, owner, edge.edge_order)
            self._add(native.SECTION_EDGE_WEIGHT, owner, edge.edge_weight)
            self._add(native.SECTION_EDGE_TIME, owner, edge.edge_time)
        for owner, (_, node) in enumerate(node_types):
            self._add(native.SECTION_NODE_TIME, owner, node.node_time)
        copied = sum(s.nbytes for s in self.stores)
        self.size = sum(a.nbytes for *_, a in self.sections) + copied
        if copied:
            names = ", ".join(
                f"{a.name} {format_size(s.nbytes)}"
                for a, s in zip(arrays, self.stores, strict=True)
            )
            log.info(
                "save: attributes take %s of %s: %s; attrs=False leaves them out",
                format_size(copied), format_size(self.size), names,
            )  # fmt: skip

    @classmethod
    def of_one(
        cls, parts: GraphParts, compress: bool | None = None, *, attrs: bool = True,
        names: tuple[str, str] = ONE_TYPE,
    ) -> GraphWriter:  # fmt: skip
        """Return a writer for a graph with one node type and one edge type, of these names."""
        node, edge = names
        return cls(
            [(NodeType(node, parts.num_nodes), parts)],
            [(EdgeType(0, edge, 0, parts.num_edges), parts)],
            compress,
            attrs=attrs,
        )

    def _attributes(self, table: AttributeTable, owner: int, count: int) -> list[ArrayMeta]:
        metas = []
        for name in sorted(table) if self.attrs else ():
            store = table[name]
            if store.num_rows != count:  # a source of others may have changed since it was attached
                raise InvalidArgumentError(
                    f"{table.kind}_attrs[{name!r}] has {store.num_rows} rows by now, but the graph "
                    f"has {count} {table.kind}s: save with as many, or with attrs=False"
                )
            self.stores.append(store)
            metas.append(ArrayMeta(name, table.kind, owner, store.dtype_name, store.shape))
        return metas

    def _add_lists(self, lists: Lists | None, kinds: _Kinds, owner: int) -> None:
        if lists is None:
            return
        self._add(kinds.indptr, owner, lists.indptr)
        ids = lists.ids
        if self.compress is False or not (self.compress or lists.compressed):
            self.sections.append((kinds.indices, owner, id_content(lists)))
        elif isinstance(ids, native.CompressedIds):
            self._add(kinds.blocks, owner, ids.blocks)
            self._add(kinds.block_index, owner, ids.index)
        else:
            encoded = EncodedIds(lists)
            self.sections.append((kinds.blocks, owner, encoded))
            self.sections.append((kinds.block_index, owner, EncodedIndex(encoded)))
        if kinds.edge_ids is not None:
            self._add(kinds.edge_ids, owner, lists.edge_ids)

    def _add(self, kind: int, owner: int, array: NDArray[Any] | None) -> None:
        if array is not None:
            self.sections.append((kind, owner, ArrayContent(array)))

    def write(
        self, path: native.Path, guard: native.FileGuard | None, task: native.Task | None,
        files: native.FileSet | None = None,
    ) -> None:  # fmt: skip
        """Write all sections; ``guard`` watches the file that the arrays are mapped from.

        ``files`` puts the file in place together with others; None: at once.
        """
        check_outside(path)
        with (
            GraphFile(path, self.meta, files) as writer,
            native.reading(guard),
        ):
            for kind, owner, content in self.sections:
                writer.begin(kind, owner, native.dtype_code(content.dtype))
                content.write(writer, task)
                writer.end()
            for number, store in enumerate(self.stores):
                write_rows(store, writer, number, task)
