"""The command line: what each command prints, and one clean line for every mistake."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.commands import MAIN, ae, said, warm_commands
from support.disks import read_only
from support.processes import WarmPython

from aethergraph import DynamicGraph, DynamicHeteroGraph, FeatureTable, Graph, HeteroGraph
from aethergraph.cli import terminal
from aethergraph.cli.app import app
from aethergraph.cli.stats import degree_summary
from aethergraph.convert.external.builder import BoundedBuild
from aethergraph.errors import StorageError
from aethergraph.remote.samples.plan import SamplePlan
from aethergraph.testing.graphs import CommunityGraph


def flat(text: str) -> str:
    return " ".join(text.split())


def fails(*args: object, code: int = 1) -> str:
    """The one line of an error."""
    result = ae(*args, code=code)
    assert result.stdout == ""
    assert result.stderr.startswith("aethergraph: error: ")
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
    return str(result.stderr.strip())


@pytest.fixture
def edges(tmp_path: Path) -> Path:
    path = tmp_path / "edges.csv"
    path.write_text("src,dst,w\n0,1,1\n1,2,2\n2,0,3\n2,2,4\n0,1,5\n")
    return path


@pytest.fixture
def graph_file(edges: Path, tmp_path: Path) -> Path:
    path = tmp_path / "graph.bin"
    ae("convert", "-i", edges, "-o", path)
    return path


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    with warm_commands("pyarrow.csv") as warm:
        yield warm


def run(
    python: WarmPython, folder: Path, program: str, *args: object
) -> subprocess.CompletedProcess[str]:
    """Run a program that calls the command, in a process of its own."""
    script = folder / "program.py"
    script.write_text(program)
    return python.run([script, *args], folder)


# ---- convert ---------------------------------------------------------------------------------


def test_convert(edges: Path, tmp_path: Path) -> None:
    out = tmp_path / "g.bin"
    result = ae("convert", "-i", edges, "-o", out, "-n", 5, "--weight", "w", "--layout", "both")
    assert f"{out}: 5 nodes, 5 edges, both, " in result.stdout
    assert "edges read at" in result.stdout and result.stderr == ""
    graph = Graph.load(out)
    assert graph.num_nodes == 5 and graph.layout == "both" and graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [3, 1, 5, 2, 4]


def test_convert_with_everything(edges: Path, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id,a,b\n2,5,6\n0,1,2\n1,3,4\n")
    (tmp_path / "y.csv").write_text("id,label\n0,7\n1,8\n2,9\n")
    result = ae(
        *("convert", "-i", edges, "-i", edges, "--output", tmp_path / "g.bin"),
        *("--src", "1", "--dst", "src", "--attr", "w:float64", "--header"),
        *("--features", tmp_path / "x.csv", "--dtype", "bfloat16", "--labels"),
        *(tmp_path / "y.csv", "--id-column", "id", "--undirected", "--dedup", "--threads", 1),
    )
    assert "3 nodes, 7 edges" in result.stdout
    assert "features 3 x 2" in result.stdout
    assert "note: 11 duplicate edges dropped" in result.stderr
    x = FeatureTable.load(tmp_path / "g.features.bin")
    assert x.gather([0, 1, 2], dtype="float32").tolist() == [[1, 2], [3, 4], [5, 6]]
    assert np.load(tmp_path / "g.labels.npy").tolist() == [7, 8, 9]


def test_features_that_are_used_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst\n0,1\n")
    np.save(tmp_path / "x.npy", np.zeros((4, 2), np.float32))
    paths = "-i", tmp_path / "e.csv", "-o", tmp_path / "g.aeg"
    result = ae("convert", *paths, "--features", tmp_path / "x.npy")
    assert "4 nodes, 1 edges" in result.stdout
    assert f"{tmp_path / 'x.npy'}: features 4 x 2, the file as it is" in flat(result.stdout)


def test_columns_are_chosen_and_told(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("a,b,when,w\n0,1,2020-01-01,1\n1,0,2020-01-02,2\n")
    (tmp_path / "x.csv").write_text("name,f,g\nann,1,2\nben,3,4\n")
    result = ae(
        *("convert", "-i", tmp_path / "e.csv", "-o", tmp_path / "g.aeg"),
        *("--time", "when", "--time-unit", "D"),
        *("--features", tmp_path / "x.csv", "--feature-columns", "g, f"),
    )
    told = flat(result.stderr)
    assert "edges go from column a to column b, the first two" in told
    assert "note: columns not used: w" in told and "x.csv: features are g, f" in told
    assert np.load(tmp_path / "g.features.npy").tolist() == [[2, 1], [4, 3]]
    assert Graph.load(tmp_path / "g.aeg").time_unit == "D"


def test_convert_within_a_budget(edges: Path, tmp_path: Path) -> None:
    whole, bounded = tmp_path / "a.bin", tmp_path / "b.bin"
    form = ("--layout", "both", "--compress")
    ae("convert", "-i", edges, "-o", whole, *form)
    call = ("convert", "-i", tmp_path / "edge*.csv", "-o", bounded, *form, "--memory")
    assert "3 nodes, 5 edges, both" in said(*call, "4G")
    assert whole.read_bytes() == bounded.read_bytes()
    assert "exists already; --force overwrites it" in fails(*call, "4G")
    told = fails(*call, "1M", "--force", code=2)
    assert "memory_budget (--memory) = '1M' is too small: the least is" in told
    told = fails(*call, "much", "--force", code=2)
    assert "memory_budget (--memory) = 'much' is not a size such as" in told
    assert "no file matches" in fails("convert", "-i", tmp_path / "x*", "-o", tmp_path / "c.bin")


def test_compressed_graphs(edges: Path, tmp_path: Path) -> None:
    out, typed = tmp_path / "g.bin", tmp_path / "typed.bin"
    ae("convert", "-i", edges, "-o", out, "--compress")
    assert Graph.load(out).compressed
    assert "ids uint32, compressed" in ae("info", out).stdout
    assert json.loads(ae("info", out, "--json").stdout)["compressed"] is True
    assert "all checksums, ids and offsets are right" in ae("verify", out).stdout
    ae("stats", out)
    HeteroGraph.from_edges({("a", "r", "b"): ([0, 1], [1, 0])}).save(typed, compress=True)
    assert "a -> r -> b: 2 edges, csc, compressed" in ae("info", typed).stdout


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("-i", "no.csv"), 1, "no.csv: no such file"),
        (("-i", "edges.csv", "--weight", "q"), 1, "there is no column 'q' for the weight"),
        (("-i", "edges.csv", "-n", 2), 1, "id 2 is not below the number of nodes, 2"),
        (("-i", "bad.csv"), 1, "bad.csv, line 2, column 1 (src): the source id 'x'"),
        (("-i", "edges.csv", "--src", "src"), 2, "both columns"),
        (("-i", "edges.csv", "--undirected", "--keep-order"), 2, "keep_order"),
        (("-i", "edges.csv", "--features", "x.csv"), 1, "--id-column id"),
        (("-i", "edges.csv", "--labels", "x.csv"), 1, "--id-column id"),
        (("-i", "pipe"), 1, "is a pipe"),
    ],
)
def test_convert_mistakes(
    args: tuple[object, ...],
    code: int,
    message: str,
    edges: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("src,dst\nx,1\n")
    Path("x.csv").write_text("id,a\n2,5\n0,1\n1,3\n")
    os.mkfifo("pipe")
    assert message in fails("convert", "-o", "g.bin", *args, code=code)
    assert not Path("g.bin").exists()


def test_convert_goes_on_and_says_so(
    edges: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("convert", "-i", edges, "-o", tmp_path / "g.bin", "--memory", "4G")
    with monkeypatch.context() as patch:
        patch.setattr(BoundedBuild, "make_lists", lambda self, nodes: 1 / 0)
        told = said(*command, code=1)
    assert "what was finished is kept in" in told and "--restart begins anew" in told
    told = fails(*command, "--layout", "csr", code=2)
    assert "layout was 'csc' and is 'csr'" in told
    done = ae(*command)
    assert "going on with an interrupted build: all edges were read" in flat(done.stderr)
    assert "done in" in done.stdout and "edges read at" not in done.stdout
    assert "edges read at" in ae(*command, "--force").stdout
    with monkeypatch.context() as patch:
        patch.setattr(BoundedBuild, "make_lists", lambda self, nodes: 1 / 0)
        ae(*command, "--force", code=1)
    whole = flat(ae(*command[:-2], "--force").stderr)
    assert "g.bin.building was left by an interrupted build with --memory" in whole
    assert "going on" not in ae(*command, "--force", "--restart").stderr


@pytest.mark.parametrize(
    "args",
    [
        ("convert",),
        ("convert", "-i", "x.csv"),
        ("convert", "-i", "a", "-o", "b", "-n", "many"),
        ("convert", "-i", "a", "-o", "b", "-n", "-1"),
        ("convert", "-i", "a", "-o", "b", "--layout", "coo"),
        ("convert", "-i", "a", "-o", "b", "--dtype", "int4"),
        ("info",),
        ("verify",),
        ("nonsense",),
        ("info", "--nonsense", "x"),
        ("demo", "--fanout", "a,b"),
        ("demo", "--edges", "x.csv"),
        ("demo", "--labels", "x.csv"),
    ],
)
def test_usage_errors(args: tuple[str, ...]) -> None:
    result = ae(*args, code=2)
    assert "Usage" in result.stderr or "Error" in result.stderr


def test_help_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in app.registered_commands:
        assert re.search(r"[^\n]\n[^\n]", str(command.callback.__doc__)) is None
    monkeypatch.setenv("COLUMNS", "300")
    told = ae("ingest", "--help").stdout
    assert "With --until-end the exit status is 130" in told and "datetime64[us]" in told


# ---- info, verify ----------------------------------------------------------------------------


def test_info(graph_file: Path, tmp_path: Path) -> None:
    text = said("info", graph_file)
    assert "nodes 3 edges 5 layout csc (in-edges by destination)" in text
    facts = json.loads(ae("info", graph_file, "--json").stdout)
    assert facts["kind"] == "graph" and facts["num_edges"] == 5
    store = FeatureTable.from_array(np.zeros((3, 4), np.float32))
    store.save(tmp_path / "x.bin", dtype="bfloat16")
    store.save(tmp_path / "x.npy")
    facts = json.loads(ae("info", tmp_path / "x.bin", "--json").stdout)
    assert facts["kind"] == "features" and facts["dtype"] == "bfloat16" and facts["shape"] == [3, 4]
    assert "numpy array shape 3 x 4 dtype float32" in said("info", tmp_path / "x.npy")


def test_info_of_a_full_graph(full_graph: Graph, tmp_path: Path) -> None:
    times = np.array(["2020-01-01"], "M8[us]")
    Graph.from_edges(2, [0], [1], edge_time=times).save(tmp_path / "t.bin")
    assert "edge times int64, us since 1970-01-01" in said("info", tmp_path / "t.bin")
    full_graph.save(tmp_path / "g.bin")
    text = said("info", tmp_path / "g.bin")
    for part in (
        "layout both",
        "edge weights float32",
        "edge times int64",
        "node times float64",
        "the input row of every edge is kept",
        "node attribute x: float32, 120 x 8",
        "edge attribute edge_attr: float32, 900 x 3",
    ):
        assert part in text, text


def test_info_and_verify_of_many_types(tmp_path: Path) -> None:
    kind = ("user", "votes", "post")
    times = np.array(["2020-01-01", "2020-01-02"], "M8[us]")
    graph = HeteroGraph.from_edges(
        {kind: ([0, 1], [1, 1])}, edge_weight={kind: [1.0, 2.0]}, edge_time={kind: times}
    )
    graph["user"].features = np.zeros((2, 3))
    graph.save(tmp_path / "h.bin")
    text = said("info", tmp_path / "h.bin")
    assert "node type user: 2 nodes, x" in text
    assert re.search("edge type user -> votes -> post: 2 edges, csc, .*edge_weight", text)
    assert "times us since 1970-01-01" in text
    facts = json.loads(ae("info", tmp_path / "h.bin", "--json").stdout)
    assert facts["time_unit"] == "us"
    assert [node["num_nodes"] for node in facts["node_types"]] == [2, 2]
    assert "checksums, ids and offsets are right" in ae("verify", tmp_path / "h.bin").stdout
    assert "HeteroGraph.load" in fails("stats", tmp_path / "h.bin")


def test_verify(graph_file: Path, tmp_path: Path) -> None:
    FeatureTable.from_array(np.ones((3, 4), np.float32)).save(tmp_path / "x.bin")
    np.save(tmp_path / "x.npy", np.ones(3))
    result = ae(
        "verify", tmp_path / "none", graph_file, tmp_path / "x.bin", tmp_path / "x.npy", code=1
    )
    assert "no such file" in result.stderr.lower()  # and it goes on
    lines = result.stdout.splitlines()
    assert "all checksums, ids and offsets are right" in lines[0]
    assert "all checksums of 3 rows are right" in lines[1]
    assert ".npy files have no checksums" in lines[2]


def test_damaged_and_foreign_files(graph_file: Path, tmp_path: Path) -> None:
    data = bytearray(graph_file.read_bytes())
    data[-1] ^= 1
    flipped = tmp_path / "flipped.bin"
    flipped.write_bytes(data)
    assert str(flipped) in fails("verify", flipped)
    short = tmp_path / "short.bin"
    short.write_bytes(data[:-1])
    for command in ("info", "stats", "verify"):
        assert str(short) in fails(command, short)
        assert fails(command, tmp_path / "none.bin").endswith("none.bin: no such file")
        assert "is a folder" in fails(command, tmp_path) or command == "stats"
    (tmp_path / "text.bin").write_text("hello, I am no graph\n" * 9)
    assert str(tmp_path / "text.bin") in fails("info", tmp_path / "text.bin")
    np.save(tmp_path / "x.npy", np.ones(3))
    assert str(tmp_path / "x.npy") in fails("stats", tmp_path / "x.npy")
    (tmp_path / "cut.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-2])
    assert str(tmp_path / "cut.npy") in fails("verify", tmp_path / "cut.npy")


@pytest.mark.parametrize(
    ("name", "head", "advice"),
    [
        ("e.csv", b"src,dst\n0,1\n", "seems to be text; convert it first: aethergraph convert -i"),
        ("e.bin", b"PAR1....", "seems to be a Parquet file; convert it first"),
        ("e.gz", b"\x1f\x8b\x08\x00", "seems to be a gzip file; of text: convert it first"),
        ("e.pt", b"PK\x03\x04\x00", "seems to be a zip archive (.npz, or saved by torch)"),
        ("e.pkl", b"\x80\x04\x95", "seems to be a pickle; load it with its own library"),
        ("e.json", b'{"a": 1}', "seems to be JSON or XML"),
        ("e.exe", b"\x7fELF\x00\x01", "is not an AetherGraph file"),
        ("e.gl", b"graphlit\x00\x00", "seems to be a graph of GraphZero"),
    ],
)
def test_foreign_files(name: str, head: bytes, advice: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(head)
    for command in ("info", "verify", "stats"):
        assert advice in fails(command, tmp_path / name)


# ---- stats -----------------------------------------------------------------------------------


def test_stats(edges: Path, tmp_path: Path) -> None:
    out = tmp_path / "g.bin"
    ae("convert", "-i", edges, "-o", out, "-n", 5)
    facts = json.loads(ae("stats", out, "--json").stdout)
    assert facts["self_loops"] == 1 and facts["isolated_nodes"] == 2
    assert facts["in_degree"]["mean"] == 1 and facts["in_degree"]["max"] == 2
    assert facts["in_degree"]["max_node"] == 1 and facts["out_degree"]["max_node"] == 0
    assert facts["out_degree"]["histogram"] == [
        {"from": 0, "to": 0, "nodes": 2},
        {"from": 1, "to": 1, "nodes": 1},
        {"from": 2, "to": 3, "nodes": 2},
    ]
    text = said("stats", out)
    assert "5 nodes, 5 edges, 1 self-loops, 2 isolated nodes" in text
    assert "nodes with none 2 2" in text and "█" in text
    Graph.from_edges(3, [], []).save(tmp_path / "empty.bin")
    assert "3 nodes, 0 edges" in said("stats", tmp_path / "empty.bin")


def test_stats_agree_with_numpy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from aethergraph.cli import stats

    monkeypatch.setattr(stats, "_CHUNK_EDGES", 100)
    rng = np.random.default_rng(0)
    dst = (rng.pareto(1.5, 20_000) * 3).astype(np.int64) % 1000
    src = rng.integers(0, 1000, 20_000)
    for layout in ("csc", "csr", "both"):
        graph = Graph.from_edges(1000, src, dst, layout=layout)
        facts = stats._scan(graph, lambda done, total: None)
        assert (facts.inward == np.bincount(dst, minlength=1000)).all()
        assert (facts.outward == np.bincount(src, minlength=1000)).all()
        assert facts.self_loops == int((src == dst).sum())


def test_tail_exponent_of_a_power_law() -> None:
    rng = np.random.default_rng(1)
    degrees = (5 * rng.random(200_000) ** (-1 / 1.5)).astype(np.int64)  # P(d) ~ d^-2.5
    found = degree_summary(degrees)["tail_exponent"]
    assert found is not None and abs(found - 2.5) < 0.1
    assert degree_summary(rng.poisson(10, 10_000))["tail_exponent"] is None
    assert degree_summary(np.full(1000, 7))["tail_exponent"] is None
    assert degree_summary(np.zeros(0, np.int64))["max_node"] is None


@pytest.mark.slow
def test_plot(graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ae("stats", graph_file, "--plot", tmp_path / "p.png")
    assert "plot: " in result.stdout
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert "p.xyz" in fails("stats", graph_file, "--plot", tmp_path / "p.xyz")
    for path in (tmp_path, tmp_path / "p"):
        assert f"--plot {path} is no file of a plot" in said(
            "stats", graph_file, "--plot", path, code=2
        )
    assert "No such file" in fails("stats", graph_file, "--plot", tmp_path / "none" / "p.png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'aethergraph[plot]'" in fails("stats", graph_file, "--plot", "p.png")


# ---- doctor ----------------------------------------------------------------------------------


def test_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    from aethergraph.cli import doctor

    parts = (
        ("numpy", "numpy", "arrays", "pip install numpy"),
        ("no_such_module", "no-such", "nothing", "pip install no-such"),
        ("this", "no-such", "the zen", "-"),
        ("antigravity_broken", "no-such", "flying", "-"),
    )
    monkeypatch.setattr(doctor, "PARTS", parts)
    real = doctor.importlib.util.find_spec
    monkeypatch.setattr(
        doctor.importlib.util,
        "find_spec",
        lambda name: real(name.replace("_broken", "")),
    )
    report = json.loads(ae("doctor", "--json").stdout)
    assert report["packages"]["numpy"]["version"] == np.__version__
    assert report["packages"]["no_such_module"]["problem"] == "not installed"
    assert report["packages"]["this"]["version"] == "of unknown version"
    broken = report["packages"]["antigravity_broken"]
    assert broken["version"] is None and "ModuleNotFoundError" in broken["problem"]
    assert report["memory"]["total_bytes"] > report["memory"]["available_bytes"] > 0
    assert report["machine"]["cores_allowed"] >= 1
    assert report["aethergraph"]["core"]
    text = said("doctor")
    assert "not usable: not installed (for nothing; pip install no-such)" in text
    assert "transparent huge pages" in text


def test_doctor_says_what_dgl_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    from aethergraph.cli import doctor

    monkeypatch.setattr(doctor, "PARTS", [part for part in doctor.PARTS if part[0] == "dgl"])
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    found = json.loads(ae("doctor", "--json").stdout)["packages"]["dgl"]
    assert found["used_for"] == "aethergraph.dgl"
    for need in ("aethergraph[dgl,cli]", "an environment of its own", "docs/dgl.md"):
        assert need in found["remedy"]
        assert need in said("doctor")
    install = (Path(__file__).parents[2] / "docs" / "dgl.md").read_text()
    assert 'pip install ".[dgl,cli]"' in install


def test_doctor_names_the_tier_of_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    from aethergraph.cli import doctor

    monkeypatch.setattr(doctor, "PARTS", ())

    def line(forced: str, problem: str | None) -> str:
        monkeypatch.setenv("AETHERGRAPH_IO", forced)
        monkeypatch.setattr(doctor.native, "io_problem", lambda tier: problem)
        return str(json.loads(ae("doctor", "--json").stdout)["aethergraph"]["range_reads"])

    assert line("", None) == line("auto", None) == "uring"
    assert line("", "not permitted") == "pread (not permitted)"
    assert line("pread", None) == "pread, by AETHERGRAPH_IO"
    assert line("uring", None) == "uring, by AETHERGRAPH_IO"
    assert "does not work: not permitted" in line("uring", "not permitted")
    assert "'fast'" in line("fast", None)


def test_doctor_says_what_live_graphs_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aethergraph.cli import doctor

    monkeypatch.setattr(doctor, "PARTS", ())
    setting = tmp_path / "shmem_enabled"
    monkeypatch.setattr(doctor, "_SHMEM", str(setting))

    def found() -> dict[str, str]:
        report: dict[str, str] = json.loads(ae("doctor", "--json").stdout)["live_graphs"]
        return report

    def collapses(works: bool) -> None:
        monkeypatch.setattr(doctor.native, "live_has_huge_pages", lambda: works)

    assert doctor.native.live_has_huge_pages() in (True, False)
    collapses(False)
    assert found()["huge_pages"].startswith("no: this kernel")
    for chosen, works, answer in (
        ("never", True, "yes, for memory that has filled"),
        ("never", False, "no, "),
        ("deny", False, "no, "),
        ("advise", False, "yes"),
        ("force", True, "yes"),
    ):
        setting.write_text(f"always within_size [{chosen}] other")
        collapses(works)
        assert found()["huge_pages"].startswith(answer)
        assert f"shmem_enabled is {chosen}" in found()["huge_pages"]
    setting.write_text("[never]")
    collapses(False)
    assert "echo advise" in said("doctor")
    for rights, answer in (("0" * 16, "up to 8.0 MiB"), ("1ffffffffff", "as much as there is")):
        with monkeypatch.context() as patch:
            patch.setattr(doctor.resource, "getrlimit", lambda which: (8 << 20, 8 << 20))
            patch.setattr(doctor, "_read", lambda path, r=rights: f"CapPrm:\t0\nCapEff:\t{r}\n")
            assert doctor._lockable().startswith(answer)
    for works, answer in ((True, "without a fence"), (False, "a fence each")):
        monkeypatch.setattr(doctor.native, "live_has_membarrier", lambda works=works: works)
        assert found()["snapshots"].startswith(answer)
    assert found()["shared_memory"] == "memfd"


# ---- errors, progress, formatting ------------------------------------------------------------


def test_unexpected_errors_are_one_line_too(
    graph_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a bug\nover two lines")

    monkeypatch.setattr(Graph, "load", broken)
    line = fails("stats", graph_file)
    assert "unexpected ZeroDivisionError: a bug over two lines" in line and "--debug" in line
    result = ae("--debug", "stats", graph_file, code=1)
    assert "Traceback" in result.stderr
    terminal.set_debug(False)

    def exhausted(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(Graph, "load", exhausted)
    assert "out of memory" in fails("stats", graph_file)

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Graph, "load", interrupted)
    assert "interrupted" in fails("stats", graph_file, code=130)


def test_bars_appear_after_a_second_and_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for quiet in (True, False):
        monkeypatch.setattr(terminal, "SHOW_AFTER_SECONDS", 3600)
        with terminal.Stages() as stages:
            stages._quiet = quiet
            report = stages("Reading edges", "B")
            report(1, 100)
            assert stages._progress is None
            monkeypatch.setattr(terminal, "SHOW_AFTER_SECONDS", 0)
            report(50 << 20, 100 << 20)
            assert (stages._progress is None) == quiet
            report(100 << 20, 100 << 20)
    assert "Reading edges" in capsys.readouterr().err


def test_notes_without_a_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was closed before the program began: notes are lost, and the command goes on."""
    monkeypatch.setattr(sys, "stderr", None)
    terminal.note("nobody reads this")
    monkeypatch.undo()
    assert capsys.readouterr() == ("", "")


