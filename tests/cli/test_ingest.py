"""``aethergraph ingest``: a process of its own that can be killed."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.commands import MAIN, ae, said, warm_commands
from support.kafka import running_broker
from support.network import make_certificate
from support.processes import WarmPython

from aethergraph import DynamicGraph, DynamicHeteroGraph
from aethergraph.cli.ingest import _line, _watch
from aethergraph.streaming import Ingestor
from aethergraph.streaming.stats import IngestStats


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    with warm_commands() as warm:
        yield warm


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "edges.toml"
    path.write_text('format = "json"\nsrc = "u"\ndst = "v"\ntime = "t"\n')
    return path


def lines(begin: int, end: int) -> str:
    return "".join(json.dumps({"u": n % 10, "v": 1, "t": n}) + "\n" for n in range(begin, end))


def test_files_until_the_end(tmp_path: Path, schema: Path) -> None:
    file, graph = tmp_path / "e.jsonl", tmp_path / "g"
    file.write_text(lines(0, 100) + "oops\n")
    made = ["-n", 10, "--order", "time", "--edge-time", "int64"]
    told = said("ingest", graph, file, "--schema", schema, "--until-end", *made,
              "--dead-letter", tmp_path / "bad")  # fmt: skip
    assert "101 records" in told and "100 edges, 1 bad" in told
    bounded = ["--schema", schema, "--until-end", *made, "--max-time", -5]
    assert "is after max_time = -5" in said("ingest", tmp_path / "h", file, *bounded, code=1)
    with open(file, "a") as more:
        more.write(lines(100, 150))
    assert "50 edges" in said("ingest", graph, file, "--schema", schema, "--until-end")
    assert "0 records" in said("ingest", graph, file, "--schema", schema, "--until-end")
    with DynamicGraph.open(graph, arena_mb=64) as found:
        assert found.num_edges == 150


def test_typed_graphs(tmp_path: Path) -> None:
    kind = ("user", "votes", "post")
    DynamicHeteroGraph.open(tmp_path / "g", {"user": 10, "post": 10}, [kind], 64).close()
    (tmp_path / "s.json").write_text(
        json.dumps({"format": "csv", "src": "u", "dst": "v", "edge_type": kind})
    )
    (tmp_path / "e.csv").write_text("u,v\n1,2\n3,4\n")
    told = said("ingest", tmp_path / "g", tmp_path / "e.csv", "--schema", tmp_path / "s.json",
              "--until-end")  # fmt: skip
    assert "2 edges" in told
    for name, value in (("num-nodes", 10), ("order", "id"), ("edge-time", "int64"),
                        ("edge-weight", "float32")):  # fmt: skip
        told = said("ingest", tmp_path / "g", tmp_path / "e.csv", "--schema", tmp_path / "s.json",
                  "--until-end", f"--{name}", value, code=2)  # fmt: skip
        assert f"--{name} is for a graph of one type" in told


@contextmanager
def ingesting(python: WarmPython, folder: Path, *args: object) -> Iterator[int]:
    """A process of the command, for a ``with`` block that ends it by a signal; its pid."""
    script = folder / "ingest.py"
    script.write_text(MAIN)
    pid = python.start([script, "ingest", *args], folder, folder / "out")
    try:
        yield pid
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        python.wait()
        raise


@pytest.mark.any_python
def test_killed_and_ended_by_a_signal(tmp_path: Path, schema: Path, python: WarmPython) -> None:
    file, graph = tmp_path / "e.jsonl", tmp_path / "g"
    made = ["-n", "10", "--order", "time", "--edge-time", "int64"]
    for number, how in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)):
        with open(file, "a") as more:
            more.write(lines(1000 * number, 1000 * number + 1000))
        with ingesting(python, tmp_path, graph, file, "--schema", schema, *made) as pid:
            wait_until(lambda: has_edges(graph, 1000 * number + 1000))  # noqa: B023
            os.kill(pid, how)
            code = python.wait()
        errors = (tmp_path / "out.err").read_text()
        assert code == (-9 if how == signal.SIGKILL else 0), errors
        if how != signal.SIGKILL:
            assert "1,000 records" in (tmp_path / "out").read_text()
    with DynamicGraph.open(graph, arena_mb=64) as found:
        assert found.num_edges == 3000


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, for which a busy machine may need minutes."""
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def has_edges(path: Path, count: int) -> bool:
    try:
        with DynamicGraph.attach(path) as reader:
            return reader.num_edges == count
    except (ValueError, OSError):  # not open yet
        return False


