"""Variables and parameters have names that say what they are, static functions of C the subject."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Words that say nothing as the name of a value: each value has a noun.
VAGUE = {
    "one", "ones", "found", "own", "told", "what", "those", "these", "such", "others", "other",
    "given", "held", "said", "shown", "asked", "taken", "made", "most", "least", "whole", "rest",
    "here", "there", "thing", "called", "wanted", "got", "beside", "behind",
}  # fmt: skip
#: Parameters and fields that users know, by file; ``other`` is what an object is compared with.
KNOWN = {
    "aethergraph/_checks/options.py": {"most"},
    "aethergraph/convert/reordering/sources.py": {"one"},  # the number
    "aethergraph/demo/dataset.py": {"made"},
    "aethergraph/dynamic/merge.py": {"beside"},
    "aethergraph/observe/registry.py": {"thing"},
    "aethergraph/packing/store.py": {"others"},
    "aethergraph/storage/described.py": {"least"},
    "aethergraph/storage/meta.py": {"beside"},
    "aethergraph/streaming/memory.py": {"most"},
    "aethergraph/streaming/records.py": {"given"},
    "aethergraph/testing/combined.py": {"most"},
    "aethergraph/testing/leaks.py": {"what"},
    "aethergraph/testing/sources.py": {"most", "found"},
    "backends/pyg/served.py": {"found"},
}


def vague_names(tree: ast.Module) -> list[tuple[int, str]]:
    """Return line and name of what is bound to such a word."""
    bound = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.append((node.lineno, node.id))
        elif isinstance(node, ast.arg) and node.arg != "other":
            bound.append((node.lineno, node.arg))
    return [(line, name) for line, name in bound if name.strip("_") in VAGUE]


def test_values_have_nouns() -> None:
    complaints, known = [], {path: set(names) for path, names in KNOWN.items()}
    for folder in ("aethergraph", "backends"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            for line, name in vague_names(ast.parse(path.read_text())):
                if name in KNOWN.get(file, ()):
                    known[file].discard(name)
                else:
                    complaints.append(f"{file}:{line}: {name!r}: take the noun for what it is")
    assert complaints == []
    assert not any(known.values()), f"not bound any more: {known}"


def test_the_check_finds_them() -> None:
    code = "def f(told, other):\n    for one in told:\n        rows, _found = one, other\n"
    assert vague_names(ast.parse(code)) == [(1, "told"), (2, "one"), (3, "_found")]


def static_functions(text: str, macros: list[str]) -> set[str]:
    """Return the static functions that C source defines, some of them by macros for ``static``."""
    text = re.sub(r"/\*.*?\*/|__attribute__\(\(.*?\)\)\s", "", text, flags=re.DOTALL)
    start = rf"^(?:[A-Z_0-9]+ )*(?:{'|'.join(['static', *macros])})\b"
    return set(re.findall(start + r"[^;{}=#]*?\b(\w+) ?\([^;{}]*\)\s*\{", text, re.MULTILINE))


def test_no_two_static_functions_share_a_name() -> None:
    files = sorted((ROOT / "native" / "src").rglob("*.[ch]"))
    macros = [re.findall(r"^#define (\w+) +static\b", p.read_text(), re.M) for p in files]
    homes: dict[str, list[str]] = {}
    for path in files:
        for name in static_functions(path.read_text(), sorted({m for ms in macros for m in ms})):
            homes.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_the_check_finds_static_functions() -> None:
    code = """
        /* static int in_a_comment(void) {} */
        static int declared(void);
        static const ops table = {of(1)};
        static bool plain(void *(*run)(void *), int n) {
        static inline __attribute__((always_inline)) int inlined(int a,
                                                                 int b) {
        __attribute__((constructor)) static void first(void) {
        INLINE int by_macro(void) {
        int exported(void) {
    """
    names = static_functions(textwrap.dedent(code), ["INLINE"])
    assert names == {"plain", "inlined", "first", "by_macro"}
