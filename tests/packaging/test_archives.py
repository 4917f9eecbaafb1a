"""The archives that scripts/test.sh built (AETHERGRAPH_DIST): everything needed, nothing more."""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIST = os.environ.get("AETHERGRAPH_DIST")

pytestmark = pytest.mark.skipif(
    DIST is None, reason="AETHERGRAPH_DIST is not set (scripts/test.sh)"
)


def sdist_names() -> set[str]:
    (archive,) = Path(str(DIST)).glob("aethergraph-*.tar.gz")
    with tarfile.open(archive) as tar:
        return {name.split("/", 1)[1] for name in tar.getnames() if "/" in name}


def wheel_names(build: str) -> set[str]:
    if not Path(str(DIST), build).exists():
        pytest.skip(f"no {build} wheel was built: ./scripts/test.sh wheel builds both")
    (wheel,) = Path(str(DIST), build).glob("aethergraph-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_source_archive_holds_the_core() -> None:
    names = sdist_names()
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in ("native/src", "native/include", "native/tests", "native/fuzz")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".c", ".h", ".def", ".map")
    }
    wanted |= {
        "native/build_cffi.py",
        "native/extension.map",
        "native/FORMAT.md",
        "native/Makefile",
        "setup.py",
    }
    wanted |= {"LICENSE-MIT", "LICENSE-APACHE", "README.md", "pyproject.toml"}
    assert wanted - names == set()


def test_source_archive_holds_no_output() -> None:
    assert not [name for name in sdist_names() if name.endswith((".so", ".o", ".pyc"))]


@pytest.mark.parametrize("build", ["compiled", "interpreted"])
def test_wheel_holds_the_packages(build: str) -> None:
    names = wheel_names(build)
    python = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "aethergraph").rglob("*.py*")
        if path.suffix in (".py", ".pyi")
    }
    python |= {
        "aethergraph/" + path.relative_to(ROOT / "backends").as_posix()
        for path in (ROOT / "backends").rglob("*.py")
    }
    assert python - names == set()
    assert "aethergraph/py.typed" in names
    assert any(
        name.startswith("aethergraph/_native/_core.") and name.endswith(".so") for name in names
    )
    assert {name.split("LICENSE-")[1] for name in names if "licenses/LICENSE-" in name} >= {
        "APACHE",
        "MIT",
    }
    top = {name.split("/")[0].split(".")[0] for name in names}
    assert {t for t in top if not t.startswith("aethergraph")} == set()


def test_interpreted_wheel_has_one_extension() -> None:
    extensions = [name for name in wheel_names("interpreted") if name.endswith(".so")]
    assert extensions == ["aethergraph/_native/_core.abi3.so"]


def test_interpreted_wheel_is_for_every_python() -> None:
    wheel_names("interpreted")
    (wheel,) = Path(str(DIST), "interpreted").glob("aethergraph-*.whl")
    assert "-cp310-abi3-linux_" in wheel.name
