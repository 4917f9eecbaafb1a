"""Folders of the Open Graph Benchmark's node datasets, read without the ``ogb`` package.

Four layouts are read, those of ``ogb/io/read_graph_raw.py``::

    raw/edge.csv.gz  num-node-list  node-feat  edge-feat  node_*  edge_*  node-label (.csv.gz)
    raw/data.npz  node-label.npz
    raw/triplet-type-list.csv.gz  num-node-dict.csv.gz  relations/<a>___<to>___<b>/edge.csv.gz
        node-feat/<type>/node-feat.csv.gz  node-label/<type>/node-label.csv.gz
    raw/edge_index_dict.npz  num_nodes_dict.npz  node_*.npz  edge_*.npz  node-label.npz

and beside them ``split/<name>/[<type>/]train.csv.gz``, ``valid.csv.gz`` and ``test.csv.gz``.
"""

from __future__ import annotations

import csv
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from aethergraph._native import encode_path
from aethergraph.convert.formats.untrusted import (
    check_ends,
    check_memory,
    decoding,
    naming,
    path_below,
    read_npz,
    read_table,
    read_text,
    shorten,
)
from aethergraph.convert.readers.base import InputError, PathLike
from aethergraph.errors import InvalidArgumentError, MissingFileError
from aethergraph.graph.adjacency import Layout
from aethergraph.graph.graph import Graph
from aethergraph.graph.hetero import EdgeType, HeteroGraph

__all__ = ["read_ogb"]

log = logging.getLogger("aethergraph")

Array: TypeAlias = npt.NDArray[Any]

_SMALL = 16 << 20  # most bytes of a list of names, decompressed
_MASKS = {"train": "train_mask", "valid": "val_mask", "test": "test_mask"}
#: PyG's names of the files' arrays.
_NAMES = {"node_feat": "x", "edge_feat": "edge_attr", "node_label": "y"}


def read_ogb(
    folder: PathLike,
    *,
    split: str | None = None,
    add_reverse: bool = False,
    layout: Layout = "csc",
    keep_order: bool = False,
) -> Graph | HeteroGraph:
    """Return the graph in a folder of an OGB node dataset, with features, labels and splits.

        Example::

            graph = read_ogb("dataset/ogbn_arxiv")
        graph.save("arxiv.aeg")
        graph.features, graph.node_attrs["y"], graph.node_attrs["train_mask"]

    Node features become ``node_attrs["x"]``, edge features ``edge_attrs["edge_attr"]``, labels
    ``node_attrs["y"]``, the split ``train_mask``, ``val_mask`` and ``test_mask``; other files keep
    their names (``node_year``, ``edge_reltype``). Text becomes int64 or float32, as in OGB. Labels
    and arrays of other files are vectors if they have one column.

    Everything is read into memory. ``.csv.gz`` files need pyarrow.

    Args:
        folder: the folder that holds ``raw`` (and ``split``).
        split: a folder in ``split``; None takes the only one there is. A split that is kept as
            a torch file (``split_dict.pt``) is left out, which is logged.
        add_reverse: one type: add the reverse of every edge right after the edge, as OGB does
            for ogbn-products and ogbn-proteins (``add_inverse_edge``), whose files hold one
            direction. Many types: see :meth:`HeteroGraph.from_edges`.
        layout: as in ``from_edges``.
        keep_order: as in ``from_edges``; the input order is that of the files.

    Nothing in the folder is executed, and no symbolic link out of it is followed.

    Raises:
        MissingFileError: no such folder, or one of its files is missing.
        InputError: bad content; names the file and the problem.
        InvalidArgumentError: no such split, or several to choose from; names them.
        OutOfMemoryError: a file holds more than the free memory.
        AetherError: any other problem; names the file.
    """
    root = Path(encode_path(folder)[0])
    options: dict[str, Any] = {"layout": layout, "keep_order": keep_order}
    with naming(root):
        return _read(root, split, add_reverse, options)


