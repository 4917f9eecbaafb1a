"""The reference that is built from docstrings has every public name."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
MODULES = (
    "columns", "convert", "dgl", "dgl.graphbolt", "dynamic", "errors", "ids", "interop", "loading",
    "observe", "packing", "protocols", "pyg", "ray", "remote", "sampling", "streaming", "testing",
    "testing.graphs", "testing.oracle",
)  # fmt: skip


def test_every_public_module_is_on_a_page() -> None:
    shown = [
        name for page in PAGES for name in re.findall(r"^::: (\S+)$", page.read_text(), flags=re.M)
    ]
    assert len(shown) == len(set(shown))
    assert {f"aethergraph.{name}" for name in MODULES} <= set(shown)


def public_names(module: str) -> list[str]:
    """Read ``__all__`` from the source: DGL and PyG need not be installed."""
    parts = module.split(".")
    folder = ROOT / ("backends" if parts[0] in ("pyg", "dgl") else "aethergraph")
    path = folder.joinpath(*parts)
    tree = ast.parse(
        (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    )
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise AssertionError(f"{module} has no __all__")


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_a_page(module: str) -> None:
    site = os.environ.get("AETHERGRAPH_SITE")
    if site is None:
        pytest.skip("AETHERGRAPH_SITE is not set: ./scripts/test.sh docs builds the site")
    pages = "".join(path.read_text() for path in Path(site, "reference").glob("*.html"))
    shown = set(re.findall(r'id="aethergraph\.([\w.]+)"', pages))
    # A function may lie in a module of its name, which hides it from tools that read sources.
    missing = [
        name
        for name in public_names(module)
        if not {f"{module}.{name}", f"{module}.{name}.{name}"} & shown
    ]
    assert not missing
