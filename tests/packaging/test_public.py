"""The public surface: the modules of the reference, each name in one of them, few to read."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: Words of PyG, DGL and GraphBolt, which each of their adapters has; ``embed`` is the same over
#: numpy's functions, PyG's layers and DGL's.
SHARED = {
    "FeatureStore", "HGTSampler", "HeteroNeighborSampler", "NeighborSampler", "ShaDowKHopSampler",
    "embed",
}  # fmt: skip
#: Names beside those of ``aethergraph.errors``, which messages name and one page explains.
MOST = 151  # with VectorIndex, which asks the vectors that embed makes
#: What the reference shows; a module without its members is a program.
SHOWN = re.compile(r"^::: (\S+)$(?!\n +options:\n +members: false)", re.MULTILINE)


def exported(path: Path) -> list[str] | None:
    """Return ``__all__`` from the source: DGL and PyG need not be installed."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return None


def source(module: str) -> Path | None:
    """Return the file of a module, None if the name is that of something in a module."""
    parts = module.split(".")[1:]
    folder = ROOT / ("backends" if parts[:1] in (["pyg"], ["dgl"]) else "aethergraph")
    path = folder.joinpath(*parts)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if path.is_file() else None


def public() -> dict[str, list[str]]:
    """Return the names of ``aethergraph`` and of each module on a page of the reference."""
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    shown = [name for page in pages for name in SHOWN.findall(page.read_text())]
    files = {module: source(module) for module in ["aethergraph", *shown]}
    return {module: exported(path) or [] for module, path in files.items() if path is not None}


def test_names_are_few() -> None:
    modules = public()
    errors = modules.pop("aethergraph.errors")
    names = set().union(*modules.values()) - set(errors)
    assert len(names) <= MOST, f"{len(names)} names: what only comes back needs no export"


def test_a_name_has_one_home() -> None:
    homes: dict[str, list[str]] = {}
    for module, names in public().items():
        assert len(names) == len(set(names)), module
        for name in names:
            homes.setdefault(name, []).append(module)
    shared = {name: modules for name, modules in homes.items() if len(modules) > 1}
    assert set(shared) == SHARED, shared


def test_packages_that_are_not_public_export_nothing() -> None:
    files = {path for module in public() if (path := source(module)) is not None}
    others = {
        path.relative_to(ROOT).as_posix()
        for folder in ("aethergraph", "backends")
        for path in (ROOT / folder).rglob("__init__.py")
        if path not in files and exported(path) is not None
    }
    # The command, which the script of the installed package calls, and the bridge to the core.
    assert others == {"aethergraph/_native/__init__.py", "aethergraph/cli/__init__.py"}
