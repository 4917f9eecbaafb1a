"""native/include: tiers that stand by themselves; `make examples` holds the library to them."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from support.foreign_graphs import stage_headers

ROOT = Path(__file__).resolve().parents[2]
TIERS = ["aether.h", "aether/build.h", "aether/experimental.h", "aether/io.h", "aether/live.h"]

pytestmark = pytest.mark.skipif(not (ROOT / "native").exists(), reason="no sources")

#: Functions with more than seven arguments. No more of them: options and results form a struct.
MANY_ARGUMENTS = {
    "aether/live.h": {
        "aether_live_delete",
        "aether_live_insert_one",
        "aether_live_open_journal",
        "aether_live_replay",
        "aether_sample_packed",
        "aether_snapshot_changed",
        "aether_snapshot_has_edges",
        "aether_table_gather",
        "aether_table_put",
    },
}


def functions(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, int]]:
    """Return the functions of each tier, and how many arguments they take."""
    monkeypatch.chdir(ROOT)
    build = runpy.run_path("native/build_cffi.py", run_name="test")
    tiers: dict[str, dict[str, int]] = {}
    for path in build["list_headers"]():
        text = re.sub(r"^#.*", "", build["read_cdef"](path.read_text()), flags=re.MULTILINE)
        declarations = re.findall(r"\b(aether_\w+)\(([^()]*)\);", text)
        tier = path.relative_to(build["INCLUDE"]).as_posix()
        tiers[tier] = {
            name: 0 if inputs == "void" else inputs.count(",") + 1 for name, inputs in declarations
        }
    return tiers


def compile_text(folder: Path, compiler: str, standard: str, text: str) -> tuple[int, str]:
    headers = folder / "include"
    if not headers.exists():
        stage_headers(headers)
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    language = "c++" if compiler == "c++" else "c"
    run = subprocess.run(
        [compiler, *flags, f"-I{headers}", "-x", language, "-"],
        input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return run.returncode, run.stderr


def test_there_are_these_tiers_without_a_function_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    tiers = functions(monkeypatch)
    assert sorted(tiers) == TIERS
    assert all(len(names) > 15 for names in tiers.values())  # the pattern still fits
    count = Counter(name for names in tiers.values() for name in names)
    assert [name for name, times in count.items() if times > 1] == []


@pytest.mark.parametrize(("compiler", "standard"), [("cc", "c11"), ("c++", "c++11")])
def test_each_tier_compiles_alone(tmp_path: Path, compiler: str, standard: str) -> None:
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    for tier in TIERS:
        text = f"#define AETHER_EXPERIMENTAL\n#include <{tier}>\n"
        assert compile_text(tmp_path, compiler, standard, text) == (0, ""), tier


def test_what_is_experimental_is_asked_for(tmp_path: Path) -> None:
    code, message = compile_text(tmp_path, "cc", "c11", "#include <aether/experimental.h>\n")
    assert code != 0
    assert "#define AETHER_EXPERIMENTAL before you include it" in message


def test_no_more_functions_have_many_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {
        tier: {name for name, arguments in names.items() if arguments > 7}
        for tier, names in functions(monkeypatch).items()
    }
    assert {tier: names for tier, names in many.items() if names} == MANY_ARGUMENTS
