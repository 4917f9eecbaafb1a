"""Verifying graphs whose parts contradict each other, under checksums that are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.graphs import make_graph

from aethergraph import Graph, HeteroGraph, errors
from aethergraph import _native as native

Edit = Callable[[dict[int, Any]], None]


def swap_destinations(sections: dict[int, Any]) -> None:
    ids = sections[native.SECTION_CSR_INDICES]
    other = int(np.flatnonzero(ids != ids[10])[0])
    ids[[10, other]] = ids[[other, 10]]


def change_source(sections: dict[int, Any]) -> None:
    ids = sections[native.SECTION_CSC_INDICES]
    ids[7] = (ids[7] + 1) % 200


def move_edge(sections: dict[int, Any]) -> None:
    indptr = sections[native.SECTION_CSR_INDPTR]
    indptr[int(np.flatnonzero(np.diff(indptr) > 1)[3]) + 1] -= 1


def swap_edge_ids(sections: dict[int, Any]) -> None:
    ids = sections[native.SECTION_CSR_EDGE_IDS]
    ids[[0, 500]] = ids[[500, 0]]


def invent_edge_id(sections: dict[int, Any]) -> None:
    sections[native.SECTION_CSR_EDGE_IDS][40] = 3000


def repeat_edge_id(sections: dict[int, Any]) -> None:
    sections[native.SECTION_CSR_EDGE_IDS][40] = sections[native.SECTION_CSR_EDGE_IDS][41]


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (swap_destinations, r"CSC and CSR contradict .* csr_edge_ids .* csc_indices"),
        (change_source, r"CSC and CSR contradict .* edge 7 goes from \d+ to 0, csc_indices say"),
        (move_edge, "CSC and CSR contradict"),
        (swap_edge_ids, "CSC and CSR contradict .* at position 0 "),
        (invent_edge_id, r"csr_edge_ids\[40\] = 3000 is not in 0..2999"),
        (repeat_edge_id, "at position 40 "),
    ],
)
def test_directions_that_contradict_each_other(
    tmp_path: Path, rewrite_container: Any, edit: Edit, words: str, compress: bool
) -> None:
    make_graph(layout="both").save(tmp_path / "good")
    Graph.load(tmp_path / "good").verify()

    sections: dict[int, Any] = {}
    rewrite_container(
        tmp_path / "good", tmp_path / "bad", lambda s, a: sections.setdefault(s.kind, a)
    )
    edit(sections)
    rewrite_container(tmp_path / "good", tmp_path / "bad", lambda s, a: sections[s.kind])
    if compress:
        Graph.load(tmp_path / "bad").save(tmp_path / "small", compress=True)
        (tmp_path / "small").replace(tmp_path / "bad")
    for storage in ("mmap", "memory", "uring"):
        with pytest.raises(errors.CorruptFileError, match=words) as caught:
            Graph.load(tmp_path / "bad", storage=storage).verify()
        assert str(tmp_path / "bad") in str(caught.value)
    with pytest.raises(errors.CorruptFileError, match=words):
        HeteroGraph.load(tmp_path / "bad").verify()


def test_edge_ids_of_parallel_edges_are_a_permutation(
    tmp_path: Path, rewrite_container: Any
) -> None:
    """Every out-edge is an in-edge here, but one of those is there twice, another not at all."""
    Graph.from_edges(3, [0, 0, 1], [2, 2, 0], layout="both").save(tmp_path / "good")

    def repeat(section: native.Section, array: Any) -> Any:
        return array[[0, 0, 2]] if section.kind == native.SECTION_CSR_EDGE_IDS else array

    rewrite_container(tmp_path / "good", tmp_path / "bad", repeat)
    with pytest.raises(errors.CorruptFileError, match="CSR edge ids are not a permutation"):
        Graph.load(tmp_path / "bad").verify()


def test_the_order_of_edges_is_a_permutation(tmp_path: Path, rewrite_container: Any) -> None:
    make_graph(keep_order=True).save(tmp_path / "good")
    Graph.load(tmp_path / "good").verify()
    for value in (5, 3000, 2**32 - 1):

        def change(section: native.Section, array: Any, value: int = value) -> Any:
            if section.kind == native.SECTION_EDGE_ORDER:
                array[0] = value if array[0] != value else 6
            return array

        rewrite_container(tmp_path / "good", tmp_path / "bad", change)
        with pytest.raises(errors.CorruptFileError, match="edge order are not a permutation"):
            Graph.load(tmp_path / "bad").verify()


@pytest.mark.parametrize("edges", [0, 1, 70_000])
@pytest.mark.parametrize("compress", [False, True])
def test_directions_that_agree(tmp_path: Path, edges: int, compress: bool) -> None:
    graph = make_graph(num_nodes=3000, num_edges=edges, layout="both", keep_order=True)
    graph.verify()
    graph.save(tmp_path / "g", compress=compress)
    told: list[tuple[int, int]] = []
    Graph.load(tmp_path / "g").verify(lambda *now: told.append(now))
    assert told[-1][0] == told[-1][1]
    assert [done for done, _ in told] == sorted(done for done, _ in told)
