"""Commits at equal offsets: every process that ingests a stream has the same graph at each cut."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ingesting import digest
from support.kafka import records, running_broker
from support.strategies import examples
from support.threads import WAIT, comes, run_together

from aethergraph import DynamicGraph, DynamicHeteroGraph, errors
from aethergraph.streaming import Ingestor, MemorySource, Records
from aethergraph.streaming.cuts import Cuts
from aethergraph.streaming.records import BadRecord

pytestmark = pytest.mark.any_python

NODES = 40


class Scripted:
    """Partitions of rows (offset, src, dst, deletes), in pieces and turns that a seed decides.

    A src of None is a record that cannot be read.
    """

    name = "s"

    def __init__(self, logs: Sequence[Sequence[Any]], seed: int) -> None:
        self.logs, self.rng, self.paused = logs, np.random.default_rng(seed), frozenset[int]()

    def open(self, offsets: Mapping[int, int]) -> None:
        self.at = [
            sum(row[0] < offsets.get(number, 0) for row in log)
            for number, log in enumerate(self.logs)
        ]

    def lag(self) -> dict[int, int]:
        return {number: len(log) - self.at[number] for number, log in enumerate(self.logs)}

    def ended(self) -> set[int]:
        return {number for number, left in self.lag().items() if not left}

    def poll(self, timeout: float) -> list[Records] | None:
        left = [number for number, rows in self.lag().items() if rows]
        if not left:
            return None
        free = [number for number in left if number not in self.paused]
        if not free:
            return []
        number = int(self.rng.choice(free))
        begin = self.at[number]
        end = self.at[number] = min(begin + int(self.rng.integers(1, 9)), len(self.logs[number]))
        rows = self.logs[number][begin:end]
        good = [row for row in rows if row[1] is not None]
        columns = {"src": [r[1] for r in good], "dst": [r[2] for r in good]}
        return [
            Records(
                number, rows[-1][0] + 1, {**columns, "delete": [r[3] for r in good]},
                offsets=np.array([r[0] for r in good], np.int64),
                bad=[BadRecord(r[0], "bad", b"?") for r in rows if r[1] is None],
            )
        ]  # fmt: skip

    def pause(self, partitions: Iterable[int]) -> None:
        self.paused = frozenset(partitions)

    def close(self) -> None:
        pass


row = st.tuples(
    st.integers(1, 4), st.one_of(st.integers(0, 3), st.none()), st.integers(0, 3), st.booleans()
)


@examples(20)
@given(
    steps=st.lists(st.lists(row, max_size=60), min_size=1, max_size=3),
    cut=st.integers(1, 40), seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)),
)  # fmt: skip
def test_commits_do_not_depend_on_what_comes_when(
    steps: list[Any], cut: int, seeds: tuple[int, int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    logs = []
    for log in steps:  # steps between offsets leave gaps
        offsets = np.cumsum([one[0] for one in log]) - 1
        logs.append([(int(at), *one[1:]) for at, one in zip(offsets, log, strict=True)])
    # The first record of all must fit, or nothing is committed.
    logs[0] = [(0, 1, 2, False), *((at + 1, *rest) for at, *rest in logs[0])]
    found = []
    folder = tmp_path_factory.mktemp("letters")
    for number, seed in enumerate(seeds):
        graph = DynamicGraph(4, 8, order="time", huge_pages=False)
        ingestor = Ingestor(
            graph, Scripted(logs, seed), cut=cut, keep=10**6, max_bad=10**6,
            dead_letter=folder / f"{number}",
        )  # fmt: skip
        stats = ingestor.run()
        assert stats.records == sum(map(len, logs))
        found.append([(offsets, digest(kept)) for offsets, kept in ingestor._kept])
    assert found[0] == found[1]
    for offsets, _ in found[0][1:-1]:
        for number, offset in offsets.items():
            assert offset % cut == 0 or offset > logs[number][-1][0]
    ends = {number: log[-1][0] + 1 for number, log in enumerate(logs) if log}
    assert {p: min(at, ends[p]) for p, at in found[0][-1][0].items()} == ends


def test_payloads_go_with_their_records() -> None:
    """A record that is refused is written to the dead letter file as it came."""
    cuts = Cuts(4, str, {0: 0})
    numbers = np.arange(8)
    records = Records(0, 8, {"src": numbers}, offsets=numbers, payload=lambda row: b"%d" % row)
    cuts.add(records)
    for begin in (0, 4):
        ((part,), _) = cuts.take()
        assert part.payload is not None
        assert [part.payload(row) for row in range(4)] == [b"%d" % (begin + n) for n in range(4)]


def test_keys_get_the_same_ids(tmp_path: Path) -> None:
    """New keys are counted in the order of the records, however they are handed over."""
    found = []
    for number, size in enumerate((1, 7)):
        graph = DynamicGraph.open(tmp_path / f"{number}", ids="int64", arena_mb=8, huge_pages=False)
        source = MemorySource("s", most=size)
        rng = np.random.default_rng(1)
        for partition in range(2):
            src, dst = rng.integers(0, 10**12, (2, 50))
            source.append(partition, src=src, dst=dst)
        source.end()
        Ingestor(graph, source, cut=20).run()
        found.append((digest(graph.snapshot()), list(graph.ids.keys(range(graph.num_nodes)))))
        graph.close()
    assert found[0] == found[1]


def test_many_types() -> None:
    found = []
    for most in (3, 1000):
        likes, follows = ("a", "likes", "b"), ("a", "follows", "a")
        graph = DynamicHeteroGraph({"a": 9, "b": 9}, [likes, follows], arena_mb=8, huge_pages=False)
        source = MemorySource("s", most=most)
        rng = np.random.default_rng(0)
        for partition in range(3):
            names = rng.choice(["likes", "follows"], 40)
            src, dst = rng.integers(0, 9, (2, 40))
            source.append(partition, src=src, dst=dst, relation=names)
        source.end()
        ingestor = Ingestor(graph, source, cut=16, keep=100)
        ingestor.run()
        found.append(
            [
                (at, [np.stack(kept[one].edge_index()).tolist() for one in (likes, follows)])
                for at, kept in ingestor._kept
            ]
        )
    assert found[0] == found[1] and len(found[0]) == 4


def fill(source: MemorySource, partitions: int, size: int) -> None:
    rng = np.random.default_rng(partitions)
    for partition in range(partitions):
        src, dst = rng.integers(0, NODES, (2, 1000))
        source.append(partition, src=src[:size], dst=dst[:size])


def test_ranks_agree_on_a_commit_that_all_have() -> None:
    """One rank is far ahead: it waits, and every commit that they agree on is there in both."""
    sources = [MemorySource("s", most=most) for most in (50, 1000)]
    graphs = [DynamicGraph(NODES, 8, order="time", huge_pages=False) for _ in sources]
    ranks = [
        Ingestor(graph, source, cut=100, keep=2)
        for graph, source in zip(graphs, sources, strict=True)
    ]
    fill(sources[1], 2, 1000)
    fill(sources[0], 2, 330)  # the other rank has not received all of it yet
    seen = []
    with ranks[0], ranks[1]:
        assert comes(lambda: ranks[1].offsets == {0: 200, 1: 200})
        for _ in range(2):
            for rank in ranks:
                rank.drain(WAIT)
            least = min((rank.offsets for rank in ranks), key=lambda at: sum(at.values()))
            with ranks[0].snapshot(least, WAIT) as one, ranks[1].snapshot(least, WAIT) as two:
                assert digest(one) == digest(two)
                seen.append(least)
        assert seen == [{0: 200, 1: 200}, {0: 300, 1: 300}]
        with ranks[1].snapshot(least, WAIT) as again:  # as often as one likes
            assert again.num_edges == 600
        with pytest.raises(errors.SnapshotExpiredError, match=r"from \{0: 300, 1: 300\} on"):
            ranks[1].snapshot({0: 200, 1: 200})
        with pytest.raises(errors.InvalidArgumentError, match="no cut is at"):
            ranks[1].snapshot({0: 250, 1: 350}, WAIT)
        with pytest.raises(TimeoutError, match=r"was not reached.*waits for partitions"):
            ranks[0].snapshot({0: 400, 1: 400}, 0.3)


def test_it_waits_for_the_slowest_and_says_for_which() -> None:
    source = MemorySource("s")
    graph = DynamicGraph(NODES, 8, order="time", huge_pages=False)
    fill(source, 2, 250)
    source.append(1, src=[1] * 30, dst=[2] * 30)
    source.append(2, src=[3] * 90, dst=[4] * 90)
    with Ingestor(graph, source, cut=100) as ingestor:
        ingestor.drain(WAIT)
        assert graph.num_edges == 0 and ingestor.stats().reason is not None
        assert "{2: 100}" in str(ingestor.stats().reason)
        source.append(2, src=[3] * 30, dst=[4] * 30)
        ingestor.drain(WAIT)
        assert graph.num_edges == 300 and ingestor.offsets == {0: 100, 1: 100, 2: 100}
        # Where it is stopped, nothing beyond a cut is committed; the next one goes on there.
    source.append(2, src=[3] * 90, dst=[4] * 90)
    with Ingestor(graph, source, cut=100) as ingestor:
        ingestor.drain(WAIT)
        assert ingestor.offsets == {0: 200, 1: 200, 2: 200}
        source.append(3, src=[1], dst=[1])
        with pytest.raises(
            errors.SourceError, match=r"partition 3 was added.*partitions=\[0, 1, 2\], or begin"
        ):
            ingestor.drain(WAIT)
        ingestor.failure = None


def test_a_slow_partition_is_not_idle() -> None:
    source, now = MemorySource("s", most=100), [0.0]
    graph = DynamicGraph(NODES, 8, order="time", edge_time="int64", huge_pages=False)
    source.append(0, src=[1] * 100, dst=[2] * 100, time=np.arange(100))
    source.append(1, src=[1] * 300, dst=[2] * 300, time=np.arange(1000, 1300))
    ingestor = Ingestor(graph, source, cut=100, idle=1)
    ingestor._times._clock = lambda: now[0]
    ingestor._open()
    for _ in range(3):
        ingestor._step()
    assert graph.num_edges == 200 and ingestor.watermark == 99
    for number in range(5):
        now[0] += 0.6
        source.append(0, src=[1], dst=[2], time=[100 + number])
        ingestor._step()
        assert ingestor.watermark == 99
    now[0] += 60  # what is held comes into the graph before later records of the other
    ingestor._step()
    assert ingestor.watermark == 99
    source.end()
    ingestor._loop()
    assert graph.num_edges == 405


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cut": 0}, "cut = 0"),
        ({"cut": -1}, "cut = -1"),
        ({"keep": 2}, "keep = 2 goes with cut="),
        ({"cut": 5, "max_skew": 3}, "max_skew depends on when records come"),
        ({"cut": 5, "late": "dead_letter", "dead_letter": "x"}, "late='dead_letter' depends"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    graph = DynamicGraph(NODES, 8, order="time", huge_pages=False)
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Ingestor(graph, MemorySource("s"), **options)
    ingestor = Ingestor(graph, MemorySource("s"), cut=5)
    with pytest.raises(errors.InvalidArgumentError, match="keep = 0 keeps no commits"):
        ingestor.snapshot({0: 5})


# ---- two processes and a broker ------------------------------------------------------------------

RANK = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from support.ingesting import digest
from support.kafka import kafka_source
from aethergraph import DynamicGraph
from aethergraph.streaming import Ingestor
_, _, path, topic, address, bytes_ = sys.argv
graph = DynamicGraph.open(path, 5000, 64, order="time", layout="csc", huge_pages=False)
source = kafka_source(topic, address, stop_at_end=True,
                      options={"max.partition.fetch.bytes": int(bytes_)})
ingestor = Ingestor(graph, source, cut=200)
note = ingestor._note_commit
def noted():
    note()
    with graph.snapshot() as now:
        print(sorted(ingestor.offsets.items()), now.num_edges, digest(now), flush=True)
ingestor._note_commit = noted
ingestor.run()
graph.close()
"""