def test_numbers_for_people() -> None:
    sizes = {0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 3 << 30: "3.0 GiB", 5 << 40: "5.0 TiB"}
    assert {n: terminal.size(n) for n in sizes} == sizes
    counts = {5: "5", 99_999: "99,999", 123_456: "123.5 K", 2.5e6: "2.5 M", 7e9: "7.0 G"}
    assert {n: terminal.count(n) for n in counts} == counts
    assert terminal.duration(125) == "2 min 05 s" and terminal.duration(1.25) == "1.2 s"


# ---- as a process ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("info", "pipe"), "pipe: is a pipe or a device, not a file"),
        (("stats", "pipe"), "cannot open 'pipe': it is a pipe, not a regular file"),
        (("verify", "pipe"), "pipe: is a pipe or a device, not a file"),
        (("top", "pipe"), "pipe: is a file, no directory; give the number of a process"),
        (("tables", "pipe", "-o", "out"), "pipe: is a pipe or a device, not a file"),
        (("replay", "pipe", "out"), "cannot read pipe: is a pipe or a device, not a file"),
        (("ingest", "g", "pipe", "-n", 5, "--schema", "s.toml"), "pipe: is a pipe or a device"),
        (("ingest", "g", "loop", "-n", 5, "--schema", "s.toml"), "loop: there is no such file"),
        (("ingest", "g", "s.toml", "-n", 5, "--schema", "pipe"), "pipe: the schema cannot be"),
        (("ingest", "g", "s.toml", "-n", 5, "--schema", "."), ".: the schema cannot be read: Is a"),
    ],
)
def test_pipes_and_links_to_themselves_are_no_files(
    args: tuple[object, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    os.symlink("loop", "loop")
    Path("s.toml").write_text('format = "json"\nsrc = "u"\ndst = "v"\n')
    assert message in said(*args, code=1)
    with pytest.raises(StorageError, match="cannot read pipe: is a pipe"):
        SamplePlan.read("pipe")


def test_the_module_is_the_command(graph_file: Path) -> None:
    command = [sys.executable, "-m", "aethergraph", "info", graph_file.name]
    done = subprocess.run(command, cwd=graph_file.parent, capture_output=True, text=True)
    assert done.returncode == 0 and "graph.bin" in done.stdout, done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_as_a_process(tmp_path: Path, python: WarmPython) -> None:
    done = run(python, tmp_path, MAIN, "info", tmp_path / "none")
    assert done.returncode == 1
    assert done.stderr == f"aethergraph: error: {tmp_path / 'none'}: no such file\n"
    done = run(python, tmp_path, MAIN, "--version")
    assert done.returncode == 0 and done.stdout.startswith("aethergraph 0.")
    for args in ([], ["nothing"]):
        done = run(python, tmp_path, MAIN, *args)
        assert done.returncode == 2 and "aethergraph" in done.stderr + done.stdout
        assert "program.py" not in done.stderr


NOBODY_READS = "import os\nreader, writer = os.pipe()\nos.close(reader)\nos.dup2(writer, 1)\n"
FULL = "import os\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n"


@pytest.mark.parametrize("command", [["info"], ["info", "--json"], ["stats"], ["stats", "--json"]])
def test_output_that_nobody_takes(
    command: list[str], graph_file: Path, tmp_path: Path, python: WarmPython
) -> None:
    done = run(python, tmp_path, NOBODY_READS + MAIN, *command, graph_file)
    assert (done.returncode, done.stderr) == (1, "")
    done = run(python, tmp_path, FULL + MAIN, *command, graph_file)
    assert done.returncode == 1, done.stderr
    assert done.stderr == "aethergraph: error: [Errno 28] No space left on device\n"


#: A signal in the middle of a stage of a conversion.
INTERRUPTED = """
import os, signal
from aethergraph.cli import terminal
from aethergraph.cli.app import app
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's jobs may ignore it
def stages(self, name, unit):
    return lambda done, total: os.kill(os.getpid(), signal.SIGINT)
terminal.Stages.__call__ = stages
"""


def test_interrupting_a_conversion_leaves_nothing(
    edges: Path, tmp_path: Path, python: WarmPython
) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    done = run(
        python, tmp_path, INTERRUPTED + MAIN, "convert", "-i", edges, "-o", tmp_path / "g.bin"
    )
    assert done.returncode == 130 and "interrupted" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {*before, "program.py"}


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (
            "ModuleNotFoundError('no', name='typer')",
            1,
            "the command line needs typer: pip install 'aethergraph[cli]'",
        ),
        ("KeyboardInterrupt", 130, "interrupted"),
    ],
)
def test_a_start_that_fails_is_one_line(tmp_path: Path, raised: str, code: int, said: str) -> None:
    (tmp_path / "typer.py").write_text(f"raise {raised}")
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "info"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stderr) == (code, f"aethergraph: error: {said}\n")


