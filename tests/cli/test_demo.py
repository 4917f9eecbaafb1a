"""The demonstration: small runs in real child processes, and its parts."""

from __future__ import annotations

import importlib.util
import json
import mmap
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import ae, run_instead
from support.processes import WarmPython

from aethergraph import FeatureTable, Graph
from aethergraph.convert import InputError
from aethergraph.demo import dataset, main, report, runs
from aethergraph.demo.memory import MemoryWatch, resident
from aethergraph.demo.options import DemoOptions
from aethergraph.demo.train import RunSpec, Skipped, split_nodes
from aethergraph.errors import InvalidArgumentError, StorageError, UnsupportedError

#: Not imported here, which takes long: the runs do.
needs_pyg = pytest.mark.skipif(
    importlib.util.find_spec("torch_geometric") is None, reason="torch_geometric is not installed"
)
TINY = {"num_nodes": 3000, "num_edges": 30_000, "num_features": 16}


def no_stages(name: str, unit: str) -> Any:
    return lambda done, total: None


def spec_for(made: dataset.Dataset, mode: str, **changes: Any) -> RunSpec:
    values: dict[str, Any] = {
        "mode": mode,
        "graph": made.graph,
        "features": made.features,
        "labels": made.labels,
        "num_classes": made.num_classes,
        "fanouts": (5, 3),
        "batch_size": 100,
        "epochs": 2,
        "batches": 3,
        "eval_nodes": 200,
        "hidden": 8,
        "learning_rate": 0.01,
        "storage": "mmap",
        "memory_budget": None,
        "seed": 0,
    }
    return RunSpec(**{**values, **changes})


# ---- the files -------------------------------------------------------------------------------


def test_dataset_is_made_once(tmp_path: Path) -> None:
    options = DemoOptions(tmp_path / "d", **TINY)
    made = dataset.prepare(options, no_stages)
    assert made.made and made.num_nodes == 3000 and made.num_edges == 30_000
    graph = Graph.load(made.graph)
    assert (graph.num_nodes, graph.num_edges) == (3000, 30_000)
    assert FeatureTable.load(made.features).shape == (3000, 16)
    assert np.load(made.labels).max() + 1 == made.num_classes
    again = dataset.prepare(options, no_stages)
    assert not again.made and again.graph == made.graph
    other = dataset.prepare(DemoOptions(tmp_path / "d", **{**TINY, "seed": 1}), no_stages)
    assert other.made
    Path(made.labels).unlink()
    assert dataset.prepare(DemoOptions(tmp_path / "d", **{**TINY, "seed": 1}), no_stages).made
    needed = made.in_memory_bytes
    assert needed["features"] == 4 * 16 * 3000
    assert needed["edge_index (2 x int64 per edge)"] == 16 * 30_000


