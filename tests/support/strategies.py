"""Hypothesis strategies and comparisons for the tests of the core."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.share import examples_of

from aethergraph import Graph, HeteroGraph

Ids = NDArray[np.int64]


def examples(count: int) -> settings:
    """Return the settings of a property test that usually tries so many examples."""
    return settings(max_examples=examples_of(count))


@st.composite
def edge_lists(draw: st.DrawFn, max_nodes: int = 40, max_edges: int = 200) -> tuple[int, Ids, Ids]:
    """``(num_nodes, src, dst)``, with hubs, self-loops, duplicates and isolated nodes."""
    num_nodes = draw(st.integers(0, max_nodes))
    if num_nodes == 0:
        return 0, np.empty(0, np.int64), np.empty(0, np.int64)
    num_edges = draw(st.integers(0, max_edges))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    skew = draw(st.sampled_from([1, 3, 8]))
    src = (rng.random(num_edges) ** draw(st.sampled_from([1, 4])) * num_nodes).astype(np.int64)
    dst = (rng.random(num_edges) ** skew * num_nodes).astype(np.int64)
    return num_nodes, src, dst


@st.composite
def hetero_graphs(draw: st.DrawFn, max_nodes: int = 15, max_edges: int = 60) -> HeteroGraph:
    """Up to 3 node types, which may be empty, and up to 4 edge types between any of them."""
    counts = draw(st.lists(st.integers(0, max_nodes), min_size=1, max_size=3))
    number = st.integers(0, len(counts) - 1)
    edges = {}
    for i, (source, target) in enumerate(draw(st.lists(st.tuples(number, number), max_size=4))):
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        ends = counts[source], counts[target]
        size = int(rng.integers(0, max_edges)) if all(ends) else 0
        skew = draw(st.sampled_from([1, 4]))
        src, dst = (
            (rng.random(size) ** power * count).astype(np.int64)
            for power, count in zip((1, skew), ends, strict=True)
        )
        edges[f"n{source}", f"r{i}", f"n{target}"] = (src, dst)
    return HeteroGraph.from_edges(edges, {f"n{i}": count for i, count in enumerate(counts)})


def assert_same_subgraph(found: Any, expected: Any) -> None:
    """Compare samples of any sampler; parts of typed ones go by type."""
    for name in ("node", "row", "col", "edge", "batch"):
        a, b = getattr(found, name), getattr(expected, name)
        if b is None:
            assert a is None, name
            continue
        if not isinstance(b, dict):
            a, b = {None: a}, {None: b}
        assert list(a) == list(b), name
        for kind, values in b.items():
            assert a[kind].dtype == np.int64, name
            np.testing.assert_array_equal(a[kind], values, err_msg=f"{name} {kind}")
    assert found.num_sampled_nodes == expected.num_sampled_nodes
    assert found.num_sampled_edges == expected.num_sampled_edges


def assert_same_graph(found: Graph, expected: Graph) -> None:
    assert (found.num_nodes, found.num_edges) == (expected.num_nodes, expected.num_edges)
    assert found.layout == expected.layout
    if expected.layout != "csr":
        for a, b in zip(found.csc(), expected.csc(), strict=True):
            np.testing.assert_array_equal(a, b)
    if expected.layout != "csc":
        for c, d in zip(found.csr(), expected.csr(), strict=True):
            assert (c is None) == (d is None)
            if c is not None and d is not None:
                np.testing.assert_array_equal(c, d)
    for name in ("edge_order", "edge_weight", "edge_time", "node_time"):
        a, b = getattr(found, name), getattr(expected, name)
        assert (a is None) == (b is None), name
        if a is not None:
            assert a.dtype == b.dtype, name
            np.testing.assert_array_equal(a, b, err_msg=name)
    for table, wanted in (
        (found.node_attrs, expected.node_attrs),
        (found.edge_attrs, expected.edge_attrs),
    ):
        assert sorted(table) == sorted(wanted)
        for key, store in wanted.items():
            assert table[key].dtype_name == store.dtype_name
            np.testing.assert_array_equal(table[key].array, store.array, err_msg=key)


def chi_square(counts: Ids, expected: Any) -> float:
    """The statistic in units of standard deviations from its mean (degrees of freedom large)."""
    degrees = counts.size - 1
    statistic = float(((counts - expected) ** 2 / expected).sum())
    return (statistic - degrees) / float(np.sqrt(2 * degrees))
