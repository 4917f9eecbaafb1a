"""native/build_cffi.py: what it reads from the headers and how it complains."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(ROOT)
    return runpy.run_path("native/build_cffi.py", run_name="test")


def declared(build: dict[str, Any]) -> set[str]:
    """Return the functions of all tiers."""
    texts = [build["read_cdef"](path.read_text(), path.name) for path in build["list_headers"]()]
    return set(re.findall(r"\b(aether_\w+)\s*\(", "".join(texts)))


def test_cdef_is_the_text_between_the_markers(build: dict[str, Any]) -> None:
    header = (
        "#include <x.h>\n/* CFFI BEGIN */\n#define A (-3) /* three */\n// note\n"
        "int f(int x /* the x */);\n/* CFFI END */\nint g(void);\n"
    )
    assert build["read_cdef"](header) == "#define A -3\nint f(int x );\n"


@pytest.mark.parametrize("header", ["", "/* CFFI BEGIN */", "/* CFFI END */ /* CFFI BEGIN */"])
def test_missing_markers_are_an_error(build: dict[str, Any], header: str) -> None:
    with pytest.raises(ValueError, match=r"live\.h: the CFFI BEGIN .* missing or out of order"):
        build["read_cdef"](header, "live.h")


def test_every_declared_function_is_bound(build: dict[str, Any]) -> None:
    from aethergraph._native._core import lib

    names = declared(build)
    assert len(names) > 200
    assert names - set(dir(lib)) == set()


def test_every_defined_function_is_declared(build: dict[str, Any]) -> None:
    """No aether_ function exists that no public header knows."""
    names = declared(build)
    sources = "\n".join(Path(p).read_text() for p in build["list_sources"]())
    defined = set(re.findall(r"^[a-z][\w \*]*?\b(aether_\w+)\(", sources, re.MULTILINE))
    assert defined - names == set()


@pytest.mark.parametrize(
    ("missing", "named"),
    [("xxhash.h", "libxxhash-dev"), ("Python.h", "python3-dev")],
)
def test_missing_header_names_the_package(
    build: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    missing: str,
    named: str,
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(
        f'#!/bin/sh\nfor f; do case $f in *.c) ! grep -q "{missing}" "$f";; esac || exit 1; done\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(SystemExit, match=re.escape(missing)) as caught:
        build["check_toolchain"]()
    assert named in str(caught.value)


def test_missing_compiler_is_named(build: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler-anywhere")
    with pytest.raises(SystemExit, match="a C compiler"):
        build["check_toolchain"]()


def test_liburing_is_optional(build: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "true")  # whatever it is to link, it links
    assert build["find_liburing"]()
    monkeypatch.setenv("AETHERGRAPH_NO_URING", "1")
    assert not build["find_liburing"]()
    monkeypatch.delenv("AETHERGRAPH_NO_URING")
    for compiler in ("false", "no-such-compiler-anywhere"):
        monkeypatch.setenv("CC", compiler)
        assert not build["find_liburing"]()


@pytest.mark.parametrize("sanitizers", [None, "address"])
def test_arrays_are_checked_by_the_compiler_or_by_a_sanitizer(
    build: dict[str, Any], monkeypatch: pytest.MonkeyPatch, sanitizers: str | None
) -> None:
    monkeypatch.setenv("CC", "true")
    monkeypatch.delenv("AETHERGRAPH_SANITIZE", raising=False)
    if sanitizers:
        monkeypatch.setenv("AETHERGRAPH_SANITIZE", sanitizers)
    flags = build["make_ffi"]()._assigned_source[3]["extra_compile_args"]
    assert "-fstack-protector" in flags
    assert ("-D_FORTIFY_SOURCE=3" in flags) != ("-fsanitize=address" in flags)


def test_another_system_is_refused(build: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    build["check_platform"]()
    monkeypatch.setattr("sys.platform", "win32")
    with pytest.raises(SystemExit, match=r"64-bit little-endian Linux, and this is win32.*WSL"):
        build["check_platform"]()
