"""Damaged and hostile folders of OGB's: read as they are, or refused with the name of the file."""

from __future__ import annotations

import gzip
import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ogb_folders
from support.damage import damages, fuzz, hostile_headers, npy_with_header

pytest.importorskip("pyarrow")

from aethergraph.convert import read_ogb
from aethergraph.errors import AetherError

LAYOUTS = ["text_folder", "binary_folder", "typed_text_folder", "typed_binary_folder"]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A good folder of each layout."""
    root = tmp_path_factory.mktemp("ogb")
    return {name: getattr(ogb_folders, name)(root / name) for name in LAYOUTS}


def edges_of(graph: Any) -> Any:
    """Counts of nodes, and the edges of each type in the order of the files."""
    kinds = getattr(graph, "edge_types", None)
    parts = [graph] if kinds is None else [graph[kind] for kind in kinds]
    ends = [np.stack(one.edge_index())[:, np.argsort(one.edge_order)].tolist() for one in parts]
    return graph.num_nodes, kinds, ends


def read_damaged(folder: Path, edit: Callable[[Path], None], where: float, suffix: str) -> Any:
    """The edges of a folder one of whose files was edited, or None if it was refused."""
    files = sorted(path for path in folder.rglob(f"*{suffix}"))
    path = files[int(where * len(files))]
    before = path.read_bytes()
    try:
        edit(path)
        return edges_of(read_ogb(folder, keep_order=True))
    except AetherError as error:
        assert str(folder) in str(error), error
        assert len(str(error)) < 1000
        return None
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_damaged_bytes_change_no_edge(layout: str, good: dict[str, Path], tmp_path: Path) -> None:
    """Both formats carry checksums: what is read in spite of damage is what was written."""
    folder = tmp_path / "folder"
    shutil.copytree(good[layout], folder)
    wanted = edges_of(read_ogb(folder, keep_order=True))

    @fuzz
    @given(damage=damages(), where=st.floats(0, 1, exclude_max=True))
    def check(damage: Callable[[bytes], bytes], where: float) -> None:
        def edit(path: Path) -> None:
            path.write_bytes(damage(path.read_bytes()))

        assert read_damaged(folder, edit, where, ".*z") in (None, wanted)

    check()


@pytest.mark.parametrize("layout", ["text_folder", "typed_text_folder"])
def test_damaged_text(layout: str, good: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(good[layout], folder)

    @fuzz
    @given(damage=damages(), where=st.floats(0, 1, exclude_max=True))
    def check(damage: Callable[[bytes], bytes], where: float) -> None:
        def edit(path: Path) -> None:
            path.write_bytes(gzip.compress(damage(gzip.decompress(path.read_bytes()))))

        read_damaged(folder, edit, where, ".csv.gz")

    check()


@pytest.mark.parametrize("layout", ["binary_folder", "typed_binary_folder"])
def test_arrays_that_lie(layout: str, good: dict[str, Path], tmp_path: Path) -> None:
    """Right checksums around damaged arrays, and around headers that cannot be."""
    folder = tmp_path / "folder"
    shutil.copytree(good[layout], folder)

    @fuzz
    @given(
        damage=damages() | hostile_headers().map(lambda text: lambda _: npy_with_header(text)),
        where=st.floats(0, 1, exclude_max=True),
        member=st.floats(0, 1, exclude_max=True),
    )
    def check(damage: Callable[[bytes], bytes], where: float, member: float) -> None:
        def edit(path: Path) -> None:
            with zipfile.ZipFile(path) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
            name = list(members)[int(member * len(members))]
            members[name] = damage(members[name])
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                for own, content in members.items():
                    archive.writestr(own, content)
            path.write_bytes(stream.getvalue())

        read_damaged(folder, edit, where, ".npz")

    check()
