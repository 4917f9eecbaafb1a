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
another build are refused.

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
from aethergraph._checks.times import is_unit
from aethergraph.errors import CorruptFileError, FileChangedError, FormatError, VersionError

__all__ = [
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
_KEY_TYPES = ("int64", "uint64", "uuid", "str", "bytes")


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
        if self.keys is not None:
            one = self.keys
            content["keys"] = {"types": one.types, "count": one.count, "first_id": one.first_id}
            if one.by_bytes:
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
        try:
            content = json.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: the description (META) is not JSON: {error}") from error
        return _Decoder(path).decode(content)


class _Decoder:
    """Parser of JSON into FileMeta; every deviation is a FormatError that names the entry."""

    def __init__(self, path: str) -> None:
        self.path = path

    def decode(self, content: Any) -> FileMeta:
        self.require(isinstance(content, dict), "is not an object")
        version = self.integer(content, "version", "META")
        if version > META_VERSION:
            raise VersionError(
                f"{self.path}: its description has version {version}, this AetherGraph reads up "
                f"to {META_VERSION}; install a newer one"
            )
        node_types = tuple(
            NodeType(self.text(n, "name", "node type"), self.integer(n, "num_nodes", "node type"))
            for n in self.objects(content, "node_types")
        )
        edge_types = tuple(
            EdgeType(
                self.integer(e, "source", "edge type", below=len(node_types)),
                self.text(e, "name", "edge type"),
                self.integer(e, "destination", "edge type", below=len(node_types)),
                self.integer(e, "num_edges", "edge type"),
            )
            for e in self.objects(content, "edge_types")
        )
        arrays = tuple(
            self.array(a, len(node_types), len(edge_types)) for a in self.objects(content, "arrays")
        )
        keys = [(a.of, a.type, a.name) for a in arrays]
        self.require(len(set(keys)) == len(keys), "names an array twice")
        unit = content.get("time_unit")
        if unit is not None:
            self.require(is_unit(unit), f"has the unknown time_unit {unit!r}")
        zone = content.get("time_zone")
        self.require(zone is None or isinstance(zone, str), "has no proper 'time_zone'")
        time_attr = content.get("time_attr")
        self.require(time_attr in (None, "edge_time"), "has no proper 'time_attr'")
        beside: Any = content.get("beside", {})
        proper = isinstance(beside, dict) and all(isinstance(one, str) for one in beside.values())
        self.require(proper, "has no proper 'beside'")
        by, commit = self.keys(content), self.commit(content)
        return FileMeta(node_types, edge_types, arrays, unit, by, zone, time_attr, beside, commit)

    def commit(self, content: dict[str, Any]) -> tuple[str, int] | None:
        entry: Any = content.get("commit")
        if entry is None:
            return None
        self.require(isinstance(entry, dict), "has no proper 'commit'")
        return self.text(entry, "graph", "commit"), self.integer(entry, "lsn", "commit")

    def keys(self, content: dict[str, Any]) -> KeysMeta | None:
        entry: Any = content.get("keys")
        if entry is None:
            return None
        self.require(isinstance(entry, dict), "has no proper 'keys'")
        types = entry.get("types")
        proper = isinstance(types, list) and 1 <= len(types) <= 64
        proper = proper and all(one in _KEY_TYPES for one in types)
        self.require(proper, "has keys of unknown types")
        count, first = (self.integer(entry, name, "keys") for name in ("count", "first_id"))
        self.require(count + first < 1 << 62, "has too many keys")
        return KeysMeta(tuple(types), count, first, entry.get("equal_hashes") == "by bytes")

    def array(self, entry: dict[str, Any], num_node_types: int, num_edge_types: int) -> ArrayMeta:
        of = self.text(entry, "of", "array")
        limits = {"node": num_node_types, "edge": num_edge_types, "row": 1}
        self.require(of in limits, f"has an array of unknown owner {of!r}")
        dtype = self.text(entry, "dtype", "array")
        self.require(dtype in native.DTYPE_CODES, f"has an array of unknown dtype {dtype!r}")
        shape: Any = entry.get("shape")
        self.require(
            isinstance(shape, list) and 1 <= len(shape) <= 32 and all(map(_is_count, shape)),
            "has an array without a proper shape",
        )
        return ArrayMeta(
            self.text(entry, "name", "array"),
            of,  # type: ignore[arg-type]
            self.integer(entry, "type", "array", below=limits[of]),
            dtype,
            tuple(shape),
        )

    def require(self, condition: bool, complaint: str) -> None:
        if not condition:
            raise FormatError(f"{self.path}: its description (META) {complaint}")

    def objects(self, content: dict[str, Any], key: str) -> list[dict[str, Any]]:
        entries = content.get(key, [])
        proper = isinstance(entries, list) and all(isinstance(e, dict) for e in entries)
        self.require(proper, f"has no proper list {key!r}")
        return list(entries)

    def integer(
        self, entry: dict[str, Any], key: str, what: str, below: int | None = None
    ) -> int:  # fmt: skip
        value: Any = entry.get(key)
        proper = _is_count(value) and (below is None or value < below)
        self.require(proper, f"has no proper {key!r} in {what}")
        return int(value)

    def text(self, entry: dict[str, Any], key: str, what: str) -> str:
        value = entry.get(key)
        self.require(isinstance(value, str) and value != "", f"has no proper {key!r} in {what}")
        return str(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


class SectionTable:
    """Sections of an open file by (kind, owner), with the checks that META makes possible."""

    def __init__(self, file: native.NativeFile, content: int) -> None:
        self.file = file
        self.path = file.path
        if file.content != content:
            found, _, way = _CONTENTS[file.content]
            wanted = _CONTENTS[content][1]
            raise FormatError(f"{self.path}: this is {found}, not {wanted}; open it with {way}")
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
        self, kind: int, owner: int, length: int | None, dtypes: tuple[str, ...], what: str
    ) -> NDArray[Any] | None:  # fmt: skip
        """Return the section as a vector of ``length`` (None: any); None if the file has none."""
        section = self._by_key.get((kind, owner))
        if section is None:
            return None
        name = native.DTYPE_NAMES.get(section.dtype)
        if name not in dtypes:
            raise CorruptFileError(f"{self.path}: {what} has dtype {name or section.dtype}")
        itemsize = native.ARRAY_DTYPES[section.dtype].itemsize
        if length is not None and section.size != length * itemsize:
            raise CorruptFileError(
                f"{self.path}: {what} has {section.size} bytes instead of {length} x {itemsize}"
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
    native.CONTENT_FEATURES: ("a feature file", "features", "FeatureStore.load"),
    native.CONTENT_KEYS: ("a map of ids", "a map of ids", "IdMap.load"),
}


def check_fingerprint(path: str, expected: str, found: str) -> None:
    """Raise FileChangedError unless the file is the one that a pickle by path was made from."""
    if expected != found:
        raise FileChangedError(
            errno.ESTALE, f"{path}: the file is not the one that was opened", path
        )


def write_meta(writer: native.NativeWriter, meta: FileMeta) -> None:
    """Write the META section."""
    writer.begin(native.SECTION_META, 0, native.DTYPE_CODES["uint8"])
    writer.append(meta.encode())
    writer.end()
