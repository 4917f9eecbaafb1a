"""Ingestor: each record once, whatever happens; what is bad, late, or too much."""

from __future__ import annotations

import base64
import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ingesting
from support.ingesting import edges, kills_timeout, letters, most_kills, run_killed
from support.strategies import examples
from support.threads import WAIT, comes

from aethergraph import DynamicGraph, DynamicHeteroGraph, errors
from aethergraph.streaming import FileSource, Ingestor, MemorySource, Records, Schema, memory
from aethergraph.streaming.stats import IngestStats


def small(nodes: int = 100, **options: Any) -> DynamicGraph:
    return ingesting.small(nodes, **{"layout": "both", **options})


def timed(nodes: int = 100, **options: Any) -> DynamicGraph:
    return ingesting.small(nodes, edge_time="int64", **options)


# ---- what it writes ------------------------------------------------------------------------------


operations = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.integers(0, 2)), max_size=40
)


@examples(80)
@given(
    order=st.sampled_from(["id", "time"]), records=operations, batch=st.integers(1, 50),
    most=st.integers(1, 20),
)  # fmt: skip
def test_it_does_what_the_records_say_in_order(
    order: str, records: list[Any], batch: int, most: int
) -> None:
    graph = small(4, order=order)
    source = MemorySource("s", most=most)
    expected: dict[tuple[int, int], int] = {}
    following: dict[int, int] = {}
    for u, _, gone, partition in records:
        # Nodes of a pair tell the partition: there is an order in partitions only.
        pair = (u, (u + partition) % 4)
        source.append(partition, src=[pair[0]], dst=[pair[1]], delete=[gone])
        following[partition] = following.get(partition, 0) + 1
        if gone:
            expected.pop(pair, None)
        else:
            expected[pair] = 1 if order == "id" else expected.get(pair, 0) + 1
    source.end()
    stats = Ingestor(graph, source, batch=batch).run()
    assert edges(graph) == sorted(pair for pair, count in expected.items() for _ in range(count))
    assert graph.offsets("s") == following
    assert (stats.state, stats.records) == ("ended", len(records))
    assert stats.edges == sum(not gone for _, _, gone, _ in records)


def test_values_and_attributes(tmp_path: Path) -> None:
    graph = small(
        edge_time="datetime64[ms]", edge_weight="float32",
        edge_attrs={"kind": ((), "int16"), "at": ((2,), "float32")},
    )  # fmt: skip
    lines = [
        {"u": 1, "v": 2, "t": 5, "w": 1, "k": 3, "x": 1, "y": 0.5},
        {"u": 2, "v": 2, "t": 7, "w": 0.25, "k": -1, "x": 2.5, "y": 4},
    ]
    (tmp_path / "e").write_text("".join(json.dumps(one) + "\n" for one in lines))
    schema = Schema.json(
        src="u", dst="v", time="t", time_unit="s", weight="w", attrs={"kind": "k", "at": ["x", "y"]}
    )
    Ingestor(graph, FileSource(tmp_path / "e", schema, follow=False)).run()
    assert edges(graph) == [(1, 2), (2, 2)]
    values = graph.edge_values
    assert values["edge_time"].gather([0, 1]).tolist() == [5000, 7000]
    assert values["edge_weight"].gather([0, 1]).tolist() == [1, 0.25]
    assert graph.edge_attrs["kind"].gather([0, 1]).tolist() == [3, -1]
    assert graph.edge_attrs["at"].gather([0, 1]).tolist() == [[1, 0.5], [2.5, 4]]


def test_rows_of_nodes() -> None:
    graph = small(3)
    graph.features = np.zeros((3, 2), np.float32)
    source = MemorySource("rows")
    source.append(node=[1, 2, 1], attrs={"x": [[1, 1], [2, 2], [3, 3]]})
    source.append(node=[4], attrs={"x": np.ones((1, 2))})
    source.end()
    stats = Ingestor(graph, source, new_nodes=10).run()
    assert graph.features.gather(range(5)).tolist() == [[0, 0], [3, 3], [2, 2], [0, 0], [1, 1]]
    assert (stats.rows, stats.nodes) == (4, 2)


