"""The core needs numpy and cffi, and nothing of any framework."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import aethergraph
from aethergraph._checks.optional import refuse_older
from aethergraph._native import build_info, native_version

FRAMEWORKS = ["torch", "torch_geometric", "dgl", "pyarrow", "typer", "rich", "pandas", "scipy"]


def test_the_core_imports_no_framework(run_python: Callable[..., Any]) -> None:
    run_python(
        f"""
        import sys
        for name in {FRAMEWORKS!r}:
            sys.modules[name] = None  # importing it would fail
        import numpy as np
        import aethergraph
        import aethergraph.loading, aethergraph.sampling, aethergraph.testing
        graph = aethergraph.Graph.from_edges(3, [0, 1], [1, 2])
        graph.features = np.eye(3)
        for batch in aethergraph.SubgraphLoader(graph, [2], batch_size=2):
            assert batch.x is not None
        loaded = {{m for m in sys.modules if m.split(".")[0] in {FRAMEWORKS!r}}}
        assert loaded == set({FRAMEWORKS!r}), loaded
        """
    )


def test_importing_is_quick_and_starts_no_threads(run_python: Callable[..., Any]) -> None:
    done = run_python(
        """
        import numpy, threading, sys
        before = set(sys.modules)
        import aethergraph
        assert threading.active_count() == 1
        print(len(set(sys.modules) - before))
        """
    )
    assert int(done.stdout) < 160  # of which 30 to 45 are Python's


def test_a_missing_native_core_is_explained(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import sys; sys.modules['aethergraph._native._core'] = None; import aethergraph",
        check=False,
    )
    assert done.returncode == 1
    assert "the compiled core aethergraph._native._core cannot be loaded" in done.stderr
    assert "pip install" in done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the package as it lies in a checkout."""
    tree = tmp_path / "checkout"
    (tree / "aethergraph" / "_native").mkdir(parents=True)
    (tree / "backends").mkdir()
    (tree / "pyproject.toml").touch()
    package = Path(aethergraph.__file__).parent
    for path in package.iterdir():
        place = "backends" if path.name in ("pyg", "dgl", "_torch") else "aethergraph"
        if path.name != "_native":
            (tree / place / path.name).symlink_to(path)
    for path in (package / "_native").iterdir():
        (tree / "aethergraph" / "_native" / path.name).symlink_to(path)
    return tree


@pytest.mark.parametrize("backend", ["pyg", "dgl"])
def test_adapters_are_found_in_a_checkout(
    checkout: Path, run_python: Callable[..., Any], backend: str
) -> None:
    done = run_python(
        """
        import importlib.util, sys
        sys.path.insert(0, sys.argv[1])
        print(importlib.util.find_spec(f"aethergraph.{sys.argv[2]}").origin)
        """,
        str(checkout), backend,
    )  # fmt: skip
    assert done.stdout == f"{checkout}/backends/{backend}/__init__.py\n"


def test_a_checkout_that_hides_the_package_says_so(
    checkout: Path, run_python: Callable[..., Any]
) -> None:
    for core in (checkout / "aethergraph" / "_native").glob("_core*"):
        core.unlink()
    script = "import sys; sys.path.insert(0, sys.argv[1]); import aethergraph"
    done = run_python(script, str(checkout), check=False)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert "cannot be loaded" in said and f"Python imports the sources in {checkout}" in said
    assert f"change to another folder, or pip install -e {checkout}" in said


@pytest.mark.parametrize("is_checkout", [False, True])
def test_how_to_get_an_extra(
    checkout: Path, run_python: Callable[..., Any], is_checkout: bool
) -> None:
    script = """
        import sys
        sys.path[:0] = sys.argv[1:]
        sys.modules["fsspec"] = None
        import aethergraph
        from aethergraph.convert.inputs import open_input
        try:
            open_input("s3://bucket/edges.csv")
        except aethergraph.errors.UnsupportedError as error:
            print(error)
        """
    done = run_python(script, *[str(checkout)] * is_checkout)
    wanted = f"-e '{checkout}[fsspec]'" if is_checkout else "'aethergraph[fsspec]'"
    assert done.stdout.endswith(f": pip install {wanted}\n")


@pytest.mark.parametrize(
    ("version", "refused"),
    [("2.1.2+cpu", True), ("1.13.0", True), ("2.2.0a0", False), ("2.13", False), ("3.0.1", False)],
)
def test_older_libraries_are_refused(version: str, refused: bool) -> None:
    library = SimpleNamespace(__name__="torch", __version__=version)
    if not refused:
        refuse_older(library, "2.2", "aethergraph.pyg needs")
        return
    expected = (
        f"needs torch 2.2 or newer, and {re.escape(version)} is installed: pip install .*torch>=2.2"
    )
    with pytest.raises(ImportError, match=expected):
        refuse_older(library, "2.2", "aethergraph.pyg needs")


def test_the_names_that_users_import() -> None:
    for name in aethergraph.__all__:
        assert hasattr(aethergraph, name), name
    assert aethergraph.__version__ == native_version() and build_info()
    assert aethergraph.get_num_threads() >= 1
    aethergraph.set_num_threads(3)
    assert aethergraph.get_num_threads() == 3
    aethergraph.set_num_threads(0)


def test_the_environment_sets_the_threads(run_python: Callable[..., Any]) -> None:
    script = "import aethergraph; print(aethergraph.get_num_threads())"
    assert run_python(script, AETHERGRAPH_NUM_THREADS="5").stdout == "5\n"


def undocumented(body: list[ast.stmt], place: str) -> Iterator[str]:
    for item in body:
        if isinstance(item, (ast.ClassDef, ast.FunctionDef)) and not item.name.startswith("_"):
            if ast.get_docstring(item) is None and not is_documented_elsewhere(item):
                yield f"{place}.{item.name}"
            if isinstance(item, ast.ClassDef):
                yield from undocumented(item.body, f"{place}.{item.name}")


def is_documented_elsewhere(item: ast.ClassDef | ast.FunctionDef) -> bool:
    """Setters are documented by their property, overloads by the function."""
    named = {
        d.attr if isinstance(d, ast.Attribute) else ast.unparse(d) for d in item.decorator_list
    }
    return not named.isdisjoint({"setter", "overload"})


def test_everything_public_is_documented() -> None:
    """Read from the source: compiled modules keep no docstrings."""
    folder = Path(aethergraph.__file__).parent
    found = []
    for name in ("graph", "features", "protocols", "errors", "sampling", "loading", "testing"):
        files = [folder / f"{name}.py"] if (folder / f"{name}.py").exists() else []
        for path in files or sorted((folder / name).glob("*.py")):
            tree = ast.parse(path.read_text())
            assert ast.get_docstring(tree), path
            found += list(undocumented(tree.body, path.stem))
    assert found == []