# ---- reorder ---------------------------------------------------------------------------------


def test_reorder(tmp_path: Path) -> None:
    made = CommunityGraph(500, 4000, 10)
    graph = Graph.from_edges(500, *made.edges())
    graph.features = made.feature_rows(0, 500)
    graph.save(tmp_path / "g.aeg")
    np.save(tmp_path / "train.npy", np.arange(50))
    call = ("reorder", tmp_path / "g.aeg", tmp_path / "out.aeg", "--memory", "4G")
    text = said(*call, "--order", "bfs", "--ids", tmp_path / "train.npy")
    assert "500 nodes, 4,000 edges in" in text and "out.train.npy" in text
    moved = Graph.load(tmp_path / "out.aeg")
    perm = moved.node_attrs["node_ids"].gather(np.arange(500))
    assert np.array_equal(perm, graph.reorder("bfs"))
    assert np.array_equal(perm[np.load(tmp_path / "out.train.npy")], np.arange(50))
    assert "exists already; --force" in fails(*call)
    assert "too small: the least is" in fails(*call[:3], "--force", "--memory", "10M", code=2)


def test_stats_tell_what_reordering_gains(tmp_path: Path) -> None:
    graph = Graph.from_edges(5000, *CommunityGraph(5000, 10_000, 100, homophily=0.95).edges())
    graph.save(tmp_path / "g.aeg")
    found = json.loads(ae("stats", tmp_path / "g.aeg", "--locality", "--json").stdout)["locality"]
    assert found["row_bytes"] == 512
    assert found["aligned_after"]["nodes"] < found["aligned_before"]["nodes"]
    text = said("stats", tmp_path / "g.aeg", "--locality", "--row-bytes", "64")
    assert "pages of features of 64 bytes" in text
    call = ("stats", tmp_path / "g.aeg", "--locality", "--row-bytes", "0")
    assert "is not above 0" in fails(*call, code=2)
    call = ("stats", tmp_path / "g.aeg", "--row-bytes", "64")
    assert "--row-bytes 64 is for --locality" in fails(*call, code=2)
    Graph.from_edges(0, [], []).save(tmp_path / "empty.aeg")
    assert "has no nodes" in fails("stats", tmp_path / "empty.aeg", "--locality", code=2)


