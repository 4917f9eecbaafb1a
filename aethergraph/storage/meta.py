"""The META section of container files: a description of the other sections, as JSON.

A graph file describes its node types, edge types and named arrays::

    {"arrays": [{"dtype": "float32", "name": "x", "of": "node", "shape": [100, 16], "type": 0}],
     "edge_types": [{"destination": 0, "name": "to", "num_edges": 500, "source": 0}],
     "node_types": [{"name": "node", "num_nodes": 100}],
     "version": 1}

A feature file has one array, ``{"arrays": [{..., "of": "row", "type": 0}], "version": 1}``. A
map of keys has ``{"arrays": [], "keys": {"count": 3, "first_id": 0, "types": ["str"]}, ...}``.

A graph that was made of tables may name the time zone of its times (``"time_zone": "UTC"``), and
the fingerprints of the files beside it (``"beside": {"user.ids": "90ab..."}``), by which those of
another build are refused. These files say so (``"of_graph": true``): a graph that does not name
them refuses them.

``source``, ``destination`` and ``type`` are positions in the lists of types. The ``owner`` of a
section is the position of its edge type (adjacency, weights, edge times), of its node type (node
times), or of its array. The text is canonical: sorted keys, no spaces, UTF-8. Readers ignore keys
that they do not know; ``version`` grows when a reader must not ignore something.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import shown
from aethergraph._checks.times import is_unit
from aethergraph.errors import CorruptFileError, FileChangedError, FormatError, VersionError
from aethergraph.storage.described import Fields, is_count, read_fields

__all__ = [
    "KEY_TYPES",
    "ArrayMeta",
    "EdgeType",
    "FileMeta",
    "KeysMeta",
    "NodeType",
    "SectionTable",
    "check_fingerprint",
    "write_meta",
]

META_VERSION = 1
#: META is a description; anything larger is not one of ours.
MAX_META_BYTES = 64 << 20

Owner = Literal["node", "edge", "row"]
KEY_TYPES = ("int64", "uint64", "uuid", "str", "bytes")


@dataclass(frozen=True)
class NodeType:
    """Node type; its ids are ``0 .. num_nodes - 1``."""

    name: str
    num_nodes: int


@dataclass(frozen=True)
class EdgeType:
    """Edge type; ``source`` and ``destination`` are positions in ``node_types``."""

    source: int
    name: str
    destination: int
    num_edges: int


@dataclass(frozen=True)
class ArrayMeta:
    """Named array: one row per node or edge of type number ``type`` (or a plain table)."""

    name: str
    of: Owner
    type: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class KeysMeta:
    """Keys of a map: types of their columns, their number, and the id of the first one."""

    types: tuple[str, ...]
    count: int
    first_id: int
    #: Some keys have the same hash, and are by their bytes.
    by_bytes: bool = False


@dataclass(frozen=True)
class FileMeta:
    """Decoded and checked META section."""

    node_types: tuple[NodeType, ...] = ()
    edge_types: tuple[EdgeType, ...] = ()
    arrays: tuple[ArrayMeta, ...] = field(default=())
    #: Unit of the int64 times of nodes and edges since 1970-01-01; None for plain numbers.
    time_unit: str | None = None
    #: Keys of a map of ids; None in other files.
    keys: KeysMeta | None = None
    #: Time zone of the times; None: they have none, or it is not known.
    time_zone: str | None = None
    #: The times that samples go by where there are several kinds, "edge_time"; else None.
    time_attr: str | None = None
    #: Fingerprints of files beside a graph, by node type and suffix ("user.ids").
    beside: Mapping[str, str] = field(default_factory=dict)
    #: Identity of the live graph that a snapshot was saved of, and number of its commit in the log;
    #: None: it is of no snapshot, or of a graph without a log.
    commit: tuple[str, int] | None = None
    #: True of a file that was made together with a graph, which has its fingerprint.
    of_graph: bool = False
    #: Live graph and name under which a file is a part of its directory, "90ab.../rows-000001.aef".
    part_of: str | None = None

    def encode(self) -> bytes:
        """Return the canonical JSON."""
        content: dict[str, Any] = {
            "version": META_VERSION,
            "arrays": [
                {"name": a.name, "of": a.of, "type": a.type, "dtype": a.dtype, "shape": a.shape}
                for a in self.arrays
            ],
        }
        if self.node_types:
            content["node_types"] = [
                {"name": n.name, "num_nodes": n.num_nodes} for n in self.node_types
            ]
            content["edge_types"] = [
                {
                    "source": e.source,
                    "name": e.name,
                    "destination": e.destination,
                    "num_edges": e.num_edges,
                }
                for e in self.edge_types
            ]
        if self.time_unit is not None:
            content["time_unit"] = self.time_unit
        if self.time_zone is not None:
            content["time_zone"] = self.time_zone
        if self.time_attr is not None:
            content["time_attr"] = self.time_attr
        if self.beside:
            content["beside"] = dict(self.beside)
        if self.commit is not None:
            content["commit"] = {"graph": self.commit[0], "lsn": self.commit[1]}
        if self.of_graph:
            content["of_graph"] = True
        if self.part_of is not None:
            content["part_of"] = self.part_of
        if self.keys is not None:
            keys = self.keys
            content["keys"] = {"types": keys.types, "count": keys.count, "first_id": keys.first_id}
            if keys.by_bytes:
                content["keys"]["equal_hashes"] = "by bytes"
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode("utf-8")

    @staticmethod
    def decode(data: bytes, path: str) -> FileMeta:
        """Parse and check META.

        Raises:
            VersionError: META was written by a newer version.
            FormatError: META is not the JSON described above.
        """
        fields = read_fields(
            data, lambda text: FormatError(f"{path}: its description (META) is wrong: {text}")
        )
        version = fields.count("version")
        if version > META_VERSION:
            raise VersionError(
                f"{path}: its description has version {version}, this AetherGraph reads up "
                f"to {META_VERSION}; install a newer one"
            )
        return _decode(fields)


def _decode(fields: Fields) -> FileMeta:
    """Return the meaning of the fields of META."""
    node_types = tuple(
        NodeType(node_type.text("name"), node_type.count("num_nodes"))
        for node_type in fields.objects("node_types", "a node type")
    )
    edge_types = tuple(
        EdgeType(
            edge_type.count("source", len(node_types)),
            edge_type.text("name"),
            edge_type.count("destination", len(node_types)),
            edge_type.count("num_edges"),
        )
        for edge_type in fields.objects("edge_types", "an edge type")
    )
    limits: dict[Owner, int] = {"node": len(node_types), "edge": len(edge_types), "row": 1}
    arrays = tuple(_decode_array(array, limits) for array in fields.objects("arrays", "an array"))
    names = [(a.of, a.type, a.name) for a in arrays]
    fields.require(len(set(names)) == len(names), "it names an array twice")
    unit = fields.text("time_unit", None)
    fields.require(unit is None or is_unit(unit), f"time_unit = {shown(unit)} is unknown")
    commit, keys = fields.object("commit"), fields.object("keys")
    return FileMeta(
        node_types, edge_types, arrays, unit,
        None if keys is None else _decode_keys(keys),
        fields.text("time_zone", None),
        fields.choice("time_attr", ("edge_time",), None),
        fields.table("beside", lambda value: isinstance(value, str), {}),
        None if commit is None else (commit.text("graph"), commit.count("lsn")),
        fields.flag("of_graph", False),
        fields.text("part_of", None),
    )  # fmt: skip


def _decode_array(fields: Fields, limits: Mapping[Owner, int]) -> ArrayMeta:
    name, of = fields.text("name"), fields.choice("of", tuple(limits))
    shape = fields.items("shape", is_count)
    fields.require(1 <= len(shape) <= 32, f"the array {shown(name)} has {len(shape)} dimensions")
    dtype = fields.choice("dtype", tuple(native.DTYPE_CODES))
    return ArrayMeta(name, of, fields.count("type", limits[of]), dtype, tuple(shape))


def _decode_keys(fields: Fields) -> KeysMeta:
    types = fields.items("types", lambda value: value in KEY_TYPES)
    fields.require(1 <= len(types) <= 64, f"there are keys of {len(types)} columns")
    count, first = fields.count("count"), fields.count("first_id")
    fields.require(count + first < 1 << 62, f"there are too many keys, {count}")
    return KeysMeta(tuple(types), count, first, fields.values.get("equal_hashes") == "by bytes")


class SectionTable:
    """Sections of an open file by (kind, owner), with the checks that META makes possible."""

    def __init__(self, file: native.NativeFile, content: int) -> None:
        self.file = file
        self.path = file.path
        if file.content != content:
            actual, _, way = _CONTENTS[file.content]
            expected = _CONTENTS[content][1]
            raise FormatError(f"{self.path}: this is {actual}, not {expected}; open it with {way}")
        self.rows = file.sections()
        self._by_key: dict[tuple[int, int], native.Section] = {}
        for section in self.rows:
            self._by_key.setdefault((section.kind, section.owner), section)
        meta = self._by_key.get((native.SECTION_META, 0))
        if meta is None:
            raise FormatError(f"{self.path}: the file has no description (META)")
        if meta.size > MAX_META_BYTES:
            raise FormatError(f"{self.path}: the description (META) has {meta.size} bytes")
        data = file.array(meta.offset, (meta.size,), np.dtype(np.uint8)).tobytes()
        file.check()
        self.meta = FileMeta.decode(data, self.path)

    def vector(
        self, kind: int, owner: int, length: int | None, dtypes: tuple[str, ...], label: str
    ) -> NDArray[Any] | None:  # fmt: skip
        """Return the section as a vector of ``length`` (None: any); None if the file has none."""
        section = self._by_key.get((kind, owner))
        if section is None:
            return None
        name = native.DTYPE_NAMES.get(section.dtype)
        if name not in dtypes:
            raise CorruptFileError(f"{self.path}: {label} has dtype {name or section.dtype}")
        itemsize = native.ARRAY_DTYPES[section.dtype].itemsize
        if length is not None and section.size != length * itemsize:
            raise CorruptFileError(
                f"{self.path}: {label} has {section.size} bytes instead of {length} x {itemsize}"
            )
        return self.file.section_array(section)

    def offset(self, kind: int, owner: int) -> int:
        """Return the byte offset of the section in the file."""
        return int(self._by_key[kind, owner].offset)

    def array(self, number: int) -> NDArray[Any]:
        """Return array ``number`` of META in its shape (bfloat16 as uint16)."""
        meta = self.meta.arrays[number]
        section = self._by_key.get((native.SECTION_ARRAY, number))
        if section is None:
            raise CorruptFileError(f"{self.path}: the array {meta.name!r} has no section")
        code = native.DTYPE_CODES[meta.dtype]
        dtype = native.ARRAY_DTYPES[code]
        size = math.prod(meta.shape) * dtype.itemsize
        if section.dtype != code or section.size != size:
            raise CorruptFileError(
                f"{self.path}: the array {meta.name!r} should have {size} bytes of {meta.dtype}, "
                f"its section has {section.size} of {native.DTYPE_NAMES.get(section.dtype)}"
            )
        return self.file.array(section.offset, meta.shape, dtype)

    def fingerprint(self) -> str:
        """Return an identifier of the content: sizes and checksums of all sections."""
        return repr((self.file.size, *(tuple(row) for row in self.rows)))

    def short_fingerprint(self) -> str:
        """Return a hash of :meth:`fingerprint`, 16 digits."""
        return hashlib.blake2b(self.fingerprint().encode(), digest_size=8).hexdigest()


_CONTENTS = {
    native.CONTENT_GRAPH: ("a graph file", "a graph", "Graph.load"),
    native.CONTENT_FEATURES: ("a feature file", "features", "FeatureTable.load"),
    native.CONTENT_KEYS: ("a map of ids", "a map of ids", "IdMap.load"),
}


def check_fingerprint(path: str, expected: str, actual: str) -> None:
    """Raise FileChangedError unless the file is the one that a pickle by path was made from."""
    if expected != actual:
        raise FileChangedError(
            errno.ESTALE, f"{path}: the file is not the one that was opened", path
        )


def write_meta(writer: native.NativeWriter, meta: FileMeta) -> None:
    """Write the META section."""
    writer.begin(native.SECTION_META, 0, native.DTYPE_CODES["uint8"])
    writer.append(meta.encode())
    writer.end()
