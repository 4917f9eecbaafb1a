"""``aethergraph embed``: models that are named, work that goes on, one line for each mistake."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.commands import MAIN, ae, said, warm_commands
from support.graphs import make_graph
from support.processes import WarmPython, talking

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, HeteroGraph
from aethergraph.cli.embed import _moments

COUNT = 200
GRAPH = make_graph(COUNT)
SRC, DST = GRAPH.edge_index()
X = np.random.default_rng(5).integers(-9, 9, (COUNT, 3))

#: Layers that need no torch.
LAYERS = """
import numpy as np
import beside

def total(batch):
    rows, (row, col) = batch.x[: batch.batch_size] * beside.FACTOR, batch.edge_index
    np.add.at(rows, col, batch.x[row])
    return rows

layers = [total, total]

def make():
    return layers

class Total:
    def __call__(self, batch):
        return total(batch)

def half(factor):
    return layers

def broken():
    return layers[2]

made = Total()
"""


def totals(times: int, x: NDArray[Any] = X, factor: int = 3) -> NDArray[Any]:
    for _ in range(times):
        rows = x * factor
        np.add.at(rows, DST, x[SRC])
        x = rows
    return x


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    GRAPH.save(tmp_path / "g.aeg")
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "models.py").write_text(LAYERS)
    (tmp_path / "beside.py").write_text("FACTOR = 3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def embed(model: str, *args: object, code: int = 0) -> str:
    call = ("embed", "g.aeg", model, "h.npy", "--features", "x.npy", "--force", *args)
    return said(*call, code=code)


def test_functions_of_batches(folder: Path) -> None:
    for place in ("models.py", "models"):
        for name, times in (("layers", 2), ("make", 2), ("total", 1), ("Total", 1)):
            told = embed(f"{place}:{name}")
            assert re.match(r"h\.npy: 200 vectors of 3 int64, 4\.8 KiB, ", told)
            np.testing.assert_array_equal(np.load("h.npy"), totals(times))


def test_options(folder: Path) -> None:
    told = embed("models.py:layers", "--dtype", "float16", "--batch-size", 16, "--memory", "64M")
    assert "200 vectors of 3 float16" in told
    np.testing.assert_array_equal(np.load("h.npy"), totals(2).astype(np.float16))
    embed("models.py:layers", "--num-neighbors", "4,2", "--seed", 7)
    drawn = np.load("h.npy")
    embed("models.py:layers", "--num-neighbors", "4,2")
    assert not np.array_equal(drawn, np.load("h.npy"))


def test_vectors_as_of_a_time(folder: Path) -> None:
    days = np.datetime64("2024-01-01") + np.arange(len(SRC))
    for name, times, until in (
        ("numbers", np.arange(len(SRC)), "99"), ("floats", np.arange(len(SRC)) / 2, "49.5"),
        ("dates", days, str(days[99])), ("dates", days, f"{days[99]}T02:00+02:00"),
    ):  # fmt: skip
        Graph.from_edges(COUNT, SRC, DST, edge_time=times).save(f"{name}.aeg")
        call = ("embed", f"{name}.aeg", "models.py:total", "h.npy", "--features", "x.npy")
        ae(*call, "--force", "--until", until)
        wanted = X * 3
        np.add.at(wanted, DST[:100], X[SRC[:100]])
        np.testing.assert_array_equal(np.load("h.npy"), wanted)
    told = said(*call, "--force", "--until", "soon", code=2)
    assert "--until 'soon' is neither a number nor a date, such as 2024-02-15" in told
    told = embed("models.py:total", "--until", "99", code=2)
    assert "--until = 99, but there is no edge_time and no node_time: name the times with" in told
    told = embed("models.py:total", "--time-attr", "w", code=2)
    assert "--time-attr = 'w' names times for --until: give that, or leave it out" in told


def test_plan(folder: Path) -> None:
    out = embed("models.py:layers", "--plan")
    layers = [r"1 total 1 batches 0 B \d\S+", r"2 total 1 batches 4.7 KiB \d\S+"]
    assert re.fullmatch(" ".join(["layer order reads seconds", *layers]), out), out
    assert not (folder / "h.npy").exists()
    assert "--plan is for runs over all nodes: leave --refresh out" in embed(
        "models.py:layers", "--plan", "--refresh", code=2
    )


def test_rows_of_the_graph(folder: Path) -> None:
    graph = Graph.from_edges(COUNT, SRC, DST)
    graph.features = X
    graph.save("with_x.aeg")
    ae("embed", "with_x.aeg", "models.py:total", "h.npy")
    np.testing.assert_array_equal(np.load("h.npy"), totals(1))


def test_a_live_graph_is_taken_as_of_a_commit(folder: Path) -> None:
    with DynamicGraph.open("live", 3, 16) as graph:
        graph.features = np.eye(3, dtype=int)
        graph.insert_edge(0, 1)
        first = graph.lsn
        graph.insert_edge(0, 2)
        call = ("embed", "live", "models.py:total", "h.npy", "--force")
        told = " ".join(ae(*call).stderr.split())
        assert told == (
            f"note: commit {first + 1} of live: with --commit {first + 1} the command goes on if "
            "others follow"
        )
        assert np.load("h.npy").tolist() == [[3, 0, 0], [1, 3, 0], [1, 0, 3]]
        ae(*call, "--commit", first)
        assert np.load("h.npy").tolist() == [[3, 0, 0], [1, 3, 0], [0, 0, 3]]
        assert "lsn = 9 is no commit of" in said(*call, "--commit", 9, code=1)


#: Layers whose calls are counted, and one of which ends the process, or is interrupted.
ENDING = """
import os, signal
from pathlib import Path
from aethergraph.inference import job
from models import total