def own_files(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    dst = rng.integers(0, 400, 4000)
    near = np.array([rng.choice(np.flatnonzero(labels == labels[v])) for v in dst])
    np.savetxt(folder / "e.csv", np.stack([near, dst], 1), "%d", ",", header="src,dst", comments="")
    np.save(folder / "x.npy", rng.normal(size=(400, 8)) + labels[:, None])
    np.savetxt(folder / "y.csv", np.where(np.arange(400) % 7, labels, -1), "%d")
    return {
        "edges": (folder / "e.csv",),
        "features": folder / "x.npy",
        "labels": folder / "y.csv",
    }


def test_own_files(tmp_path: Path) -> None:
    options = DemoOptions(tmp_path / "d", **own_files(tmp_path))
    made = dataset.prepare(options, no_stages)
    assert (made.num_nodes, made.num_features, made.num_classes) == (400, 8, 3)
    assert made.features == str(tmp_path / "x.npy")
    assert not dataset.prepare(options, no_stages).made
    seeds, held_out = split_nodes(spec_for(made, "mlp"))
    labels = np.load(made.labels)
    assert seeds.size == 600 and (labels[seeds] >= 0).all() and (labels[held_out] >= 0).all()
    assert not set(seeds.tolist()) & set(held_out.tolist())
    np.save(tmp_path / "x.npy", np.zeros((400, 2, 2), np.float32))
    with pytest.raises(InputError, match="features are"):
        dataset.prepare(options, no_stages)
    (tmp_path / "y.csv").write_text("0\n" * 400)
    with pytest.raises(InputError, match="at least two classes"):
        dataset.prepare(options, no_stages)
    (tmp_path / "e.csv").unlink()
    with pytest.raises(StorageError, match=r"e\.csv"):
        dataset.prepare(options, no_stages)


def test_one_labelled_node_is_too_few(tmp_path: Path) -> None:
    made = dataset.prepare(DemoOptions(tmp_path, **TINY), no_stages)
    labels = np.full(3000, -1)
    labels[7] = 1
    np.save(made.labels, labels)
    with pytest.raises(Skipped, match="too few labelled nodes"):
        split_nodes(spec_for(made, "mlp"))


def test_disk_space_is_checked(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="of disk"):
        dataset.prepare(DemoOptions(tmp_path, num_nodes=10**11, num_edges=10), no_stages)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file"):
        dataset.prepare(DemoOptions(tmp_path / "file" / "x"), no_stages)


# ---- runs ------------------------------------------------------------------------------------


@pytest.fixture
def fake_child(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda script: run_instead(script, "aethergraph.demo", runs.subprocess, monkeypatch)


SPEC = RunSpec("stock", "g", "x", "y", 2, (2,), 1, 2, 1, 1, 1, 0.1, "mmap", None, 0)

EVENTS = """
import json, sys
spec = json.loads(sys.stdin.read())
assert spec["mode"] == "stock" and spec["fanouts"] == [2]
def emit(event, **values): print(json.dumps({"event": event, **values}), flush=True)
emit("open", seconds=0.5, anon=100, file=7)
emit("batch", epoch=0, number=1, loss=1.0)
emit("epoch", epoch=0, loss=1.0, accuracy=0.5, batches=4, seconds=4.0, wait_seconds=1.0)
emit("epoch", epoch=1, loss=0.5, accuracy=0.75, batches=4, seconds=2.0, wait_seconds=0.2)
emit("loaded", batches=10, seconds=0.5)
emit("done", anon=500, file=900)
"""


def test_events_become_a_result(fake_child: Callable[[str], None]) -> None:
    fake_child(EVENTS)
    seen: list[str] = []
    result = runs.run(SPEC, lambda event: seen.append(event["event"]))
    assert seen == ["open", "batch", "epoch", "epoch", "loaded", "done"]
    assert (result.accuracy, result.batches_per_second, result.wait_ms) == (0.75, 2.0, 50.0)
    assert (result.anon_bytes, result.base_bytes, result.loads_per_second) == (500, 100, 20.0)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("raise ValueError('something')", "'stock' failed: ValueError: something"),
        ("import sys; sys.exit(3)", "ended with code 3"),
        ("import os; os.kill(os.getpid(), 9)", "killed, most likely for lack of memory"),
    ],
)
def test_failing_runs(script: str, message: str, fake_child: Callable[[str], None]) -> None:
    fake_child("import sys; sys.stdin.read()\n" + script)
    with pytest.raises(runs.RunFailed, match=message):
        runs.run(SPEC, lambda event: None)


