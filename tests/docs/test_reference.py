"""The reference that is built from docstrings: every public name, links, code, whole signatures."""

from __future__ import annotations

import ast
import html
import os
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.own_share  # each module has its names

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
MODULES = (
    "columns", "convert", "dgl", "dgl.graphbolt", "dgl.testing", "dynamic", "errors", "ids",
    "inference", "interop", "loading", "observe", "packing", "protocols", "pyg", "pyg.testing",
    "ray", "remote", "sampling", "streaming", "tasks", "testing", "testing.graphs",
    "testing.oracle",
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


@pytest.fixture(scope="module")
def built() -> dict[str, str]:
    site = os.environ.get("AETHERGRAPH_SITE")
    if site is None:
        pytest.skip("AETHERGRAPH_SITE is not set: ./scripts/test.sh docs builds the site")
    return {path.name: path.read_text() for path in Path(site, "reference").glob("*.html")}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_a_page(module: str, built: dict[str, str]) -> None:
    shown = set(re.findall(r'id="aethergraph\.([\w.]+)"', "".join(built.values())))
    # A function may lie in a module of its name, which hides it from tools that read sources.
    missing = [
        name
        for name in public_names(module)
        if not {f"{module}.{name}", f"{module}.{name}.{name}"} & shown
    ]
    assert not missing


def as_text(page: str) -> str:
    """Return what is read outside of code."""
    page = re.sub(r"<(pre|script|style)\b.*?</\1>", "", page, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<code>[^<]*</code>", "`", page)))


def test_no_page_shows_the_marks_of_docstrings(built: dict[str, str]) -> None:
    marks = re.compile(r".{,30}(?::\w+:`|::(?=\s|$)|``).{,10}")
    assert {name: marks.findall(as_text(page)) for name, page in built.items()} == {
        name: [] for name in built
    }


def test_names_in_docstrings_are_links(built: dict[str, str]) -> None:
    pages = "".join(built.values())
    links = re.findall(r'<a class="autorefs autorefs-internal"[^>]*><code>', pages)
    # What the site has no place for: names in modules that are not public.
    others = re.findall(r'<span title="aethergraph[^"]*"><code>', pages)
    assert len(links) > 500
    assert len(others) < len(links) / 20


def test_a_class_has_what_it_inherits_and_begins_with_what_makes_it(built: dict[str, str]) -> None:
    shown = re.findall(r'<h\d id="aethergraph\.([\w.]+)"', "".join(built.values()))
    for inherited in (
        "Graph.in_neighbors",
        "FeatureTable.gather_into",
        "DynamicGraph.in_neighbors",
        "SubgraphLoader.state_dict",
        "pyg.NeighborLoader.state_dict",
        "pyg.NeighborSampler.sample_from_nodes",
    ):
        assert inherited in shown
    places = [shown.index(f"Graph.{name}") for name in ("load", "in_neighbors", "num_nodes")]
    assert places == sorted(places)


def test_signatures_say_what_a_call_takes(built: dict[str, str]) -> None:
    pages = "".join(built.values())
    found = re.findall(
        r'<div class="[^"]*\bdoc-signature\b[^"]*"><pre>(.*?)</pre>', pages, re.DOTALL
    )
    signatures = [html.unescape(re.sub(r"<[^>]+>", "", text)).strip() for text in found]
    assert any(text.startswith("NeighborLoader(\n    data: Any,\n") for text in signatures)
    # Each argument of a list that shares one description has an entry of its own.
    entries = re.findall(r"<b><code>([^<]+)</code></b>", pages)
    assert {"filter_per_worker", "transform_sampler_output", "**kwargs"} <= set(entries)
    assert [entry for entry in entries if "," in entry] == []
    assert [text for text in signatures if re.search(r"\(\s*\*_", text)] == []
    assert [line for text in signatures for line in text.splitlines() if len(line) > 110] == []