job.RECORD_SECONDS = 0.0
LEFT = [4]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's jobs may ignore it

def ending(batch):
    LEFT[0] -= 1
    if LEFT[0] == 0 and os.environ["ENDS_BY"]:
        os.kill(os.getpid(), getattr(signal, os.environ["ENDS_BY"]))
    return total(batch)

layers = [ending, ending]
"""


@pytest.fixture(scope="module", params=["SIGINT", "SIGKILL"])
def ending(request: pytest.FixtureRequest) -> Iterator[tuple[WarmPython, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ENDS_BY", request.param)
        with warm_commands() as warm:
            yield warm, request.param


def test_what_was_ended_goes_on(ending: tuple[WarmPython, str], folder: Path) -> None:
    """A process of its own, ended by its fourth batch: the second of the first layer with work."""
    python, name = ending
    (folder / "ending.py").write_text(ENDING)
    (folder / "program.py").write_text(MAIN)
    call = [folder / "program.py", "embed", "g.aeg", "ending.py:layers", "h.npy"]
    call += ["--features", "x.npy", "--batch-size", 90]
    told = []
    for _ in range(9):
        done = python.run(call, folder)
        told.append(done.stderr)
        if done.returncode == 0:
            break
        assert done.returncode == (130 if name == "SIGINT" else -signal.SIGKILL), done.stderr
        assert not Path("h.npy").exists()
    assert len(told) > 2
    assert "note: going on at row 90 of layers[0]\n" in told[1]
    if name == "SIGINT":
        assert told[0] == (
            f"note: what was finished is kept in {folder}/h.npy.building: the same command goes on "
            "from there, --restart begins anew\naethergraph: error: interrupted\n"
        )
    np.testing.assert_array_equal(np.load("h.npy"), totals(2))


def test_models_that_cannot_be_had(folder: Path) -> None:
    Path("worse.py").write_text("x = 1\ndef f(:\n")
    Path("needs.py").write_text("raise ModuleNotFoundError('', name='torch_geometric.nn')\n")
    Path("needs_other.py").write_text("import no_such_module_here\n")
    Path("arguments.py").write_text("class Net:\n    def __init__(self, width): ...\n")
    for model, code, message in (
        ("models.py", 2, "MODEL = 'models.py' names no model: give FILE.py:NAME or MODULE:NAME"),
        ("none.py:net", 1, "none.py: no such file"),
        ("none:net", 2, "there is no module 'none' here or among those installed; a file is"),
        ("models.py:net", 2, "no 'net': there are total, layers, make, Total, half, broken, made"),
        ("models.py:half", 2, "layers[0] (half) returned a list, not a numpy array"),
        ("models.py:broken", 1, "models.py, line 23: IndexError: list index out of range"),
        ("worse.py:net", 1, "worse.py, line 2: SyntaxError: "),
        ("needs.py:net", 1, "needs.py needs torch_geometric: pip install"),
        ("needs_other.py:net", 1, "needs_other.py, line 1: ModuleNotFoundError: No module named"),
        ("arguments.py:Net", 2, "arguments.py:Net cannot be called without arguments (missing a"),
    ):
        assert message in embed(model, code=code)
    assert not Path("h.npy").exists()


def test_mistakes_are_one_line(folder: Path) -> None:
    model = "models.py:layers"
    Path("old.npy").touch()
    for args, code, message in (
        (("--num-neighbors", "a"), 2, "--num-neighbors 'a' is no number, and no numbers with"),
        (("--num-neighbors", "1,2,3"), 2, "num_neighbors has 3 numbers, but there are 2 layers"),
        (("--commit", 1), 2, "--commit 1 is for live graphs, and g.aeg is none"),
        (("--device", "cuda"), 2, "--device cuda: MODEL has no torch modules to move"),
        (("--weights", "x.npy"), 2, "--weights x.npy is for torch modules, and models.py:layers"),
        (("--weights", "none.pt"), 1, "none.pt: no such file"),
        (("--edge-weight", "w"), 2, "edge_attrs: 'w' does not exist"),
        (("--features", "x.npy"), 2, "--features is given 2 times, and g.aeg has one type of nod"),
        (("--interval", "3"), 2, "--interval 3 is between two looks of --follow: leave it out, or"),
        (("--follow",), 2, "--follow is for live graphs, and g.aeg is none"),
        (("--follow", "--commit", 1), 2, "--commit 1 is a single one, and --follow takes all tha"),
        (("--memory", "1K"), 2, "a memory budget of 1024 bytes is too small to read rows"),
    ):
        assert message in embed(model, *args, code=code)
    for args, code, message in (
        (("none.aeg", model, "h.npy"), 1, "none.aeg: no such file"),
        (("none", model, "h.npy", "--follow"), 1, "none: no such file"),
        (("g.aeg", model, "h.npy", "--features", "none.npy"), 1, "none.npy: no such file"),
        (("g.aeg", model, "h.npy"), 2, "g.aeg has no rows of nodes (x): give --features"),
        (("g.aeg", model, "x.npy", "--features", "x.npy"), 2, "the output is also an input"),
        (("g.aeg", model, "old.npy", "--features", "x.npy"), 1, "exists already; --force overwr"),
        (("g.aeg", model, "h.bin", "--features", "x.npy"), 2, "h.bin' is no .npy file"),
    ):
        assert message in said("embed", *args, code=code)
    assert not os.path.exists("h.npy")


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    with warm_commands() as warm:
        yield warm


# ---- many types ----------------------------------------------------------------------------------

TYPED = """
import numpy as np

