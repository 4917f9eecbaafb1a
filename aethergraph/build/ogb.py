"""Folders of the Open Graph Benchmark's node datasets, read without the ``ogb`` package.

Four layouts, as ``ogb/io/read_graph_raw.py`` reads them::

    raw/edge.csv.gz  num-node-list  node-feat  edge-feat  node_*  edge_*  node-label (.csv.gz)
    raw/data.npz  node-label.npz
    raw/triplet-type-list.csv.gz  num-node-dict.csv.gz  relations/<a>___<to>___<b>/edge.csv.gz
        node-feat/<type>/node-feat.csv.gz  node-label/<type>/node-label.csv.gz
    raw/edge_index_dict.npz  num_nodes_dict.npz  node_*.npz  edge_*.npz  node-label.npz

and beside them ``split/<name>/[<type>/]train.csv.gz``, ``valid.csv.gz`` and ``test.csv.gz``.
"""

from __future__ import annotations

import csv
import gzip
import logging
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from aethergraph._adjacency import Layout
from aethergraph.build.source import Field, InputError, PathLike, check_readable
from aethergraph.build.text import TextTable
from aethergraph.errors import InvalidArgumentError, MissingFileError
from aethergraph.graph import Graph
from aethergraph.hetero import EdgeType, HeteroGraph

__all__ = ["read_ogb"]

log = logging.getLogger("aethergraph")

Array: TypeAlias = npt.NDArray[Any]

_MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
#: What PyG calls them.
_NAMES = {"node_feat": "x", "edge_feat": "edge_attr", "node_label": "y"}


def read_ogb(
    folder: PathLike,
    *,
    split: str | None = None,
    add_reverse: bool = False,
    layout: Layout = "csc",
    keep_order: bool = False,
) -> Graph | HeteroGraph:
    """The graph in a folder of an OGB node dataset, with features, labels and splits::

        graph = read_ogb("dataset/ogbn_arxiv")
        graph.save("arxiv.aeg")
        graph.features, graph.node_attrs["y"], graph.node_attrs["train_mask"]

    Node features become ``node_attrs["x"]``, edge features ``edge_attrs["edge_attr"]``, labels
    ``node_attrs["y"]``, the split ``train_mask``, ``val_mask`` and ``test_mask``; other files keep
    their names (``node_year``, ``edge_reltype``). Text becomes int64 or float32, as in OGB. Labels
    and these others are vectors where they have one column.

    Everything is read into memory. ``.csv.gz`` files need pyarrow.

    Args:
        folder: the one that holds ``raw`` (and ``split``).
        split: a folder in ``split``; None takes the only one there is. One that is kept as a torch
            file (``split_dict.pt``) is left out, which is logged.
        add_reverse: one type: every edge the other way round as well, right after it, as OGB does
            for ogbn-products and ogbn-proteins (``add_inverse_edge``), whose files hold one
            direction. Many types: see :meth:`HeteroGraph.from_edges`.
        layout, keep_order: as in ``from_edges``; the input order is that of the files.

    Raises:
        MissingFileError: not such a folder, or a file of it that is not there.
        InputError: what is wrong in a file. InvalidArgumentError: which splits there are.
    """
    root = Path(folder)
    raw = root / "raw"
    options: dict[str, Any] = {"layout": layout, "keep_order": keep_order}
    for name, read in _LAYOUTS.items():
        if (raw / name).is_file():
            content = read(raw)
            break
    else:
        names = ", ".join(f"raw/{name}" for name in _LAYOUTS)
        raise MissingFileError(
            2, f"{root}: no folder of an OGB node dataset, it holds none of {names}", str(root)
        )
    _read_split(root, split, content)
    if not content.typed:
        return _build_one(content, add_reverse, options)
    graph = HeteroGraph.from_edges(
        content.edges, content.num_nodes, edge_attrs=content.edge_attrs, add_reverse=add_reverse,
        **options,
    )  # fmt: skip
    for node_type, attrs in content.node_attrs.items():
        for name, rows in attrs.items():
            graph[node_type].attrs[name] = rows
    return graph


@dataclass
class _Content:
    """What a folder holds; a dataset of one type has the names of a ``Graph``'s file."""

    edges: dict[EdgeType, tuple[Array, Array]]
    num_nodes: dict[str, int]
    typed: bool = True
    node_attrs: dict[str, dict[str, Array]] = field(default_factory=dict)
    edge_attrs: dict[EdgeType, dict[str, Array]] = field(default_factory=dict)

    def add_nodes(self, kind: str, name: str, rows: Array, path: Path) -> None:
        if kind not in self.num_nodes:
            raise InputError(path, f"{kind!r} is no node type of the graph")
        table = self.node_attrs.setdefault(kind, {})
        table[_NAMES.get(name, name)] = _check(rows, self.num_nodes[kind], name, path)

    def add_edges(self, kind: EdgeType, name: str, rows: Array, path: Path) -> None:
        if kind not in self.edges:
            raise InputError(path, f"{kind!r} is no edge type of the graph")
        table = self.edge_attrs.setdefault(kind, {})
        table[_NAMES.get(name, name)] = _check(rows, len(self.edges[kind][0]), name, path)


