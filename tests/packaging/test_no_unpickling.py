"""Nothing in the repository runs what a file says: no pickles of files, no loaders that call.

Every mention of a function that can execute a file's content is found in the syntax trees of the
sources, of the notebooks and of the snippets of pages. What stays has a line in ALLOWED that says
why.
"""

from __future__ import annotations

import ast
import fnmatch
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.any_python

ROOT = Path(__file__).resolve().parents[2]

#: Functions and modules (``name.*``) that run, or may run, what is in a file.
EXECUTING = [
    "pickle.*", "_pickle.*", "cPickle.*", "cloudpickle.*", "dill.*", "joblib.*", "marshal.*",
    "shelve.*", "copyreg.*", "torch.load", "torch.jit.load", "torch.hub.*", "torch.package.*",
    "torch.export.load", "torch.serialization.load", "numpy.load", "numpy.lib.format.read_array",
    "numpy.lib.npyio.*", "pandas.read_pickle", "pandas.read_hdf", "yaml.load", "yaml.load_all",
    "yaml.full_load*", "yaml.unsafe_load*", "yaml.Loader", "yaml.CLoader", "yaml.FullLoader",
    "yaml.UnsafeLoader", "dgl.load_graphs", "dgl.data.*", "dgl.graphbolt.OnDiskDataset",
    "dgl.graphbolt.BuiltinDataset", "torch_geometric.data.InMemoryDataset", "eval", "exec",
]  # fmt: skip
#: Of these modules, what writes or only tells types.
HARMLESS = {"pickle.dumps", "pickle.dump", "pickle.PickleError", "numpy.lib.npyio.NpzFile"}

#: (file, name) -> why it may stay.
ALLOWED = {
    ("aethergraph/testing/*.py", "pickle.loads"): "a kit's own dump of the object under test",
    ("backends/pyg/testing/*.py", "pickle.loads"): "a kit's own dump of the object under test",
    ("aethergraph/demo/live/train.py", "pickle.load"): "what the demo's own process sends it",
    ("tests/*.py", "pickle.loads"): "the test's own dump",
    ("tests/docs/test_snippets.py", "exec"): "the snippets of the repository's own pages",
    ("tests/convert/test_no_unpickling_of_files.py", "numpy.load"): "shows that a trap is one",
    ("tests/with_dgl/test_available.py", "exec"): "two imports that the test spells out",
    ("tests/with_dgl/test_graphbolt_versions.py", "exec"): "signatures that the repository records",
    ("tests/with_dgl/test_graphbolt_hostile.py", "torch.load"): "shows that a trap is one",
    ("tests/pyg/test_to_data.py", "torch_geometric.data.InMemoryDataset"): "a folder of the test's",
    ("tests/support/training_ranks.py", "torch.load"): "a file that the test's processes wrote",
    ("tests/pyg/test_resume.py", "torch.load"): "a state that the test saved",
    ("tests/with_dgl/test_resume.py", "torch.load"): "a state that the test saved",
    ("tests/with_dgl/*.py", "dgl.graphbolt.OnDiskDataset"): "a folder that the test wrote",
    ("tests/with_dgl/test_graphbolt_data.py", "torch.load"): "a graph that the test wrote",
    ("benchmarks/load_time.py", "torch.load"): "measured: PyG's way to load a file written before",
    ("benchmarks/pyg_examples.py", "torch_geometric.data.InMemoryDataset"): "saves what it makes",
    ("examples/ray_train_node_classification_pyg.py", "torch.load"): "weights it has just saved",
    ("tests/peers/over_dgl.py", "dgl.data.CoraFullDataset"): "a made graph takes its place",
    ("docs/dgl.md", "torch.load"): "a file that the page has just written, and says so",
    ("docs/dgl.md", "dgl.graphbolt.OnDiskDataset"): "a folder that the page has just written",
    ("docs/tasks/streaming.md", "torch.load"): "a state that the page has just written",
    ("docs/tasks/moving.md", "torch.load"): "tensors alone, which the page has just written",
}  # fmt: skip
FOLDERS = ["aethergraph", "backends", "benchmarks", "examples", "native", "scripts", "tests"]
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sources() -> Iterator[tuple[str, str]]:
    """(path, source) of every Python file and notebook, and of the snippets of every page."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    for path in [ROOT / "setup.py", *files]:
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "examples").rglob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        yield str(path.relative_to(ROOT)), "\n".join(code)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        snippets = SNIPPET.findall(path.read_text(encoding="utf-8"))
        yield str(path.relative_to(ROOT)), "\n".join(snippets)


def may_mention(source: str) -> bool:
    """Return whether all words of some name in EXECUTING are there: parsing takes far longer."""
    words = set(re.findall(r"\w+", source))
    return not source.isascii() or any(
        all(part in words or "*" in part for part in name.split(".")) for name in EXECUTING
    )


def mentions(source: str) -> Iterator[tuple[str, int]]:
    """(full name, line) of what EXECUTING lists, wherever it is called, passed on or imported."""
    if not may_mention(source):
        return
    tree = ast.parse(source)
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.partition(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def full_name(node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            return names.get(node.id, node.id if node.id in ("eval", "exec") else None)
        if isinstance(node, ast.Attribute):
            before = full_name(node.value)
            return None if before is None else f"{before}.{node.attr}"
        return None

    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    safe = {id(call.func) for call in calls if is_safe(call)}
    for node in ast.walk(tree):
        name = full_name(node)
        if name is None or name in HARMLESS:
            continue
        if any(fnmatch.fnmatchcase(name, one) for one in EXECUTING):
            if name.startswith("numpy.") and id(node) in safe:
                continue
            yield name, getattr(node, "lineno", 0)


def is_safe(call: ast.Call) -> bool:
    """A call of numpy's that leaves ``allow_pickle`` at its default, False, or says so."""
    if any(keyword.arg is None for keyword in call.keywords) or len(call.args) > 2:
        return False
    given = [one.value for one in call.keywords if one.arg == "allow_pickle"]
    return all(isinstance(one, ast.Constant) and one.value is False for one in given)