def _read(
    root: Path, split: str | None, add_reverse: bool, options: dict[str, Any]
) -> Graph | HeteroGraph:
    raw = _below(root, "raw")
    for name, read in _LAYOUTS.items():
        if os.path.isfile(_below(raw, name)):
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
    """Content of a folder; a dataset of one type has the type names of a ``Graph``'s file."""

    edges: dict[EdgeType, tuple[Array, Array]]
    num_nodes: dict[str, int]
    typed: bool = True
    node_attrs: dict[str, dict[str, Array]] = field(default_factory=dict)
    edge_attrs: dict[EdgeType, dict[str, Array]] = field(default_factory=dict)

    def add_nodes(self, kind: str, name: str, rows: Array, path: Path) -> None:
        """Add rows [num_nodes, ...] as an attribute of a node type, under PyG's name."""
        if kind not in self.num_nodes:
            raise InputError(path, f"{shorten(kind)} is no node type of the graph")
        if name == "node_label":
            _check_labels(rows, path)
        table = self.node_attrs.setdefault(kind, {})
        table[_NAMES.get(name, name)] = _check(rows, self.num_nodes[kind], name, path)

    def add_edges(self, kind: EdgeType, name: str, rows: Array, path: Path) -> None:
        """Add rows [num_edges, ...] as an attribute of an edge type, under PyG's name."""
        if kind not in self.edges:
            raise InputError(path, f"{shorten(kind)} is no edge type of the graph")
        table = self.edge_attrs.setdefault(kind, {})
        table[_NAMES.get(name, name)] = _check(rows, len(self.edges[kind][0]), name, path)


def _check(rows: Array, count: int, name: str, path: Path) -> Array:
    if rows.ndim == 0 or len(rows) != count:
        raise InputError(path, f"{name} has shape {list(rows.shape)}, but needs {count} rows")
    if name not in ("node_feat", "edge_feat") and rows.ndim == 2 and rows.shape[1] == 1:
        return rows[:, 0].copy()
    return rows


