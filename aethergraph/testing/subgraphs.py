"""Checks of induced and bidirectional samples, and all checks of a sample together."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph.testing import structure
from aethergraph.testing.rules import equal, require
from aethergraph.testing.structure import EdgeType, Walk

__all__ = ["check_bidirectional", "check_contents", "check_induced", "check_sample"]


def check_sample(walk: Walk, subgraph_type: str = "directional") -> None:
    """Check everything that holds of a sample of that subgraph type."""
    structure.check_arrays(walk)
    structure.check_seeds(walk)
    if walk.disjoint:
        structure.check_trees(walk)
    if subgraph_type == "bidirectional":
        check_bidirectional(walk)
        return
    structure.check_local_ids(walk)
    structure.check_edges(walk)
    if subgraph_type == "induced":
        check_induced(walk)
        return
    structure.check_order(walk)
    structure.check_counts(walk)
    structure.check_draws(walk)
    if walk.disjoint:
        structure.check_times(walk)


def check_induced(walk: Walk) -> None:
    """Require every edge whose ends are in one tree that may see it, and no other."""
    for kind, edges in walk.truth.items():
        nodes = walk.node[kind[0]].tolist()
        known = {(walk.tree(kind[0], local), node) for local, node in enumerate(nodes)}
        for local in range(len(walk.node[kind[2]])):
            tree = walk.tree(kind[2], local)
            ids = np.sort(walk.visible(kind, local))
            inside = [(tree, node) in known for node in edges.src[ids].tolist()]
            edge_ids = np.sort(walk.edge[kind][walk.col[kind] == local])
            expected = ids[np.array(inside, bool)]
            equal(edge_ids, expected, f"edges of {kind} to slot {local}, sorted,")


def check_bidirectional(walk: Walk) -> None:
    """Require (v, u) with every (u, v), each pair once, and ids of edges that may be drawn."""
    pairs = {
        kind: list(zip(walk.row[kind].tolist(), walk.col[kind].tolist(), strict=True))
        for kind in walk.truth
    }
    for kind, type_pairs in pairs.items():
        back = _reverse(kind)
        fits = _joins(walk, kind, walk.row[kind], walk.col[kind], walk.edge[kind])
        if back in pairs:
            require(len(set(type_pairs)) == len(type_pairs), f"{kind} has a pair twice")
            alone = sorted(set(type_pairs) - {(col, row) for row, col in pairs[back]})
            require(not alone, f"{kind}: the pairs {alone} have no reverse in {back}")
            fits |= _joins(walk, back, walk.col[kind], walk.row[kind], walk.edge[kind])
        bad = walk.edge[kind][~fits]
        require(
            fits.all(), f"{kind}: the edge ids {bad} join other nodes, or may not be drawn there"
        )


def _reverse(kind: EdgeType) -> EdgeType:
    source, name, target = kind
    reverse_name = name.removeprefix("rev_") if name.startswith("rev_") else f"rev_{name}"
    return kind if source == target else (target, reverse_name, source)


def _joins(walk: Walk, kind: EdgeType, row: Any, col: Any, ids: Any) -> NDArray[np.bool_]:
    """Return whether edges of a type lead from ``row`` to ``col`` and may be drawn in the tree."""
    edges, fits = walk.truth[kind], np.zeros(len(ids), bool)
    at = np.flatnonzero((ids >= 0) & (ids < len(edges.src)))
    chosen, row, col = ids[at], row[at], col[at]
    fits[at] = edges.src[chosen] == walk.node[kind[0]][row]
    fits[at] &= edges.dst[chosen] == walk.node[kind[2]][col]
    trees = np.array([walk.tree(kind[2], int(local)) for local in col], np.int64)
    fits[at] &= walk.may_draw(kind, chosen, trees)
    return fits


def check_contents(
    sample: dict[str, Any], expected: dict[str, Any], subgraph_type: str = "directional"
) -> None:
    """Require two samples to hold the same nodes and edges by tree, in whatever order.

    Both are samples by type, see :func:`structure.typed`. Any edge id may stand for a pair of a
    bidirectional sample.
    """
    mine, theirs = (_contents(typed_sample, subgraph_type) for typed_sample in (sample, expected))
    for noun, values in theirs.items():
        missing, more = values - mine[noun], mine[noun] - values
        require(
            not missing and not more,
            f"{noun}: {sorted(missing.elements())} are missing, {sorted(more.elements())} should "
            "not be there",
        )


def _contents(sample: dict[str, Any], subgraph_type: str) -> dict[str, Counter[Any]]:
    contents: dict[str, Counter[Any]] = {}
    node, batch = sample["node"], sample["batch"]
    trees = {kind: np.zeros_like(ids) for kind, ids in node.items()} if batch is None else batch
    for kind, ids in node.items():
        contents[f"the (tree, node) of {kind}"] = _count(trees[kind], ids)
    for kind, row in sample["row"].items():
        col, ids = sample["col"][kind], sample["edge"][kind]
        ends = trees[kind[2]][col], node[kind[0]][row], node[kind[2]][col]
        if subgraph_type == "bidirectional":
            contents[f"the (tree, source, destination) of {kind}"] = _count(*ends)
        else:
            contents[f"the (tree, source, destination, edge) of {kind}"] = _count(*ends, ids)
    return contents


def _count(*columns: Any) -> Counter[Any]:
    return Counter(zip(*(column.tolist() for column in columns), strict=True))