def test_a_run_that_is_interrupted_ends_its_child(fake_child: Callable[[str], None]) -> None:
    fake_child(EVENTS.replace('emit("batch"', 'import time; time.sleep(60)\nemit("batch"'))

    def stop(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runs.run(SPEC, stop)


def test_memory_is_told_apart() -> None:
    watch = MemoryWatch(0.001)
    before = resident()
    # Fresh pages: numpy might be given heap memory that was resident all along.
    block = mmap.mmap(-1, 40 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    np.frombuffer(block, np.uint8)[:] = 1
    watch.close()
    assert watch.peak.anon - before.anon > 35 << 20
    assert before.file > 0 and len(block) == 40 << 20


# ---- the report ------------------------------------------------------------------------------


def results(batches: int = 100) -> list[runs.RunResult]:
    epochs = [
        runs.Epoch(1.0, 0.5, batches, 20.0, 1.0),
        runs.Epoch(0.5, 0.8, batches, batches / 10, 0.1),
    ]
    return [
        runs.RunResult("mlp", None, 0.1, 100, 100, 50, 900.0, epochs),
        runs.RunResult("stock", None, 0.1, 200, 100, 50, 60.0, epochs),
        runs.RunResult("native", None, 0.1, 200, 100, 50, 90.0, epochs),
        runs.RunResult("pyg", None, 0.1, 900, 100, 50, 30.0, epochs),
    ]


def test_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = dataset.Dataset("g", "x", "y", 10, 20, 4, 2, 160)
    assert report.speed_lines(results())[0].endswith(
        "training 1.00 times as fast, loading only 2.00 times"
    )
    # One second of training tells nothing of speed.
    assert [line[:24] for line in report.speed_lines(results(batches=99))] == [
        "Speeds are not compared:"
    ]
    skipped = [*results()[:3], runs.RunResult("pyg", "no sampler")]
    assert report.speed_lines(skipped) == []
    report.save_json(tmp_path / "r.json", made, skipped)
    saved = json.loads((tmp_path / "r.json").read_text())
    assert saved["runs"][1]["batches_per_second"] == 10 and saved["runs"][3]["skipped"]
    assert report.save_plot(tmp_path / "p.png", made, skipped) is None
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "aethergraph[plot]" in str(report.save_plot(tmp_path / "q.png", made, skipped))


def test_the_comparison_needs_memory(tmp_path: Path) -> None:
    made = dataset.Dataset("g", "x", "y", 10, 20, 4, 2, 1 << 60)
    options = DemoOptions(tmp_path)
    assert "are available" in str(main._why_not("pyg", options, made))
    assert main._why_not("stock", options, made) is None
    off = DemoOptions(tmp_path, compare=False)
    assert "--no-compare" in str(main._why_not("pyg", off, made))


def test_a_plot_of_one_epoch_has_whole_epochs_on_its_axis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    made = dataset.Dataset("g", "x", "y", 10, 20, 4, 2, 160)
    one = [runs.RunResult("stock", epochs=[runs.Epoch(1.0, 0.5, 10, 2.0, 1.0)])]
    figures: list[Any] = []
    monkeypatch.setattr(plt, "close", figures.append)
    assert report.save_plot(tmp_path / "one.png", made, one) is None
    left = figures[0].axes[0]
    shown = [tick for tick in left.get_xticks() if 0.5 <= tick <= 1.5]
    assert left.get_xlim() == (0.5, 1.5) and shown == [1.0]


def test_the_plot_has_memory_of_the_data_without_that_of_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    made = dataset.Dataset("g", "x", "y", 10, 20, 4, 2, 160)
    epochs = [runs.Epoch(1.0, 0.5, 10, 2.0, 1.0)]
    some = [
        runs.RunResult(mode, epochs=epochs, base_bytes=1 << 30, anon_bytes=size << 28)
        for mode, size in (("stock", 5), ("pyg", 8))
    ]
    figures: list[Any] = []
    monkeypatch.setattr(plt, "close", figures.append)
    assert report.save_plot(tmp_path / "demo.png", made, some) is None
    right = figures[0].axes[2]
    assert [bar.get_height() for bar in right.patches] == [256, 1024]  # MiB
    assert [text.get_text() for text in right.texts] == ["256.0 MiB", "1.0 GiB"]


@pytest.mark.any_python
@needs_pyg
def test_a_budget_goes_with_storage_that_keeps_one(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="'mmap' keeps no memory budget: --memory goes with"):
        main.run_demo(DemoOptions(tmp_path, memory_budget="1G"))
    with pytest.raises(InvalidArgumentError, match="many"):
        main.run_demo(DemoOptions(tmp_path, storage="uring", memory_budget="many"))
    assert not list(tmp_path.iterdir())


def test_missing_torch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"needs torch and torch_geometric: .*\[pyg\]"):
        main.run_demo(DemoOptions(tmp_path))


# ---- all of it -------------------------------------------------------------------------------


class Forked:
    """Child process, as far as runs.run uses it: a fork of an interpreter that has imported PyG."""

    def __init__(self, python: WarmPython, folder: Path, errors: Any) -> None:
        for name in ("in", "out"):
            os.mkfifo(folder / name)
        script = Path(runs.__file__).with_name("__main__.py")
        self._python, self._errors, self._told = python, errors, folder / "out.err"
        self._pid = python.start([script], folder, folder / "out", folder / "in")
        self.stdin, self.stdout = open(folder / "in", "w"), open(folder / "out")  # noqa: SIM115
        self._code: int | None = None

    def wait(self) -> int:
        self._code = self._python.wait()
        self._errors.write(self._told.read_text())
        return self._code

    def poll(self) -> int | None:
        return self._code

    def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    # One OpenMP thread: torch's others crawl on a busy machine.
    with WarmPython(["aethergraph.pyg"], {**os.environ, "OMP_NUM_THREADS": "1"}) as warm:
        yield warm


@pytest.fixture
def forked_runs(
    python: WarmPython, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(command: list[str], *, stderr: Any, **options: Any) -> Any:
        assert command == [sys.executable, "-m", "aethergraph.demo"]
        return Forked(python, tmp_path_factory.mktemp("run"), stderr)

    monkeypatch.setattr(runs.subprocess, "Popen", start)


@pytest.mark.slow
@pytest.mark.pyg
@needs_pyg
@pytest.mark.usefixtures("forked_runs")
def test_quick_demo(tmp_path: Path) -> None:
    size = ["--nodes", "5000", "--batches", "8", "--fanout", "5,3", "--hidden", "32"]
    result = ae("demo", "--quick", "--dir", tmp_path, "--no-compare", *size)
    text = result.stdout
    assert "5,000 nodes, 50,000 edges, 128 features" in text
    assert "The in-memory way needs " in text
    assert "skipped: not asked for (--no-compare)" in text
    saved = json.loads((tmp_path / "report.json").read_text())
    mlp, stock, native, pyg = saved["runs"]
    assert pyg["skipped"] and len(stock["epochs"]) == 2
    # The same seeds, the same samples: both loaders train the same model.
    assert stock["accuracy"] == pytest.approx(native["accuracy"], abs=0.02)
    assert stock["epochs"][1]["accuracy"] > stock["epochs"][0]["accuracy"]
    assert stock["accuracy"] > mlp["accuracy"] + 0.1
    assert stock["anon_bytes"] > stock["base_bytes"] > 0
    assert (tmp_path / "demo.png").exists()


@pytest.mark.slow
@pytest.mark.pyg
@needs_pyg
@pytest.mark.usefixtures("forked_runs")
def test_runs_within_a_budget(tmp_path: Path) -> None:
    made = dataset.prepare(DemoOptions(tmp_path, **TINY), no_stages)
    within = runs.run(
        spec_for(made, "stock", storage="uring", memory_budget="64M"), lambda event: None
    )
    mapped = runs.run(spec_for(made, "stock"), lambda event: None)
    # The samples are the same, so is what is learnt.
    assert [e.accuracy for e in within.epochs] == [e.accuracy for e in mapped.epochs]


@pytest.mark.pyg
@needs_pyg
@pytest.mark.usefixtures("forked_runs")
def test_in_memory_run(tmp_path: Path) -> None:
    options = DemoOptions(tmp_path / "d", **own_files(tmp_path))
    made = dataset.prepare(options, no_stages)
    result = runs.run(spec_for(made, "pyg"), lambda event: None)
    if result.skipped is not None:
        assert "pyg-lib or torch-sparse" in result.skipped
    else:
        assert len(result.epochs) == 2 and result.accuracy > 0.4
    ours = runs.run(spec_for(made, "memory"), lambda event: None)
    assert ours.skipped is None and len(ours.epochs) == 2 and ours.accuracy > 0.4


def test_our_loader_stands_in_where_pygs_sampler_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main.importlib.util, "find_spec", lambda name: name == "torch_sparse")
    assert main._in_memory_mode() == "pyg"
    monkeypatch.setattr(main.importlib.util, "find_spec", lambda name: None)
    assert main._in_memory_mode() == "memory"
    made = dataset.Dataset("g", "x", "y", 10, 20, 4, 2, 160)
    options = DemoOptions(tmp_path, compare=False)
    console = main.Console(width=120)
    main._run_mode("memory", options, made, console)
    assert "pyg-lib or torch-sparse: neither is here" in capsys.readouterr().out
    stand_in = [*results()[:3], replace(results()[3], mode="memory")]
    assert "compared with our NeighborLoader, in memory: " in report.speed_lines(stand_in)[0]