# ---- live graphs ---------------------------------------------------------------------------------


def test_live_graphs_are_counted_and_converted(tmp_path: Path) -> None:
    """The last commit counts, also while they are written; nothing in the directory changes."""
    path, out = tmp_path / "g.aegd", tmp_path / "g.aeg"
    with DynamicGraph.open(path, 6, 16) as graph:
        graph.insert_edges([0, 1, 2, 2], [1, 2, 0, 2])
        graph.merge()
        graph.insert_edge(3, 0)
        graph.delete_edge(0, 1)
        names = sorted(file.name for file in path.iterdir())
        facts = json.loads(ae("stats", path, "--json").stdout)
        assert (facts["num_nodes"], facts["num_edges"], facts["self_loops"]) == (6, 4, 1)
        assert facts["in_degree"]["max"] == 2 and facts["path"] == str(path)
        assert f"commit 3 of {path}" in said("convert", "-i", path, "-o", out)
        assert sorted(file.name for file in path.iterdir()) == names
        expected = graph.to_graph()
    with Graph.load(out) as copy:
        copy.verify()
        for mine, its in zip(copy.edge_index(), expected.edge_index(), strict=True):
            np.testing.assert_array_equal(mine, its)
    assert "exists already; --force" in fails("convert", "-i", path, "-o", out)
    ae("convert", "-i", path, "-o", out, "-f", "--compress", "--memory", "128M")
    assert Graph.load(out).compressed
    given = ("convert", "-i", path, "-o", out, "-f")
    assert "--undirected is for edge lists" in fails(*given, "--undirected", code=2)
    assert "converted alone, not with 2 inputs" in fails(*given, "-i", "x.csv", code=2)