def _check_labels(labels: Array, path: Path) -> None:
    """Refuse a label outside of int64; NaN stands for one that is not known."""
    known = labels[~np.isnan(labels)] if labels.dtype.kind == "f" else labels
    if not known.size or (known.min() >= -(2**63) and known.max() < 2**63):
        return
    with np.errstate(invalid="ignore"):
        wrong = (labels < -(2.0**63)) | (labels >= 2.0**63)
    at = int(wrong.argmax())
    problem = f"the label {labels.reshape(-1)[at]!s} does not fit in 64 bits"
    raise InputError(path, problem, line=at * len(labels) // labels.size + 1, unit="row")


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
    path = _below(raw, "num-node-list.csv.gz")
    count = _num_nodes(read_table(path), path)
    edges = _read_edges(raw, count, count)
    content = _Content({_EDGE: edges}, {_NODE: count}, typed=False)
    _add_files(content, _NODE, raw)
    _add_files(content, _EDGE, raw)
    path = _below(raw, "node-label.csv.gz")
    if os.path.isfile(path):
        content.add_nodes(_NODE, "node_label", read_table(path, rows=count), path)
    return content


def _read_binary(raw: Path) -> _Content:
    path = _below(raw, "data.npz")
    arrays = read_npz(path)
    for name in ("edge_index", "num_nodes_list"):
        if name not in arrays:
            raise InputError(path, f"holds no array {name!r}; it holds {shorten(list(arrays))}")
    count = _num_nodes(arrays.pop("num_nodes_list"), path)
    ends = _two_rows(arrays.pop("edge_index"), path)
    check_ends(ends, (count, count), path)
    content = _Content({_EDGE: ends}, {_NODE: count}, typed=False)
    for name, rows in arrays.items():
        if name.startswith("node_"):
            content.add_nodes(_NODE, name, rows, path)
        elif name.startswith("edge_"):
            content.add_edges(_EDGE, name, rows, path)
    path = _below(raw, "node-label.npz")
    if os.path.isfile(path):
        for name, rows in read_npz(path).items():
            content.add_nodes(_NODE, name, rows, path)
    return content


def _read_typed_text(raw: Path) -> _Content:
    listed = _below(raw, "triplet-type-list.csv.gz")
    triplets = sorted(_read_strings(listed))
    counted = _below(raw, "num-node-dict.csv.gz")
    lines = _read_strings(counted)
    if len(lines) != 2 or len(lines[0]) != len(lines[1]) or not all(map(_is_count, lines[1])):
        raise InputError(counted, "is not a line of node types and a line of counts, for one graph")
    content = _Content({}, {n: int(c) for n, c in sorted(zip(*lines, strict=True))})
    _check_nodes(content.num_nodes, counted)
    for triplet in triplets:
        if len(triplet) != 3 or not {triplet[0], triplet[2]} <= set(content.num_nodes):
            raise InputError(listed, f"{shorten(triplet)} is not a type, a relation and a type")
        kind: EdgeType = (triplet[0], triplet[1], triplet[2])
        relation = path_below(raw, f"relations/{'___'.join(kind)}", listed, "the relation")
        ends = content.num_nodes[kind[0]], content.num_nodes[kind[2]]
        content.edges[kind] = _read_edges(relation, *ends)
        _add_files(content, kind, relation)
    for name, count in content.num_nodes.items():
        _add_files(content, name, path_below(raw, f"node-feat/{name}", counted, "the type"))
        labels = path_below(raw, f"node-label/{name}", counted, "the type")
        path = _below(labels, "node-label.csv.gz")
        if os.path.isfile(path):
            content.add_nodes(name, "node_label", read_table(path, rows=count), path)
    return content


def _read_typed_binary(raw: Path) -> _Content:
    def by_type(path: Path) -> dict[EdgeType, Array]:
        arrays: dict[EdgeType, Array] = {}
        for name, rows in sorted(read_npz(path).items()):
            names = name.split("___")
            if len(names) != 3:
                raise InputError(path, f"{shorten(name)} is not three names joined by '___'")
            arrays[names[0], names[1], names[2]] = rows
        return arrays

    path = _below(raw, "num_nodes_dict.npz")
    counts = {name: _only(count, path) for name, count in sorted(read_npz(path).items())}
    _check_nodes(counts, path)
    path = _below(raw, "edge_index_dict.npz")
    edges = {kind: _two_rows(ends, path) for kind, ends in by_type(path).items()}
    for kind, ends in edges.items():
        if not {kind[0], kind[2]} <= set(counts):
            raise InputError(path, f"{shorten(kind)} joins types that have no count of nodes")
        check_ends(ends, (counts[kind[0]], counts[kind[2]]), path)
    content = _Content(edges, counts)
    for path in _found(raw, "node_*.npz"):
        for name, rows in read_npz(path).items():
            content.add_nodes(name, path.stem.removesuffix("_dict"), rows, path)
    for path in _found(raw, "edge_*.npz"):
        if path.name != "edge_index_dict.npz":
            for triplet, rows in by_type(path).items():
                content.add_edges(triplet, path.stem.removesuffix("_dict"), rows, path)
    path = _below(raw, "node-label.npz")
    if os.path.isfile(path):
        for name, rows in read_npz(path).items():
            content.add_nodes(name, "node_label", rows, path)
    return content


_LAYOUTS = {
    "data.npz": _read_binary,
    "edge_index_dict.npz": _read_typed_binary,
    "triplet-type-list.csv.gz": _read_typed_text,
    "edge.csv.gz": _read_text,
}


def _add_files(content: _Content, kind: Any, folder: Path) -> None:
    """Add features, and the tables that are named ``node_...`` or ``edge_...``."""
    owner = "edge" if isinstance(kind, tuple) else "node"
    add = content.add_edges if owner == "edge" else content.add_nodes
    count = len(content.edges[kind][0]) if owner == "edge" else content.num_nodes[kind]
    names = [f"{owner}-feat.csv.gz"]
    if owner == "node":
        names.append("species.csv.gz")  # ogbn-proteins has this file
    paths = [_below(folder, name) for name in names]
    for path in [*filter(os.path.isfile, paths), *_found(folder, f"{owner}_*.csv.gz")]:
        name = path.name.removesuffix(".csv.gz").replace("-", "_")
        name = "node_species" if name == "species" else name
        add(kind, name, read_table(path, rows=count), path)


# ---- splits ----------------------------------------------------------------------------------


def _read_split(root: Path, split: str | None, content: _Content) -> None:
    folder = _below(root, "split")
    names = sorted(path.name for path in folder.glob("*") if path.is_dir())
    if split is None and len(names) == 1:
        split = names[0]
    if split is None and not names:
        return
    if split not in names:
        known = ", ".join(map(repr, names)) or "none"
        raise InvalidArgumentError(f"split = {split!r} is not one of: {known}")
    has_masks = False
    for kind, count in content.num_nodes.items():
        place = _below(folder, f"{split}/{kind}" if content.typed else split)
        masks: dict[str, Array] = {}
        for part, mask_name in _MASKS.items():
            path = _below(place, f"{part}.csv.gz")
            if not os.path.isfile(path):
                continue
            has_masks = True
            ids = read_table(path, limits=(count,))[:, 0]
            mask = np.zeros(count, np.bool_)
            mask[ids] = True
            _check_part(ids, mask, path)
            for earlier_part, before in masks.items():
                _warn_of_overlap(path, earlier_part, mask & before)
            masks[part] = mask
            content.add_nodes(kind, mask_name, mask, path)
    if not has_masks:
        log.warning("read_ogb: %s holds no .csv.gz files: no masks are made", folder / split)


def _check_part(ids: Array, mask: Array, path: Path) -> None:
    """Refuse a part of a split that names a node twice."""
    if np.count_nonzero(mask) == len(ids):
        return
    order = np.argsort(ids, kind="stable")
    again = order[1:][ids[order[1:]] == ids[order[:-1]]]
    row = int(again.min())
    first = int((ids == ids[row]).argmax())
    problem = f"the node {ids[row]} comes again, after row {first + 1}: a split names a node once"
    raise InputError(path, problem, line=row + 1, unit="row")


def _warn_of_overlap(path: Path, part: str, both: Array) -> None:
    count = np.count_nonzero(both)
    if count:
        log.warning(
            "read_ogb: %s: %d nodes are also in %s, the first is %d: their masks overlap",
            path, count, part, both.argmax(),
        )  # fmt: skip


# ---- files -----------------------------------------------------------------------------------


def _read_edges(folder: Path, num_src: int, num_dst: int) -> tuple[Array, Array]:
    """Return the ends of the edges; check their number if a file beside them has it."""
    counts = _below(folder, "num-edge-list.csv.gz")
    count = _only(read_table(counts), counts) if os.path.isfile(counts) else None
    path = _below(folder, "edge.csv.gz")
    return _two_rows(read_table(path, limits=(num_src, num_dst), rows=count).T, path)


def _two_rows(ends: Array, path: Path) -> tuple[Array, Array]:
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise InputError(
            path, f"edges are two integers each, got shape {list(ends.shape)} of {ends.dtype}"
        )
    return np.ascontiguousarray(ends[0]), np.ascontiguousarray(ends[1])


def _only(counts: Array, path: Path) -> int:
    if counts.size != 1:
        raise InputError(path, f"holds {counts.size} graphs; node datasets have one")
    count = counts.reshape(-1)[0]
    if counts.dtype.kind not in "iu" or count < 0:
        raise InputError(path, f"{count} is no count")
    return int(count)


def _read_strings(path: Path) -> list[list[str]]:
    """Return the fields of the lines of a small text file."""
    text = read_text(path, _SMALL)
    with decoding(path):
        rows = [row for row in csv.reader(text.splitlines(keepends=True)) if row]
    if not rows:  # gzip reads a file that was cut to nothing as empty
        raise InputError(path, "is empty")
    return rows


def _num_nodes(counts: Array, path: Path) -> int:
    count = _only(counts, path)
    _check_nodes({_NODE: count}, path)
    return count


def _check_nodes(counts: dict[str, int], path: Path) -> None:
    """Refuse more nodes than memory can hold list offsets for."""
    check_memory(path, 8 * sum(counts.values()), f"a graph of {sum(counts.values())} nodes")


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _below(folder: Path, name: str) -> Path:
    return path_below(folder, name, folder, "the file")


def _found(folder: Path, pattern: str) -> list[Path]:
    return [_below(folder, path.name) for path in sorted(folder.glob(pattern))]
