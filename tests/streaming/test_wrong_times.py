"""Times that cannot be true: they are bad records, and move no watermark."""

from __future__ import annotations

import base64
import json
import warnings
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.ingesting import letters, small

from aethergraph import DynamicGraph, errors
from aethergraph.streaming import FileSource, Ingestor, MemorySource, Schema
from aethergraph.streaming.event_time import TimeBound, find_unit

NOW = datetime.now(timezone.utc)
SECONDS = int(NOW.timestamp())


def timed(edge_time: str = "datetime64[s]", **options: Any) -> DynamicGraph:
    return small(100, edge_time=edge_time, **options)


def lines(path: Path, times: list[Any]) -> FileSource:
    path.write_text("".join(json.dumps({"u": 1, "v": 2, "ts": one}) + "\n" for one in times))
    schema = Schema.json(src="u", dst="v", time="ts", time_unit="s")
    return FileSource(path, schema, follow=False)


@pytest.mark.parametrize("sort", ["text", "milliseconds", "nanoseconds", "the day after tomorrow"])
def test_one_moves_the_watermark_no_more(tmp_path: Path, sort: str) -> None:
    wrong = {
        "text": "9999-12-31T00:00:00", "milliseconds": SECONDS * 1000,
        "nanoseconds": SECONDS * 10**9, "the day after tomorrow": SECONDS + 2 * 86400,
    }[sort]  # fmt: skip
    graph, path = timed(), tmp_path / "bad"
    source = lines(tmp_path / "e", [SECONDS - 10, wrong, SECONDS - 5, SECONDS])
    ingestor = Ingestor(graph, source, dead_letter=path, late="dead_letter", lateness=30)
    stats = ingestor.run()
    assert (stats.edges, stats.bad, stats.late) == (3, 1, 0)
    assert graph.watermark == SECONDS - 30 and stats.largest == SECONDS
    (letter,) = letters(path)
    assert letter["reason"].startswith("ts (time) = ") and "max_ahead=" in letter["reason"]
    assert "time_unit=" in letter["reason"] and letter["record"] is not None


