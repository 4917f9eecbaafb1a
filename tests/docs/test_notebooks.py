"""Every notebook runs from start to end, and is kept as its author wrote it: without outputs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.own_share  # no notebook is like another one

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "examples" / "notebooks"
#: What each needs beside the package.
NEEDED = {
    "larger_than_memory": "torch_geometric",
    "tables_to_a_model": "torch_geometric",
    "live_graph_from_a_stream": "torch_geometric",
    "links_in_time": "torch_geometric",
    "vector_of_every_node": "torch_geometric",
    "training_with_dgl": "dgl",
    "store_of_your_own": "torch_geometric",
}
#: Runs behind a notebook: what it has drawn can be read.
LOOK = """
import matplotlib.pyplot as plt

for number in plt.get_fignums():
    for axes in plt.figure(number).axes:
        assert axes.has_data(), f"figure {number} has an empty plot"
        for text in (axes.get_title(), axes.get_xlabel(), axes.get_ylabel()):
            assert text, f"a plot of figure {number} lacks a title or a label"
    plt.figure(number).savefig(f"figure-{number}.png")  # lays it out
print("figures:", len(plt.get_fignums()))
"""


def read(name: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return notebook


def texts(name: str, kind: str) -> list[str]:
    return ["".join(c["source"]) for c in read(name)["cells"] if c["cell_type"] == kind]


def test_every_notebook_is_listed() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(NEEDED)
    page = (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
    assert [name for name in NEEDED if f"notebooks/{name}.ipynb)" not in page] == []


@pytest.mark.parametrize("name", NEEDED)
def test_form(name: str) -> None:
    notebook = read(name)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    cells = notebook["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    for cell in cells:
        parts = {"cell_type": cell["cell_type"], "id": cell["id"], "metadata": {}}
        if cell["cell_type"] == "code":
            parts |= {"execution_count": None, "outputs": []}
        assert cell == {**parts, "source": cell["source"]}, "clear its outputs and metadata"
        assert re.fullmatch(r"[a-z-]+", cell["id"])
        assert "".join(cell["source"]).strip(), cell["id"]
    assert cells[0]["source"][0].startswith("# ")


@pytest.mark.parametrize("name", NEEDED)
def test_what_the_text_promises_is_there(name: str) -> None:
    """The reader can install what it names, and follow its links."""
    text = texts(name, "markdown")
    (extras,) = re.findall(r'`pip install "aethergraph\[([\w,]+)\]" jupyter`', text[0])
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in extras.split(","):
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE), extra
    assert text[-1].startswith("## Where to go\n")
    links = re.findall(r"\]\(([^)#]+)", "\n".join(text))
    assert len(links) >= 3
    assert [link for link in links if not (NOTEBOOKS / link).exists()] == []
    assert re.search("^assert ", texts(name, "code")[-1], re.MULTILINE), "it proves nothing"


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDED)
def test_notebook(name: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDED[name])
    pytest.importorskip("matplotlib", reason="pip install matplotlib")
    program, folder = tmp_path / f"{name}.py", tmp_path / "empty"
    program.write_text("\n\n".join([*texts(name, "code"), LOOK]), encoding="utf-8")
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, program], cwd=folder, env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    figures = re.fullmatch(r"figures: (\d+)", done.stdout.splitlines()[-1])
    assert figures is not None and int(figures[1]) > 0
    assert not [path for path in folder.iterdir() if path.suffix != ".png"], "it leaves files"
