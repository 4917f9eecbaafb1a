"""Print the packages of the named extras in pyproject.toml, the package itself left out.

    python scripts/print_requirements.py cli test

Reads the file line by line: tomllib is not in Python 3.10.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def read_extras(text: str) -> dict[str, list[str]]:
    """Return extra -> requirements, from the [project.optional-dependencies] table."""
    table = text.split("[project.optional-dependencies]\n", 1)[1].split("\n[", 1)[0]
    return {
        name: ast.literal_eval(items)
        for name, items in re.findall(r"^(\w+)\s*=\s*(\[.*?\])$", table, re.MULTILINE | re.DOTALL)
    }


def flatten(extras: dict[str, list[str]], names: list[str]) -> list[str]:
    """Return the requirements of the extras, with aethergraph[...] replaced by its extras."""
    out: list[str] = []
    for name in names:
        for requirement in extras[name]:
            inner = re.fullmatch(r"aethergraph\[([\w,]+)\]", requirement)
            out += flatten(extras, inner[1].split(",")) if inner else [requirement]
    return list(dict.fromkeys(out))


if __name__ == "__main__":
    print("\n".join(flatten(read_extras(PYPROJECT.read_text()), sys.argv[1:])))