def _check(rows: Array, count: int, name: str, path: Path) -> Array:
    if rows.ndim == 0 or len(rows) != count:
        raise InputError(path, f"{name} has shape {list(rows.shape)}, but needs {count} rows")
    if name not in ("node_feat", "edge_feat") and rows.ndim == 2 and rows.shape[1] == 1:
        return rows[:, 0].copy()
    return rows


_NODE = "node"
_EDGE: EdgeType = (_NODE, "to", _NODE)


def _build_one(content: _Content, add_reverse: bool, options: dict[str, Any]) -> Graph:
    src, dst = content.edges[_EDGE]
    attrs = content.edge_attrs.get(_EDGE, {})
    if add_reverse:
        src, dst = np.stack([src, dst], axis=1).reshape(-1), np.stack([dst, src], 1).reshape(-1)
        attrs = {name: np.repeat(rows, 2, axis=0) for name, rows in attrs.items()}
    graph = Graph.from_edges(content.num_nodes[_NODE], src, dst, edge_attrs=attrs, **options)
    for name, rows in content.node_attrs.get(_NODE, {}).items():
        graph.node_attrs[name] = rows
    return graph


# ---- the four layouts ------------------------------------------------------------------------


def _read_text(raw: Path) -> _Content:
    path = raw / "num-node-list.csv.gz"
    count = _only(_read_table(path), path)
    edges = _read_edges(raw / "edge.csv.gz", count, count)
    content = _Content({_EDGE: edges}, {_NODE: count}, typed=False)
    _add_files(content, _NODE, raw)
    _add_files(content, _EDGE, raw)
    if (raw / "node-label.csv.gz").is_file():
        path = raw / "node-label.csv.gz"
        content.add_nodes(_NODE, "node_label", _read_table(path), path)
    return content


def _read_binary(raw: Path) -> _Content:
    path = raw / "data.npz"
    arrays = _read_npz(path)
    for name in ("edge_index", "num_nodes_list"):
        if name not in arrays:
            raise InputError(path, f"holds no array {name!r}; it holds {', '.join(arrays)}")
    ends = _two_rows(arrays.pop("edge_index"), path)
    count = _only(arrays.pop("num_nodes_list"), path)
    content = _Content({_EDGE: ends}, {_NODE: count}, typed=False)
    for name, rows in arrays.items():
        if name.startswith("node_"):
            content.add_nodes(_NODE, name, rows, path)
        elif name.startswith("edge_"):
            content.add_edges(_EDGE, name, rows, path)
    if (raw / "node-label.npz").is_file():
        path = raw / "node-label.npz"
        for name, rows in _read_npz(path).items():
            content.add_nodes(_NODE, name, rows, path)
    return content


def _read_typed_text(raw: Path) -> _Content:
    triplets = sorted(_read_strings(raw / "triplet-type-list.csv.gz"))
    path = raw / "num-node-dict.csv.gz"
    lines = _read_strings(path)
    if len(lines) != 2 or len(lines[0]) != len(lines[1]) or not all(map(_is_count, lines[1])):
        raise InputError(path, "is not a line of node types and a line of counts, for one graph")
    content = _Content({}, {n: int(c) for n, c in sorted(zip(*lines, strict=True))})
    for triplet in triplets:
        if len(triplet) != 3 or not {triplet[0], triplet[2]} <= set(content.num_nodes):
            raise InputError(
                raw / "triplet-type-list.csv.gz", f"{triplet} is not a type, a relation and a type"
            )
        kind: EdgeType = (triplet[0], triplet[1], triplet[2])
        relation = raw / "relations" / "___".join(kind)
        ends = content.num_nodes[kind[0]], content.num_nodes[kind[2]]
        content.edges[kind] = _read_edges(relation / "edge.csv.gz", *ends)
        _add_files(content, kind, relation)
    for name in content.num_nodes:
        _add_files(content, name, raw / "node-feat" / name)
        path = raw / "node-label" / name / "node-label.csv.gz"
        if path.is_file():
            content.add_nodes(name, "node_label", _read_table(path), path)
    return content


def _read_typed_binary(raw: Path) -> _Content:
    def by_type(path: Path) -> dict[EdgeType, Array]:
        found: dict[EdgeType, Array] = {}
        for name, rows in sorted(_read_npz(path).items()):
            names = name.split("___")
            if len(names) != 3:
                raise InputError(path, f"{name!r} is not three names joined by '___'")
            found[names[0], names[1], names[2]] = rows
        return found

    path = raw / "edge_index_dict.npz"
    edges = {kind: _two_rows(ends, path) for kind, ends in by_type(path).items()}
    path = raw / "num_nodes_dict.npz"
    content = _Content(edges, {n: _only(c, path) for n, c in sorted(_read_npz(path).items())})
    for path in sorted(raw.glob("node_*.npz")):
        for kind, rows in _read_npz(path).items():
            content.add_nodes(kind, path.stem.removesuffix("_dict"), rows, path)
    for path in sorted(raw.glob("edge_*.npz")):
        if path.name != "edge_index_dict.npz":
            for triplet, rows in by_type(path).items():
                content.add_edges(triplet, path.stem.removesuffix("_dict"), rows, path)
    if (raw / "node-label.npz").is_file():
        for kind, rows in _read_npz(raw / "node-label.npz").items():
            content.add_nodes(kind, "node_label", rows, raw / "node-label.npz")
    return content