def test_info_of_live_times_has_their_units(tmp_path: Path) -> None:
    path, buys = tmp_path / "shop", ("customer", "buys", "product")
    for name, dtype, text in (("a", "datetime64[s]", "times in s since 1970-01-01"),
                              ("b", "int64", "times")):  # fmt: skip
        DynamicHeteroGraph.open(
            path / name, {"customer": 0, "product": 3}, [buys], 16, order="time", edge_time=dtype,
            node_time={"customer": dtype},
        ).close()  # fmt: skip
        info = f"{said('info', path / name)} "
        assert f"node type customer: 0 nodes, {text} node type product: 3 nodes edge" in info
        assert f"order time, both, {text} counted" in info


def test_info_counts_the_last_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, buys = tmp_path / "shop", ("customer", "buys", "product")
    counts = {"customer": 3, "product": 3}
    with DynamicHeteroGraph.open(path, counts, [buys], 16) as graph:
        graph[buys].insert([0, 1], [0, 1])
        graph.merge()
        with graph.transaction():
            graph["customer"].add(2)
            graph[buys].insert([3, 4], [0, 1])
            graph[buys].delete([0], [0])
            graph.set_offset("clicks", 0, 1200)
            graph.set_watermark("clicks", 7)
            for partition in (0, 1):
                graph.set_offset("votes", partition, 3)
                graph.set_offset("files", partition + 2**40, 1000)
        text = said("info", path)
        assert "node type customer: 5 nodes" in text
        assert "customer -> buys -> product: 3 edges, order id, both" in text
        assert "counted as of commit 2 of the log, the last one" in text
        assert "stream clicks: read up to 1,200 stream votes: read up to 3 in partition 0" in text
        assert "stream files: read up to 2,000 in 2 partitions together base" in text
        facts = json.loads(ae("info", path, "--json").stdout)
        assert (facts["lsn"], facts["not_read"]) == (2, None)
        assert facts["streams"]["clicks"] == {"0": 1200} and len(facts["streams"]) == 3
    monkeypatch.setattr("aethergraph.cli.inspect._MOST_COMMITS", 100)
    text = said("info", path)
    assert "customer: 3 nodes" in text and "2 edges, order id" in text and "stream" not in text
    assert "counted in the base alone, without the commits of the log" in text
    assert "not read the log: it is large: open or attach the graph" in text
    monkeypatch.undo()
    (log,) = path.glob("wal-*.log")
    damaged = bytearray(log.read_bytes())
    damaged[4096 + 60] ^= 1
    log.write_bytes(damaged)
    text = said("info", path)
    assert "customer: 3 nodes" in text and "--truncate" in text


