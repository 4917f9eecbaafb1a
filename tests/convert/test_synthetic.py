"""Generated graphs: the same everywhere, and as described."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from aethergraph.convert.readers.base import ProgressFn
from aethergraph.errors import InvalidArgumentError, StorageError
from aethergraph.testing.graphs import CHUNK_EDGES, CommunityGraph, RmatGraph

SMALL = CommunityGraph(1003, 20_000, num_classes=5, num_features=7, seed=3)


def digest(*arrays: np.ndarray) -> str:
    joined = hashlib.sha256()
    for array in arrays:
        joined.update(np.ascontiguousarray(array).tobytes())
    return joined.hexdigest()[:16]


@pytest.mark.parametrize("graph", [SMALL, RmatGraph(12, 600_000, seed=1)])
def test_threads_and_chunks_do_not_matter(graph: CommunityGraph | RmatGraph) -> None:
    one, two = graph.edges(threads=1), graph.edges(threads=2)
    assert digest(*one) == digest(*two)
    start, stop = graph.num_edges // 3, graph.num_edges // 3 + 1000
    src, dst = graph.edge_chunk(start, stop)
    assert (src == one[0][start:stop]).all() and (dst == one[1][start:stop]).all()
    chunks = list(graph.iter_edges())
    assert len(chunks) == -(-graph.num_edges // CHUNK_EDGES)
    assert (np.concatenate([c[1] for c in chunks]) == one[1]).all()


def test_seeds_differ_and_values_stay() -> None:
    graph = CommunityGraph(1003, 20_000, num_classes=5, num_features=7, seed=4)
    assert digest(*graph.edges()) != digest(*SMALL.edges())
    # These never change: files made from a seed must be the same in every release.
    assert digest(*SMALL.edges(), SMALL.labels) == "6b5a066f133c3e08"
    assert digest(SMALL.feature_rows(0, 1003)) == "41e4ffcc073074d3"
    assert digest(*RmatGraph(12, 5000, seed=1).edges()) == "9c6cf327cd15c2d3"


def test_communities_are_as_described() -> None:
    graph = CommunityGraph(20_000, 400_000, num_classes=10, homophily=0.7)
    src, dst = graph.edges()
    labels = graph.labels
    sizes = np.bincount(labels)
    assert sizes.size == 10 and np.ptp(sizes) <= 1
    assert src.min() >= 0 and max(src.max(), dst.max()) < 20_000
    same = (labels[src] == labels[dst]).mean()
    assert abs(same - (0.7 + 0.3 / 10)) < 0.01
    inward, outward = np.bincount(dst, minlength=20_000), np.bincount(src, minlength=20_000)
    assert inward.min() >= 10  # half of the edges are spread evenly
    assert outward.max() > 50 * outward.mean()  # a heavy tail


def test_features_carry_the_class_faintly(tmp_path: Path) -> None:
    graph = CommunityGraph(4000, 8000, num_classes=4, num_features=33, signal=1.0)
    seen: list[int] = []
    report: ProgressFn = lambda done, total: seen.append(done)  # noqa: E731
    graph.write_features(tmp_path / "x.npy", progress=report)
    assert seen[-1] == 4000
    rows = np.load(tmp_path / "x.npy")
    assert rows.shape == (4000, 33) and rows.dtype == np.float32
    assert (rows[100:107] == graph.feature_rows(100, 107)).all()  # width 33: not on 64 bits
    means = np.stack([rows[graph.labels == c].mean(axis=0) for c in range(4)])
    assert np.allclose(np.linalg.norm(means, axis=1), 1.0, atol=0.3)
    assert abs((rows - means[graph.labels]).std() - 1) < 0.02
    nearest = np.argmax(rows @ means.T, axis=1)
    assert 0.4 < (nearest == graph.labels).mean() < 0.75
    with pytest.raises(StorageError):
        graph.write_features(tmp_path / "none" / "x.npy")


def test_rmat_is_skewed_and_a_permutation() -> None:
    graph = RmatGraph(10, 50_000)
    src, dst = graph.edges()
    assert graph.num_nodes == 1024 and max(src.max(), dst.max()) < 1024 and src.min() >= 0
    assert np.bincount(src).max() > 15 * 50_000 / 1024
    plain = RmatGraph(10, 50_000, scramble=False)
    plain_src, _ = plain.edges()
    assert np.bincount(plain_src, minlength=1024)[0] == np.bincount(plain_src).max()
    for scale in (1, 2, 5, 10):
        ids = np.arange(1 << scale)
        assert sorted(RmatGraph(scale, 1)._scrambled(ids).tolist()) == ids.tolist()
    quarter = RmatGraph(6, 20_000, a=0.25, b=0.25, c=0.25, scramble=False).edges()[0]
    assert np.bincount(quarter, minlength=64).min() > 200


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CommunityGraph(0, 1), "at least one node"),
        (lambda: CommunityGraph(5, -1), "num_edges = -1 is not in 0.."),
        (lambda: CommunityGraph(5, 5, num_classes=6), "num_classes = 6"),
        (lambda: CommunityGraph(50, 5, homophily=1.5), "homophily"),
        (lambda: RmatGraph(0, 5), "scale = 0"),
        (lambda: RmatGraph(5, 5, a=0.9), "at most 1"),
    ],
)
def test_bad_arguments(make: object, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make()  # type: ignore[operator]


def test_no_edges() -> None:
    src, dst = CommunityGraph(20, 0).edges()
    assert src.size == dst.size == 0