def total(batch):
    (name, seeds), = batch.seeds.items()
    rows = batch.x[name][: len(seeds)] * 3
    for kind, (row, col) in batch.edge_index.items():
        if kind[2] == name:
            np.add.at(rows, col, batch.x[kind[0]][row])
    return rows

layers = [total, total]
"""
EDGES = {("a=b", "to", "c/d"): ([0, 1, 1], [0, 0, 1]), ("c/d", "of", "a=b"): ([1], [2])}


@pytest.fixture
def typed(folder: Path) -> Path:
    """A graph of two types, one of which has rows in it."""
    graph = HeteroGraph.from_edges(EDGES, {"a=b": 3, "c/d": 2})
    graph["c/d"].node_attrs["x"] = np.array([[1], [2]])
    graph.save("t.aeg")
    np.save("ab.npy", np.array([[10], [20], [30]]))
    (folder / "typed.py").write_text(TYPED)
    (folder / "program.py").write_text(MAIN)
    return folder


def test_many_types(typed: Path, python: WarmPython) -> None:
    """A process of its own: a line and a file for each type."""
    call = [typed / "program.py", "embed", "t.aeg", "typed.py:total", "out", "--memory", "64M"]
    done = python.run([*call, "--features", "a=b=ab.npy"], typed)
    assert (done.returncode, done.stderr) == (0, "")
    first, second = done.stdout.splitlines()
    assert first == "out/a=b.npy: 3 vectors of 1 int64, 152 B"
    assert re.fullmatch(r"out/c%2Fd\.npy: 2 vectors of 1 int64, 144 B, \d+\.\d s", second)
    assert np.load("out/a=b.npy").tolist() == [[30], [60], [92]]
    assert np.load("out/c%2Fd.npy").tolist() == [[33], [26]]
    for args, message in (
        (["--features", "ab.npy"], "--features 'ab.npy' is not TYPE=FILE, where TYPE is one of t."),
        (["--features", "a=b=ab.npy"] * 2, "--features 'a=b=ab.npy': 'a=b' has 'ab.npy' already"),
        (["--features", "c/d=ab.npy"], "features['c/d'] has 3 rows"),
    ):
        assert message in said("embed", "t.aeg", "typed.py:total", "none", *args, code=2)
    with DynamicHeteroGraph.open("live", {"a=b": 3, "c/d": 2}, [*EDGES], arena_mb=16) as graph:
        for kind, ends in EDGES.items():
            graph[kind].insert(*ends)
        graph["c/d"].node_attrs["x"] = np.array([[1], [2]])
    ae("embed", "live", "typed.py:total", "out", "--force", "--features", "a=b=ab.npy")
    assert np.load("out/c%2Fd.npy").tolist() == [[33], [26]]
    same = ("embed", "live", "typed.py:layers", "new", "--refresh", "--features", "a=b=ab.npy")
    for value in (10, 11):
        np.save("ab.npy", np.array([[value], [20], [30]]))
        done = ae(*same)
        assert done.stdout.splitlines()[0] == "new/a=b.npy: 3 vectors of 1 int64, 152 B"
    assert done.stderr == "note: of 5 nodes the layers compute 2 and 2\n"
    assert np.load("new/c%2Fd.npy").tolist() == [[33 + 99 + 60 + 9 - 6], [26 * 3 + 60]]
    HeteroGraph.from_edges(EDGES).save("bare.aeg")
    told = said("embed", "bare.aeg", "typed.py:total", "none", code=2)
    assert "bare.aeg has no rows of nodes (x): give --features TYPE=FILE" in told


# ---- graphs that change --------------------------------------------------------------------------

#: A writer: an edge to node 2 and another row of node 0 for each line that it reads.
WRITER = """
import sys
import numpy as np
from aethergraph import DynamicGraph

