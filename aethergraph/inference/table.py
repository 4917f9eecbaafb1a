"""KeptLayers: the rows of every layer on disk, so that a later call computes what has changed.

::

    OUT.npy                        the rows of the last layer
    OUT.npy.layers/
        layer-0.npy ...            the rows of the layers before it, of all nodes
        features.npy               a hash of each row of the features
        manifest.json              what all of it is made of: layers, options, graph, and its commit

Of a typed graph there is a file of each type that has such rows, ``layer-0-paper.npy``, in a folder
``.layers`` among the outputs.

Layers are changed in place, and ``manifest.json`` says so before: ``going_to``, the commit that
they are brought to. Whatever a kill leaves of them, every row that is not as of the commit that was
recorded last is one of those that a later call computes again, for what has changed up to a commit
is among what has changed up to a later one. Two things would not be seen again, and are recorded:
that commit itself, as no earlier one will do then, and the rows of features that had changed, as
they may have changed back.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph.convert.external.journal import (
    Journal,
    changed_inputs,
    changed_options,
    load_manifest,
)
from aethergraph.convert.inputs import input_state
from aethergraph.dynamic.attrs import SnapshotRows
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.inference.layer_file import LayerFile, map_rows
from aethergraph.protocols import AnyGraph, RowSource
from aethergraph.storage.scratch import storage_error

__all__ = [
    "HASHES", "OUTPUT", "Ids", "KeptLayers", "describe_moment", "file_name", "hash_features",
    "hash_rows", "layer_name", "name_in_files", "origin_of", "read_hashes",
]  # fmt: skip

Ids = NDArray[np.int64]
#: Files of the folder: of the hashes of features; of changed rows, by number; of an output to come.
HASHES, _CHANGED_ROWS, OUTPUT = "features", "changed", "output"
_READ, _HASHED = 1 << 16, 1 << 14  # rows that are read, and hashed, at a time
#: What a hash is made with: the finalizer of MurmurHash3, one to one for a word of 8 bytes.
_FACTORS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
#: Parts of a command that messages do not call by their names in it.
_DESCRIBED = ("inputs", "graph", "layers", "edge_attrs")
_STEP = np.uint64(0x9E3779B97F4A7C15)


def layer_name(number: int) -> str:
    """Return the name of the file of a layer, as :func:`file_name` takes it."""
    return f"layer-{number}"


def name_in_files(node_type: str) -> str:
    """Return the name of a type as that of a file: ``a/b`` is ``a%2Fb``."""
    return node_type.replace("%", "%25").replace("/", "%2F")


def file_name(name: str, node_type: str, is_typed: bool) -> str:
    """Return the name of a file for the nodes of a type, with the type where users name types."""
    return f"{name}-{name_in_files(node_type)}.npy" if is_typed else f"{name}.npy"


class KeptLayers(Journal):
    """Folder beside an output with the rows of its layers, and the record of what they are of.

    Args:
        output: the output; of a typed graph the folder of the outputs.
        command: what decides the rows but for the commit, and rows of features.
        graph: the graph at its moment.
        features: what the first layer reads, by node type.
        restart: a record that cannot be read is none.

    Attributes:
        output: absolute path of the output, or folder.
        now: moment of the graph, as :func:`describe_moment` gives it.
        features: by node type, what tells rows that know what has changed from others.

    Raises:
        InvalidArgumentError: another process works in it, or its record cannot be read.
        StorageError: it cannot be written.
    """

    SUFFIX = ".layers"

    def __init__(
        self, output: str, command: dict[str, Any], graph: AnyGraph,
        features: Mapping[str, RowSource], restart: bool,
    ) -> None:  # fmt: skip
        self.output, self._is_typed = os.path.abspath(output), graph.is_typed
        self.now = describe_moment(graph)
        self.features = {
            name: {"memory": rows.memory.inode} if isinstance(rows, SnapshotRows) else {}
            for name, rows in features.items()
        }
        self._kept: dict[str, Any] = {}
        self._restarts = restart
        super().__init__(os.path.join(output, "") if self._is_typed else output, command, False)

    def _read(self) -> None:
        try:
            known = load_manifest(self.folder)
        except InvalidArgumentError as error:
            if not self._restarts:
                raise InvalidArgumentError(
                    f"{error}, with force=True if there is an output"
                ) from None
            known = None
        if known is None:
            self._empty()
        else:
            self.state, self._kept = known["state"], known["command"]

    def __enter__(self) -> KeptLayers:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove_if_new()

    def differences(self) -> list[str]:
        """Describe what the rows are of that is another one now."""
        before, now = self._kept, self._command
        return [
            *_graph_differences(before, now),
            *_layer_differences(before["layers"], now["layers"]),
            *_attr_differences(before["edge_attrs"], now["edge_attrs"]),
            *changed_options(*({name: some[name] for name in some if name not in _DESCRIBED}
                               for some in (before, now))),
        ]  # fmt: skip

    def is_ours(self, path: str) -> bool:
        """Return whether a file is an output that belongs to the layers."""
        known = [state for some in (self.state, self.state.get("going_to", {}))
                 for state in some.get("outputs", [])]  # fmt: skip
        try:
            return input_state(path) in known
        except OSError:
            return False

    def file(self, name: str, node_type: str) -> str:
        """Return the path of a file for the nodes of a type."""
        return self.path(file_name(name, node_type, self._is_typed))

    @property
    def earliest(self) -> dict[str, Any]:
        """Moment that the graph must have reached for the layers to be brought there."""
        moment: dict[str, Any] = self.state.get("going_to", self.state)["moment"]
        return moment

    def forget(self) -> None:
        """Record that the folder holds nothing, before its files are replaced."""
        self._forget()
        self.state = {}

    def finish_with(self, counts: dict[str, int], forms: Any, outputs: Sequence[str]) -> None:
        """Record that all rows are those of this moment.

        Args:
            counts: numbers of nodes by type.
            forms: shapes of a row and dtypes of the layers by node type, in JSON's types.
            outputs: the outputs.
        """
        self.record(
            moment=self.now, nodes=counts, forms=forms, features=self.features,
            outputs=[input_state(path) for path in outputs],
        )  # fmt: skip

    def intend(self, changed: Mapping[str, Ids], outputs: Iterable[str]) -> None:
        """Record that rows will be brought to this moment, and which rows of features differ.

        The outputs may be those that a process has placed which was killed then.
        """
        for node_type, ids in changed.items():
            self._save(self.file(_CHANGED_ROWS, node_type), ids)
        states = [input_state(path) for path in outputs]
        self.record(**{**self.state, "going_to": {"moment": self.now, "outputs": states}})

    def intend_outputs(self, fresh: Mapping[str, str]) -> None:
        """Record that files take the places of outputs, which go by the paths of these files."""
        states = [{**input_state(path), "path": os.path.abspath(output)}
                  for path, output in fresh.items()]  # fmt: skip
        before = self.state["going_to"]
        going_to = {**before, "outputs": [*before["outputs"], *states]}
        self.record(**{**self.state, "going_to": going_to})

    def left_changed(self, node_type: str) -> Ids:
        """Return the rows of features that differed when a process was killed."""
        if "going_to" not in self.state:
            return np.empty(0, np.int64)
        return self.load(_CHANGED_ROWS, node_type)

    def load(self, name: str, node_type: str) -> NDArray[Any]:
        """Return the array in a file of the folder, mapped.

        Raises:
            WorkFileError: it cannot be read.
        """
        return map_rows(self.file(name, node_type))

    def _save(self, path: str, array: NDArray[Any]) -> None:
        """Write a small array to a file of the folder, durably and at once or not at all."""
        fresh = f"{path}.tmp"
        try:
            with open(fresh, "wb") as file:
                np.save(file, array)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, path)
        except OSError as error:
            raise storage_error(error, path) from None


def _graph_differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    texts = changed_inputs(before["inputs"], now["inputs"])
    paths = [[state["path"] for state in some["inputs"]] for some in (before, now)]
    if all(paths) and paths[0] != paths[1]:
        texts.append(f"{', '.join(paths[1])} instead of {', '.join(paths[0])}")
    if not texts and (paths[0] != paths[1] or before["graph"] != now["graph"]):
        return ["another graph"]
    return [f"graph file {text}" for text in texts]


def _layer_differences(before: list[Any], now: list[Any]) -> list[str]:
    if len(before) != len(now):
        return [f"there were {len(before)} layers and are {len(now)}"]
    texts = list[str]()
    for number, (old, new) in enumerate(zip(before, now, strict=True)):
        if old["name"] != new["name"]:
            texts.append(f"layers[{number}] was {old['name']} and is {new['name']}")
        elif old != new:
            texts.append(f"layers[{number}] ({new['name']}): its weights, options or code differ")
    return texts


def _attr_differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    if before.keys() != now.keys():
        names = [", ".join(some) or "none" for some in (before, now)]
        return [f"attributes of edges were {names[0]} and are {names[1]}"]
    return [f"attribute {name!r} of edges differs" for name in now if now[name] != before[name]]


def describe_moment(graph: Any) -> dict[str, Any]:
    """Return which commit a graph is at, in its memory and in its log."""
    snapshot = graph.native_snapshot
    if snapshot is None:
        return {"memory": "", "commit": 0, "lsn": 0}
    return {
        "memory": snapshot.store.memory_name, "commit": int(snapshot.commit),
        "lsn": int(snapshot.lsn), "origin": origin_of(graph, int(snapshot.lsn)),
    }  # fmt: skip


def origin_of(graph: Any, lsn: int) -> str | None:
    """Return what tells a commit of a graph from others of its number; None: it is not known."""
    store = graph.native_snapshot.store
    path = store.path or store.replayed_path
    with suppress(AetherError, OSError):
        return None if path is None else LiveDirectory(path).origin(lsn)
    return None


def hash_rows(rows: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each row, uint64 [n].

    Two rows that differ in one word of 8 bytes have different ones; others almost surely.
    """
    out = np.zeros(len(rows), np.uint64)
    data = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8)
    width = -(-data.shape[1] // 8)
    keys = np.arange(1, width + 1, dtype=np.uint64) * _STEP
    words = np.zeros((min(_HASHED, len(rows)), width * 8), np.uint8)
    for start in range(0, len(rows), _HASHED):
        part = data[start : start + _HASHED]
        words[: len(part), : data.shape[1]] = part
        bits = words[: len(part)].view(np.uint64) ^ keys
        for factor in _FACTORS:
            bits ^= bits >> np.uint64(33)
            bits *= factor
        bits ^= bits >> np.uint64(33)
        out[start : start + len(part)] = bits.sum(axis=1, dtype=np.uint64)
    return out


def read_hashes(rows: RowSource, count: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Yield the hashes of the first ``count`` rows, and where they begin, a stretch at a time."""
    for start in range(0, count, _READ):
        yield start, hash_rows(rows.read(start, min(start + _READ, count)))


def hash_features(rows: RowSource, path: str, report: native.Progress) -> None:
    """Write the hashes of all rows to a .npy file."""
    count = rows.num_rows
    with LayerFile(path, (count,), np.dtype(np.uint64)) as file:
        for _, hashes in read_hashes(rows, count):
            file.append(hashes)
            report(file.rows, count)
        file.sync()
