"""Files that carry a pickle which runs a command: no way into the package makes it run."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from support import ogb_folders

from aethergraph import FeatureTable, Graph, HeteroGraph
from aethergraph.convert import convert, read_edges, read_ogb
from aethergraph.convert.formats.graphzero import read_gd, read_gl
from aethergraph.errors import AetherError
from aethergraph.packing import PackedFeatures


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


def objects(marker: Path) -> np.ndarray:
    return np.array([[Touch(marker)]], object)


def as_npy(marker: Path) -> bytes:
    stream = io.BytesIO()
    np.save(stream, objects(marker), allow_pickle=True)
    return stream.getvalue()


def as_npz(marker: Path) -> bytes:
    stream = io.BytesIO()
    names = "edge_index", "num_nodes_list", "node_feat", "node_label", "paper"
    np.savez(stream, **{name: objects(marker) for name in names})  # type: ignore[arg-type]
    return stream.getvalue()


def as_pickle(marker: Path) -> bytes:
    return pickle.dumps(Touch(marker))


def as_torch_file(marker: Path) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps(Touch(marker), 2))
        archive.writestr("x/version", "3\n")
    return stream.getvalue()


def read_ogb_with(name: str) -> Callable[[Path], Any]:
    """Read a good folder in which the file stands in the place of one of its own."""

    def read(path: Path) -> Any:
        layouts = [
            ogb_folders.text_folder, ogb_folders.binary_folder, ogb_folders.typed_text_folder,
            ogb_folders.typed_binary_folder,
        ]  # fmt: skip
        for number, write in enumerate(layouts):
            root = write(path.parent / f"ogb-{name}-{number}")
            for own in filter(Path.is_file, root.rglob(f"*{name}*")):
                own.write_bytes(path.read_bytes())
            with contextlib.suppress(AetherError):
                read_ogb(root)
        raise AetherError("read as far as that goes")

    return read


def convert_with(**options: Any) -> Callable[[Path], Any]:
    def run(path: Path) -> Any:
        np.save(path.parent / "good.npy", np.array([[0], [0]]))
        given = {key: path if value is None else value for key, value in options.items()}
        source = given.pop("source", path.parent / "good.npy")
        return convert(source, path.parent / "out.bin", **given)

    return run


ENTRIES: dict[str, Callable[[Path], Any]] = {
    "Graph.load": Graph.load,
    "Graph.load, uring": lambda path: Graph.load(path, storage="uring", memory_budget="64M"),
    "HeteroGraph.load": HeteroGraph.load,
    "FeatureTable.load": FeatureTable.load,
    "FeatureTable.load, memory": lambda path: FeatureTable.load(path, storage="memory"),
    "PackedFeatures.load": PackedFeatures.load,
    "read_edges": read_edges,
    "read_gl": read_gl,
    "read_gd": read_gd,
    "convert": convert_with(source=None),
    "convert within a budget": convert_with(source=None, memory_budget="4G"),
    "convert, features": convert_with(features=None),
    "convert, labels": convert_with(labels=None),
    "read_ogb, edges": read_ogb_with("edge"),
    "read_ogb, nodes": read_ogb_with("node"),
    "read_ogb, all": read_ogb_with("."),
    "read_ogb, split": read_ogb_with("train"),
}


@pytest.mark.parametrize("content", [as_npy, as_npz, as_pickle, as_torch_file])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".gl", ".pkl"])
def test_nothing_in_a_file_runs(
    content: Callable[[Path], bytes], suffix: str, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    for name, call in ENTRIES.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        path = folder / f"x{suffix}"
        path.write_bytes(content(marker))
        with pytest.raises(AetherError):
            call(path)
        assert not marker.exists(), name


def test_the_trap_works(tmp_path: Path) -> None:
    np.load(io.BytesIO(as_npy(tmp_path / "marker")), allow_pickle=True)
    assert (tmp_path / "marker").exists()