with DynamicGraph.open(sys.argv[1], 10, 16, durability="sync") as graph:
    graph.features = np.ones((10, 1), np.int64)
    graph.insert_edges(range(9), range(1, 10))
    for line in sys.stdin:
        with graph.transaction():
            graph.insert_edge(graph.in_degrees([2])[0] + 2, 2)
            graph.update_nodes([0], x=[[graph.lsn]])
        print(graph.lsn, flush=True)
"""


TYPED_WRITER = """
import sys
import numpy as np
from aethergraph import DynamicHeteroGraph

kind = ("a", "to", "a")
with DynamicHeteroGraph.open(sys.argv[1], {"a": 10}, [kind], 16, durability="sync") as graph:
    graph["a"].node_attrs["x"] = np.ones((10, 1), np.int64)
    graph[kind].insert(range(9), range(1, 10))
    for line in sys.stdin:
        with graph.transaction():
            graph[kind].insert(graph[kind].in_degrees([2]) + 2, [2])
            graph["a"].update([0], x=[[graph.lsn]])
        print(graph.lsn, flush=True)
"""


def out_of(name: str, is_typed: bool) -> tuple[str, str]:
    """Return an output for the command, and the file of it that is read."""
    return (name, f"{name}/a.npy") if is_typed else (f"{name}.npy", f"{name}.npy")


def of_commit(lsn: int, is_typed: bool = False) -> list[Any]:
    model, (out, file) = "typed.py" if is_typed else "models.py", out_of("all", is_typed)
    ae("embed", "live", f"{model}:layers", out, "--force", "--commit", lsn)
    rows: list[Any] = np.load(file).tolist()
    return rows


def test_refresh(folder: Path) -> None:
    call = ("embed", "live", "models.py:layers", "h.npy", "--refresh")
    with talking(WRITER, "live") as write:
        for number in range(3):
            lsn = int(write())
            done = ae(*call)
            wanted = "note: of 10 nodes the layers compute 3 and 4\n" if number else ""
            assert done.stderr == wanted
            assert re.fullmatch(
                rf"h\.npy: 10 vectors of 1 int64, 208 B, commit {lsn}, .*s\n", done.stdout
            )
            assert np.load("h.npy").tolist() == of_commit(lsn)
    np.save("rows.npy", np.ones((COUNT, 1), int))
    Graph.from_edges(COUNT, SRC, DST, layout="both").save("b.aeg")
    same = ("embed", "b.aeg", "models.py:layers", "f.npy", "--refresh", "--features", "rows.npy")
    for rows in (1, 2):
        np.save("rows.npy", np.where(np.arange(COUNT) == 7, rows, 1)[:, None])
        told = ae(*same)
    assert told.stderr == "note: of 200 nodes the layers compute 18 and 101\n"


@pytest.mark.parametrize(
    ("number", "is_typed"), [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGINT, True)]
)
def test_follow(number: int, is_typed: bool, folder: Path, python: WarmPython) -> None:
    (folder / "program.py").write_text(MAIN)
    (folder / "typed.py").write_text(TYPED)
    model, (out, file) = "typed.py" if is_typed else "models.py", out_of("h", is_typed)
    call = [folder / "program.py", "embed", "live", f"{model}:layers", out]
    with talking(TYPED_WRITER if is_typed else WRITER, "live") as write:
        commits = [int(write())]
        pid = python.start([*call, "--follow", "--interval", "0.1"], folder, folder / "out")
        try:
            for _ in range(3):
                wait_for(file, of_commit(commits[-1], is_typed))
                commits.append(int(write()))
            wait_for(file, of_commit(commits[-1], is_typed))
        finally:
            os.kill(pid, number)
            code = python.wait()
    told = Path("out").read_text().splitlines()
    assert code == 0, Path("out.err").read_text()
    assert [int(line.split("commit ")[1].split(",")[0]) for line in told] == commits
    assert Path("out.err").read_text() == "note: of 10 nodes the layers compute 3 and 4\n" * 3


def wait_for(file: str, rows: list[Any]) -> None:
    """Wait until a whole file has such rows."""
    end = time.monotonic() + 60
    while not (os.path.exists(file) and np.load(file).tolist() == rows):
        assert time.monotonic() < end, Path("out.err").read_text()
        time.sleep(0.02)


def test_a_merge_while_a_graph_is_followed(folder: Path) -> None:
    """Changes that a merge gave up are computed for all nodes, and later commits as before."""
    with DynamicGraph.open("live", 10, 16, durability="sync") as graph:
        graph.features = np.ones((10, 1))
        moments = _moments(Path("live"), None, 0.01)
        first = next(moments).lsn
        for source in range(4):
            graph.insert_edge(source, 7)
            graph.merge()
        graph.insert_edge(8, 7)
        second = next(moments)
        memory = second.native_snapshot.store.memory_name
        assert second.lsn == graph.lsn > first + 4
        graph.merge()  # of commits that were seen: what is read from here on is the new base
        graph.insert_edge(9, 7)
        third = next(moments)
        assert third.lsn == graph.lsn
        assert third.native_snapshot.store.memory_name != memory
        moments.close()


# ---- models of torch -----------------------------------------------------------------------------

NETS = """
import torch
from torch_geometric.nn import GCNConv, GraphSAGE, SAGEConv