def allowance(path: str, name: str) -> tuple[str, str] | None:
    for pattern, allowed in ALLOWED:
        if name == allowed and fnmatch.fnmatchcase(path, pattern):
            return pattern, allowed
    return None


@pytest.mark.slow
def test_nothing_runs_what_a_file_says() -> None:
    wrong, used = [], set()
    for path, source in sources():
        for name, line in mentions(source):
            found = allowance(path, name)
            used.add(found)
            if found is None:
                wrong.append(f"{path}:{line}: {name}")
    assert wrong == []
    assert set(ALLOWED) - used == set(), "a reason without a use"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import torch\ntorch.load('x', weights_only=True)", "torch.load"),
        ("import torch as t\nt.load('x')", "torch.load"),
        ("from torch import load as get\nget('x')", "torch.load"),
        ("from torch import jit\njit.load('x')", "torch.jit.load"),
        ("import numpy as np\nnp.load('x', allow_pickle=True)", "numpy.load"),
        ("import numpy as np\nnp.load('x', None, True)", "numpy.load"),
        ("import numpy as np\nnp.load('x', **options)", "numpy.load"),
        ("import numpy as np\nread = np.load", "numpy.load"),
        ("import pickle\nclass A(pickle.Unpickler): pass", "pickle.Unpickler"),
        ("import yaml\nyaml.load(text, Loader=yaml.SafeLoader)", "yaml.load"),
        ("import dgl.graphbolt as gb\ngb.OnDiskDataset('x')", "dgl.graphbolt.OnDiskDataset"),
        ("eval('1')", "eval"),
        ("import numpy as np\nnp.load('x', mmap_mode='r')", None),
        ("import numpy as np\nnp.load('x', allow_pickle=False)", None),
        ("import yaml\nyaml.safe_load(text)", None),
        ("model.eval()", None),
    ],
)
def test_the_scan_sees(source: str, name: str | None) -> None:
    assert [found for found, _ in mentions(source)] == ([] if name is None else [name])
