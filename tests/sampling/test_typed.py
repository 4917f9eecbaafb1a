"""The native sampler over several node types and edge types, against the oracle."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.strategies import Ids, examples

from aethergraph import _native as native
from aethergraph import errors
from aethergraph.testing import oracle

keys = st.integers(0, 2**64 - 1)


class Schema:
    """Random lists between random node types, with weights and times where drawn."""

    def __init__(self, data: st.DataObject) -> None:
        self.num_nodes = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=3))
        number = st.integers(0, len(self.num_nodes) - 1)
        self.relations: list[native.NativeRelation] = []
        self.expected: list[oracle.Relation] = []
        for source, to in data.draw(st.lists(st.tuples(number, number), max_size=4)):
            self._add(source, to, data.draw(st.integers(0, 2**32)), data.draw(st.integers(0, 7)))

    def _add(self, source: int, to: int, seed: int, options: int) -> None:
        rng = np.random.default_rng(seed)
        far, near = self.num_nodes[to], self.num_nodes[source]
        count = int(rng.integers(0, 60)) if far and near else 0
        ends = rng.integers(0, max(near, 1), count), rng.integers(0, max(far, 1), count)
        indptr, indices, _ = oracle.compressed_lists(near, *ends)
        edge_ids = rng.permutation(count).astype(np.uint32) if options & 1 else None
        weight = rng.integers(0, 3, count).astype(np.float32) if options & 2 else None
        time = self._times(rng, indptr, edge_ids) if options & 4 else None
        topology = native.NativeTopology(
            indptr.astype(np.uint64), indices.astype(np.uint32), edge_ids, far
        )
        relation = native.NativeRelation(topology, source, to, weight, time)
        relation.check_times()
        self.relations.append(relation)
        self.expected.append(
            oracle.Relation(indptr, indices, edge_ids, source, to, weight=weight, time=time)
        )

    @staticmethod
    def _times(rng: Any, indptr: Ids, edge_ids: NDArray[Any] | None) -> Ids:
        """By edge id, ascending in every list."""
        by_position = rng.integers(0, 9, int(indptr[-1]))
        for start, end in itertools.pairwise(indptr):
            by_position[start:end].sort()
        times = by_position.copy()
        if edge_ids is not None:
            times[edge_ids] = by_position
        return times


def draw_times(data: st.DataObject, count: int) -> Ids:
    times = data.draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))
    return np.array(times, np.int64)


def draw_positions(data: st.DataObject, relation: oracle.Relation) -> Ids:
    """Positions to exclude, ascending: none, some or all."""
    count = len(relation.indices)
    part = data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    return np.flatnonzero(rng.random(count) < part)


def edges_at(relation: oracle.Relation, places: Ids) -> list[int]:
    ids = places if relation.edge_ids is None else relation.edge_ids[places]
    return [int(edge) for edge in ids]


@examples(150)
@given(
    hops=st.integers(0, 3), key=keys, replace=st.booleans(), disjoint=st.booleans(),
    induced=st.booleans(), latest=st.booleans(), layered=st.booleans(), excluding=st.booleans(),
    threads=st.sampled_from([1, 2, 8]), data=st.data(),
)  # fmt: skip
def test_equal_to_the_oracle(
    hops: int, key: int, replace: bool, disjoint: bool, induced: bool, latest: bool,
    layered: bool, excluding: bool, threads: int, data: st.DataObject,
) -> None:  # fmt: skip
    schema = Schema(data)
    fanout = st.lists(st.integers(-1, 4), min_size=hops, max_size=hops)
    fanouts = [data.draw(fanout) for _ in schema.relations]
    hops = hops if fanouts else 0
    seeds = [
        np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=4)) if n else [], np.int64)
        for n in schema.num_nodes
    ]
    until = [draw_times(data, len(ids)) for ids in seeds] if disjoint else None
    flags = (
        native.SAMPLE_REPLACE * replace | native.SAMPLE_DISJOINT * disjoint
        | native.SAMPLE_INDUCED * induced | native.SAMPLE_LATEST * (latest and disjoint)
        | native.SAMPLE_LAYERED * layered
    )  # fmt: skip
    sampler = native.NativeSampler(schema.relations, schema.num_nodes, fanouts, flags, threads)
    exclude = [draw_positions(data, r) for r in schema.expected] if excluding else None
    expected = oracle.sample_typed(
        schema.expected, seeds, fanouts, key, replace=replace, disjoint=disjoint, induced=induced,
        latest=latest and disjoint, layered=layered,
        until=None if until is None else np.concatenate(until),
        exclude=None if exclude is None else [
            frozenset(edges_at(*one)) for one in zip(schema.expected, exclude, strict=True)
        ],
    )  # fmt: skip
    for _ in range(2):  # scratch memory leaves no trace
        found = sampler.sample(seeds, key, until=until, exclude=exclude)
        for name in ("node", "row", "col", "edge"):
            for a, b in zip(getattr(found, name), getattr(expected, name), strict=True):
                np.testing.assert_array_equal(a, b, err_msg=name)
        if disjoint:
            assert found.batch is not None
            for a, b in zip(found.batch, expected.batch, strict=True):
                np.testing.assert_array_equal(a, b, err_msg="batch")
        assert found.hop_nodes == expected.hop_nodes
        assert found.hop_edges == expected.hop_edges


def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    lists = native.NativeTopology(
        np.array([0, 1], np.uint64), np.array([2], np.uint32), None, 3
    )  # fmt: skip
    relation = native.NativeRelation(lists, 0, 1)
    with pytest.raises(errors.InvalidArgumentError, match="edge type 0"):
        native.NativeSampler([relation], [1, 2], [[1]], 0, 1)
    sampler = native.NativeSampler([relation], [1, 3], [[1]], 0, 1)
    group = native.NativeGroup([relation], [1, 3], [[1]], 0, 1, capacity=2)
    for thing in (sampler, group):
        with pytest.raises(errors.InvalidArgumentError, match="edge type 0"):
            thing.retarget([relation], [2, 3])
    seeds = [np.array([0]), np.array([1])]
    sample = next(group.sample([native.NativeBatch(seeds, 1)], native.NativeSample))
    assert sample.node[1].tolist() == sampler.sample(seeds, 1).node[1].tolist() == [1, 2]
    with pytest.raises(errors.OutOfRangeError, match=r"seeds\[1\] = 3"):
        sampler.sample([np.array([0]), np.array([0, 3])], 1)
