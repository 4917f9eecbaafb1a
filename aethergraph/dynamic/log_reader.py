"""LogReader: facts that a live graph gets from its base, and from the notes of its log.

The native log keeps edges and numbers of nodes (native/FORMAT.md, "Logs"). Rows, attributes, keys
and offsets of streams are notes in the same commits: a header in JSON, then the bytes of arrays::

    u32 bytes of the header | header, spaces up to a multiple of 8 | array | array ...
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.edge_types import EdgeKind, rows_room
from aethergraph.dynamic.growing_keys import GrowingKeys
from aethergraph.dynamic.rows import GrowingRows
from aethergraph.dynamic.store import LiveStore
from aethergraph.dynamic.watermarks import WATERMARK
from aethergraph.errors import AetherError, CorruptFileError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.beside import fingerprint_of
from aethergraph.protocols import RowSource
from aethergraph.storage.described import Fields, read_fields
from aethergraph.storage.meta import check_fingerprint

__all__ = ["LogReader", "Note", "collect_values", "pack"]

_HEADER_BYTES = 4
#: Nodes whose lists are read at once when weights and times are collected.
_NODES_AT_ONCE = 1 << 16


class Note(IntEnum):
    """Kinds of notes, as the log has them."""

    NODE_ROWS = 1
    CHANGED_ROWS = 2
    ROWS_BEGIN = 3
    ROWS_END = 4
    EDGE_ROWS = 5
    OFFSET = 6
    KEYS = 7


def pack(header: dict[str, Any], *arrays: NDArray[Any]) -> bytes:
    """Return a note."""
    text = json.dumps(header).encode()
    text += b" " * (-(_HEADER_BYTES + len(text)) % 8)
    parts = [len(text).to_bytes(_HEADER_BYTES, "little"), text]
    for array in arrays:
        content = np.ascontiguousarray(array).tobytes()
        parts += [content, bytes(-len(content) % 8)]
    return b"".join(parts)


def _unpack(content: bytes) -> tuple[Fields, int]:
    size = int.from_bytes(content[:_HEADER_BYTES], "little")
    header = read_fields(content[_HEADER_BYTES : _HEADER_BYTES + size], ValueError)
    return header, _HEADER_BYTES + size


class LogReader:
    """Facts that a graph gets from its base and from the notes of its log.

    Args:
        store: the graph, new and empty.
        directory: its directory.

    Attributes:
        commit: number of the commit in memory that changed rows are of.
    """

    def __init__(self, store: LiveStore, directory: LiveDirectory) -> None:
        self.commit = 0
        # Weak: the store may have the reader, and a cycle would keep the graph's memory for long.
        self._of, self.directory = weakref.ref(store), directory
        current = directory.current()
        self.base: str | None = current.get("base")
        #: Files of rows that the log names. Opening reads each, also those that others replaced.
        self._row_files = set[str]()
        if self.base is not None:
            self._restore(current)
        #: What ``CURRENT`` said.
        self.current: Mapping[str, Any] = current

    @property
    def _store(self) -> LiveStore:
        store = self._of()
        assert store is not None
        return store

    def take_note(self, lsn: int, kind: int, content: bytes) -> None:
        """Take a note of the log into the graph.

        Raises:
            CorruptFileError: it cannot be read.
        """
        try:
            header, at = _unpack(content)
            self._apply(kind, header, content, at)
        except (LookupError, ValueError, TypeError) as error:
            if isinstance(error, AetherError):
                raise  # of a file that the note names
            raise CorruptFileError(
                f"{self.directory.path}: commit {lsn} of the log has a note of kind {kind} that "
                f"cannot be read: {error!r}"
            ) from error

    def _apply(self, kind: int, header: Fields, content: bytes, at: int) -> None:
        store = self._store
        if kind == Note.OFFSET:
            header.need("source")
            place = header.text("source", ""), header.count("partition", least=WATERMARK)
            store.offsets[place] = header.count("next")
        elif kind == Note.KEYS:
            _take_keys(store.keys[header.text("type")], header, content, at)
        elif kind == Note.EDGE_ROWS:
            kinds = list(store.kinds.values())
            table = kinds[header.count("kind", len(kinds))].attrs[header.text("name")]
            _put_rows(table, header, content, at)
        elif kind == Note.ROWS_BEGIN:
            file, node_type = header.text("file"), header.text("type")
            path = str(self.directory.path / file)
            rows, fingerprint = FeatureTable.load(path), header.text("fingerprint", None)
            if fingerprint is not None:  # else an older build wrote the note
                check_fingerprint(path, fingerprint, fingerprint_of(path))
            self._begin(node_type, header.text("name"), rows, {"file": file})
            self._row_files.add(file)
        elif kind == Note.ROWS_END:
            del store.node_rows[header.text("type")][header.text("name")]
        else:
            table = store.stored_node_rows()[header.text("type")][header.text("name")]
            if kind == Note.NODE_ROWS:
                _put_rows(table, header, content, at)
            elif kind == Note.CHANGED_ROWS:
                count = header.count("count", len(content))
                ids = np.frombuffer(content, np.int64, count, at)
                if count and not 0 <= ids.min() <= ids.max() < table.room:
                    raise ValueError(f"rows {ids.min()} to {ids.max()} of {table.room}")
                if table.num_free < count:
                    table.reclaim(self.commit)  # nobody reads while a log is replayed
                values = _rows_in(content, at + 8 * count, table, count)
                table.change(ids, values, self.commit, [])
            else:
                raise ValueError(f"kind {kind}")

    def _begin(self, node_type: str, name: str, base: RowSource, origin: dict[str, str]) -> None:
        room = rows_room(base.row_shape, base.dtype_name, self._store.max_nodes)
        rows = GrowingRows(base.row_shape, base.dtype_name, room, base)
        rows.origin = origin
        self._store.node_rows[node_type][name] = rows

    def _restore(self, current: Mapping[str, Any]) -> None:
        """Begin the attributes of nodes and the offsets of streams that the base has."""
        store = self._store
        assert self.base is not None and store.base is not None
        for place, following in current.get("offsets", []):
            store.offsets[place[0], place[1]] = following
        types = store.base.graph.node_types
        for number, (name, own_name) in enumerate(zip(store.node_rows, types, strict=True)):
            for attr, rows in store.base.node_rows(number).items():
                self._begin(name, attr, rows, {"file": self.base, "type": own_name, "attr": attr})


def _take_keys(keys: GrowingKeys, header: Fields, content: bytes, at: int) -> None:
    begin, count = header.count("begin"), header.count("count", len(content))
    width = keys.columns.width
    if begin != keys.end:
        raise ValueError(f"keys from {begin} on, where the next one is {keys.end}")
    if width:
        data = np.frombuffer(content, np.uint8, count * width, at)
        keys.put(begin, native.KeyBlock(data, None, width))
        return
    offsets = np.zeros(count + 1, np.uint64)
    np.cumsum(np.frombuffer(content, np.uint32, count, at), out=offsets[1:])
    at += -(-4 * count // 8) * 8
    data = np.frombuffer(content, np.uint8, int(offsets[-1]), at)
    keys.put(begin, native.KeyBlock(data, offsets))


def _put_rows(table: GrowingRows, header: Fields, content: bytes, at: int) -> None:
    begin = header.count("begin")
    if begin < table.num_base:
        raise ValueError(f"rows from {begin} on, where {table.num_base} are in the base")
    table.put(begin, _rows_in(content, at, table))


def _rows_in(content: bytes, at: int, table: GrowingRows, count: int | None = None) -> NDArray[Any]:
    size = int(np.prod(table.row_shape)) * table.dtype.itemsize
    if count is None:
        count = (len(content) - at) // size if size else 0  # rows without values
    values = np.frombuffer(content, table.dtype, count * size // table.dtype.itemsize, at)
    return values.reshape(count, *table.row_shape)


def collect_values(store: LiveStore, kind: EdgeKind, since: int = 1) -> None:
    """Fill the weights and times by edge id with those of lists that changed after a commit."""
    if not kind.values:
        return
    layout: Any = "csr" if kind.form.layout == "csr" else "csc"
    begin = 0 if kind.base is None else kind.base.end
    snapshot = store.live.take_last()
    topology = snapshot.topology(kind.number, layout)
    changed = snapshot.changed(kind.number, layout, since)
    for at in range(0, len(changed), _NODES_AT_ONCE):
        nodes = changed[at : at + _NODES_AT_ONCE]
        edges = topology.neighbors(nodes, with_edges=True)[1]
        if edges is None or not len(edges):
            continue
        (new,) = np.nonzero(edges >= begin)
        for name, table in kind.values.items():
            which: Any = "times" if name == "edge_time" else "weights"
            values = topology.kept_values(which, nodes)[new].astype(table.dtype)
            table.put_at(edges[new], values)
