"""``aethergraph ingest``: a process of its own that can be killed."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.kafka import running_broker
from support.network import make_certificate
from typer.testing import CliRunner

from aethergraph import DynamicGraph, DynamicHeteroGraph
from aethergraph.cli.app import app
from aethergraph.cli.ingest import _watch
from aethergraph.streaming import Ingestor, IngestStats

runner = CliRunner()
MAIN = [sys.executable, "-c", "from aethergraph.cli import main; main()"]


def ae(*args: object, code: int = 0) -> Any:
    result = runner.invoke(app, [str(a) for a in args])
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return " ".join((result.stdout if code == 0 else result.stderr).split())


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
    said = ae("ingest", graph, file, "--schema", schema, "--until-end", *made,
              "--dead-letter", tmp_path / "bad")  # fmt: skip
    assert "101 records" in said and "100 edges, 1 bad" in said
    bounded = ["--schema", schema, "--until-end", *made, "--max-time", -5]
    assert "is after max_time = -5" in ae("ingest", tmp_path / "h", file, *bounded, code=1)
    with open(file, "a") as more:
        more.write(lines(100, 150))
    assert "50 edges" in ae("ingest", graph, file, "--schema", schema, "--until-end")
    assert "0 records" in ae("ingest", graph, file, "--schema", schema, "--until-end")
    with DynamicGraph.open(graph, arena_mb=64) as found:
        assert found.num_edges == 150


def test_typed_graphs(tmp_path: Path) -> None:
    kind = ("user", "votes", "post")
    DynamicHeteroGraph.open(tmp_path / "g", {"user": 10, "post": 10}, [kind], 64).close()
    (tmp_path / "s.json").write_text(
        json.dumps({"format": "csv", "src": "u", "dst": "v", "edge_type": kind})
    )
    (tmp_path / "e.csv").write_text("u,v\n1,2\n3,4\n")
    said = ae("ingest", tmp_path / "g", tmp_path / "e.csv", "--schema", tmp_path / "s.json",
              "--until-end")  # fmt: skip
    assert "2 edges" in said
    for name, value in (("num-nodes", 10), ("order", "id"), ("edge-time", "int64"),
                        ("edge-weight", "float32")):  # fmt: skip
        said = ae("ingest", tmp_path / "g", tmp_path / "e.csv", "--schema", tmp_path / "s.json",
                  "--until-end", f"--{name}", value, code=2)  # fmt: skip
        assert f"--{name} is for a graph of one type" in said


@pytest.mark.any_python
def test_killed_and_ended_by_a_signal(tmp_path: Path, schema: Path) -> None:
    file, graph = tmp_path / "e.jsonl", tmp_path / "g"
    made = ["-n", "10", "--order", "time", "--edge-time", "int64"]
    command = [*MAIN, "ingest", str(graph), str(file), "--schema", str(schema), *made]
    for number, how in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)):
        with open(file, "a") as more:
            more.write(lines(1000 * number, 1000 * number + 1000))
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    with DynamicGraph.attach(graph) as reader:
                        if reader.num_edges == 1000 * number + 1000:
                            break
                except (ValueError, OSError):  # not open yet
                    pass
                time.sleep(0.05)
            process.send_signal(how)
            out, errors = process.communicate(timeout=60)
        assert process.returncode == (-9 if how == signal.SIGKILL else 0), errors
        if how != signal.SIGKILL:
            assert "1,000 records" in out
    with DynamicGraph.open(graph, arena_mb=64) as found:
        assert found.num_edges == 3000


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


def test_a_stop_before_the_end_is_no_success(
    tmp_path: Path, schema: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(ingestor: Ingestor) -> IngestStats:
        return IngestStats(state="stopped", reason="the arena is full")

    monkeypatch.setattr("aethergraph.cli.ingest._watch", stopped)
    file = tmp_path / "e.jsonl"
    file.write_text(lines(0, 10))
    options = ["--schema", schema, "-n", 10, "--order", "time", "--edge-time", "int64"]
    said = ae("ingest", tmp_path / "g", file, *options, "--until-end", code=130)
    assert "e.jsonl was not read to its end (the arena is full): run the command again" in said
    ae("ingest", tmp_path / "h", file, *options)  # which ends only by a signal


def test_kafka(tmp_path: Path, schema: Path) -> None:
    with running_broker() as broker:
        broker.make_topic("edges", 1)
        broker.send("edges", 0, lines(0, 100).encode().splitlines())
        address = f"kafka://{broker.address}/edges"
        made = ["-n", 10, "--order", "time", "--edge-time", "int64"]
        said = ae("ingest", tmp_path / "g", address, "--schema", schema, "--until-end", *made,
                  "--option", "fetch.wait.max.ms=20")  # fmt: skip
        assert "100 edges" in said
        options = ["start=latest", "on_gap=earliest", "partitions=0, 0", "timeout=5"]
        said = ae("ingest", tmp_path / "h", address, "--schema", schema, "--until-end", *made,
                  *(text for one in options for text in ("--option", one)))  # fmt: skip
        assert "100 edges" not in said  # the broker here tells the beginning of the last batch


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
    said = ae("ingest", *args, "--schema", "s.toml", *end, code=code)
    assert said.startswith("aethergraph: error: ") and message in said


def test_schemas_that_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "e.jsonl").write_text("")
    for text, message in (
        ("format = ", "cannot be read"),
        ('format = "xml"', "format = 'xml' is not one of json"),
        ('format = "json"\nsrc = "u"', "give src= and dst="),
        ('format = "json"\nsrc = "u"\ndst = "v"\nsize = 3', "no option 'size'"),
    ):
        (tmp_path / "s.toml").write_text(text)
        said = ae("ingest", tmp_path / "g", tmp_path / "e.jsonl", "--schema", tmp_path / "s.toml",
                  code=1 if "cannot" in message else 2)  # fmt: skip
        assert message in said and "s.toml" in said


def test_a_graph_of_keys_is_made(tmp_path: Path) -> None:
    file, schema = tmp_path / "e.csv", tmp_path / "s.toml"
    file.write_text("from,to\n007,x y\nx y,8\n")
    schema.write_text('format = "csv"\nsrc = "from"\ndst = "to"\nids = "str"\n')
    said = ae("ingest", tmp_path / "g", file, "--schema", schema, "--until-end")
    assert "2 edges, 3 new nodes" in said
    with DynamicGraph.open(tmp_path / "g", arena_mb=64) as found:
        assert sorted(found.ids.keys([0, 1, 2])) == ["007", "8", "x y"]
    schema.write_text(
        'format = "csv"\nsrc = "from"\ndst = "to"\nids = {src = "str", dst = "int64"}\n'
    )
    said = ae("ingest", tmp_path / "h", file, "--schema", schema, "--until-end", code=2)
    assert "nodes of one type have keys of one type" in said


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.any_python
def test_flight_with_tls_and_keys(tmp_path: Path) -> None:
    pa, flight = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.flight")
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "token").write_text("secret")
    (tmp_path / "s.toml").write_text('format = "arrow"\nsrc = "u"\ndst = "v"\nids = "str"\n')
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    address = f"grpc+tls://localhost:{port}"
    options = [f"token_file={tmp_path / 'token'}", f"cert={certificate}", f"key={key}"]
    command = [
        *MAIN, "ingest", str(tmp_path / "g"), address, "--name", "put", "--schema",
        str(tmp_path / "s.toml"), *(text for one in options for text in ("--option", one)),
    ]  # fmt: skip
    rows = pa.table({"u": ["ann", "bob"], "v": ["bob", "cy"]})
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stderr=quiet, stdout=quiet) as process:
        try:
            until = time.monotonic() + 60
            while not listens(port):
                assert time.monotonic() < until and process.poll() is None
                time.sleep(0.05)
            client = flight.connect(address, tls_root_certs=certificate.read_bytes())
            call = flight.FlightCallOptions(
                headers=[(b"authorization", b"Bearer secret")], timeout=60
            )
            partition = flight.FlightDescriptor.for_path("0")
            writer, answers = client.do_put(partition, rows.schema, call)
            assert json.loads(answers.read().to_pybytes()) == {"next": 0, "on_disk": 0}
            writer.write_table(rows)
            assert json.loads(answers.read().to_pybytes()) == {"next": 2}
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    with DynamicGraph.open(tmp_path / "g", arena_mb=64) as found:
        assert found.ids.keys(found.in_neighbors(found.ids.lookup(["cy"])[0])) == ["bob"]


@pytest.mark.any_python
def test_a_graph_that_nothing_came_into_goes_again(tmp_path: Path, schema: Path) -> None:
    """The corrected command is not refused for the graph that the wrong one made."""
    options = ["--schema", str(schema), "--order", "time", "--edge-time", "int64", "--until-end"]
    missing = [*MAIN, "ingest", str(tmp_path / "g"), str(tmp_path / "none.jsonl"), "-n", "10"]
    done = subprocess.run([*missing, *options], capture_output=True, text=True, check=False)
    assert done.returncode and "there is no such file" in done.stderr
    assert not (tmp_path / "g").exists()
    (tmp_path / "there").mkdir()  # what was there before stays
    missing[-4] = str(tmp_path / "there")
    assert subprocess.run([*missing, *options], capture_output=True, check=False).returncode
    assert (tmp_path / "there").is_dir()
