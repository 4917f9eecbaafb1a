"""Golden samples: digests of what every sampler draws, frozen in ``tests/golden/samples``.

A sample is a pure function of the graph, the seeds and a key, so a change of the engine must leave
every digest as it is. Where a change of what is drawn is meant, say so in the changelog and write
the files anew::

    AETHERGRAPH_WRITE_GOLDEN=1 pytest tests -k golden_samples
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from aethergraph import Graph, HeteroGraph

G = TypeVar("G", Graph, HeteroGraph)

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "samples"
WRITE = os.environ.get("AETHERGRAPH_WRITE_GOLDEN") == "1"

#: How a graph is stored -> (options of save, options of load).
STORAGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "memory": ({}, {"storage": "memory"}),
    "mmap": ({}, {"storage": "mmap"}),
    "uring": ({}, {"storage": "uring", "memory_budget": "24M"}),
    "compressed": ({"compress": True}, {"storage": "mmap"}),
    "compressed uring": ({"compress": True}, {"storage": "uring", "memory_budget": "24M"}),
}

NODES, EDGES = 600, 9000
USERS, POSTS, TAGS = 200, 400, 30


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits for arrays, numbers, None, and mappings or sequences of them."""
    state = hashlib.sha256()
    _add(state, value)
    return state.hexdigest()[:16]


def _add(state: Any, value: Any) -> None:
    if hasattr(value, "detach"):  # a tensor
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        state.update(f"{value.dtype.str}{value.shape}".encode())
        state.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            state.update(f"{key!r}:".encode())
            _add(state, value[key])
    elif isinstance(value, Sequence) and not isinstance(value, str):
        state.update(f"[{len(value)}".encode())
        for one in value:
            _add(state, one)
    else:
        assert value is None or isinstance(value, int | float | str), type(value)
        state.update(repr(value).encode())


class Golden:
    """The digests of one file, by name of the case.

    Args:
        name: of the file, without its suffix.
    """

    def __init__(self, name: str) -> None:
        self._path = FOLDER / f"{name}.json"
        self._digests: dict[str, str] = {}
        if self._path.exists():
            self._digests = json.loads(self._path.read_text())

    def check(self, case: str, value: Any) -> None:
        """Compare with the digest of ``case``, or note it if the files are written anew.

        Raises:
            AssertionError: another digest, or none is there.
        """
        found = digest(value)
        if WRITE:
            self._digests[case] = found
            self._path.parent.mkdir(exist_ok=True)
            text = json.dumps(self._digests, indent=0, sort_keys=True)
            self._path.write_text(text + "\n")
        assert case in self._digests, f"{self._path.name} has no {case!r}"
        assert found == self._digests[case], f"{case}: the sample is another one"


# ---- graphs ----------------------------------------------------------------------------------
#
# Of RandomState, whose streams numpy has promised to keep.


def skewed(rng: np.random.RandomState, num_nodes: int, count: int) -> NDArray[np.int64]:
    """Draw ids of which few are hubs, int64 [count]."""
    share = rng.random_sample(count)
    return (share * share * share * num_nodes).astype(np.int64)


def make_graph() -> Graph:
    """Make a graph with hubs, loops, parallel edges, and weights (a quarter is 0) and times."""
    rng = np.random.RandomState(1)
    src, dst = skewed(rng, NODES, EDGES), NODES - 1 - skewed(rng, NODES, EDGES)
    return Graph.from_edges(
        NODES, src, dst, layout="both", edge_weight=rng.randint(0, 4, EDGES).astype(np.float32),
        edge_time=rng.randint(0, 100, EDGES), node_time=rng.randint(0, 100, NODES),
    )  # fmt: skip


def make_hetero_graph() -> HeteroGraph:
    """Make three types of nodes and four of edges, with weights and times."""
    rng = np.random.RandomState(2)
    counts = {"user": USERS, "post": POSTS, "tag": TAGS}
    kinds = {
        ("user", "votes", "post"): 3000,
        ("post", "rev_votes", "user"): 3000,
        ("tag", "of", "post"): 900,
        ("user", "follows", "user"): 1500,
    }
    edges = {
        kind: (skewed(rng, counts[kind[0]], size), skewed(rng, counts[kind[2]], size))
        for kind, size in kinds.items()
    }
    return HeteroGraph.from_edges(
        edges, counts, layout="both",
        edge_weight={k: rng.randint(0, 4, n).astype(np.float32) for k, n in kinds.items()},
        edge_time={k: rng.randint(0, 100, n) for k, n in kinds.items()},
    )  # fmt: skip


def store(graph: G, folder: Path, storage: str) -> G:
    """Save ``graph`` in ``folder`` and open the file, as ``storage`` says."""
    save, load = STORAGES[storage]
    graph.save(folder / "graph.aeg", **save)
    return type(graph).load(folder / "graph.aeg", **load)


def seeds_of(num_nodes: int, number: int) -> NDArray[np.int64]:
    """Return batch ``number`` of seeds: the third holds duplicates, the fourth is empty."""
    rng = np.random.RandomState(10 + number)
    if number == 3:
        return np.empty(0, np.int64)
    ids = rng.permutation(num_nodes)[: 20 + 10 * number].astype(np.int64)
    return np.concatenate((ids, ids[:7])) if number == 2 else ids
