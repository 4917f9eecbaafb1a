"""Orders of nodes once more, written to be obviously right: from dense matrices and plain lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["bfs", "by_degree", "gorder", "matrix_of", "modularity", "rabbit"]

Ids = NDArray[np.int64]


def matrix_of(num_nodes: int, src: Ids, dst: Ids) -> Ids:
    """Number of edges between every two nodes, no loops; once where all are stored both ways."""
    between = np.zeros((num_nodes, num_nodes), np.int64)
    np.add.at(between, (src, dst), 1)
    if (between != between.T).any():
        between += between.T
    np.fill_diagonal(between, 0)
    return between


def _ascending(between: Ids) -> Ids:
    return np.argsort(between.sum(0), kind="stable")


def by_degree(between: Ids) -> Ids:
    return np.argsort(-between.sum(0), kind="stable")


def rabbit(between: Ids) -> tuple[list[int], list[int]]:
    """(old id of each new one, community of each node), one node after the other.

    The edges of a community are counted anew each time, from those of all its nodes.
    """
    total = float(between.sum()) or 1.0
    nodes = _ascending(between)
    rank = {int(node): place for place, node in enumerate(nodes)}
    home = list(range(len(nodes)))  # root of each node
    strength = between.sum(0).astype(np.float32)
    children: list[list[int]] = [[] for _ in nodes]
    for node in map(int, nodes):
        inside = [i for i in range(len(nodes)) if home[i] == node]
        edges: dict[int, int] = {}
        for other in range(len(nodes)):
            count = int(between[inside, other].sum())
            if count and home[other] != node:
                edges[home[other]] = edges.get(home[other], 0) + count
        best, most = -1, 0.0
        for root in sorted(edges, key=lambda root: rank[root]):
            expected = float(strength[node]) * (1.0 / total)
            gain = float(edges[root]) - expected * float(strength[root])
            if gain > most:
                best, most = root, gain
        if best < 0:
            continue
        strength[best] = np.float32(strength[best]) + np.float32(strength[node])
        children[best].append(node)
        for i in inside:
            home[i] = best
    order: list[int] = []
    parts = [-1] * len(nodes)

    def visit(node: int, part: int) -> None:
        parts[node] = part
        order.append(node)
        for child in children[node]:
            visit(child, part)

    roots = [int(node) for node in nodes if home[node] == node]
    for part, root in enumerate(roots):
        visit(root, part)
    return order, parts


def bfs(between: Ids) -> list[int]:
    """Reverse Cuthill-McKee from the node of the lowest degree of each component."""
    nodes = [int(node) for node in _ascending(between)]
    found: list[int] = []
    for start in nodes:
        if start in found:
            continue
        found.append(start)
        for node in found:  # grows meanwhile
            found += [v for v in nodes if between[node, v] and v not in found]
    return found[::-1]


def gorder(between: Ids, window: int) -> list[int]:
    """The node of the highest score, and of equal ones the one whose score changed last."""
    nodes = [int(node) for node in _ascending(between)]
    lists = {v: [u for u in nodes for _ in range(between[v, u])] for v in nodes}
    few = {v for v in nodes if len(lists[v]) ** 2 <= len(nodes)}
    scores = dict.fromkeys(nodes, 0)
    changed = {node: time for time, node in enumerate(nodes)}
    clock = len(nodes)
    order: list[int] = []
    for _ in nodes:
        node = max(scores, key=lambda v: (scores[v], changed[v]))
        del scores[node]
        order.append(node)
        steps = [(node, 1)]
        if len(order) > window:
            steps.insert(0, (order[-1 - window], -1))
        for one, by in steps:
            paths = [u for u in lists[one] if u != one]
            paths += [u for v in lists[one] if v in few for u in lists[v] if u != one]
            for other in paths:
                if other in scores:
                    scores[other] += by
                    changed[other] = clock = clock + 1
    return order


def modularity(src: Ids, dst: Ids, parts: Any) -> float:
    """Newman's modularity of a partition; loops do not count."""
    keep = src != dst
    src, dst = src[keep], dst[keep]
    parts = np.asarray(parts)
    degrees = np.bincount(src, minlength=len(parts)) + np.bincount(dst, minlength=len(parts))
    strengths = np.bincount(parts, weights=degrees)
    inside = float((parts[src] == parts[dst]).mean())
    return inside - float(((strengths / (2 * len(src))) ** 2).sum())