def test_nodes_that_need_times(tmp_path: Path) -> None:
    graph = DynamicGraph(0, 8, order="time", node_time="int64", huge_pages=False)
    graph.add_nodes(3, time=[5, 4, 6])
    source = MemorySource("s")
    source.append(src=[0, 1], dst=[2, 2])
    source.append(src=[3], dst=[2])
    with pytest.raises(errors.InvalidArgumentError, match="node 3 of type 'node' is not there yet"):
        Ingestor(graph, source, new_nodes=9, batch=2).run()
    assert graph.in_neighbors(2).tolist() == [1, 0] and graph.num_nodes == 3
    keyed = DynamicGraph.open(tmp_path / "g", ids="str", order="time", node_time="int64")
    keyed.ids.add(["ann", "bob"], time=[2, 1])
    source = MemorySource("s")
    source.append(src=["ann"], dst=["bob"])
    source.append(src=["cat"], dst=["bob"])
    with pytest.raises(errors.InvalidArgumentError, match="1 keys are those of no node yet, and"):
        Ingestor(keyed, source, batch=1).run()
    assert keyed.num_edges == 1
    keyed.close()


def test_edges_of_many_types() -> None:
    votes, writes = ("user", "votes", "post"), ("user", "writes", "post")
    graph = DynamicHeteroGraph({"user": 5, "post": 2}, [votes, writes], 8, huge_pages=False)
    source = MemorySource("s")
    source.append(src=[1, 2, 3], dst=[0, 1, 6], relation=["votes", "user,writes,post", "votes"])
    source.end()
    stats = Ingestor(graph, source, new_nodes=5).run()
    assert stats.nodes == 5 and graph.num_nodes == {"user": 5, "post": 7}
    found = [graph[kind].edge_index() for kind in (votes, writes)]
    assert [[own.tolist() for own in one] for one in found] == [[[1, 3], [0, 6]], [[2], [1]]]
    other = MemorySource("t")
    other.append(src=[1], dst=[0])
    with pytest.raises(
        errors.InvalidArgumentError, match=r"t, partition 0, offset 0: .*2 edge types"
    ):
        Ingestor(graph, other).run()
    with Ingestor(graph, MemorySource("u", kind=votes)) as ingestor:
        ingestor.source.append(src=[4], dst=[4])  # type: ignore[attr-defined]
        ingestor.drain(WAIT)
    assert graph[votes].num_edges == 3


def test_edge_types_in_a_struct(tmp_path: Path) -> None:
    kinds = [("user", "votes", "post"), ("user", "writes", "post")]
    graph = DynamicHeteroGraph({"user": 5, "post": 2}, kinds, 8, huge_pages=False)
    row = np.dtype([("u", "<u4"), ("v", "<u4"), ("r", "S6")])
    np.array([(1, 0, b"votes"), (2, 1, b"writes"), (3, 1, b"\xff")], row).tofile(tmp_path / "e")
    source = FileSource(tmp_path / "e", Schema.struct(row, src="u", dst="v", relation="r"),
                        follow=False)  # fmt: skip
    stats = Ingestor(graph, source, dead_letter=tmp_path / "bad", max_bad=1).run()
    assert (stats.edges, stats.bad) == (2, 1)
    assert [graph[kind].num_edges for kind in kinds] == [1, 1]
    (letter,) = letters(tmp_path / "bad")
    assert "is not one of user,votes,post, votes, user" in letter["reason"]


class Texts:
    """Ids of texts, kept beside the graph."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def lookup(self, keys: Any) -> Any:
        return np.array([self.known.get(key, -1) for key in keys.tolist()], np.int64)

    def append(self, keys: Any) -> Any:
        return np.array([self.known.setdefault(k, len(self.known)) for k in keys.tolist()])


def test_ids_of_others() -> None:
    graph = small(0)
    source = MemorySource("s")
    source.append(src=["ann", "bob", "ann"], dst=["bob", "cat", "ann"])
    source.end()
    Ingestor(graph, source, id_map=Texts()).run()
    assert edges(graph) == [(0, 0), (0, 1), (1, 2)] and graph.num_nodes == 3


# ---- exactly once --------------------------------------------------------------------------------


INGEST = """
import sys
from aethergraph import DynamicGraph
from aethergraph.streaming import FileSource, Ingestor, Schema, files
files._BYTES = 2000
path, folder, durability = sys.argv[1:4]
graph = DynamicGraph.open(path, 1000, 64, order="time", layout="csc", durability=durability,
                          edge_time="int64", edge_attrs={"n": ((), "int64")}, huge_pages=False)
