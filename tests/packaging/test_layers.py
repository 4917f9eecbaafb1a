"""The import graphs of DESIGN point one way: Python packages and C modules alike."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A module may import from its own layer and from those before it, also inside a function.
PYTHON_LAYERS = [
    {"errors", "protocols"},
    {"_checks", "_parallel"},
    {"_native"},
    {"storage"},
    {"features"},
    {"graph"},
    {"sampling"},
    {"loading", "packing"},
    {"convert", "interop"},
    {"testing"},
    {"_torch"},
    {"pyg", "dgl"},
    {"pytorch", "demo", "cli"},
]
# Methods of a graph that hand it on to what is built upon graphs.
SHORTCUTS = {
    "graph.graph imports interop",
    "graph.graph imports sampling.walks",
}
C_LAYERS = ["core", "os", "io", "cache", "store", "sample", "api"]


def python_files() -> Iterator[tuple[str, Path]]:
    """(module, path) for every source file, as installed; module without `aethergraph.`."""
    for path in sorted((ROOT / "aethergraph").rglob("*.py")):
        yield ".".join(path.relative_to(ROOT / "aethergraph").with_suffix("").parts), path
    for path in sorted((ROOT / "backends").rglob("*.py")):
        yield ".".join(path.relative_to(ROOT / "backends").with_suffix("").parts), path


def imported(path: Path, module: str) -> Iterator[str]:
    """Names inside aethergraph that the file imports (blocks for type checkers left out)."""
    package = ["aethergraph", *module.split(".")]
    for node in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("aethergraph."):
                    yield alias.name.split(".", 1)[1]
        elif isinstance(node, ast.ImportFrom):
            base = package[: -node.level] if node.level else []
            name = ".".join(base + (node.module.split(".") if node.module else []))
            if name == "aethergraph":
                yield from (alias.name for alias in node.names)
            elif name.startswith("aethergraph."):
                yield name.split(".", 1)[1]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from statements(child)


def python_layer(module: str) -> int | None:
    top = module.split(".")[0]
    return next((i for i, layer in enumerate(PYTHON_LAYERS) if top in layer), None)


def test_python_imports_point_one_way() -> None:
    wrong = []
    for module, path in python_files():
        own = python_layer(module)
        if own is None:
            continue
        for name in imported(path, module):
            other = python_layer(name)
            if other is not None and other > own:
                wrong.append(f"{module} imports {name}")
    assert set(wrong) == SHORTCUTS


def test_every_python_module_has_a_layer() -> None:
    tops = {module.split(".")[0] for module, _ in python_files()} - {"__init__", "__main__"}
    assert tops - set().union(*PYTHON_LAYERS) == set()


def test_only_the_native_package_imports_the_extension() -> None:
    users = {
        module
        for module, path in python_files()
        if re.search(r"^\s*(from|import)\s.*\b_native\._core\b", path.read_text(), re.MULTILINE)
    }
    assert users == {"_native.core", "_native.signals"}


@pytest.mark.parametrize("module", C_LAYERS)
def test_c_includes_point_one_way(module: str) -> None:
    allowed = set(C_LAYERS[: C_LAYERS.index(module) + 1])
    wrong = []
    for path in sorted((ROOT / "native/src" / module).glob("*.[ch]")):
        for name in re.findall(r'#include "(\w+)/', path.read_text()):
            if name not in allowed:
                wrong.append(f"{path.relative_to(ROOT)} includes {name}/")
    assert wrong == []