net = GraphSAGE(3, 8, 2, 4)
steps = [SAGEConv(3, 8), torch.relu, SAGEConv(8, 4)]
weighted = [GCNConv(3, 4, normalize=False)]

class Net(GraphSAGE):
    def __init__(self):
        super().__init__(3, 8, 2, 4)
"""

#: Writes weights of each model, and the vectors that they give.
MAKING = """
import numpy as np
import torch
from aethergraph import Graph
from nets import Net, steps, weighted
graph, x = Graph.load("g.aeg"), torch.from_numpy(np.load("x.npy"))
edges = torch.from_numpy(np.stack(graph.edge_index()))
net = Net().eval()
listed = torch.nn.ModuleList([steps[0], torch.nn.ReLU(), steps[2]])
torch.save(net.state_dict(), "net.pt")
torch.save(listed.state_dict(), "steps.pt")
torch.save(torch.nn.ModuleList(weighted).state_dict(), "weighted.pt")
torch.save({"model": net.state_dict(), "epoch": 3}, "checkpoint.pt")
torch.save(net, "whole.pt")
weight = torch.from_numpy(graph.edge_attrs["w"].array)
with torch.no_grad():
    np.save("net.wanted.npy", net(x, edges))
    np.save("steps.wanted.npy", steps[2](steps[0](x, edges).relu(), edges))
    np.save("weighted.wanted.npy", weighted[0](x, edges, weight))
