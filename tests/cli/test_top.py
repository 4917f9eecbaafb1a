"""``aethergraph top``: what other processes do, once, as JSON, and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from support.commands import MAIN, ae, said
from support.serving import address_in, served
from support.threads import comes

from aethergraph import CachedRows, DynamicGraph, Graph, SubgraphLoader, observe
from aethergraph.cli.top_tables import Section, sections
from aethergraph.observe import registry
from aethergraph.observe.asking import ask, list_processes
from aethergraph.remote import open_source

pytestmark = pytest.mark.usefixtures("runtime")


def test_nobody_is_there() -> None:
    assert "no process of yours is observed" in said("top", code=1)
    assert "process 12345678 shows no metrics" in said("top", 12345678, code=1)
    assert "no process of yours" in said("top", "--json", code=1)
    ae("top", "--interval", 0, code=2)


def test_json_and_once() -> None:
    observe.enable()
    rows = CachedRows(np.ones((10, 4), np.float32), "1M")
    rows.gather([1, 2])
    (found,) = json.loads(said("top", "--json"))
    assert found["pid"] == os.getpid()
    assert found["metrics"]["aethergraph_cache_requested_total"]["samples"][0]["value"] == 2
    assert json.loads(said("top", os.getpid(), "--json"))[0]["pid"] == os.getpid()
    text = said("top", "--once", "--interval", 0.1)
    assert str(os.getpid()) in text and "caches of sources" in text and "CachedRows" in text


def test_names_are_no_commands_of_a_terminal() -> None:
    observe.enable()
    rows = CachedRows(np.ones((10, 4), np.float32), "1M")
    observe.watch(rows, "a\x1b[2J[bold]b")
    text = said("top", "--once", "--interval", 0.1)
    assert "\x1b" not in text and "a\N{REPLACEMENT CHARACTER}[2J[bold]b" in text


@pytest.mark.parametrize("columns", [None, 30])
def test_what_is_no_terminal_gets_whole_lines(
    columns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal gets lines that it has room for, one for each process and thing."""
    observe.enable()
    rows, name = CachedRows(np.ones((10, 4), np.float32), "1M"), "rows " * 30
    observe.watch(rows, name.strip())
    monkeypatch.setattr(sys, "argv", ["train.py", "--option " * 15])
    if columns is not None:
        monkeypatch.setattr(
            "aethergraph.cli.top.stdout", lambda: Console(file=sys.stdout, width=columns)
        )
    lines = ae("top", "--once", "--interval", 0.1).stdout.splitlines()
    (command,) = (line for line in lines if "train.py" in line)
    (row,) = (line for line in lines if line.startswith("rows rows"))
    if columns is None:
        assert command.count("--option") == 15 and name.strip() in row
    else:
        assert len(command) <= columns and len(row) <= columns and "…" in command and "…" in row


def snapshot(at: float, **values: float) -> dict[str, Any]:
    names = {f"aethergraph_{name}": value for name, value in values.items()}
    return {
        "pid": 1, "command": "", "time": at,
        "metrics": {
            name: {"samples": [{"labels": {"name": "x"}, "value": value}]}
            for name, value in names.items()
        },
    }  # fmt: skip


def test_rates_are_differences() -> None:
    before = snapshot(
        10, rows_requested_total=1000, rows_hits_total=0, rows_device_bytes_total=0,
        rows_wait_seconds_total=1.0, rows_used_bytes=1 << 20, rows_budget_bytes=4 << 20,
    )  # fmt: skip
    now = snapshot(
        12, rows_requested_total=1400, rows_hits_total=300, rows_device_bytes_total=4096,
        rows_wait_seconds_total=1.5, rows_used_bytes=2 << 20, rows_budget_bytes=4 << 20,
    )  # fmt: skip
    heads = ("rows", "rows/s", "hits", "read/s", "waits", "memory")
    assert sections(now, before) == [
        Section(
            "rows on disk", heads,
            [("x", "200", "75%", "2.0 KiB", "25%", "2.0 MiB of 4.0 MiB")],
        )
    ]  # fmt: skip
    (alone,) = sections(now)
    assert alone.rows[0] == ("x", "-", "21%", "-", "-", "2.0 MiB of 4.0 MiB")
    # A counter that has become smaller is another object's: there is no rate yet.
    (other,) = sections(before, {**now, "time": 8.0})
    assert other.rows[0][1] == "-"


