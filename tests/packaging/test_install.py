"""What is installed: versions agree, the right build runs, the core stays free of frameworks."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pyproject_version() -> str:
    found = re.search(r'^version = "([^"]+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def mypyc_modules() -> list[str]:
    """The keys of MYPYC_MODULES in setup.py, as module names."""
    for node in ast.parse((ROOT / "setup.py").read_text()).body:
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "MYPYC_MODULES":
            assert node.value is not None
            paths = ast.literal_eval(node.value)
            return [path.removesuffix(".py").replace("/", ".") for path in paths]
    raise AssertionError("setup.py has no MYPYC_MODULES")


def native_path() -> Path:
    spec = importlib.util.find_spec("aethergraph._native._core")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin)


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_versions_agree() -> None:
    import aethergraph
    from aethergraph._native._core import ffi, lib

    native = ffi.string(lib.aether_version())
    version = pyproject_version()
    assert aethergraph.__version__ == version
    assert (native.decode() if isinstance(native, bytes) else native) == version
    assert importlib.metadata.version("aethergraph") == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None and newest[1] == version


def test_build_is_the_expected_one() -> None:
    """AETHERGRAPH_EXPECT_BUILD says which of the two builds this run is meant to test."""
    expected = os.environ.get("AETHERGRAPH_EXPECT_BUILD")
    modules = mypyc_modules()
    suffixes = {name: Path(str(importlib.import_module(name).__file__)).suffix for name in modules}
    if expected is None:
        assert len(set(suffixes.values())) <= 1, f"a mixture of builds: {suffixes}"
    else:
        wanted = {"compiled": ".so", "interpreted": ".py"}[expected]
        assert suffixes == dict.fromkeys(modules, wanted)


def test_sanitizer_is_the_expected_one() -> None:
    from aethergraph._native._core import ffi, lib

    info = ffi.string(lib.aether_build_info())
    text = (info.decode() if isinstance(info, bytes) else info).lower()
    expected = os.environ.get("AETHERGRAPH_EXPECT_SANITIZER")
    if expected is not None:
        assert expected in text or "asan" in text, text


def test_import_brings_no_framework() -> None:
    heavy = (
        "{'torch', 'torch_geometric', 'dgl', 'pyarrow', 'pandas', 'matplotlib', 'typer', 'rich'}"
    )
    found = run_python(f"import sys, aethergraph; print(sorted({heavy} & set(sys.modules)))")
    assert found.strip() == "[]"


@pytest.mark.skipif(importlib.util.find_spec("dgl") is not None, reason="DGL is installed")
def test_the_dgl_adapter_says_what_it_needs() -> None:
    with pytest.raises(ImportError, match=r"aethergraph\.dgl needs DGL: pip install"):
        importlib.import_module("aethergraph.dgl")


def test_typed_marker_is_installed() -> None:
    import aethergraph

    assert Path(str(aethergraph.__file__)).with_name("py.typed").exists()


def test_extension_exports_only_its_init_function() -> None:
    """The core's symbols stay inside, so that no other extension can collide with them."""
    if shutil.which("nm") is None:
        pytest.skip("nm (binutils) is not installed")
    if os.environ.get("AETHERGRAPH_EXPECT_SANITIZER"):
        pytest.skip("sanitizers export their own symbols")
    done = subprocess.run(
        ["nm", "-D", "--defined-only", str(native_path())],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[-1] for line in done.stdout.splitlines() if line.strip()}
    assert names - {"_init", "_fini"} == {"PyInit__core"}


def test_console_script_runs() -> None:
    pytest.importorskip("typer")
    script = Path(sys.executable).with_name("aethergraph")
    if not script.exists():
        pytest.skip("the package is on the path, not installed in this environment")
    done = subprocess.run([script, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "convert" in done.stdout


def test_readme_commands_exist() -> None:
    for command in re.findall(r"\./(scripts/\w+\.sh)", (ROOT / "README.md").read_text()):
        assert os.access(ROOT / command, os.X_OK), command
    assert os.access(ROOT / ".ci/run", os.X_OK)