"""


@pytest.fixture(scope="module")
def torch_python() -> Iterator[WarmPython]:
    with warm_commands("aethergraph.pyg") as warm:
        yield warm


@pytest.fixture
def nets(folder: Path, torch_python: WarmPython) -> Path:
    weight = np.linspace(0, 1, len(SRC), dtype=np.float32)
    Graph.from_edges(COUNT, SRC, DST, edge_attrs={"w": weight}).save("g.aeg")
    np.save("x.npy", X.astype(np.float32))
    Path("nets.py").write_text(NETS)
    Path("making.py").write_text(MAKING)
    Path("program.py").write_text(MAIN)
    done = torch_python.run([folder / "making.py"], folder)
    assert done.returncode == 0, done.stderr
    return folder


def embed_by(python: WarmPython, folder: Path, *args: object) -> tuple[int, str]:
    call = [folder / "program.py", "embed", "g.aeg", *args]
    done = python.run([*call, "--features", "x.npy", "--force"], folder)
    return done.returncode, done.stderr


@pytest.mark.pyg
def test_models_of_pyg_with_weights(nets: Path, torch_python: WarmPython) -> None:
    for name, weights, *options in (
        ("net", "net"), ("Net", "net"), ("steps", "steps"),
        ("weighted", "weighted", "--edge-weight", "w"),
    ):  # fmt: skip
        call = (f"nets.py:{name}", "h.npy", "--weights", f"{weights}.pt", *options)
        assert embed_by(torch_python, nets, *call) == (0, "")
        np.testing.assert_allclose(
            np.load("h.npy"), np.load(f"{weights}.wanted.npy"), atol=1e-4, rtol=1e-4
        )


HETERO = """
import numpy as np
import torch
from aethergraph import HeteroGraph
from torch_geometric.nn import GraphSAGE, to_hetero

EDGES = {("a", "to", "b"): ([0, 1, 1], [0, 0, 1]), ("b", "of", "a"): ([1], [2])}

def make():
    return to_hetero(GraphSAGE((3, 3), 8, 2, 4), (["a", "b"], list(EDGES)))

if __name__ == "__main__":
    HeteroGraph.from_edges(EDGES, {"a": 3, "b": 2}).save("t.aeg")
    x = {"a": torch.rand(3, 3), "b": torch.rand(2, 3)}
    model, edges = make().eval(), {kind: torch.tensor(ends) for kind, ends in EDGES.items()}
    torch.save(model.state_dict(), "hetero.pt")
    with torch.no_grad():
        wanted = model(x, edges)
    for name, rows in x.items():
        np.save(f"x-{name}.npy", rows)
        np.save(f"wanted-{name}.npy", wanted[name])
"""


@pytest.mark.pyg
def test_models_of_many_types(folder: Path, torch_python: WarmPython) -> None:
    Path("hetero.py").write_text(HETERO)
    Path("program.py").write_text(MAIN)
    call = ["program.py", "embed", "t.aeg", "hetero.py:make", "out", "--weights", "hetero.pt"]
    for args in (["hetero.py"], [*call, "--features", "a=x-a.npy", "--features", "b=x-b.npy"]):
        done = torch_python.run([folder / args[0], *args[1:]], folder)
        assert (done.returncode, done.stderr) == (0, "")
    for name in "ab":
        np.testing.assert_allclose(np.load(f"out/{name}.npy"), np.load(f"wanted-{name}.npy"), 1e-4)


@pytest.mark.pyg
def test_weights_that_do_not_fit(nets: Path, torch_python: WarmPython) -> None:
    for name, code, message in (
        ("steps", 2, "--weights steps.pt does not fit nets.py:net: Missing key(s) in state_dict: "),
        ("checkpoint", 1, "checkpoint.pt: holds a dict with model, epoch, not the weights of a mo"),
        ("whole", 1, "whole.pt: cannot be read as weights alone (UnpicklingError); torch.save(mod"),
    ):
        call = ("nets.py:net", "h.npy", "--weights", f"{name}.pt")
        status, told = embed_by(torch_python, nets, *call)
        assert (status, told.count("\n")) == (code, 1)
        assert message in told
    status, told = embed_by(torch_python, nets, "nets.py:net", "h.npy", "--edge-weight", "w")
    assert (status, told) == (
        2,
        "note: without --weights, nets.py:net has those that it is made with\n"
        "aethergraph: error: GraphSAGE takes no edge_weight\n",
    )