def test_processes_that_ingest_a_topic_have_equal_graphs(tmp_path: Path) -> None:
    """One takes large fetches; the other small ones, and is killed behind its first cut."""
    with running_broker() as broker:
        topic, size = f"cuts-{os.getpid()}", 630
        broker.make_topic(topic, 3)
        run_together(*(partial(broker.send, topic, u, records(u, 0, size)) for u in range(3)))
        folder = str(Path(__file__).parents[1])

        def begin(name: str, fetch: int) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", RANK, folder, str(tmp_path / name), topic]
            return subprocess.Popen(
                [*command, broker.address, str(fetch)], stdout=subprocess.PIPE, text=True
            )

        whole, killed = begin("whole", 1 << 20), begin("killed", 4000)
        with killed:
            assert killed.stdout is not None
            found = [killed.stdout.readline() for _ in range(2)]  # the start, and the first cut
            killed.kill()
        with begin("killed", 4000) as again:
            found += again.communicate()[0].splitlines(keepends=True)
        lines = whole.communicate()[0].splitlines(keepends=True)
        assert whole.returncode == again.returncode == 0
    assert len(lines) == size // 200 + 2
    # A commit just before the kill was not told of.
    assert set(found) <= set(lines) and found[:2] == lines[:2] and found[-1] == lines[-1]
    assert lines[1].startswith("[(0, 200), (1, 200), (2, 200)] 600 ")
    assert lines[-1].startswith("[(0, 630), (1, 630), (2, 630)] 1890 ")