schema = Schema.json(src="u", dst="v", time="t", attrs={"n": "n"})
source = FileSource(folder, schema, follow=False, pattern="*.jsonl")
ingestor = Ingestor(graph, source, batch=37, linger=0, dead_letter=folder + "/bad", max_bad="50%")
commit = ingestor._commit
def noted(**options):
    commit(**options)
    print(str(ingestor.stats().commits).ljust(2000), flush=True)
    if ingestor.stats().commits % 50 == 7:
        graph.merge()
ingestor._commit = noted
ingestor.run()
graph.close()
print("done", flush=True)
"""


@pytest.mark.any_python
@pytest.mark.timeout(kills_timeout())
@pytest.mark.parametrize("durability", ["none", pytest.param("sync", marks=pytest.mark.slow)])
def test_killed_anywhere_each_record_is_there_once(tmp_path: Path, durability: str) -> None:
    rng = np.random.default_rng(11)
    folder = tmp_path / "in"
    folder.mkdir()
    number, wanted, poison = 0, [], []
    for name in "abc":
        lines = []
        for _ in range(200 * max(most_kills(), 3)):  # more commits than kills need
            if rng.random() < 0.02:
                lines.append(f'{{"u": {number}, oh no}}')
                poison.append(lines[-1])
            else:
                u, v = (int(one) for one in rng.integers(0, 1000, 2))
                lines.append(json.dumps({"u": u, "v": v, "t": number, "n": number}))
                wanted.append((number, u, v))
            number += 1
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    args = [tmp_path / "g", folder, durability]
    kills, most = run_killed(INGEST, args, rng, max(2, min(15, 600 // most_kills())))
    assert kills == most
    graph = DynamicGraph.open(tmp_path / "g", arena_mb=64, huge_pages=False)
    src, dst, ids = graph.snapshot().edge_list()
    numbers = graph.edge_attrs["n"].gather(ids).tolist()
    assert sorted(zip(numbers, src.tolist(), dst.tolist(), strict=True)) == wanted
    found = [base64.b64decode(one["record"]).decode() for one in letters(folder / "bad")]
    assert sorted(found) == sorted(poison)
    graph.close()


def test_what_a_failing_commit_had_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, source = small(), MemorySource("s")
    source.append(src=range(10), dst=range(10))
    source.end()
    monkeypatch.setattr(graph, "set_offset", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Ingestor(graph, source).run()
    assert graph.num_edges == 0 and graph.offsets("s") == {}
    monkeypatch.undo()
    Ingestor(graph, source).run()
    assert graph.num_edges == 10 and graph.offsets("s") == {0: 10}
    Ingestor(graph, source).run()
    assert graph.num_edges == 10


def test_two_streams_share_a_graph() -> None:
    graph = small()
    sources = [MemorySource(name) for name in "ab"]
    with Ingestor(graph, sources[0]) as first, Ingestor(graph, sources[1]) as second:
        for number in range(50):
            for shift, source in enumerate(sources):
                source.append(shift, src=[number], dst=[shift])
        first.drain(WAIT)
        second.drain(WAIT)
    assert edges(graph) == sorted((u, v) for u in range(50) for v in range(2))
    assert graph.offsets("a") == {0: 50} and graph.offsets("b") == {1: 50}


# ---- bad records ---------------------------------------------------------------------------------


def bad_source(**columns: Any) -> MemorySource:
    source = MemorySource("clicks")
    source.append(7, src=[1, 2], dst=[3, 4], **({"time": [1, 2]} if "time" in columns else {}))
    source.append(7, **{"src": [1], "dst": [1], **columns})
    source.end()
    return source


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [100]}, r"src = 100 is not in 0\.\.99"),
        ({"dst": [-1]}, r"dst = -1 is not in 0\.\.99"),
        ({"src": [2**70]}, "src = .* does not fit in 64 bits"),
        ({"src": [1.5]}, r"src = 1\.5 is no integer"),
        ({"src": ["1"]}, "src = '1' is no integer"),
        ({"src": [True]}, "src = True is no integer"),
        ({"src": [None]}, "src is missing"),
        ({"time": [1.5]}, r"time = 1\.5 is no integer"),
        ({"time": ["soon"]}, "time = 'soon' is no integer"),
        ({"time": [None]}, "time is missing"),
        ({"delete": ["perhaps"]}, "delete = 'perhaps' is neither"),
    ],
)
def test_a_bad_record_is_named_before_anything_is_committed(columns: Any, message: str) -> None:
    graph = timed() if "time" in columns else small()
    with pytest.raises(
        errors.RecordError, match=rf"clicks, partition 7, offset 2: {message}"
    ) as caught:
        Ingestor(graph, bad_source(**columns), linger=10).run()
    assert caught.value.position == 2
    assert graph.num_edges == 0 and graph.offsets("clicks") == {}


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({"edge_time": "int64"}, {}, "keeps a time of each edge, but the records have none"),
        ({"edge_weight": "float32"}, {}, "keeps a weight of each edge"),
        ({}, {"weight": [1.0]}, "the records have a weight, but the graph keeps none"),
        ({"edge_attrs": {"k": ((), "int8")}}, {}, "have the attribute 'k', but the records do not"),
        ({}, {"attrs": {"k": [1]}}, "have no attribute 'k': make the graph with edge_attrs="),
        (
            {"edge_time": "int64"},
            {"time": np.array([1], "M8[s]")},
            "time is of datetime64.s., but the graph's times are plain numbers: .* make it with",
        ),
        ({}, {"relation": ["to"]}, "one edge type"),
    ],
)
def test_records_of_another_schema(
    options: Any, columns: Any, message: str, tmp_path: Path
) -> None:
    graph, source = small(**options), MemorySource("s")
    source.append(src=[1], dst=[2], **columns)
    with pytest.raises(errors.InvalidArgumentError, match=f"s, partition 0, offset 0: .*{message}"):
        Ingestor(graph, source, dead_letter=tmp_path / "bad").run()
    assert graph.num_edges == 0 and not (tmp_path / "bad").exists()


def test_a_folder_for_dead_letters_that_is_not_there_is_named_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "no" / "bad.jsonl"
    with pytest.raises(FileNotFoundError, match=f"{path}: dead letters: there is no such folder"):
        Ingestor(small(), bad_source(src=[100]), dead_letter=path).start()
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for a writer
    with pytest.raises(errors.StorageError, match="dead letters: is a pipe or a device"):
        Ingestor(small(), bad_source(src=[100]), dead_letter=tmp_path / "pipe").start()


def test_bad_records_go_to_the_dead_letter_file(tmp_path: Path) -> None:
    graph = timed()
    lines = [json.dumps({"u": n % 100, "v": 1, "t": n}) for n in range(300)]
    bad = {20: "{", 50: '{"u": 1}', 70: '{"u": 1, "v": 500, "t": 3}', 71: '["u", "v"]'}
    for at, line in bad.items():
        lines[at] = line
    (tmp_path / "e").write_text("\n".join(lines) + "\n")
    source = FileSource(tmp_path / "e", Schema.json(src="u", dst="v", time="t"), follow=False)
    stats = Ingestor(graph, source, dead_letter=tmp_path / "bad", max_bad=4).run()
    assert (stats.bad, stats.edges, graph.num_edges) == (4, 296, 296)
    found = letters(tmp_path / "bad")
    assert [base64.b64decode(one["record"]).decode() for one in found] == list(bad.values())
    text = (tmp_path / "e").read_bytes()
    assert [text[one["offset"] :].split(b"\n")[0].decode() for one in found] == list(bad.values())
    assert {one["source"] for one in found} == {"e"}
    reasons = [one["reason"] for one in found]
    assert "JSONDecodeError" in reasons[0] and "v (dst) is missing" in reasons[1]
    assert "v (dst) = 500 is not in 0..99" in reasons[2] and "is no object" in reasons[3]


def test_too_many_bad_records_end_it_before_the_commit(tmp_path: Path) -> None:
    graph, source = small(), MemorySource("s", most=100)
    source.append(src=np.arange(100), dst=np.zeros(100, int))
    source.append(src=np.arange(60, 160), dst=np.zeros(100, int))
    source.end()
    with pytest.raises(errors.RecordError, match=r"too many bad records: 60 of 200.*src = 100"):
        Ingestor(graph, source, batch=100, dead_letter=tmp_path / "bad", max_bad=59).run()
    assert graph.num_edges == 100 and graph.offsets("s") == {0: 100}
    assert not (tmp_path / "bad").exists()
    Ingestor(graph, source, dead_letter=tmp_path / "bad", max_bad=60).run()
    assert graph.num_edges == 140 and len(letters(tmp_path / "bad")) == 60


@pytest.mark.parametrize("count", [1, 5, 500])
def test_a_wrong_schema_ends_it_before_the_first_commit(tmp_path: Path, count: int) -> None:
    graph, source = small(), MemorySource("s")
    for _ in range(count):
        source.append(src=[1.5], dst=[0])
    source.end()
    with pytest.raises(errors.RecordError, match=r"none of .*src = 1\.5 is no integer"):
        Ingestor(graph, source, batch=1, dead_letter=tmp_path / "bad", max_bad="100%").run()
    assert graph.offsets("s") == {}


def test_the_thread_tells_why_it_ended() -> None:
    graph, source = small(), MemorySource("s")
    ingestor = Ingestor(graph, source).start()
    source.append(src=[1000], dst=[0])
    with pytest.raises(errors.RecordError, match="src = 1000"):
        ingestor.drain(WAIT)
    assert ingestor.stats().state == "failed"
    with pytest.raises(errors.RecordError, match="src = 1000"):
        ingestor.stop()
    with pytest.raises(errors.ClosedError, match="once"):
        ingestor.run()


def test_records_that_are_gone_without_a_trace_are_passed_by() -> None:
    """Offsets leave numbers out: a compacted topic has those records no more."""

    class Gaps(MemorySource):
        def poll(self, timeout: float) -> Any:
            found = super().poll(timeout)
            for one in found or ():
                one.offsets, one.following = 10 * one.offsets + 5, 10 * one.following
            return found

    graph, source = small(), Gaps("s")
    source.append(src=[1, 2], dst=[2, 3])
    source.end()
    Ingestor(graph, source).run()
    assert graph.offsets("s") == {0: 20} and graph.num_edges == 2


# ---- time ----------------------------------------------------------------------------------------


def test_late_records(tmp_path: Path) -> None:
    for late in ("insert", "dead_letter"):
        graph, source = timed(), MemorySource("s")
        path = tmp_path / late
        with Ingestor(graph, source, late=late, lateness=10, dead_letter=path) as ingestor:  # type: ignore[arg-type]
            source.append(src=[1, 2], dst=[0, 0], time=[100, 50])  # no watermark yet
            ingestor.drain(WAIT)
            assert ingestor.watermark == 90
            source.append(src=[3, 4, 5], dst=[0, 0, 0], time=[89, 90, 95])
            ingestor.drain(WAIT)
            assert ingestor.watermark == 90 and ingestor.stats().late == 1
            assert ingestor.cap([5, 95]).tolist() == [5, 90]
        if late == "insert":
            assert graph.in_neighbors(0).tolist() == [2, 3, 4, 5, 1]  # each at its place
            assert not path.exists()
        else:
            assert graph.in_neighbors(0).tolist() == [2, 4, 5, 1]
            (found,) = letters(path)
            assert found["offset"] == 2 and "89 is before the watermark 90" in found["reason"]
        # The next run knows how far it was.
        again = Ingestor(graph, source, late=late, lateness=10, dead_letter=path)  # type: ignore[arg-type]
        with again:
            assert again.watermark == 90
            source.append(src=[6], dst=[0], time=[1])
            again.drain(WAIT)
            assert again.stats().late == 1


def test_deletions_without_a_time_are_neither_late_nor_old(tmp_path: Path) -> None:
    graph, source = timed(), MemorySource("s")
    source.append(src=[1, 1], dst=[2, 3], time=[100, 110])
    source.append(src=[1], dst=[2], time=[None], delete=[True])
    source.append(src=[1, 1], dst=[3, 4], time=[None, 90], delete=[True, False])
    source.end()
    stats = Ingestor(graph, source, batch=1, late="dead_letter", dead_letter=tmp_path / "bad").run()
    assert (stats.edges, stats.deleted, stats.bad, stats.late) == (2, 2, 0, 1)
    assert [one["offset"] for one in letters(tmp_path / "bad")] == [4]
    assert graph.num_edges == 0 and graph.watermark == 110
    dated = small(edge_time="datetime64[s]", layout="csc")
    source = MemorySource("t")
    gone = np.array(["NaT", "2020-01-01"], "datetime64[s]")
    source.append(src=[1, 2], dst=[2, 2], time=gone, delete=[True, True])
    source.end()
    assert Ingestor(dated, source).run().deleted == 0  # there were no such edges
    assert dated.watermark == gone[1].astype(int)


def test_the_watermark_waits_for_the_slowest_and_not_for_the_idle() -> None:
    graph, source = timed(), MemorySource("s")
    source.append(0, src=[1], dst=[0], time=[100])
    source.append(1, src=[1], dst=[0], time=[-40])
    with Ingestor(graph, source, idle="200ms") as ingestor:
        ingestor.drain(WAIT)
        assert ingestor.watermark in (-40, 100)
        source.append(0, src=[1], dst=[0], time=[200])
        assert comes(lambda: ingestor.watermark == 200)  # partition 1 is idle
        source.append(1, src=[1], dst=[0], time=[-30])  # it wakes up: the mark does not go back
        ingestor.drain(WAIT)
        assert ingestor.watermark == 200


def test_a_partition_too_far_ahead_waits() -> None:
    graph, source = timed(), MemorySource("s", most=10)
    source.append(0, src=[1] * 500, dst=[0] * 500, time=np.arange(500) * 10)
    source.append(1, src=[2] * 500, dst=[0] * 500, time=np.arange(500))
    source.end()
    ahead, paused = [], []
    pause = source.pause

    class Watched(Ingestor):
        def _commit(self, **options: Any) -> None:
            super()._commit(**options)
            largest = self._times.largest
            if len(largest) == 2 and graph.offsets("s")[1] < 500:
                ahead.append(largest[0] - largest[1])

    def noted(partitions: Any) -> None:
        paused.append(set(partitions))
        pause(partitions)

    source.pause = noted  # type: ignore[method-assign]
    Watched(graph, source, batch=20, linger=0, max_skew=300, idle=1000).run()
    assert graph.num_edges == 1000 and {0} in paused
    assert max(ahead) <= 300 + 2 * 100  # some records of 10 each after the last look


def test_spans_of_time_need_a_unit() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="no unit"):
        Ingestor(timed(), MemorySource("s"), lateness="5s")
    graph = small(edge_time="datetime64[ms]")
    assert Ingestor(graph, MemorySource("s"), lateness="5s")._times.lateness == 5000


# ---- memory --------------------------------------------------------------------------------------


def test_it_waits_while_the_arena_is_full() -> None:
    graph = DynamicGraph(100_000, 1, order="time", layout="csc", huge_pages=False)
    source = MemorySource("s", most=1000)
    rng = np.random.default_rng(0)
    held: list[Any] = []
    with Ingestor(graph, source, batch=1000) as ingestor:

        def is_full() -> bool:
            held.append(graph.snapshot())
            del held[:-100]
            source.append(src=rng.integers(0, 100, 1000), dst=rng.integers(0, 100, 1000))
            return ingestor.stats().state == "full"

        assert comes(is_full) and "arena" in str(ingestor.stats().reason)
        kept = graph.offsets("s")[0]
        assert graph.num_edges == kept  # what did not fit is not there at all
        with pytest.raises(TimeoutError, match="full"):
            ingestor.drain(0.3)
        held.clear()
    assert graph.offsets("s")[0] == graph.num_edges >= kept


# ---- threads and sources -------------------------------------------------------------------------


def test_a_thread_gives_way() -> None:
    """Give others their turn at Python after each thousand records, not each 10,000."""

    class Wide(MemorySource):
        def __init__(self) -> None:
            super().__init__("s", most=10**6)
            self.at_once, self.sizes = 10_000, list[int]()

        def poll(self, timeout: float) -> Any:
            self._most = self.at_once
            found = super().poll(timeout)
            self.sizes += [one.count for one in found or ()]
            return found

    for options, most in (({}, 1000), ({"gives_way": False}, 10_000)):
        source, graph = Wide(), small()
        source.append(src=np.zeros(20_000, int), dst=np.arange(20_000) % 100)
        with Ingestor(graph, source, **options) as ingestor:  # type: ignore[arg-type]
            ingestor.drain(WAIT)
        assert max(source.sizes) == most and graph.offsets("s") == {0: 20_000}
    source = Wide()
    source.append(src=np.zeros(20_000, int), dst=np.arange(20_000) % 100)
    source.end()
    Ingestor(small(), source).run()  # nobody waits for this thread
    assert max(source.sizes) == 10_000


def test_a_stream_is_taken_by_one_ingestor() -> None:
    graph, source = small(), MemorySource("s")
    with Ingestor(graph, source):
        with pytest.raises(errors.InvalidArgumentError, match="'s' is being taken into"):
            Ingestor(graph, MemorySource("s")).start()
        with Ingestor(graph, MemorySource("t")):
            pass
    Ingestor(graph, MemorySource("s")).start().stop()  # the first has ended
    one = Ingestor(graph, source)
    one.stop()
    with pytest.raises(errors.ClosedError, match="runs once"):
        one.start()


def test_waiting_inside_a_transaction_is_refused() -> None:
    graph, source = small(), MemorySource("s")
    cut = Ingestor(graph, MemorySource("cut"), cut=10, keep=2)
    with Ingestor(graph, source) as ingestor, cut:
        with graph.transaction():
            source.append(src=[1], dst=[2])
            for call in (
                ingestor.stop,
                lambda: ingestor.drain(WAIT),
                lambda: cut.snapshot({0: 10}, WAIT),
                Ingestor(graph, MemorySource("t")).__enter__,
            ):
                with pytest.raises(errors.InvalidArgumentError, match="inside a transaction"):
                    call()
            assert ingestor.stats().state == "running"
        ingestor.drain(WAIT)
        assert graph.num_edges == 1
    with graph.transaction():
        ingestor.stop()  # it has ended: there is nothing to wait for


def test_nobody_waits_for_an_ingestor_that_does_not_read() -> None:
    graph, source = small(), MemorySource("s")
    ingestor = Ingestor(graph, source, cut=10, keep=1)
    for call in (ingestor.drain, lambda: ingestor.snapshot({0: 10})):
        with pytest.raises(errors.ClosedError, match=r"call start\(\) first"):
            call()

    class Stopped(MemorySource):
        def poll(self, timeout: float) -> Any:
            other.stop()  # while somebody waits, or before
            return super().poll(0)

    other = Ingestor(graph, Stopped("other"))
    with pytest.raises(errors.ClosedError, match="was stopped, records may be left"):
        other.start().drain(WAIT)


def test_a_partition_may_be_added_while_others_are_counted() -> None:
    class Appending(dict[int, int]):
        def get(self, *args: Any) -> Any:
            adding = threading.Thread(
                target=source.append, args=(7,), kwargs={"src": [], "dst": []}
            )
            adding.start()
            adding.join(0.05)  # it waits for its turn
            return super().get(*args)

    source = MemorySource("s")
    for partition in range(3):
        source.append(partition, src=[1], dst=[2])
    source._places = Appending()
    assert source.lag() == {0: 1, 1: 1, 2: 1}


def test_what_was_appended_does_not_change_with_the_arrays() -> None:
    source, graph = (
        MemorySource("s"),
        DynamicGraph(100, 8, huge_pages=False, edge_attrs={"x": ((), "int64")}),
    )
    src, x = np.zeros(2, np.int64), np.zeros(2, np.int64)
    for number in range(3):
        src[:], x[:] = [10 * number, 10 * number + 1], number
        source.append(src=src, dst=[9, 9], attrs={"x": x})
    source.end()
    Ingestor(graph, source).run()
    assert sorted(graph.in_neighbors(9).tolist()) == [0, 1, 10, 11, 20, 21]
    assert graph.edge_attrs["x"].gather(np.arange(6)).tolist() == [0, 0, 1, 1, 2, 2]


def test_an_interrupted_append_shifts_no_later_record(monkeypatch: pytest.MonkeyPatch) -> None:
    source, count, calls = MemorySource("s"), memory._Part.count, [0]
    source.append(src=[1, 1], dst=[2, 3])

    def interrupted(part: memory._Part) -> int:
        calls[0] += 1
        if calls[0] == 1:
            raise KeyboardInterrupt
        return count.fget(part)  # type: ignore[attr-defined, no-any-return]

    monkeypatch.setattr(memory._Part, "count", property(interrupted))
    with pytest.raises(KeyboardInterrupt):
        source.append(src=[4], dst=[5])
    source.append(src=[6, 7], dst=[8, 9])
    source.end()
    graph = small()
    Ingestor(graph, source).run()
    assert edges(graph) == [(1, 2), (1, 3), (6, 8), (7, 9)] and graph.offsets("s") == {0: 4}


def test_an_error_at_the_beginning_leaves_the_stream_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, source = small(), MemorySource("s")
    start = threading.Thread.start

    def no_room(*_: object) -> None:
        raise errors.LimitError("no snapshot more")

    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        raise KeyboardInterrupt

    def interrupted_loop(_: Ingestor) -> None:
        raise KeyboardInterrupt

    def begin(**options: Any) -> Ingestor:
        return Ingestor(graph, source, **options).start()

    for owner, name, what, error, call in (
        (DynamicGraph, "snapshot", no_room, errors.LimitError, lambda: begin(cut=10, keep=2)),
        (threading.Thread, "start", no_thread, RuntimeError, begin),
        (threading.Thread, "start", interrupted, KeyboardInterrupt, begin),
        (Ingestor, "_loop", interrupted_loop, KeyboardInterrupt, Ingestor(graph, source).run),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, what)
            with pytest.raises(error):
                call()
        for thread in threading.enumerate():
            if thread.name == "ingest s":
                thread.join(WAIT)
                assert not thread.is_alive()
        with pytest.raises(errors.ClosedError):
            source.poll(0)
        with Ingestor(graph, source) as ingestor:
            source.append(src=[1], dst=[2])
            ingestor.drain(WAIT)
    assert graph.num_edges == 4


def test_times_that_the_graph_does_not_keep(tmp_path: Path) -> None:
    path, fields = tmp_path / "e", {"src": "u", "dst": "v", "time": "t"}
    path.write_text('{"u": 1, "v": 2, "t": 70}\n')
    with pytest.raises(errors.InvalidArgumentError, match=r"e: the records have a time \(t\), but"):
        Ingestor(small(), FileSource(path, Schema.json(**fields)))
    only = FileSource(path, Schema.json(**fields, watermark_only=True), follow=False)
    graph = small()
    Ingestor(graph, only).run()
    assert graph.num_edges == 1 and graph.watermark == 70
    with pytest.raises(errors.InvalidArgumentError, match="leave watermark_only= out"):
        Ingestor(timed(), only)
    with pytest.raises(errors.InvalidArgumentError, match="watermark_only= needs time="):
        Schema.json(src="u", dst="v", watermark_only=True)


@pytest.mark.parametrize(
    ("polls", "message"),
    [
        ([[(5, 5)], [(3, 3)]], "s, partition 0: record 0 came after those up to 4"),
        ([[(5, 5)], [(5, 2)]], "record 3 came after those up to 4"),
        ([[(1, 3)]], "record -2 came after"),
        ([(5, 5)], r"s: poll\(\) gave .*must give a list of Records"),
        (["five"], r"s: poll\(\) gave"),
    ],
)
def test_a_source_that_goes_back(polls: list[Any], message: str) -> None:
    class Wrong(MemorySource):
        def poll(self, timeout: float) -> Any:
            if not polls:
                return None
            given = polls.pop(0)
            if isinstance(given, str):
                return given
            if isinstance(given, tuple):
                return made(*given)
            return [made(*one) for one in given]

    def made(following: int, count: int) -> Records:
        return Records(0, following, {"src": [1] * count, "dst": [2] * count})

    graph, polls = small(), list(polls)
    with pytest.raises((errors.SourceError, errors.InvalidArgumentError), match=message):
        Ingestor(graph, Wrong("s"), linger=1e6).run()
    assert graph.num_edges == 0 and graph.offsets("s") == {}


def test_times_and_what_is_left_in_units() -> None:
    stats = IngestStats(lag={7: 3, 9: 4}, watermark=1_700_000_000, time_unit="s")
    assert stats.total_lag is None and replace(stats, lag_unit="bytes").total_lag == 7
    assert stats.watermark_time == np.datetime64("2023-11-14T22:13:20", "s")
    assert stats.largest_time is None
    assert IngestStats(largest=5).largest_time == 5