def test_servers_and_their_clients() -> None:
    before = snapshot(
        0, server_connections=1, server_requests_total=10, server_samples_total=0,
        server_rows_total=100, server_sent_bytes_total=0, server_refused_total=0,
        remote_gathers_total=1, remote_rows_total=10, remote_connections_total=1,
        remote_retries_total=0,
    )  # fmt: skip
    now = snapshot(
        2, server_connections=3, server_requests_total=20, server_samples_total=4,
        server_rows_total=5100, server_sent_bytes_total=4096, server_refused_total=1,
        remote_gathers_total=5, remote_rows_total=410, remote_connections_total=2,
        remote_retries_total=1,
    )  # fmt: skip
    servers, clients = sections(now, before)
    assert dict(zip(servers.heads, servers.rows[0], strict=True)) == {
        "server": "x", "connections": "3", "requests": "20", "requests/s": "5.0",
        "samples/s": "2.0", "rows/s": "2,500", "sent/s": "2.0 KiB", "refused": "1",
    }  # fmt: skip
    assert dict(zip(clients.heads, clients.rows[0], strict=True)) == {
        "rows": "x", "gathers/s": "2.0", "rows/s": "200", "connections": "2", "retries": "1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("unit", "watermark", "shown"),
    [
        ("us", 1_718_000_000_123_456, "2024-06-10T06:13:20.123456"),
        ("D", 19_884, "2024-06-10"),
        ("", 1718, "1718"),
        ("eons", 1718, "1718"),  # of a page of somebody else
        ("s", 1e30, "1000000000000000019884624838656"),
    ],
)
@pytest.mark.parametrize(
    ("lag_unit", "lag", "left"),
    [("records", {"0": 5, "1": 7}, "12"), ("bytes", {"0": 2048}, "2.0 KiB"), ("bytes", {}, "0 B"),
     ("files", {"0": 1, "1": 1}, "2 files"), ("", {}, "-")],
)  # fmt: skip
def test_watermarks_are_dates_and_lag_has_its_unit(
    unit: str, watermark: float, shown: str, lag_unit: str, lag: dict[str, float], left: str
) -> None:
    now = snapshot(0, ingest_records_total=3, ingest_watermark=watermark)
    labels = {"name": "x", "time_unit": unit, "lag_unit": lag_unit}
    now["metrics"]["aethergraph_ingest_info"] = {"samples": [{"labels": labels, "value": 1}]}
    now["metrics"]["aethergraph_ingest_lag_records"] = {
        "samples": [
            {"labels": {"name": "x", "partition": number}, "value": value}
            for number, value in lag.items()
        ]
    }
    now["metrics"]["aethergraph_stage_calls_total"] = {
        "samples": [{"labels": {"stage": "draw", "of": ""}, "value": 1}]
    }
    streams, stages = sections(now)
    assert stages.title == "stages"
    found = dict(zip(streams.heads, streams.rows[0], strict=True))
    assert (found["lag"], found["watermark"]) == (left, shown)


def test_a_reader_whose_writer_is_gone_is_shown_as_one(tmp_path: Path) -> None:
    observe.enable()
    writer = DynamicGraph.open(tmp_path / "g.aegd", 10, 8, huge_pages=False)
    reader = DynamicGraph.attach(tmp_path / "g.aegd")

    def names() -> list[str]:
        (live,) = (one for one in sections(observe.snapshot()) if one.title == "live graphs")
        return [row[0] for row in live.rows if "gone" in row[0]]

    assert names() == []
    writer.close()
    (name,) = names()
    assert name.endswith(", its writer is gone")
    reader.close()


def test_every_section(tmp_path: Path) -> None:
    observe.enable()
    rng = np.random.default_rng(0)
    Graph.from_edges(50, *rng.integers(0, 50, (2, 500))).save(tmp_path / "g.aeg")
    np.save(tmp_path / "x.npy", rng.random((50, 16), np.float32))
    graph = Graph.load(tmp_path / "g.aeg", storage="uring", memory_budget="64M")
    graph.load_features(tmp_path / "x.npy", storage="uring", memory_budget="1M")
    with DynamicGraph.open(tmp_path / "live.aegd", 10) as live:
        before = observe.snapshot()
        for _ in SubgraphLoader(graph, [3], batch_size=10):
            pass
        live.insert_edges([0], [1])
        found = {section.title: section for section in sections(observe.snapshot(), before)}
    assert set(found) == {"stages", "live graphs", "lists on disk", "rows on disk"}
    for section in found.values():
        assert all(len(row) == len(section.heads) for row in section.rows)
    assert [row[0] for row in found["rows on disk"].rows] == ["x.npy"]
    assert found["live graphs"].rows[0][2] == "1"
    assert "gather x" in [row[0] for row in found["stages"].rows]


def test_ingest_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph.observe.place._PATIENCE", 60.0)
    (tmp_path / "edges.toml").write_text('format = "json"\nsrc = "u"\ndst = "v"\n')
    path = tmp_path / "edges.jsonl"
    path.write_text("".join(json.dumps({"u": n % 10, "v": 1}) + "\n" for n in range(100)))
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "ingest", str(tmp_path / "g.aegd"), str(path), "--schema",
         str(tmp_path / "edges.toml"), "-n", "10"],
    ) as ingest:  # fmt: skip
        try:
            until = time.monotonic() + 60
            records = None
            while records != 100:
                assert time.monotonic() < until and ingest.poll() is None
                time.sleep(0.05)
                if ingest.pid in list_processes():
                    metrics = ask(ingest.pid)["metrics"]
                    found = metrics.get("aethergraph_ingest_records_total", {"samples": []})
                    records = found["samples"][0]["value"] if found["samples"] else None
            text = said("top", ingest.pid, "--once", "--interval", 0.1)
            assert "running" in text and "edges.jsonl" in text
            (info,) = ask(ingest.pid)["metrics"]["aethergraph_ingest_info"]["samples"]
            assert info["labels"]["lag_unit"] == "bytes" and info["labels"]["time_unit"] == ""
            assert "g.aegd" in text and "live graphs" in text
        finally:
            ingest.send_signal(signal.SIGINT)
            assert ingest.wait(60) == 0
    assert list_processes() == []


