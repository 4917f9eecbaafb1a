"""Every snippet of the README and of docs/ runs, page by page, in order.

- ```python blocks of a page share one namespace, as if typed one after the other.
- ```console blocks: each line that starts with ``$ `` is run by bash; output is not compared.
  Plain calls of ``aethergraph`` are run by a fork of an interpreter that has imported its commands.
- Blocks after ``<!-- snippet: file NAME -->`` become that file and are not run. Where ``cc`` is
  called, the headers are where ``make -C native install PREFIX=$HOME/.local`` puts them.
- ```sh blocks set a machine up and are not run; they may hold only the commands listed below.
- ``<!-- snippet: skip, REASON -->`` on the line before a block leaves it out, with its reason.
- ``<!-- snippet: needs MODULE -->`` leaves it out where that module is not installed.

Each page starts in a fresh folder with graph.aeg, features.bin, features.npy, labels.npy and
edges.csv of one small labelled graph.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.foreign_graphs import stage_headers
from support.processes import WarmPython

pytestmark = pytest.mark.own_share  # no page is like another one

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SETUP_COMMANDS = (
    "pytest ",
    "AETHERGRAPH_ALL=1 pytest ",
    "AETHERGRAPH_NO_MYPYC=1 pip install ",
    "./scripts/",
    ".ci/run",
    "pip install ",
    "sudo apt-get install ",
    "python3 -m venv ",
    ". ",
    "git clone ",
    "cd ",
    "mkdocs ",
    "make ",
)
#: Modules, and what snippets that need them mention.
NEEDED = {
    "torch": ["import torch", "from torch"],
    "torch_geometric": ["torch_geometric", "aethergraph.pyg", "aethergraph.pytorch"],
}
FENCE = re.compile(
    r"(?:^<!-- snippet: "
    r"(?:skip, (?P<skip>[^\n]+)|needs (?P<needs>\w+)|file (?P<file>[\w.]+)) -->\n)?"
    r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    line: int  # of its first line in the page
    skip: str | None
    needs: str | None = None
    file: str | None = None


def blocks(page: Path) -> Iterator[Block]:
    content = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(content):
        line = content.count("\n", 0, found.start("text")) + 1
        kind, text, skip, needs, file = found.group("kind", "text", "skip", "needs", "file")
        yield Block(kind, text, line, skip, needs, file)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a 2,000-node graph whose labels can be learned from features and neighbours."""
    from aethergraph import FeatureTable, Graph

    folder = tmp_path_factory.mktemp("prepared")
    rng = np.random.default_rng(7)
    num_nodes, num_edges, classes = 2000, 20000, 4
    labels = rng.integers(0, classes, num_nodes)
    src = rng.integers(0, num_nodes, num_edges)
    same = rng.integers(0, num_nodes // classes, num_edges)
    by_class = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[by_class], np.arange(classes))
    counts = np.bincount(labels, minlength=classes)
    friends = by_class[starts[labels[src]] + same % counts[labels[src]]]
    dst = np.where(rng.random(num_edges) < 0.8, friends, rng.integers(0, num_nodes, num_edges))
    features = rng.normal(size=(num_nodes, 16)).astype(np.float32)
    features[np.arange(num_nodes), labels] += 1.0

    lines = "\n".join(f"{u},{v}" for u, v in zip(src.tolist(), dst.tolist(), strict=True))
    (folder / "edges.csv").write_text("src,dst\n" + lines + "\n")
    (folder / "train.py").write_text("from torch_geometric.loader import NeighborLoader\n")
    np.save(folder / "features.npy", features)
    np.save(folder / "labels.npy", labels)
    graph = Graph.from_edges(num_nodes, src, dst, keep_order=True)  # as in docs/dgl.md
    graph.save(folder / "graph.aeg")
    FeatureTable.from_array(features).save(folder / "features.bin")
    return folder


@pytest.fixture(scope="session")
def commands() -> Iterator[WarmPython]:
    """Runs the installed command: importing what it needs takes longer than most commands do."""
    with WarmPython(["aethergraph.cli.app"] if is_there("typer") else []) as warm:
        yield warm


