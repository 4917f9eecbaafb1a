"""Random walks and fan-outs: rows of nodes, as a pure function of key, starts and graph."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids, as_integer
from aethergraph._checks.options import as_choice, as_flag, as_number, as_share
from aethergraph.errors import InvalidArgumentError, LayoutError, OutOfRangeError
from aethergraph.graph.ids import name_id
from aethergraph.protocols import HomogeneousGraph
from aethergraph.sampling._misuse import not_a_graph
from aethergraph.sampling.keys import mix_key

__all__ = ["Direction", "RandomWalker", "random_fanout"]

Ids = NDArray[np.int64]
Direction = Literal["out", "in"]
"""Edges that a walk follows: out of a node, or into it."""
_LAYOUT_OF: dict[str, Literal["csr", "csc"]] = {"out": "csr", "in": "csc"}
_KEY_MASK = (1 << 64) - 1

#: Numbers of the calls without a key, in this process.
_calls = itertools.count()


class RandomWalker:
    """Maker of random walks: uniform, weighted, node2vec's, with restarts.

    ::

        walker = RandomWalker(graph, p=0.5, q=2.0)
        walks = walker.walk(starts, 40, key=7)    # int64 [len(starts), 41]; same key, same walks

    A walk steps from a node to one of its out-neighbours, in proportion to the edge weights if
    ``weighted``; a duplicate edge counts twice. With ``p`` or ``q`` other than 1 the walk remembers
    the previous node ``t`` (node2vec; Grover and Leskovec, KDD 2016): neighbour ``x`` counts
    ``1/p`` times if it is ``t``, once if there is an edge from ``t`` to ``x``, ``1/q`` times
    otherwise (factors are exact to 2^-53 of the largest). With ``restart`` each step goes back to
    the start with that probability (random walk with restart; Tong, Faloutsos and Pan, ICDM 2006),
    and the previous node is forgotten.

    A walk that comes to a dead end stays there: its row repeats the last node, as in torch_cluster
    (``pad=True``: the rest is -1). With ``restart`` it goes back to its start instead. A node whose
    edges all weigh 0 is a dead end.

    Walk ``i`` depends only on the key, ``i``, ``starts[i]`` and the graph, not on threads or
    storage. A walker may be shared by threads and used in forked children. It pickles with its
    graph.

    Args:
        graph: a graph that stores out-neighbours (layout "csr" or "both").
        p: return parameter: below 1 walks turn back more often.
        q: in-out parameter: below 1 walks leave the neighbourhood of the previous node more often.
        weighted: draw by ``graph.edge_weight``. Builds a table of 8 bytes per edge (alias method;
            Walker 1977, Vose 1991), once, and keeps it with the graph.
        restart: probability in 0..1.
        direction: ``"in"`` walks edges backwards (layout "csc" or "both").
        pad: fill up with -1 after a dead end.
        edge_table: with ``q`` other than 1, build a table of one id per edge, once, that answers in
            about one memory access whether an edge exists, and keep it with the graph. False
            searches the lists instead: no memory, the same walks, slow near hubs. None: True, but
            False for lists that stay in their file (``storage="uring"``), and where positions in
            the lists do not count the edges.
        num_threads: threads of the native pool that one call may use; 0 is all of them.
        seed: start of the sequence of keys for calls without a key.

    Raises:
        LayoutError: the graph does not store the lists that the walks follow.
        InvalidArgumentError: an argument is invalid, or ``weighted`` without edge weights.
    """

    def __init__(
        self,
        graph: HomogeneousGraph,
        *,
        p: float = 1.0,
        q: float = 1.0,
        weighted: bool = False,
        restart: float = 0.0,
        direction: Direction = "out",
        pad: bool = False,
        edge_table: bool | None = None,
        num_threads: int = 0,
        seed: int = 0,
    ) -> None:
        if not isinstance(graph, HomogeneousGraph):
            raise not_a_graph(graph, "Graph", "RandomWalker")
        layout, topology = _lists_of(graph, direction)
        self.graph = graph
        self.p, self.q = _as_rate(p, "p"), _as_rate(q, "q")
        self.weighted = as_flag(weighted, "weighted")
        self.restart = as_share(restart, "restart")
        self.direction: Direction = direction
        self.pad = as_flag(pad, "pad")
        in_memory = graph.paging is None and topology.is_dense
        self.edge_table = in_memory if edge_table is None else as_flag(edge_table, "edge_table")
        self.num_threads = _as_threads(num_threads)
        self.seed = as_integer(seed, "seed")
        self._calls = itertools.count()
        make = partial(
            native.NativeWalker,
            p=self.p,
            q=self.q,
            restart=self.restart,
            alias=graph.alias_table(layout) if self.weighted else None,
            members=graph.member_table(layout) if self.edge_table and self.q != 1 else None,
            pad=self.pad,
            num_threads=self.num_threads,
        )
        native_walker = None if isinstance(topology, native.LiveTopology) else make(topology)

        def walker() -> native.NativeWalker:
            """Return the walker; of a live graph one over the last commit."""
            return native_walker or make(native.pin_all([topology])[0])

        self._walker = walker

    def walk(
        self, starts: ArrayLike, length: int, key: int | None = None, *, first: int = 0
    ) -> Ids:
        """Return one walk of ``length`` steps from each of ``starts``.

        Args:
            starts: integer vector [n]; may be empty and may repeat nodes (each gets a walk).
            length: number of steps, >= 0.
            key: the 64-bit number that decides all draws (taken modulo 2^64). None: a new key per
                call, from ``seed`` and the number of the call on this copy of the walker.
            first: number of the first of these walks among all of this key. ``walk(starts[a:b],
                length, key, first=a)`` is rows ``a .. b - 1`` of ``walk(starts, length, key)``, so
                that processes can share the walks.

        Returns:
            int64 [n, length + 1]; column 0 holds the starts.

        Raises:
            OutOfRangeError: a start is not a node; names the first one and its position.
            OutOfMemoryError: the result does not fit.
            FileChangedError: the mapped graph file was made shorter.
        """
        ids = as_ids(starts, "starts")
        steps = as_count(length, "length")
        begin = as_count(first, "first")
        if key is None and begin:
            raise InvalidArgumentError(f"first = {begin} needs the key of all walks: give key=")
        number = mix_key(self.seed, next(self._calls)) if key is None else _as_key(key)
        walker = self._walker()
        size = 8 * len(ids) * (steps + 1)
        if self.p != 1 or self.q != 1:
            size *= 16  # such steps take about 16 times as long: Ctrl-C must be checked sooner
        try:
            return native.run_long(
                lambda task: walker.walk(ids, steps, number, begin, task), None, size
            )
        except OutOfRangeError as error:
            raise name_id(error, "starts", self.graph.num_nodes) from None

    def _options(self) -> dict[str, Any]:
        names = (
            "p", "q", "weighted", "restart", "direction", "pad", "edge_table", "num_threads",
            "seed",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        return (
            f"RandomWalker({self.graph!r}, p={self.p}, q={self.q}, weighted={self.weighted}, "
            f"restart={self.restart}, direction={self.direction!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.graph, self._options())


def _rebuild(graph: HomogeneousGraph, options: dict[str, Any]) -> RandomWalker:
    return RandomWalker(graph, **options)


def random_fanout(
    graph: HomogeneousGraph,
    nodes: ArrayLike,
    k: int,
    *,
    replace: bool = False,
    direction: Direction = "out",
    num_threads: int = 0,
    key: int | None = None,
) -> Ids:
    """Return ``k`` uniformly drawn neighbours of each node, as a table.

    If ``direction`` is "in", the draws are those of ``NeighborSampler(graph, [k], disjoint=True)``
    with the same key.

    Args:
        graph: a graph that stores the lists of ``direction``.
        nodes: integer vector [n], may repeat nodes: each gets its own draws.
        k: number of columns.
        replace: draw with replacement. Without replacement, a node with at most ``k`` edges gives
            all of them, in order.
        direction: ``"out"``: out-neighbours (layout "csr" or "both"), ``"in"``: in-neighbours.
        num_threads: threads of the native pool that the call may use; 0 is all of them.
        key: the 64-bit number that decides all draws. None: a new key per call, from the number
            of such calls in this process.

    Returns:
        int64 [n, k]; -1 after the edges of a node that has fewer than ``k``. With ``replace`` only
        nodes without edges have -1.

    Raises:
        LayoutError: the lists are not stored.
        OutOfRangeError: a node does not exist; names the first one.
    """
    if not isinstance(graph, HomogeneousGraph):
        raise not_a_graph(graph, "Graph", "RandomWalker")
    _, topology = _lists_of(graph, direction)
    ids, count, threads = as_ids(nodes, "nodes"), as_count(k, "k"), _as_threads(num_threads)
    number = mix_key(next(_calls)) if key is None else _as_key(key)
    with_replacement = as_flag(replace, "replace")
    try:
        return native.run_long(
            lambda task: topology.fanout(
                ids, count, number, replace=with_replacement, num_threads=threads, task=task
            ),
            None,
            8 * len(ids) * count,
        )
    except OutOfRangeError as error:
        raise name_id(error, "nodes", graph.num_nodes) from None


# ---- Graph's methods; errors name their arguments ------------------------------------------------


def batch_walk(
    graph: HomogeneousGraph,
    starts: ArrayLike,
    length: int,
    *,
    p: float = 1.0,
    q: float = 1.0,
    weighted: bool = False,
    key: int | None = None,
) -> Ids:
    """Serve ``Graph.batch_random_walk`` and ``batch_random_walk_uniform``."""
    number = mix_key(next(_calls)) if key is None else _as_key(key)
    ids, steps = as_ids(starts, "start_nodes"), as_count(length, "walk_length")
    try:
        return RandomWalker(graph, p=p, q=q, weighted=weighted).walk(ids, steps, number)
    except OutOfRangeError as error:
        raise name_id(error, "start_nodes", graph.num_nodes) from None


def batch_fanout(graph: HomogeneousGraph, starts: ArrayLike, k: int, key: int | None) -> Ids:
    """Serve ``Graph.batch_random_fanout``."""
    ids, count = as_ids(starts, "start_nodes"), as_count(k, "K")
    try:
        return random_fanout(graph, ids, count, key=key)
    except OutOfRangeError as error:
        raise name_id(error, "start_nodes", graph.num_nodes) from None


# ---- arguments ----------------------------------------------------------------------------------


def _lists_of(
    graph: HomogeneousGraph, direction: str
) -> tuple[Literal["csr", "csc"], native.NativeTopology]:
    """Return the layout and the lists that walks in a direction follow."""
    layout = _LAYOUT_OF[as_choice(direction, _LAYOUT_OF, "direction")]
    try:
        return layout, graph.topology(layout)
    except LayoutError as error:
        opposite = "in" if direction == "out" else "out"
        raise LayoutError(
            f"{error}; or follow the lists that are there: RandomWalker and random_fanout take "
            f"direction={opposite!r}"
        ) from None


def _as_key(key: int) -> int:
    return as_integer(key, "key") & _KEY_MASK


def _as_threads(value: int) -> int:
    if as_count(value, "num_threads") > 256:
        raise InvalidArgumentError(f"num_threads = {value} is not in 0..256")
    return int(value)


def _as_rate(value: Any, name: str) -> float:
    number = as_number(value, name)
    if not (number > 0 and math.isfinite(number) and math.isfinite(1 / number)):
        raise InvalidArgumentError(f"{name} = {number} is not a positive number")
    return number