@pytest.mark.slow
def test_serve_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph.observe.place._PATIENCE", 60.0)
    np.save(tmp_path / "x.npy", np.zeros((100, 4), np.float32))
    with served(tmp_path / "x.npy", "--tcp", "127.0.0.1:0") as (server, line):
        rows = open_source(f"{address_in(line)}/x")
        for _ in range(3):
            rows.gather([1, 2])
        # A client may have its answer before it is counted.
        assert comes(lambda: served_count(server.pid, "requests_total") == 3)
        assert served_count(server.pid, "rows_total") == 6
        text = said("top", server.pid, "--once", "--interval", 0.1)
    assert "servers" in text and "FeatureServer" in text


def served_count(pid: int, name: str) -> float:
    """Return what a process that serves has counted, as ``top --json`` tells it."""
    (found,) = json.loads(said("top", pid, "--json"))
    (sample,) = found["metrics"][f"aethergraph_server_{name}"]["samples"]
    return float(sample["value"])


def test_ingest_goes_on_where_it_cannot_be_seen(tmp_path: Path, runtime: Path) -> None:
    (runtime / "aethergraph").mkdir()
    (runtime / "aethergraph").chmod(0o755)
    (tmp_path / "edges.toml").write_text('format = "json"\nsrc = "u"\ndst = "v"\n')
    (tmp_path / "e.jsonl").write_text('{"u": 1, "v": 2}\n')
    text = said(
        "ingest", tmp_path / "g.aegd", tmp_path / "e.jsonl", "--schema", tmp_path / "edges.toml",
        "-n", 10, "--until-end",
    )  # fmt: skip
    assert "1 records" in text
    assert not registry.is_enabled()


@pytest.mark.slow
def test_on_a_terminal() -> None:
    """It is drawn again and again, and ends with the process that it is about."""
    with subprocess.Popen(
        [sys.executable, "-c",
         "import sys\nfrom aethergraph import observe\nobserve.enable()\n"
         "print('ready', flush=True)\nsys.stdin.readline()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as other:  # fmt: skip
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-c", MAIN, "top", str(other.pid), "--interval", "0.1"],
            stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"},
        ) as top:  # fmt: skip
            os.close(theirs)
            text, until, is_ended = b"", time.monotonic() + 60, False
            while top.poll() is None or select.select([ours], [], [], 0)[0]:
                assert time.monotonic() < until, text
                if select.select([ours], [], [], 0.1)[0]:
                    try:
                        text += os.read(ours, 1 << 16)
                    except OSError:  # the terminal is closed
                        break
                if not is_ended and text.count(str(other.pid).encode()) >= 3:
                    other.communicate("\n")
                    is_ended = True
            assert top.wait(60) == 0
        os.close(ours)
    assert f"process {other.pid} has ended".encode() in text


# ---- writers of live graphs, and pages of Prometheus ---------------------------------------------


def test_the_writer_of_a_live_graph(tmp_path: Path) -> None:
    path = tmp_path / "live.aegd"
    assert "no such directory; give the number" in said("top", path, code=1)
    observe.enable()
    with DynamicGraph.open(path, 10, huge_pages=False):
        (found,) = json.loads(said("top", path, "--json"))
        assert found["pid"] == os.getpid()
        assert "live graphs" in said("top", path, "--once", "--interval", 0.1)
    assert "no process writes a live graph there" in said("top", path, code=1)


def test_a_page_of_prometheus() -> None:
    pytest.importorskip("prometheus_client")
    observe.enable()
    rows = CachedRows(np.ones((10, 4), np.float32), "1M")
    observe.watch(rows, 'a "b"\\\n{c}=1,')
    rows.gather([1, 2])
    with observe.prometheus(0) as server:
        (found,) = json.loads(said("top", server.url, "--json"))
        wanted = observe.snapshot()["metrics"]
        name = "aethergraph_cache_requested_total"
        assert found["metrics"][name] == wanted[name]
        assert set(found["metrics"]) == set(wanted)
        assert "caches of sources" in said("top", server.url, "--once", "--interval", 0.1)
        url = server.url
    assert "cannot be read" in said("top", url, code=1)


def test_a_page_of_something_else() -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"up 1\naethergraph_rows_hits_total{name= x\n\xff\n{} 1\n" * 3)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = said("top", f"http://127.0.0.1:{server.server_port}/metrics", code=1)
        server.shutdown()
    assert "no metrics of aethergraph" in text
    assert "cannot be read" in said("top", "http://", code=1)