def run_line(
    line: str, commands: WarmPython, env: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    installed = Path(sys.executable).with_name("aethergraph")
    if line.startswith("aethergraph ") and installed.exists() and not re.search(r"[|&;<>$*]", line):
        return commands.run([installed, *shlex.split(line, comments=True)[1:]], Path.cwd())
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, timeout=500, check=False, env=env
    )


def run_console(block: Block, page: str, commands: WarmPython) -> None:
    environment = dict(os.environ)
    if " cc " in block.text:
        home = Path("home").absolute()
        if not home.exists():
            stage_headers(home / ".local/include")
        environment["HOME"] = str(home)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for offset, line in enumerate(block.text.splitlines()):
        if not line.startswith("$ "):
            continue
        outputs = re.findall(r" (?:-o|--features-out) (\S+)", line) if "convert " in line else []
        for output in outputs:
            Path(output).unlink(missing_ok=True)  # convert overwrites nothing
        done = run_line(line[2:], commands, {**environment, "PATH": path})
        where = f"{page}:{block.line + offset}: {line}"
        assert done.returncode == 0, f"{where}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_page(
    page: Path,
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if page.name == "dgl.md":
        pytest.importorskip("dgl", reason="no DGL here: ./scripts/test.sh dgl")
    found = [b for b in blocks(page) if b.skip is None and is_there(b.needs)]
    code = "".join(b.text for b in found if b.kind == "python")
    for module, words in NEEDED.items():
        if any(word in code for word in words):
            pytest.importorskip(module)
    called = [b for b in found if b.kind == "console" and "aethergraph " in b.text]
    if called and not is_there("typer"):
        # The prepared files are those that the README's commands make.
        found = [b for b in found if b.kind == "python" and page.name == "README.md"]
        if not found:
            pytest.skip("its commands need typer")
    folder = tmp_path / "work"
    shutil.copytree(prepared, folder)
    monkeypatch.chdir(folder)
    # Only pages with commands start the interpreter for them.
    consoles = any(b.kind == "console" for b in found)
    run_blocks(page, found, request.getfixturevalue("commands") if consoles else None)


def run_blocks(page: Path, found: list[Block], commands: WarmPython | None = None) -> None:
    name = str(page.relative_to(ROOT))
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in found:
        if block.file is not None:
            Path(block.file).write_text(block.text)
        elif block.kind == "python":
            # Leading newlines give tracebacks the page's own line numbers.
            exec(compile("\n" * (block.line - 1) + block.text, name, "exec"), namespace)
        elif block.kind == "console":
            assert commands is not None
            run_console(block, name, commands)


def test_the_commands_of_the_readme_make_what_its_snippets_load(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: WarmPython
) -> None:
    pytest.importorskip("typer")
    for name in ("edges.csv", "features.npy", "labels.npy"):
        shutil.copy(prepared / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    found = list(blocks(ROOT / "README.md"))
    wanted = {
        name
        for block in found
        if block.kind == "python"
        for name in re.findall(r"load(?:_features)?\(\"([^\"]+)", block.text)
    }
    assert "graph.aeg" in wanted
    for block in found:
        if block.kind == "console" and block.skip is None:
            run_console(block, "README.md", commands)
    assert [name for name in sorted(wanted) if not Path(name).exists()] == []


def is_there(module: str | None) -> bool:
    return module is None or importlib.util.find_spec(module) is not None


def names_a_benchmark(line: str) -> bool:
    found = re.match(r"(sudo )?python (benchmarks/\w+\.py)\b", line)
    return found is not None and (ROOT / found[2]).exists()


@pytest.mark.parametrize("page", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_page_is_well_formed(page: Path) -> None:
    content = page.read_text(encoding="utf-8")
    assert content.count("\n```") % 2 == 0, "an unclosed fence"
    for block in blocks(page):
        assert block.kind in ("python", "console", "sh", "text", "c", "yaml", "toml"), block
        if block.kind == "sh":
            lines = [line for line in block.text.splitlines() if line and not line.startswith("#")]
            others = [line for line in lines if not line.startswith(SETUP_COMMANDS)]
            # tests/benchmarks runs them.
            assert [line for line in others if not names_a_benchmark(line)] == []
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", content):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
