"""The import graphs of DESIGN point one way: Python packages and C modules alike."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A module may import from its own layer and from those before it, also inside a function.
PYTHON_LAYERS = [
    {"errors", "protocols", "_tracepoints"},
    {"_checks"},
    {"observe"},
    {"_native"},
    {"_parallel"},
    {"storage"},
    {"features"},
    {"columns"},
    {"ids"},
    {"graph"},
    {"dynamic"},
    {"sampling"},
    {"remote"},
    {"loading", "packing"},
    {"convert", "interop"},
    {"inference"},
    {"tasks"},
    {"streaming"},
    {"testing"},
    {"_torch"},
    {"pyg", "dgl"},
    {"pytorch", "demo", "cli", "ray", "accelerate"},
]
# Methods of a graph that hand it on to what is built upon graphs; methods of rows that check them.
SHORTCUTS = {
    "graph.graph imports interop",
    "graph.walks imports sampling.walks",
    "protocols imports features.gathering",
}
# Folders of native/src; a file may include headers of its own folder and of those before it.
C_LAYERS = [
    "core",
    "os",
    "io",
    "log",
    "net",
    "cache",
    "format",
    "keys",
    "rows",
    "slots",
    "rdma",
    "build",
    "topology",
    "topology/paged",
    "order",
    "live",
    "durable",
    "sample/relabel",
    "sample/draw",
    "sample/walk",
    "sample",
]
NATIVE = ROOT / "native/src"


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


@pytest.mark.any_python
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


def test_files_of_live_graphs_import_in_no_circle() -> None:
    files = {module: path for module, path in python_files() if module.startswith("dynamic.")}
    order = TopologicalSorter({name: set(imported(path, name)) for name, path in files.items()})
    order.prepare()  # CycleError


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


def c_files() -> list[Path]:
    return sorted(path for path in NATIVE.rglob("*") if path.suffix in (".c", ".h"))


def c_layer(folder: Path) -> int:
    return C_LAYERS.index(folder.as_posix())


def test_every_c_folder_has_a_layer() -> None:
    assert {path.parent.relative_to(NATIVE).as_posix() for path in c_files()} == set(C_LAYERS)


@pytest.mark.own_share
@pytest.mark.parametrize("layer", C_LAYERS)
def test_c_includes_point_one_way(layer: str) -> None:
    wrong = []
    for path in sorted((NATIVE / layer).glob("*.[ch]")):
        for name in re.findall(r'#include "(?!aether/)(.+/.+)"', path.read_text()):
            if c_layer(Path(name).parent) > c_layer(Path(layer)):
                wrong.append(f"{path.relative_to(ROOT)} includes {name}")
    assert wrong == []


# Definitions begin at the left margin, as clang-format leaves them: functions, and what is not a
# function but is reached by name (tables of functions, hooks).
C_DEFINED = re.compile(
    r"^(?!static\b|typedef\b|extern\b)[a-z][^;{}=()]*?\b(ae(?:ther)?_\w+)"
    r"(?:\([^;{}]*\) \{| = \{|;)",
    re.MULTILINE,
)
# Bodies in headers: inline functions and macros.
C_INLINE = re.compile(
    r"^(?:static inline|AE_BLOCK_INLINE)[^;{]*?\b(ae_\w+)\((.*?)^\}"
    r"|^#define (AE_\w+)((?:[^\n]*\\\n)*[^\n]*)$",
    re.MULTILINE | re.DOTALL,
)
C_COMMENT_OR_TEXT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", re.DOTALL)


def c_words(text: str) -> set[str]:
    return set(re.findall(r"\b(?:ae|AE)\w+", text))


def c_calls() -> dict[str, set[str]]:
    """Return of which .c files each .c file names something, directly or by way of a header."""
    text = {
        path.relative_to(NATIVE).as_posix(): C_COMMENT_OR_TEXT.sub(" ", path.read_text())
        for path in c_files()
    }
    headers = {
        name or macro: c_words(body or value)
        for path, source in text.items()
        if path.endswith(".h")
        for name, body, macro, value in C_INLINE.findall(source)
    }
    sources = {path: source for path, source in text.items() if path.endswith(".c")}
    defined = {name: path for path, source in sources.items() for name in C_DEFINED.findall(source)}
    assert len(defined) > 300 and len(headers) > 200  # the patterns still fit the sources

    def reached(words: set[str]) -> set[str]:
        while more := set().union(*(headers[word] for word in words & headers.keys())) - words:
            words = words | more
        return words

    return {
        path: {defined[word] for word in reached(c_words(source)) & defined.keys()} - {path}
        for path, source in sources.items()
    }


def test_c_calls_make_no_circle() -> None:
    """A file that calls another is above it, so either can be read without the other's callers."""
    above = c_calls()
    while True:
        low = {path for path, called in above.items() if not called & above.keys()}
        if not low:
            break
        above = {path: called for path, called in above.items() if path not in low}
    circles = {path: sorted(called & above.keys()) for path, called in above.items()}
    assert circles == {}


def test_the_pictures_show_every_module() -> None:
    text = (ROOT / "native/README.md").read_text()
    shown = set(re.findall(r"\w+", text.split("include/aether/*.h\n")[1].split("core <- os")[0]))
    parts = {path.stem for path in c_files()} | {
        name for one in C_LAYERS for name in one.split("/")
    }
    assert shown - {"include", "aether", "h"} == parts

    text = (ROOT / "docs/architecture.md").read_text()
    shown = set(re.findall(r"\w+", text.split("```")[1]))
    tops = {module.split(".")[0] for module, _ in python_files()} - {"__init__", "__main__"}
    assert tops - shown == set()