def test_a_second_signal_ends_what_the_first_one_waits_for() -> None:
    class Hanging:
        def start(self) -> None:
            signal.raise_signal(signal.SIGINT)

        def stats(self) -> IngestStats:
            return IngestStats(state="running")

        def stop(self) -> None:
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("it went on")

    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt):
        _watch(Hanging())  # type: ignore[arg-type]
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_line_is_no_longer_than_the_terminal() -> None:
    stats = IngestStats(
        "running", records=26_605_012, edges=26_600_000, bad=5012, late=3, lag={0: 9, 1: 1 << 30},
        lag_unit="bytes", watermark=1_700_000_000_123_456, time_unit="us",
    )  # fmt: skip
    short = "running: 26.6 M records, 312.3 K/s, 1.0 GiB left"
    records = f"{short}, 5,012 bad, 3 late"
    assert _line(stats, 312_345.6, 40) == short  # what is needed, whatever the terminal
    assert _line(stats, 312_345.6, 80) == records
    assert _line(stats, 312_345.6, 100) == f"{records}, watermark 2023-11-14T22:13:20"
    assert _line(stats, 312_345.6, 120).endswith("2023-11-14T22:13:20, 26.6 M edges")
    stats.bad = stats.late = 0
    assert _line(stats, 312_345.6, 80) == f"{short}, watermark 2023-11-14T22:13:20"
    stats.state, stats.reason = "stalled", "no broker answers"
    assert _line(stats, 0.0, 80).endswith("0/s, 1.0 GiB left (no broker answers)")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_failure_is_printed_by_others(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing:
        def start(self) -> None:
            pass

        def stats(self) -> IngestStats:
            return IngestStats("failed", "line 7 is bad")

        def stop(self) -> None:
            raise ValueError("line 7 is bad")

    monkeypatch.setattr("aethergraph.cli.ingest._LOOK", 0.01)
    monkeypatch.setattr("aethergraph.cli.ingest._LINE", 0.0)
    if is_terminal:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(ValueError):
        _watch(Failing())  # type: ignore[arg-type]
    assert "line 7" not in capsys.readouterr().err


def test_a_narrow_terminal_has_the_whole_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    class Reading:
        shown = 0

        def start(self) -> None:
            pass

        def stats(self) -> IngestStats:
            self.shown += 1
            state = "running" if self.shown < 4 else "ended"
            return IngestStats(state, lag={0: 5 << 20, 1: 3 << 20}, lag_unit="bytes", late=12)

        def stop(self) -> None:
            pass

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("aethergraph.cli.ingest._LOOK", 0.01)
    for name, value in {"COLUMNS": "40", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    _watch(Reading())  # type: ignore[arg-type]
    written = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", terminal.getvalue())
    assert ", 8.0 MiB left" in " ".join(written.split()), written


def test_a_stop_before_the_end_is_no_success(
    tmp_path: Path, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(ingestor: Ingestor) -> IngestStats:
        return IngestStats(state="stopped", reason="the arena is full")

    monkeypatch.setattr("aethergraph.cli.ingest._watch", stopped)
    file = tmp_path / "e.jsonl"
    file.write_text(lines(0, 10))
    options = ["--schema", schema, "-n", 10, "--order", "time", "--edge-time", "int64"]
    told = said("ingest", tmp_path / "g", file, *options, "--until-end", code=130)
    assert "e.jsonl was not read to its end (the arena is full): run the command again" in told
    ae("ingest", tmp_path / "h", file, *options)  # which ends only by a signal


def test_kafka(tmp_path: Path, schema: Path) -> None:
    with running_broker() as broker:
        broker.make_topic("edges", 1)
        broker.send("edges", 0, lines(0, 100).encode().splitlines())
        address = f"kafka://{broker.address}/edges"
        made = ["-n", 10, "--order", "time", "--edge-time", "int64"]
        told = said("ingest", tmp_path / "g", address, "--schema", schema, "--until-end", *made,
                  "--option", "fetch.wait.max.ms=20")  # fmt: skip
        assert "100 edges" in told
        options = ["start=latest", "on_gap=earliest", "partitions=0, 0", "timeout=5"]
        told = said("ingest", tmp_path / "h", address, "--schema", schema, "--until-end", *made,
                  *(text for one in options for text in ("--option", one)))  # fmt: skip
        assert "100 edges" not in told  # the broker here tells the beginning of the last batch


@pytest.mark.parametrize(
    ("args", "message", "code"),
    [
        (["g", "nothing.jsonl", "-n", 3], "nothing.jsonl: there is no such file", 1),
        (["g", "e.jsonl"], "give --num-nodes to make one", 2),
        (["g", "http://h/x", "-n", 3], "kafka://HOST:PORT/TOPIC", 2),
        (["g", "kafka://h", "-n", 3], "is not kafka://HOST:PORT/TOPIC", 2),
        *[
            (["g", "kafka://h/t", "-n", 3, "--option", option], message, 2)
            for option, message in (
                ("on_gap=no", "on_gap = 'no'"),
                ("start=0", "start = '0'"),
                ("partitions=0,x", "partitions[1] must be an integer"),
                ("timeout=long", "timeout must be a number"),
            )
        ],
        (["g", "tcp://127.0.0.1:x", "-n", 3, "--name", "a"], "is not tcp://HOST:PORT", 2),
        (["g", "tcp://127.0.0.1:0", "-n", 3], "give --name", 2),
        (["g", "udp://127.0.0.1", "-n", 3, "--name", "a"], "is not udp://HOST:PORT", 2),
        (
            ["g", "udp://0.0.0.0:0", "-n", 3, "--name", "a", "--option", "trust_network=1"],
            "neither yes nor no",
            2,
        ),
        (["g", "tcp://0.0.0.0:0", "-n", 3, "--name", "a", "--option", "token=x"], "no option", 2),
        (
            ["g", "tcp://0.0.0.0:0", "-n", 3, "--name", "a", "--option", "cert=x"],
            "cert= and key",
            2,
        ),
        *[
            (["g", f"{scheme}://127.0.0.1:0", "-n", 3, "--name", "a", "--until-end"], "no end", 2)
            for scheme in ("tcp", "grpc", "grpc+tls", "udp")
        ],
        (["g", "e.jsonl", "-n", 3, "--option", "x"], "is not KEY=VALUE", 2),
        (["g", "e.jsonl", "-n", 3, "--linger", "soon"], "linger = 'soon'", 2),
        (["g", "e.jsonl", "-n", 3, "--order", "time"], "e.jsonl, file e.jsonl, offset 0: ", 1),
    ],
)
def test_mistakes(
    args: list[Any], message: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.jsonl").write_text('{"u": 100, "v": 1}\n')
    (tmp_path / "s.toml").write_text('format = "json"\nsrc = "u"\ndst = "v"\n')
    end = ["--until-end"] if args[1].endswith(".jsonl") else []
    told = said("ingest", *args, "--schema", "s.toml", *end, code=code)
    assert told.startswith("aethergraph: error: ") and message in told


def test_schemas_that_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text("")
    for text, message in (
        ("format = ", "cannot be read"),
        ('format = "xml"', "format = 'xml' is not one of json"),
        ('format = "json"\nsrc = "u"', "give src= and dst="),
        ('format = "json"\nsrc = "u"\ndst = "v"\nsize = 3', "no option 'size'"),
    ):
        (tmp_path / "s.toml").write_text(text)
        told = said("ingest", tmp_path / "g", tmp_path / "e.jsonl", "--schema", tmp_path / "s.toml",
                  code=1 if "cannot" in message else 2)  # fmt: skip
        assert message in told and "s.toml" in told


def test_a_graph_of_keys_is_made(tmp_path: Path) -> None:
    file, schema = tmp_path / "e.csv", tmp_path / "s.toml"
    file.write_text("from,to\n007,x y\nx y,8\n")
    schema.write_text('format = "csv"\nsrc = "from"\ndst = "to"\nids = "str"\n')
    told = said("ingest", tmp_path / "g", file, "--schema", schema, "--until-end")
    assert "2 edges, 3 new nodes" in told
    with DynamicGraph.open(tmp_path / "g", arena_mb=64) as found:
        assert sorted(found.ids.keys([0, 1, 2])) == ["007", "8", "x y"]
    schema.write_text(
        'format = "csv"\nsrc = "from"\ndst = "to"\nids = {src = "str", dst = "int64"}\n'
    )
    told = said("ingest", tmp_path / "h", file, "--schema", schema, "--until-end", code=2)
    assert "nodes of one type have keys of one type" in told


@pytest.mark.parametrize(
    ("line", "kind", "opened"),
    [
        ('edge_type = ["a", "to", "b"]', "edge_type = ('a', 'to', 'b')",
         "{'a': COUNT, 'b': COUNT}, [('a', 'to', 'b')])"),
        ('relation = "r"', "relation = 'r'", "{'user': COUNT, 'post': COUNT}, "),
    ],
)  # fmt: skip
def test_graphs_of_several_types_are_made_before(
    line: str, kind: str, opened: str, tmp_path: Path
) -> None:
    (tmp_path / "e.jsonl").write_text("")
    (tmp_path / "s.toml").write_text(f'format = "json"\nsrc = "u"\ndst = "v"\n{line}\n')
    call = ["ingest", tmp_path / "g", tmp_path / "e.jsonl", "--schema", tmp_path / "s.toml"]
    told = said(*call, "-n", 5, code=2)
    assert f"the schema has {kind}, and aethergraph ingest makes graphs of one type" in told
    assert f"DynamicHeteroGraph.open(DIRECTORY, {opened}" in told


def test_errors_and_notes_name_options(tmp_path: Path) -> None:
    """Messages of the library about its arguments name the options in their place."""
    file, schema = tmp_path / "e.jsonl", tmp_path / "s.toml"
    file.write_text('{"u": 1, "v": 2, "t": 3}\n{"u": 1}\n')
    text = 'format = "json"\nsrc = "u"\ndst = "v"\n'
    schema.write_text(text)
    call = ["ingest", tmp_path / "g", file, "--schema", schema, "--until-end", "-n", 5]
    told = said(*call, code=1)
    assert "give --dead-letter to go on without such records" in told
    told = said(*call, "--edge-time", "int64", "--order", "id", code=2)
    assert "--edge-time with --order id: lists" in told and "use --order time" in told
    told = said(*call, "--edge-time", "datetime64", code=2)
    assert told.startswith("aethergraph: error: --edge-time = 'datetime64' is neither 'int64' nor")
    told = said(*call, "--late", "dead_letter", code=2)
    assert "--late dead_letter needs --dead-letter, a file" in told
    bad = ["--order", "time", "--dead-letter", tmp_path / "bad", "--max-bad", 3]
    said(*call, *bad, "--name", "my stream")
    told = " ".join(ae(*call, *bad).stderr.split())
    assert "note: e.jsonl, file e.jsonl: the graph has had this up to byte" in told
    assert told.endswith("in the graph twice: --name 'my stream' goes on behind them")
    schema.write_text(text + 'time = "t"\ntime_unit = "s"\n')
    told = said("ingest", tmp_path / "h", *call[2:], code=2)
    assert "make it with --edge-time, or leave time= out of the schema" in told


def test_paths_and_values_of_records_are_no_options(tmp_path: Path) -> None:
    """Paths and records keep the words in them that look like arguments."""
    folder, schema = tmp_path / "name=a b" / "order=7", tmp_path / "s.toml"
    folder.mkdir(parents=True)
    (folder / "e.jsonl").write_text('{"u": "name=bob", "v": 2}\n')
    schema.write_text('format = "json"\nsrc = "u"\ndst = "v"\n')
    call = [
        "ingest",
        tmp_path / "g",
        folder / "e.jsonl",
        "--schema",
        schema,
        "-n",
        5,
        "--until-end",
    ]
    told = said(*call, code=1)
    assert "u (src) = 'name=bob' is no integer; give --dead-letter to go on" in told
    told = said("ingest", tmp_path / "g", folder / "x.jsonl", *call[3:], code=1)
    assert f"{folder}/x.jsonl" in told


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.any_python
def test_flight_with_tls_and_keys(tmp_path: Path, python: WarmPython) -> None:
    pa, flight = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.flight")
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "token").write_text("secret")
    (tmp_path / "s.toml").write_text('format = "arrow"\nsrc = "u"\ndst = "v"\nids = "str"\n')
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    address = f"grpc+tls://localhost:{port}"
    options = [f"token_file={tmp_path / 'token'}", f"cert={certificate}", f"key={key}"]
    words = ["--name", "put", "--schema", tmp_path / "s.toml"]
    words += [text for one in options for text in ("--option", one)]
    rows = pa.table({"u": ["ann", "bob"], "v": ["bob", "cy"]})
    with ingesting(python, tmp_path, tmp_path / "g", address, *words) as pid:
        wait_until(lambda: listens(port))
        client = flight.connect(address, tls_root_certs=certificate.read_bytes())
        call = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer secret")], timeout=60)
        partition = flight.FlightDescriptor.for_path("0")
        writer, answers = client.do_put(partition, rows.schema, call)
        assert json.loads(answers.read().to_pybytes()) == {"next": 0, "on_disk": 0}
        writer.write_table(rows)
        assert json.loads(answers.read().to_pybytes()) == {"next": 2}
        os.kill(pid, signal.SIGTERM)
        assert python.wait() == 0
    with DynamicGraph.open(tmp_path / "g", arena_mb=64) as found:
        assert found.ids.keys(found.in_neighbors(found.ids.lookup(["cy"])[0])) == ["bob"]


def test_a_graph_that_nothing_came_into_goes_again(tmp_path: Path, schema: Path) -> None:
    """The corrected command is not refused for the graph that the wrong one made."""
    (tmp_path / "there").mkdir()  # what was there before stays
    options = ["--schema", schema, "--order", "time", "--edge-time", "int64", "--until-end"]
    for name in ("g", "there"):
        call = ["ingest", tmp_path / name, tmp_path / "none.jsonl", "-n", 10, *options]
        assert "there is no such file" in said(*call, code=1)
    assert not (tmp_path / "g").exists() and (tmp_path / "there").is_dir()
