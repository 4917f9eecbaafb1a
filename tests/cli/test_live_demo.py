"""The demonstration of a graph that changes: one short run, and its parts."""

from __future__ import annotations

import io
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import ae, run_instead, said

from aethergraph.demo.live import main, report, stream
from aethergraph.demo.live.options import LiveOptions
from aethergraph.demo.runs import RunFailed
from aethergraph.errors import StorageError, UnsupportedError

SMALL: dict[str, Any] = {"num_features": 4, "num_classes": 3, "degree": 4, "recent": 600}


# ---- the stream ----------------------------------------------------------------------------------


def test_the_stream_keeps_so_many_edges(tmp_path: Path) -> None:
    options = LiveOptions(tmp_path, kept_edges=3500, **SMALL)
    with stream.make_graph(options) as graph:
        writer = stream.Stream(graph, options)
        for step in range(8):
            before = graph.commit
            writer.step(step / 8)
            assert graph.commit == before + 1
            assert graph.num_edges == writer.inserted - writer.deleted
        assert (graph.num_nodes, writer.inserted, graph.num_edges) == (2000, 8000, 3000)
        src, dst = graph.to_graph().edge_index()
        assert (dst >= 1250).all()  # in-edges of the last three steps
        assert (src >= dst - dst % stream.STEP + stream.STEP - 600).all()  # from recent nodes
        y = graph.node_attrs["y"].gather(np.arange(2000))
        assert 0.7 < (y[src] == y[dst]).mean() < 0.97  # 0.8 and a third of the rest


def test_classes_turn_into_the_opposite(tmp_path: Path) -> None:
    options = LiveOptions(tmp_path, **SMALL)
    with stream.make_graph(options) as graph:
        writer = stream.Stream(graph, options)
        for turned in (0.0,) * 20 + (1.0,) * 20:
            writer.step(turned)
        x = graph.features.gather(np.arange(10_000))
        y = graph.node_attrs["y"].gather(np.arange(10_000))
    for label in range(3):
        first = x[:5000][y[:5000] == label].mean(axis=0)
        last = x[5000:][y[5000:] == label].mean(axis=0)
        np.testing.assert_allclose(first, -last, atol=0.6)
        assert np.linalg.norm(first) > 0.5


# ---- the other process ---------------------------------------------------------------------------


@pytest.fixture
def fake_child(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.setattr(main, "require", lambda *names: None)
    return lambda script: run_instead(script, "aethergraph.demo.live", main.subprocess, monkeypatch)


EVENTS = """
import json, pickle, sys, time
graph, options = pickle.load(sys.stdin.buffer)
def emit(event, **values): print(json.dumps({"event": event, **values}), flush=True)
emit("ready")
while graph.num_nodes < 1000: time.sleep(0.01)
emit("round", seconds=0.5, accuracy=0.9, frozen=None, loss=1.0, batches_per_second=10.0, nodes=9)
time.sleep(0.3)
emit("round", seconds=1, accuracy=0.8, frozen=0.25, loss=1.0, batches_per_second=20.0, nodes=19)
emit("done")
"""


def test_a_process_that_reads_what_this_one_writes(
    tmp_path: Path, fake_child: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake_child(EVENTS)
    found = main.run_live_demo(LiveOptions(tmp_path / "new", seconds=100, rate=50_000, **SMALL))
    assert [one.accuracy for one in found.rounds] == [0.9, 0.8]
    assert found.late_accuracy() == (0.8, 0.25) and found.batches_per_second == 15
    assert found.moments[-1].nodes >= 1000
    saved = json.loads((tmp_path / "new" / "live.json").read_text())
    assert saved["frozen_accuracy"] == 0.25 and len(saved["rounds"]) == 2
    text = capsys.readouterr().out
    assert "80.0% while learning, 25.0% of a copy" in text
    assert "accuracy 90%" in text and "live.png" in text


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("raise ValueError('something')", "training failed: ValueError: something"),
        (
            'print(\'{"event": "ready"}\'); raise SystemExit(3)',
            "training failed: ended with code 3",
        ),
    ],
)
def test_training_that_fails(
    tmp_path: Path, script: str, message: str, fake_child: Callable[[str], None]
) -> None:
    fake_child("import sys; sys.stdin.buffer.read()\n" + script)
    with pytest.raises(RunFailed, match=message):
        main.run_live_demo(LiveOptions(tmp_path, seconds=100, **SMALL))