_LAYOUTS = {
    "data.npz": _read_binary,
    "edge_index_dict.npz": _read_typed_binary,
    "triplet-type-list.csv.gz": _read_typed_text,
    "edge.csv.gz": _read_text,
}


def _add_files(content: _Content, kind: Any, folder: Path) -> None:
    """Features, and the tables that are named ``node_...`` or ``edge_...``."""
    what = "edge" if isinstance(kind, tuple) else "node"
    add = content.add_edges if what == "edge" else content.add_nodes
    paths = [folder / f"{what}-feat.csv.gz", *sorted(folder.glob(f"{what}_*.csv.gz"))]
    if what == "node" and (folder / "species.csv.gz").is_file():  # as ogbn-proteins comes
        paths.append(folder / "species.csv.gz")
    for path in paths:
        if not path.is_file():
            continue
        name = path.name.removesuffix(".csv.gz").replace("-", "_")
        name = "node_species" if name == "species" else name
        add(kind, name, _read_table(path), path)


# ---- splits ----------------------------------------------------------------------------------


def _read_split(root: Path, split: str | None, content: _Content) -> None:
    folder = root / "split"
    names = sorted(path.name for path in folder.glob("*") if path.is_dir())
    if split is None and len(names) == 1:
        split = names[0]
    if split is None and not names:
        return
    if split not in names:
        known = ", ".join(map(repr, names)) or "none"
        raise InvalidArgumentError(f"split = {split!r} is not one of: {known}")
    found = False
    for kind, count in content.num_nodes.items():
        place = folder / split / kind if content.typed else folder / split
        for part, mask_name in _MASKS.items():
            path = place / f"{part}.csv.gz"
            if not path.is_file():
                continue
            found = True
            ids = _read_table(path, limits=(count,))[:, 0]
            mask = np.zeros(count, np.bool_)
            mask[ids] = True
            content.add_nodes(kind, mask_name, mask, path)
    if not found:
        log.warning("read_ogb: %s holds no .csv.gz files: no masks are made", folder / split)


# ---- files -----------------------------------------------------------------------------------


def _read_edges(path: Path, num_src: int, num_dst: int) -> tuple[Array, Array]:
    return _two_rows(_read_table(path, limits=(num_src, num_dst)).T, path)


def _two_rows(ends: Array, path: Path) -> tuple[Array, Array]:
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise InputError(
            path, f"edges are two integers each, got shape {list(ends.shape)} of {ends.dtype}"
        )
    return np.ascontiguousarray(ends[0]), np.ascontiguousarray(ends[1])


def _only(counts: Array, path: Path) -> int:
    if counts.size != 1:
        raise InputError(path, f"holds {counts.size} graphs; node datasets have one")
    return int(counts.reshape(-1)[0])


def _read_table(path: Path, *, limits: Sequence[int] | None = None) -> Array:
    """A text file as int64 [n, d] if all of it is integers, else float32.

    ``limits`` says that it has that many columns of ids, and what they are below.
    """
    table = TextTable(path, delimiter=",", header=False)
    columns = range(table.num_columns)
    if limits is not None:
        if table.num_columns != len(limits):
            raise InputError(path, f"has {table.num_columns} columns instead of {len(limits)}")
        ids = [Field("id", c, "int64", is_id=True, limit=limits[c]) for c in columns]
        return _read_columns(table, ids, "i8")
    if all(table.is_integral(column) for column in columns):
        try:
            return _read_columns(table, [Field("value", c, "int64") for c in columns], "i8")
        except InputError:  # floats further down
            pass
    return _read_columns(table, [Field("value", c, "float32") for c in columns], "f4")


def _read_columns(table: TextTable, fields: list[Field], dtype: str) -> Array:
    chunks = [np.stack(arrays, axis=1) for arrays in table.chunks(fields)]
    return np.concatenate(chunks or [np.empty((0, len(fields)), dtype)])


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _read_strings(path: Path) -> list[list[str]]:
    """The lines of a small text file."""
    check_readable(path)
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return [row for row in csv.reader(file) if row]
    except (OSError, EOFError, UnicodeDecodeError, zlib.error, csv.Error) as error:
        raise InputError(path, f"cannot be read: {error}") from error


def _read_npz(path: Path) -> dict[str, Array]:
    check_readable(path)
    try:
        arrays = np.load(path, allow_pickle=False)
        if not isinstance(arrays, np.lib.npyio.NpzFile):
            raise InputError(path, "is one array, not an archive of arrays (.npz)")
        with arrays:
            return {name: arrays[name] for name in arrays}
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(path, f"cannot be read: {error}") from error
