"""Opening of container files, with advice in the errors about files of other kinds."""

from __future__ import annotations

import errno
import os
from typing import Final

from aethergraph import _native as native
from aethergraph.errors import FormatError, StorageError
from aethergraph.storage.live_directory import is_live_directory

__all__ = ["open_container"]

_EDGES: Final = (
    "convert it first: aethergraph convert -i {0} -o graph.aeg where it holds edges, and with "
    "--features {0} where it holds rows of features"
)
_TORCH: Final = (
    "load it with its own library, then Graph.from_edges, or aethergraph.pyg.from_data and "
    "aethergraph.dgl.from_dgl"
)
#: First bytes of a file, its kind, and the advice for the user.
_BEGINNINGS: Final = (
    (
        b"\x93NUMPY",
        ".npy array",
        "features: graph.load_features(path); edges: aethergraph convert -i {} -o graph.aeg",
    ),
    (b"PAR1", "Parquet file", _EDGES),
    (b"graphlit", "graph of GraphZero", "aethergraph convert -i {} -o graph.aeg, or read_gl"),
    (b"GZDATA26", "table of GraphZero", "open it with aethergraph.convert.read_gd"),
    (b"\x1f\x8b", "gzip file", f"of text: {_EDGES}"),
    (b"BZh", "bzip2 file", f"of text: {_EDGES}"),
    (b"\x28\xb5\x2f\xfd", "zstd file", f"of text: {_EDGES}"),
    (b"PK\x03\x04", "zip archive (.npz, or saved by torch)", f"{_TORCH}; .npz: numpy.load"),
    (b"\x80", "pickle", _TORCH),
    (b"\x89HDF", "HDF5 file", "read its arrays with h5py, then Graph.from_edges"),
    (b"ARROW1", "Arrow file", "write it as Parquet first"),
)
_TEXT: Final = bytes([9, 10, 12, 13, *range(32, 127), *range(128, 256)])  # includes UTF-8


def open_container(path: native.Path) -> native.NativeFile:
    """Open a graph or feature file.

    Raises:
        MissingFileError, StorageError: the file cannot be opened.
        FormatError, TruncatedFileError, CorruptFileError, VersionError: the file is damaged, or of
            another kind; the message says what kind it seems to be.
    """
    try:
        return native.NativeFile(path)
    except FormatError as error:
        advice = _describe(path)
        if advice is None:
            raise
        message = f"{error}{advice}"
        raise type(error)(message, position=error.position, value=error.value) from None
    except StorageError as error:
        if error.errno != errno.EISDIR:
            raise
        raise StorageError(errno.EISDIR, _describe_folder(path), os.fsdecode(path)) from None


def _describe_folder(path: native.Path) -> str:
    name = os.fsdecode(path)
    if is_live_directory(name):
        return (
            f"{name} is the directory of a live graph: DynamicGraph.open(path) opens it, and "
            ".attach(path) while another process has it open; save(file) of either writes a graph "
            "file"
        )
    return f"cannot open {name!r}: it is a directory, and no live graph is in it"


def _describe(path: native.Path) -> str | None:
    name = os.fsdecode(path)
    try:
        with open(path, "rb") as file:
            head = file.read(512)
    except OSError:
        return None
    if not head or head.startswith(b"AETHERG"):
        return None
    for beginning, kind, advice in _BEGINNINGS:
        if head.startswith(beginning):
            return f": it seems to be a {kind}; {advice.format(name)}"
    if head.lstrip()[:1] in (b"{", b"<"):
        return ": it seems to be JSON or XML; read it with its own library, then Graph.from_edges"
    if not head.translate(None, _TEXT):
        return f": it seems to be text; {_EDGES.format(name)}"
    return ""
