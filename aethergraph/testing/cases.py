"""Difficult inputs, equal in every run: graphs, seeds, and ids in every form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["INTEGERS", "GraphCase", "bad_ids", "graphs", "id_forms", "mixed_ends", "seed_vectors"]

Ids = NDArray[np.int64]

#: Every integer dtype of numpy.
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


@dataclass(frozen=True, eq=False)
class GraphCase:
    """Named edge list: int64 vectors of ids below ``num_nodes``."""

    name: str
    num_nodes: int
    src: Ids
    dst: Ids

    @property
    def inputs(self) -> dict[str, Any]:
        """Edge list by name of its parts, for messages."""
        return {"num_nodes": self.num_nodes, "src": self.src, "dst": self.dst}


def _case(name: str, num_nodes: int, src: Any, dst: Any) -> GraphCase:
    return GraphCase(name, num_nodes, np.array(src, np.int64), np.array(dst, np.int64))


def graphs() -> list[GraphCase]:
    """Return small graphs of every awkward kind; nodes with 0, 1, few and many edges."""
    rng = np.random.default_rng(20240607)
    skewed = (rng.random(700) ** 3 * 60).astype(np.int64)
    return [
        _case("no nodes", 0, [], []),
        _case("one node, no edges", 1, [], []),
        _case("one node that loops twice", 1, [0, 0], [0, 0]),
        _case("nodes without edges", 5, [], []),
        _case("self-loops", 4, [3, 1, 0, 2, 1], [3, 1, 0, 2, 1]),
        _case("duplicate edges", 3, [0, 1, 0, 1, 0, 2], [2, 0, 2, 0, 2, 0]),
        _case("the ends of the range", 300, [299, 299, 0, 298, 299], [299, 0, 299, 0, 0]),
        _case("isolated nodes", 90, rng.integers(40, 50, 30), rng.integers(45, 55, 30)),
        _case("a hub", 130, np.append(np.arange(130), [5, 5, 5]), np.zeros(133)),
        _case("a ring", 20, np.arange(20), (np.arange(20) + 1) % 20),
        _case("many edges", 70, rng.integers(0, 60, 700), skewed),
    ]


def mixed_ends(num_src: int, num_dst: int, repeated: bool) -> tuple[Ids, Ids]:
    """Return (src, dst): up to five edges into each node, from sources that differ modulo 5.

    Values that are ordered by the source modulo 5 therefore have no ties in a list.

    Args:
        num_src: number of sources, a multiple of 5.
        num_dst: number of destinations.
        repeated: add a third of the edges a second time.
    """
    rng = np.random.default_rng(num_src + num_dst)
    dst, remainder = np.nonzero(rng.random((num_dst, 5)) < 0.6)
    src = 5 * rng.integers(0, num_src // 5, len(dst)) + remainder
    return (np.append(src, src[::3]), np.append(dst, dst[::3])) if repeated else (src, dst)


def seed_vectors(num_nodes: int) -> list[Ids]:
    """Return seeds for a graph: none, the last node, duplicates, many in random order."""
    if num_nodes == 0:
        return [np.empty(0, np.int64)]
    rng = np.random.default_rng(num_nodes)
    last = num_nodes - 1
    return [
        np.empty(0, np.int64),
        np.array([last, 0, last, last, 0], np.int64),
        rng.integers(0, num_nodes, min(40, 3 * num_nodes)),
    ]


def id_forms(ids: Ids) -> Iterator[tuple[str, Any]]:
    """Yield ``ids`` (below 128) in every form in which a user may pass them, with its name."""
    yield "a list", ids.tolist()
    yield "a tuple", tuple(ids.tolist())
    for name in INTEGERS:
        yield name, ids.astype(name)
        yield f"{name}, big-endian", ids.astype(np.dtype(name).newbyteorder(">"))
    apart = np.full(2 * len(ids), -99, np.int64)
    apart[::2] = ids
    yield "every second element", apart[::2]
    yield "a reversed view", ids[::-1].copy()[::-1]
    fixed = ids.copy()
    fixed.flags.writeable = False
    yield "a read-only array", fixed
    buffer = np.zeros(8 * len(ids) + 1, np.uint8)
    unaligned = buffer[1:].view(np.int64)
    unaligned[:] = ids
    yield "an unaligned array", unaligned


def bad_ids(count: int) -> list[int]:
    """Return numbers that are no id below ``count``."""
    return [-1, count, count + 7, 2**31, 2**32, 2**62, -(2**63)]