def test_a_writer_that_fails_ends_the_other_process(
    tmp_path: Path, fake_child: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_child(EVENTS.replace("1000", "10**9"))

    def stop(self: stream.Stream, turned: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stream.Stream, "step", stop)
    with pytest.raises(KeyboardInterrupt):
        main.run_live_demo(LiveOptions(tmp_path, seconds=100, **SMALL))


def test_bad_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for options in (
        ["--live", "--edges", "e.csv"], ["--live", "--storage", "uring"], ["--live", "--epochs=9"],
        ["--live", "--no-compare"], ["--seconds", "60"], ["--rate", "2000"],
        ["--edges", "e.csv", "--features", "x", "--labels", "y", "--nodes", "500"],
    ):  # fmt: skip
        told = said("demo", *options, code=2)
        reasons = "goes without --live", "is for --live", "--nodes is of the generated graph"
        assert any(reason in told for reason in reasons), told
    monkeypatch.setattr(main, "require", lambda *names: None)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        main.run_live_demo(LiveOptions(tmp_path / "file" / "x"))
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="needs torch and torch_geometric"):
        main.run_live_demo(LiveOptions(tmp_path))


# ---- the report ----------------------------------------------------------------------------------


def test_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = report.LiveReport()
    assert empty.lines()[0].startswith("0 edges inserted per second")
    assert report.save_plot(tmp_path / "empty.png", empty) is None
    moments = [report.Moment(float(s), s, 10 * s, 80 * s, 100, 80 * s, 0, 80.0) for s in (1, 2, 3)]
    full = report.LiveReport(moments, [report.Round(1.0, 0.5, None, 1.0, 7.0, 10)])
    assert full.inserts_per_second == 80 and full.batches_per_second == 7
    assert main._screen(LiveOptions(tmp_path), full).row_count == 5
    full.rounds.append(report.Round(2.0, 0.75, 0.5, 1.0, 9.0, 20))
    assert main._screen(LiveOptions(tmp_path), full).row_count == 6
    figures: list[Any] = []
    monkeypatch.setattr(pytest.importorskip("matplotlib.pyplot"), "close", figures.append)
    assert report.save_plot(tmp_path / "full.png", full) is None
    lines = {line.get_label(): line for line in figures[0].axes[0].get_lines()}
    assert list(lines["the copy stopped here"].get_xdata()) == [1.0, 1.0]
    for axes in figures[0].axes[1:]:
        assert [1.0, 1.0] in [list(line.get_xdata()) for line in axes.get_lines()]
    assert (tmp_path / "full.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "aethergraph[plot]" in str(report.save_plot(tmp_path / "no.png", full))


# ---- all of it -----------------------------------------------------------------------------------


@pytest.mark.pyg
def test_training_in_this_process(tmp_path: Path) -> None:
    pytest.importorskip("torch_geometric")
    from aethergraph.demo.live import train

    options = LiveOptions(tmp_path, seconds=2, batch_size=128, **SMALL)
    with stream.make_graph(options) as graph:
        writer = stream.Stream(graph, options)
        for _ in range(4):
            writer.step(0.0)
        trainer = train.Trainer(graph, options)
        before, frozen = trainer.test(500, 1000)
        assert frozen is None
        trainer.freeze()
        for _ in range(20):
            assert trainer.learn(1000)[0] >= 1
        writer.step(0.0)
        learning, frozen = trainer.test(1000, 1250)
        assert frozen is not None and learning > max(before, frozen) + 0.2
        out = io.StringIO()
        train.main(io.BytesIO(pickle.dumps((graph, options))), out)
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["ready", "round", "done"]
    assert events[1]["nodes"] == 1250


@pytest.mark.slow
@pytest.mark.pyg
def test_quick_live_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch_geometric")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # torch's threads crawl on a busy machine
    ae("demo", "--live", "--quick", "--dir", tmp_path)
    saved = json.loads((tmp_path / "live.json").read_text())
    assert saved["accuracy"] > max(0.6, saved["frozen_accuracy"] + 0.15)
    assert saved["moments"][-1]["deleted"] > 0
    assert (tmp_path / "live.png").exists()
