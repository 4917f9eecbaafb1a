"""Loop of an ingestor: what it waits for, what it says of that, and how it ends meanwhile."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.threads import WAIT, comes

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import Ingestor, MemorySource
from aethergraph.streaming.dead_letter import DeadLetters
from aethergraph.streaming.records import BadRecord


class Unclosed(MemorySource):
    """Source that cannot be closed."""

    def close(self) -> None:
        super().close()
        raise OSError("cannot be closed")


def test_drain_waits_while_the_other_end_is_away() -> None:
    """Nobody knows then which records are there now."""
    source: Any = MemorySource("s")
    source.append(src=[1], dst=[2])
    with Ingestor(DynamicGraph(10, 8, huge_pages=False), source) as ingestor:
        ingestor.drain(WAIT)
        source.stalled = "no broker answers"
        assert comes(lambda: ingestor.stats().state == "stalled")
        with pytest.raises(TimeoutError, match=r"left after 0.5 s \(stalled, no broker answers\)"):
            ingestor.drain(0.5)
        source.stalled = None
        ingestor.drain(WAIT)


def test_a_source_that_cannot_be_closed_leaves_nothing_else_open(tmp_path: Path) -> None:
    source = Unclosed("s")
    source.append(src=[1, 1], dst=[2, 100])
    source.end()
    ingestor = Ingestor(DynamicGraph(10, 8, huge_pages=False), source, dead_letter=tmp_path / "bad")
    with pytest.raises(OSError, match="cannot be closed"):
        ingestor.run()
    assert ingestor._letters is not None and ingestor._letters._file is None


# ---- full ----------------------------------------------------------------------------------------


def full(*, with_cut: bool) -> tuple[DynamicGraph, Ingestor]:
    """Return an ingestor that waits for memory: edges do not fit, deletions behind them would."""
    count = 200_000
    graph = DynamicGraph(1000, 1, order="time", huge_pages=False)
    source = MemorySource("s", most=2 * count)
    nodes = np.arange(2 * count) % 1000
    source.append(src=nodes, dst=nodes, delete=np.arange(2 * count) >= count)
    source.end()
    cut = count if with_cut else None
    ingestor = Ingestor(graph, source, batch=10**7, linger="100s", cut=cut).start()
    assert comes(lambda: ingestor.stats().state == "full")
    return graph, ingestor


@pytest.mark.parametrize("with_cut", [False, True])
def test_one_that_is_stopped_while_it_is_full_has_not_ended(with_cut: bool) -> None:
    """Nothing behind what did not fit is committed, be it a cut."""
    graph, ingestor = full(with_cut=with_cut)
    ingestor.stop()
    assert ingestor.stats().state == "stopped" and "arena" in str(ingestor.stats().reason)
    assert graph.offsets("s") == {} and graph.num_edges == 0
    with pytest.raises(errors.ClosedError, match="was stopped, records may be left"):
        ingestor.drain(WAIT)


def rows_of_nodes() -> tuple[DynamicGraph, MemorySource]:
    graph = DynamicGraph(1000, 8, max_nodes=1000, huge_pages=False)
    graph.node_attrs["x"] = np.zeros((1000, 1), np.float32)
    source = MemorySource("s", kind="node", most=1000)
    for value in range(100):  # more rows than there is room for, if none is let go
        rows = np.full((1000, 1), value, np.float32)
        source.append(node=np.arange(1000), attrs={"x": rows})
    source.end()
    return graph, source


def test_rows_of_nodes_wait_for_room() -> None:
    graph, source = rows_of_nodes()
    held = graph.snapshot()
    ingestor = Ingestor(graph, source, batch=1000).start()
    assert comes(lambda: ingestor.stats().state in ("full", "failed"))
    assert "more versions of rows: release snapshots" in str(ingestor.stats().reason)
    held.close()
    ingestor.drain(WAIT)
    assert ingestor.stats().state == "ended" and graph.offsets("s") == {0: 100_000}
    assert (graph.node_attrs["x"].gather(range(1000)) == 99).all()


def test_nobody_waits_for_room_that_readers_do_not_hold() -> None:
    graph, source = rows_of_nodes()
    ingestor = Ingestor(graph, source, batch=1_000_000, linger="100s")
    with pytest.raises(errors.LimitError, match="more versions of rows"):
        ingestor.run()
    assert ingestor.stats().state == "failed" and graph.offsets("s") == {}


# ---- commits that are kept -----------------------------------------------------------------------


def test_a_snapshot_of_a_cut_far_behind_those_that_are_kept() -> None:
    graph, source = DynamicGraph(10, 8, order="time", huge_pages=False), MemorySource("s")
    source.append(src=np.arange(1000) % 10, dst=np.arange(1000) % 10)
    with Ingestor(graph, source, cut=100, keep=2) as ingestor:
        assert comes(lambda: len(ingestor._kept) > 2)
        ingestor.drain(WAIT)
        assert ingestor.offsets[0] < 900
        assert comes(lambda: "until snapshot(at=) is asked" in str(ingestor.stats().reason))
        with ingestor.snapshot({0: 900}, WAIT) as now:
            assert now.num_edges == 900
        ingestor.drain(WAIT)
        assert ingestor.offsets == {0: 1000}
        with pytest.raises(errors.SnapshotExpiredError):
            ingestor.snapshot({0: 800})


def test_a_call_in_vain_lets_go_of_no_commit_that_others_may_ask_for() -> None:
    graph, source = DynamicGraph(10, 8, order="time", huge_pages=False), MemorySource("s")
    source.append(src=np.arange(500) % 10, dst=np.arange(500) % 10)
    with Ingestor(graph, source, cut=100, keep=4) as ingestor:
        ingestor.drain(WAIT)
        assert ingestor.offsets == {0: 400}  # 0 to 400 are kept
        with pytest.raises(TimeoutError, match=r"at \{0: 5000\} was not reached, but \{0: 500\}"):
            ingestor.snapshot({0: 5000}, 2)
        with ingestor.snapshot({0: 100}, 0.5) as now:
            assert now.num_edges == 100


def test_commits_that_are_kept_and_hold_the_room_for_others() -> None:
    graph, source = rows_of_nodes()
    with Ingestor(graph, source, cut=1000, keep=200) as ingestor:
        ingestor.drain(WAIT)
        stats = ingestor.stats()
        assert stats.state == "full" and graph.offsets("s")[0] < 90_000
        assert "commits that are kept hold them: ask snapshot(at=)" in str(stats.reason)
        with ingestor.snapshot({0: 90_000}, WAIT) as now:
            assert (now.node_attrs["x"].gather([0]) == 89).all()
        ingestor.drain(WAIT)
        assert graph.offsets("s") == {0: 100_000}


# ---- bad records ---------------------------------------------------------------------------------


def test_bad_records_alone_are_waited_with_and_said(tmp_path: Path) -> None:
    graph, source = DynamicGraph(10, 8, huge_pages=False), MemorySource("s")
    asked = 0
    lag = source.lag

    def counted() -> dict[int, int]:
        nonlocal asked
        asked += 1
        return lag()

    source.lag = counted  # type: ignore[method-assign]
    source.append(src=[1, 2], dst=[99, 99])
    with Ingestor(graph, source, dead_letter=tmp_path / "bad") as ingestor:
        # A step begins without a reason: it may not be there at a look.
        assert comes(lambda: "2 records, and none fits" in str(ingestor.stats().reason))
        asked = 0
        with pytest.raises(TimeoutError, match="records are left after 1 s"):
            ingestor.drain(1)
        assert asked < 100
        source.append(src=[1], dst=[2])
        ingestor.drain(WAIT)
        assert graph.offsets("s") == {0: 3} and ingestor.stats().reason is None


# ---- partitions that have ended ------------------------------------------------------------------


def test_no_partition_waits_for_one_that_has_ended() -> None:
    class Files(MemorySource):
        """Partitions one after the other, of which lag() names none that is read, as of files."""

        def lag(self) -> dict[int, int]:
            return {partition: left for partition, left in super().lag().items() if left}

        def ended(self) -> set[int]:
            return self._parts.keys() - self.lag().keys()

    graph = DynamicGraph(10, 8, order="time", edge_time="int64", huge_pages=False)
    source = Files("s", most=100)
    for partition in range(3):
        times = 1_000_000 * partition + np.arange(500)
        source.append(partition, src=[1] * 500, dst=[2] * 500, time=times)
    source.end()
    began = time.monotonic()
    stats = Ingestor(graph, source, max_skew=1000, idle="20s").run()
    assert stats.edges == 1500 and time.monotonic() - began < 10


# ---- dead letters --------------------------------------------------------------------------------


def test_letters_that_did_not_fit_are_let_go(tmp_path: Path) -> None:
    """Else the end of an ingestor fails once more, in place of the error that says why."""
    letters = DeadLetters(tmp_path / "bad", "s", {})
    letters._file = open("/dev/full", "wb")  # noqa: SIM115
    letters.write(0, [BadRecord(1, "why")])
    with pytest.raises(errors.StorageError, match="dead letters: No space left on device"):
        letters.flush()
    letters.close()


def test_letters_that_are_there_are_not_written_again(tmp_path: Path) -> None:
    """The first record that the graph has not passed by is one of them."""
    records = [BadRecord(5, "why"), BadRecord(6, "why")]
    for offsets in ({}, {0: 5}):
        letters = DeadLetters(tmp_path / "bad", "s", offsets)
        letters.write(0, records)
        letters.close()
    lines = (tmp_path / "bad").read_text().splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [5, 6]


def test_a_letter_follows_one_that_was_cut_off(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b'{"source": "s", "off')
    letters = DeadLetters(tmp_path / "bad", "s", {})
    letters.write(0, [BadRecord(1, "why")])
    letters.close()
    assert json.loads((tmp_path / "bad").read_text().splitlines()[1])["offset"] == 1