def test_a_time_that_python_has_not_is_a_letter_too(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    moments = pa.array([SECONDS * 10**6, 3 * 10**17]).cast(pa.timestamp("us"))  # the year 11476
    pq.write_table(pa.table({"u": [1, 2], "v": [3, 4], "ts": moments}), tmp_path / "e.parquet")
    source = FileSource(
        tmp_path / "e.parquet", Schema.arrow(src="u", dst="v", time="ts"), follow=False
    )
    with pytest.raises(errors.RecordError, match=r"offset 1: ts \(time\) = \+?11476-"):
        Ingestor(timed("datetime64[us]"), source).run()
    path = tmp_path / "bad"
    stats = Ingestor(timed("datetime64[us]"), source, dead_letter=path).run()
    assert (stats.edges, stats.bad) == (1, 1)
    record = json.loads(base64.b64decode(letters(path)[0]["record"]))
    assert record == {"u": 2, "v": 4, "ts": f"{3 * 10**17} of type timestamp[us]"}


def test_without_a_dead_letter_file_it_ends_before_the_commit(tmp_path: Path) -> None:
    graph = timed()
    source = lines(tmp_path / "e", [SECONDS, "9999-12-31T00:00:00"])
    with pytest.raises(
        errors.RecordError, match=r"offset 35: ts \(time\) = 9999-12-31T00:00:00 is more than 86400"
    ):
        Ingestor(graph, source).run()
    assert graph.num_edges == 0 and graph.watermark is None and graph.offsets("e") == {}


def test_they_count_to_max_bad(tmp_path: Path) -> None:
    source = lines(tmp_path / "e", [SECONDS] * 5 + [SECONDS * 1000] * 3)
    options: dict[str, Any] = {"dead_letter": tmp_path / "bad"}
    with pytest.raises(errors.RecordError, match="too many bad records: 3 of 8, with max_bad = 2"):
        Ingestor(timed(), source, max_bad=2, **options).run()
    assert Ingestor(timed(), source, max_bad=3, **options).run().edges == 5
    # All of them: the unit is another one.
    source = lines(tmp_path / "f", [SECONDS * 1000] * 3)
    with pytest.raises(errors.RecordError, match=r"none of 3 records fits.*time_unit="):
        Ingestor(timed(), source, **options).run()


def test_old_topics_are_read_again(tmp_path: Path) -> None:
    """The clock is a bound for what is ahead of it, and nothing else is."""
    times = ["1969-07-20T20:17:40", "1815-12-10", 0, SECONDS - 10**9, SECONDS]
    graph = timed()
    assert Ingestor(graph, lines(tmp_path / "e", times)).run().edges == len(times)


def test_how_far_is_an_option(tmp_path: Path) -> None:
    tomorrow = SECONDS + 20 * 3600
    for given, edges in (("auto", 1), ("21h", 1), (timedelta(hours=19), 0), (60, 0), (None, 1)):
        source = lines(tmp_path / "e", [SECONDS - 5, tomorrow])
        stats = Ingestor(timed(), source, max_ahead=given, dead_letter=tmp_path / "bad").run()
        assert stats.edges == 1 + edges
    far = lines(tmp_path / "e", ["9999-12-31T00:00:00"])
    assert Ingestor(timed(), far, max_ahead=None).run().edges == 1


@pytest.mark.parametrize("late", ["9999-12-31T00:00:00", 10**15])
def test_edges_that_are_deleted_and_times_that_are_not_kept(tmp_path: Path, late: Any) -> None:
    (tmp_path / "e").write_text(
        "".join(
            json.dumps({"u": 1, "v": 2, "ts": one, "gone": True}) + "\n" for one in (SECONDS, late)
        )
    )
    fields: dict[str, Any] = {"src": "u", "dst": "v", "time": "ts", "time_unit": "s"}
    graph = DynamicGraph(10, 8, order="time", huge_pages=False)
    for known, into in (({"watermark_only": True}, graph), ({"delete": "gone"}, timed())):
        source = FileSource(tmp_path / "e", Schema.json(**fields, **known), follow=False)
        stats = Ingestor(into, source, dead_letter=tmp_path / "bad").run()
        assert (stats.bad, stats.largest, into.watermark) == (1, SECONDS, SECONDS)


def test_numbers_have_no_clock_and_a_bound_if_given(tmp_path: Path) -> None:
    for most, bad in ((None, 0), (2 * 10**9, 1)):
        graph, source = timed("int64"), MemorySource("s")
        source.append(src=[1, 2, 3], dst=[0, 0, 0], time=[SECONDS, 10**15, SECONDS + 1])
        source.end()
        path = tmp_path / str(most)
        stats = Ingestor(graph, source, dead_letter=path, max_time=most).run()
        assert (stats.bad, stats.edges) == (bad, 3 - bad)
        assert graph.watermark == (SECONDS + 1 if bad else 10**15)
    (letter,) = letters(path)
    assert letter["reason"] == "time = 1000000000000000 is after max_time = 2000000000"


def test_a_bound_that_is_a_date(tmp_path: Path) -> None:
    for most in ("2030-01-01T00:00:00Z", datetime(2030, 1, 1), np.datetime64("2030"), 1893456000):
        source = lines(tmp_path / "e", [1893456000, 1893456001])
        options: dict[str, Any] = {"max_ahead": None, "dead_letter": tmp_path / "bad"}
        stats = Ingestor(timed(), source, max_time=most, **options).run()
        assert (stats.edges, stats.bad) == (1, 1)


def test_cuts_do_not_depend_on_clocks(tmp_path: Path) -> None:
    def stream() -> MemorySource:
        source = MemorySource("s")
        source.append(src=[1, 2], dst=[0, 0], time=np.array(["2020", "9999"], "datetime64[s]"))
        source.end()
        return source

    assert Ingestor(timed(), stream(), cut=1).run().edges == 2
    options: dict[str, Any] = {"cut": 1, "dead_letter": tmp_path / "bad"}
    stats = Ingestor(timed(), stream(), max_time="2100-01-01", **options).run()
    assert (stats.edges, stats.bad) == (1, 1)
    with pytest.raises(errors.InvalidArgumentError, match=r"max_ahead = '1h' .*cut=.*max_time="):
        Ingestor(timed(), stream(), cut=1, max_ahead="1h")


@pytest.mark.parametrize(
    ("edge_time", "options", "message"),
    [
        ("int64", {"max_ahead": "1h"}, r"max_ahead = '1h' is of a clock.*give max_time="),
        ("datetime64[s]", {"max_ahead": "soon"}, "max_ahead = 'soon' is no time"),
        ("datetime64[s]", {"max_ahead": -1}, "max_ahead = -1 is not in"),
        ("datetime64[s]", {"max_time": "soon"}, "max_time = 'soon' is neither a number nor a date"),
        ("datetime64[s]", {"max_time": 1.5}, r"max_time must be an integer, got 1\.5"),
        ("datetime64[s]", {"max_time": np.datetime64("NaT")}, "max_time = .*NaT"),
        ("int64", {"max_time": "2030-01-01"}, "is a date, but the graph's times have no unit"),
        ("int64", {"max_time": 2**64}, "does not fit in 64 bits"),
    ],
)
def test_bad_arguments(edge_time: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Ingestor(timed(edge_time), MemorySource("s"), **options)


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "m", "s", "15m", "ms", "us", "ns"])
def test_units(unit: str) -> None:
    bound = TimeBound(None, 86400.0, unit, clock=lambda: 1.7e9)
    limit = bound.limit()
    moment = np.datetime64(1_700_086_400, "s").astype(f"datetime64[{unit}]")
    assert limit == int(moment.astype(np.int64))
    assert str(np.datetime64(limit + 1, unit)) in bound.why(limit + 1)
    assert TimeBound(5, 86400.0, unit, clock=lambda: 1.7e9).limit() == 5
    with pytest.raises(errors.InvalidArgumentError, match="is of a clock"):
        Ingestor(timed("datetime64[fs]"), MemorySource("s"), max_ahead="1h")