def test_live_graphs_on_a_read_only_mount(tmp_path: Path) -> None:
    with DynamicGraph.open(tmp_path / "g", 6, 16, edge_time="int64", order="time") as graph:
        graph.insert_edges([0, 1, 2], [1, 2, 3], time=[1, 2, 3])
    with read_only(tmp_path / "g", tmp_path / "backup") as path:
        assert json.loads(ae("info", path, "--json").stdout)["writer"] is None
        assert json.loads(ae("stats", path, "--json").stdout)["num_edges"] == 3
        assert "the log up to commit 1" in said("verify", path)
        assert "nothing is later than its seed" in said("verify", "--time", path)
        ae("convert", "-i", path, "-o", tmp_path / "g.aeg")
        assert "copy the directory to a writable place" in fails("verify", "--truncate", path)


def test_a_lost_log_is_told_when_it_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "g"
    with DynamicGraph.open(path, 6, 16) as graph:
        for number in range(3):
            graph.insert_edge(number, number + 1)
    for log in path.glob("wal-*.log"):
        log.unlink()
    told = fails("verify", path)
    assert "is missing; put it back, or let the log end before commit 1:" in told
    told = said("verify", "--truncate", path)
    assert "ends at commit 0 now; given up: commits 1 to 3" in told


def test_no_output_goes_among_the_files_of_a_live_graph(tmp_path: Path) -> None:
    path, link = tmp_path / "g.aegd", tmp_path / "link"
    with DynamicGraph.open(path, 6, 16) as graph:
        graph.insert_edge(0, 1)
    link.symlink_to(path)
    (tmp_path / "edges.csv").write_text("0,1\n")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for source in (path, tmp_path / "edges.csv"):
        for output in (path / "gen-000002.aeg", path / "graph.json", link / "new.aeg"):
            text = fails("convert", "-i", source, "-o", output, "-f", code=2)
            assert "the directory of a live graph" in text and "outside of it" in text
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_live_graphs_of_many_types(tmp_path: Path) -> None:
    path, out = tmp_path / "g.aegd", tmp_path / "g.aeg"
    with DynamicHeteroGraph.open(path, {"a": 3, "b": 2}, [("a", "x", "b")], 16) as graph:
        graph["a", "x", "b"].insert([0, 2], [1, 1])
    assert "a live graph of many types" in fails("stats", path, code=2)
    ae("convert", "-i", path, "-o", out)
    with HeteroGraph.load(out) as copy:
        assert copy["a", "x", "b"].num_edges == 2