# ---- times of several units in one poll ----------------------------------------------------------


@pytest.mark.parametrize("name", ["t", "a.t"])
def test_arrow_payloads_of_several_units(name: str) -> None:
    pa = pytest.importorskip("pyarrow")
    payloads = []
    for unit, factor in (("us", 10**6), ("ns", 10**9), ("s", 1)):
        times = pa.array([1_700_000_000 * factor], pa.timestamp(unit))
        nested = pa.StructArray.from_arrays([times], ["t"])
        table = pa.table({"u": [1], "v": [2], "t": times, "a": nested})
        into = pa.BufferOutputStream()
        with pa.ipc.new_stream(into, table.schema) as writer:
            writer.write_table(table)
        payloads.append(into.getvalue().to_pybytes())
    for time_unit in (None, "s"):
        schema = Schema.arrow(src="u", dst="v", time=name, time_unit=time_unit)
        graph, given = timed(), schema.decode(0, 3, payloads, np.arange(3))
        source = MemorySource("s")
        polls = iter([[given]])
        source.poll = lambda _, polls=polls: next(polls, None)  # type: ignore
        Ingestor(graph, source).run()
        assert graph.to_graph().edge_time.tolist() == [1_700_000_000] * 3


def test_times_of_several_forms_in_one_cut() -> None:
    schema = Schema.json(src="u", dst="v", time="t", time_unit="ns")
    batches = []
    for at, time in enumerate((1_700_000_000 * 10**9, "2023-11-14T22:13:20Z")):
        text = json.dumps({"u": 1, "v": 2, "t": time}).encode()
        batches.append([schema.decode(0, at + 1, [text], np.array([at]))])
    graph, source = timed(), MemorySource("s")
    source.poll = lambda _: batches.pop(0) if batches else None  # type: ignore
    Ingestor(graph, source, cut=2).run()
    assert graph.to_graph().edge_time.tolist() == [1_700_000_000] * 2


# ---- units that are others -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "unit", "meant"),
    [
        ([SECONDS - 10, SECONDS], "ms", "s"),
        ([SECONDS], "ns", "s"),
        ([10**15, 1000 * 1000 * SECONDS], "ns", "us"),
        ([SECONDS], "s", None),
        ([SECONDS], "D", None),
        ([0, SECONDS], "ms", None),  # counted from 0, as in a simulation
        ([-5, 10**9], "ms", None),
        ([SECONDS * 1000 - 10, SECONDS * 1000], "ms", None),
        ([SECONDS + 10 * 86400], "ms", None),
    ],
)
def test_the_unit_that_is_meant(times: list[int], unit: str, meant: str | None) -> None:
    assert find_unit(np.array(times), unit) == meant


def test_seconds_are_not_taken_for_milliseconds_without_a_word(tmp_path: Path) -> None:
    path, graph = tmp_path / "e", timed("datetime64[ms]")
    path.write_text('{"u": 1, "v": 2, "ts": 1700000000}\n' * 3)
    meant = r"ts \(time\) = 1700000000 is 1970-01-20T16:13:20.000 in 'ms'; in 's' it is 2023-11-14T"
    with pytest.warns(UserWarning, match=meant) as noted:
        for unit in ("ms", None):  # that of the graph
            schema = Schema.json(src="u", dst="v", time="ts", time_unit=unit)
            Ingestor(graph, FileSource(path, schema, name=str(unit), follow=False), batch=1).run()
            graph = timed("datetime64[ms]")
    assert len(noted) == 2 and 'give the schema time_unit="s"' in str(noted[0].message)
    schema = Schema.json(src="u", dst="v", time="ts", time_unit="s")
    path.write_text('{"u": 1, "v": 2, "ts": "1970-01-20T16:13:20"}\n')  # it says what it is
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Ingestor(graph, FileSource(path, schema, follow=False)).run()
