"""Dataset folders that are out to do harm: nothing in them runs, nothing outside them is read."""

from __future__ import annotations

import io
import itertools
import os
import pickle
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from aethergraph import errors
from aethergraph.dgl.graphbolt import load_ondisk_dataset, load_ondisk_tasks

NUM_NODES = 5


class Touch:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.marker}",)


def write_folder(folder: Path, **entry: Any) -> None:
    """A folder whose one table of features is the entry."""
    np.save(folder / "e.npy", np.array([[0, 1], [1, 2]]))
    config = {
        "graph": {
            "nodes": [{"num": NUM_NODES}],
            "edges": [{"format": "numpy", "path": "e.npy"}],
        },
        "feature_data": [{"domain": "node", "name": "x", **entry}],
    }
    (folder / "metadata.yaml").write_text(yaml.safe_dump(config))


def plain_pickle(path: Path, marker: Path) -> None:
    path.write_bytes(pickle.dumps(Touch(marker)))


def saved_object(path: Path, marker: Path) -> None:
    torch.save(Touch(marker), path)


def saved_long_ago(path: Path, marker: Path) -> None:
    torch.save(Touch(marker), path, _use_new_zipfile_serialization=False)


def beside_a_tensor(path: Path, marker: Path) -> None:
    torch.save((torch.zeros(NUM_NODES, 1), Touch(marker)), path)


def instead_of_the_hooks(path: Path, marker: Path) -> None:
    """A good tensor; the pickle of its hooks, which nobody looks at, runs a command."""
    torch.save(torch.zeros(NUM_NODES, 1), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    harm = pickle.dumps(Touch(marker), 2)[2:-1]
    name = next(name for name in members if name.endswith("/data.pkl"))
    hooks = b"ccollections\nOrderedDict\n"
    head, _, tail = members[name].partition(hooks)
    members[name] = head + harm + tail[tail.index(b")R") + 2 :]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    # Proof that it is a trap: torch's own reader falls into it.
    assert torch.load(path, weights_only=False).shape == (NUM_NODES, 1)
    assert marker.exists()
    marker.unlink()


class Module(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def torch_script(path: Path, marker: Path) -> None:
    """What torch 2.2 gives to ``torch.jit.load`` even with ``weights_only=True``."""
    torch.jit.save(torch.jit.script(Module()), str(path))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert isinstance(torch.load(path, weights_only=True), torch.jit.ScriptModule)


@pytest.mark.parametrize(
    "write",
    [
        plain_pickle, saved_object, saved_long_ago, beside_a_tensor, instead_of_the_hooks,
        torch_script,
    ],
)  # fmt: skip
def test_no_torch_file_is_executed(write: Callable[[Path, Path], None], tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    write(tmp_path / "x.pt", marker)
    write_folder(tmp_path, format="torch", path="x.pt")
    with pytest.raises(errors.FormatError, match=r"x\.pt: "):
        load_ondisk_dataset(tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize("in_memory", [True, False])
def test_no_array_of_objects_is_unpickled(in_memory: bool, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    np.save(tmp_path / "x.npy", np.array([Touch(marker)], object), allow_pickle=True)
    write_folder(tmp_path, format="numpy", path="x.npy", in_memory=in_memory)
    with pytest.raises((errors.AetherError, ValueError)):
        load_ondisk_dataset(tmp_path)
    assert not marker.exists()


def test_no_tag_of_yaml_is_called(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    write_folder(tmp_path, format="numpy", path="e.npy")
    with (tmp_path / "metadata.yaml").open("a") as file:
        file.write(f"more: !!python/object/apply:os.system ['touch {marker}']\n")
    with pytest.raises(errors.InvalidArgumentError, match=r"metadata\.yaml"):
        load_ondisk_dataset(tmp_path)
    assert not marker.exists()


DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64,
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_good_tensors_are_read(dtype: torch.dtype, tmp_path: Path) -> None:
    from aethergraph._torch.torch_files import read_tensor

    whole = torch.arange(24).reshape(4, 6).to(dtype)
    given = [whole, whole[:, 1::2].T, whole[0, 0], whole[:0], whole[:1].expand(3, 6)]
    given += [torch.nn.Parameter(whole)] if dtype.is_floating_point else []
    for tensor, protocol in itertools.product(given, (2, 4)):
        torch.save(tensor, tmp_path / "x.pt", pickle_protocol=protocol)
        found = read_tensor(tmp_path / "x.pt")
        assert found.dtype == dtype and torch.equal(found, tensor)


def edit_pickle(path: Path, edit: Callable[[bytes], bytes]) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, edit(content) if name.endswith("/data.pkl") else content)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"K\x04K\x06\x86", b"K\x40K\x06\x86"),  # 64 rows of the 4 that are there
        (b"K\x04K\x06\x86", b"J\xff\xff\xff\x7fK\x06\x86"),
        (b"K\x04K\x06\x86", b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00K\x06\x86"),
        (b"K\x04K\x06\x86", b"J\xff\xff\xff\xffK\x06\x86"),  # -1 rows
        (b"K\x06K\x01\x86", b"K\x60K\x01\x86"),  # wide strides
        (b"K\x06K\x01\x86", b"K\x06\x85"),  # a stride too few
        (b"torch FloatStorage", b"torch Storage"),
        (b"torch\nFloatStorage", b"torch\nDoubleStorage"),
        (b"_rebuild_tensor_v2", b"_rebuild_qtensor"),
    ],
    ids=range(9),
)
def test_tensors_that_lie(old: bytes, new: bytes, tmp_path: Path) -> None:
    from aethergraph._torch.torch_files import read_tensor

    path = tmp_path / "x.pt"
    torch.save(torch.rand(4, 6), path)

    def edit(pickled: bytes) -> bytes:
        old_here = old.replace(b" ", b"\n")
        assert old_here in pickled
        return pickled.replace(old_here, new.replace(b" ", b"\n"))

    edit_pickle(path, edit)
    with pytest.raises(errors.FormatError, match=r"x\.pt: "):
        read_tensor(path)


def rewrite(path: Path, record: bytes, method: int) -> None:
    """Write the archive anew, with another content of the storage."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, record if name.endswith("/data/0") else content)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_records_longer_than_the_tensor_are_not_read(method: int, tmp_path: Path) -> None:
    from aethergraph._torch.torch_files import read_tensor

    path, size = tmp_path / "x.pt", 1 << 26
    torch.save(torch.rand(4, 6), path)
    rewrite(path, bytes(size), method)
    text = "is compressed" if method else f"has {size} bytes, but the storage .* has 96"
    tracemalloc.start()  # counts numpy's memory
    try:
        with pytest.raises(errors.FormatError, match=rf"x\.pt: .*{text}"):
            read_tensor(path)
        assert tracemalloc.get_traced_memory()[1] < size // 8
    finally:
        tracemalloc.stop()


def test_a_torch_file_of_something_else(tmp_path: Path) -> None:
    from aethergraph._torch.torch_files import read_tensor

    path = tmp_path / "x.pt"
    for content, text in (
        ({"x": torch.zeros(3)}, "holds more than one dense tensor"),
        ([torch.zeros(3)], "holds more than one dense tensor"),
        (torch.zeros(3, 3).to_sparse(), "holds more than one dense tensor"),
        ("text", "holds more than one dense tensor"),
    ):
        torch.save(content, path)
        with pytest.raises(errors.FormatError, match=rf"x\.pt: {text}"):
            read_tensor(path)
    stream = io.BytesIO()
    torch.save(torch.zeros(3), stream, _use_new_zipfile_serialization=False)
    path.write_bytes(stream.getvalue())
    with pytest.raises(errors.FormatError, match=r"save it with torch 1\.6 or newer"):
        read_tensor(path)
    with pytest.raises(errors.MissingFileError, match="no such file"):
        read_tensor(tmp_path / "y.pt")


# ---- what is outside of the folder ---------------------------------------------------------------


SECRET = "a line that is nobody's business"


@pytest.mark.parametrize("how", ["absolute", "above", "link", "linked folder", "own link"])
@pytest.mark.parametrize("kind", ["edges", "features"])
def test_files_outside_of_the_folder_are_not_read(how: str, kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "x.npy").write_text(SECRET)
    np.save(folder / "y.npy", np.zeros((NUM_NODES, 1)))
    name = {"absolute": str(tmp_path / "x.npy"), "above": "../x.npy", "linked folder": "in/x.npy"}
    if how == "link":
        (folder / "x.npy").symlink_to(tmp_path / "x.npy")
    if how == "linked folder":
        (folder / "in").symlink_to(tmp_path)
    if how == "own link":
        (folder / "x.npy").symlink_to("y.npy")
    write_folder(folder, format="numpy", path=name.get(how, "x.npy"))
    if kind == "edges":
        config = yaml.safe_load((folder / "metadata.yaml").read_text())
        config["graph"]["edges"] = [{"format": "csv", "path": name.get(how, "x.npy")}]
        del config["feature_data"]
        (folder / "metadata.yaml").write_text(yaml.safe_dump(config))
        place = r"graph\.edges\[0\]: path = "
    else:
        place = r"feature_data\[0\]: path = "
        if how == "own link":  # stays below the folder
            assert load_ondisk_dataset(folder).node_attrs["x"].shape == (NUM_NODES, 1)
            return
    text = place + ".*leads out of the folder" if how != "own link" else r"x\.npy: "
    with pytest.raises(errors.FormatError, match=text) as found:
        load_ondisk_dataset(folder)
    assert SECRET not in str(found.value)


def test_a_description_outside_of_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}: [\n")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "metadata.yaml").symlink_to(tmp_path / "secret")
    with pytest.raises(errors.FormatError, match="leads out of the folder") as found:
        load_ondisk_dataset(folder)
    assert SECRET not in str(found.value)


@pytest.mark.parametrize(
    "name", ["", "\0", "\ud800.npy", "x" * 300, "/".join("x" * 3000), 5, ["x.npy"]]
)
def test_names_that_are_none(name: Any, tmp_path: Path) -> None:
    write_folder(tmp_path, format="numpy", path=name)
    with pytest.raises(errors.AetherError, match=r"feature_data\[0\]") as found:
        load_ondisk_dataset(tmp_path)
    assert not isinstance(found.value, errors.InvalidArgumentError) or name in (5, ["x.npy"])


# ---- more than there is --------------------------------------------------------------------------


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("shape", ["(4000000000000000, 2)", "(5, 100000000000000)"])
def test_an_array_that_promises_petabytes(shape: str, in_memory: bool, tmp_path: Path) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".encode()
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    (tmp_path / "x.npy").write_bytes(head + bytes(80))
    write_folder(tmp_path, format="numpy", path="x.npy", in_memory=in_memory)
    with pytest.raises(errors.TruncatedFileError, match=r"x\.npy: .*are promised, 80 are there"):
        load_ondisk_dataset(tmp_path)


def test_more_rows_than_memory(tmp_path: Path) -> None:
    """A file of holes may be as long as it says."""
    path = tmp_path / "x.npy"
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (NUM_NODES, 1 << 38))
    del rows
    write_folder(tmp_path, format="numpy", path="x.npy", in_memory=True)
    with pytest.raises(errors.OutOfMemoryError, match=r"x\.npy: the array needs 5120\.0 GiB"):
        load_ondisk_dataset(tmp_path)
    write_folder(tmp_path, format="numpy", path="x.npy", in_memory=False)
    assert load_ondisk_dataset(tmp_path).node_attrs["x"].shape == (NUM_NODES, 1 << 38)


def test_a_torch_file_that_promises_more_than_memory(tmp_path: Path) -> None:
    torch.save(torch.zeros(1, 1).expand(NUM_NODES, 1 << 38), tmp_path / "x.pt")
    write_folder(tmp_path, format="torch", path="x.pt")
    with pytest.raises(errors.OutOfMemoryError, match=r"x\.pt: the tensor needs 5120\.0 GiB"):
        load_ondisk_dataset(tmp_path)


def test_more_nodes_than_memory(tmp_path: Path) -> None:
    write_folder(tmp_path, format="numpy", path="e.npy")
    config = yaml.safe_load((tmp_path / "metadata.yaml").read_text())
    config["graph"]["nodes"][0]["num"] = 1 << 50
    (tmp_path / "metadata.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(errors.OutOfMemoryError, match=r"metadata\.yaml: a graph of 1125899"):
        load_ondisk_dataset(tmp_path)


def merge_bomb() -> str:
    lines = ["a0: &a0 {k0: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 30)]
    return "\n".join(lines)


def alias_bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    return "\n".join([*lines, "graph: {nodes: *a29, edges: *a29}"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (merge_bomb(), r"line 2, column 10 is no YAML: merge keys"),
        (alias_bomb(), r"graph\.nodes\[0\] is \["),
        ("graph: &a {nodes: *a, edges: *a}", r"graph\.nodes = \{.*is no list"),
        ("[" * 60_000, "line 1, column 33 is no YAML: too many values"),
        ("- " * 60_000, "is no YAML: too many values"),
        ("[" + "1," * 60_000 + "]", "is no YAML: too many values"),
        ("graph: !!int ''", "is no YAML: a value cannot be read"),
        ("graph: !!timestamp 2001-99-99", "is no YAML: a value cannot be read"),
        ("graph: " + "9" * 5000, "is no YAML|has no graph"),
        ("x" * (1 << 21), r"metadata\.yaml: is longer than 1\.0 MiB"),
        ("graph: {nodes: [{num: 0x" + "f" * 5000 + "}], edges: [{}]}", "a huge integer"),
    ],
    ids=range(11),
)
def test_descriptions_that_stand_for_more(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "metadata.yaml").write_text(text)
    with pytest.raises((errors.InvalidArgumentError, errors.FormatError), match=problem) as found:
        load_ondisk_dataset(tmp_path)
    assert len(str(found.value)) < 1000


# ---- what would change the graph in silence ------------------------------------------------------


def write_edges(folder: Path, text: str) -> None:
    """A folder whose edges are text."""
    (folder / "e.csv").write_text(text)
    edges = [{"format": "csv", "path": "e.csv"}]
    config = {"graph": {"nodes": [{"num": NUM_NODES}], "edges": edges}}
    (folder / "metadata.yaml").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0,1\n1\n", r"e\.csv, line 2"),
        ("0,1,2,3\n", r"e\.csv: has 4 columns instead of 2"),
        ("0,1\n1,5\n", r"e\.csv, line 2, column 2 .*5 is not below the number of nodes, 5"),
        ("0,1\n-1,2\n", r"e\.csv, line 2, column 1 .*negative"),
        ("0,1\n1.5,2\n", r"e\.csv, line 2, column 1 .*1\.5"),
        ("0,1\nsrc,dst\n", r"e\.csv, line 2, column 1 "),
    ],
)
def test_edges_in_text_that_cannot_be(text: str, problem: str, tmp_path: Path) -> None:
    write_edges(tmp_path, text)
    with pytest.raises(errors.FormatError, match=problem):
        load_ondisk_dataset(tmp_path)


def test_edges_in_an_empty_text(tmp_path: Path) -> None:
    write_edges(tmp_path, "")
    assert load_ondisk_dataset(tmp_path).num_edges == 0


def test_edges_of_nodes_that_are_not_there(tmp_path: Path) -> None:
    write_folder(tmp_path, format="numpy", path="e.npy")
    np.save(tmp_path / "e.npy", np.array([[0, 1], [1, 5]]))
    with pytest.raises(errors.FormatError, match=r"e\.npy, edge 2, column 2: the id 5"):
        load_ondisk_dataset(tmp_path)


def test_rows_that_are_too_few(tmp_path: Path) -> None:
    for in_memory in (True, False):
        write_folder(tmp_path, format="numpy", path="x.npy", in_memory=in_memory)
        np.save(tmp_path / "x.npy", np.zeros((4, 2)))
        with pytest.raises(errors.FormatError, match=r"x\.npy: has shape \[4, 2\].* needs 5 rows"):
            load_ondisk_dataset(tmp_path)


@pytest.mark.parametrize("in_memory", [True, False])
def test_items_that_cannot_be(in_memory: bool, tmp_path: Path) -> None:
    write_folder(tmp_path, format="numpy", path="e.npy")
    config = yaml.safe_load((tmp_path / "metadata.yaml").read_text())
    names = {"seed_nodes": "a.npy", "labels": "b.npy"}
    data = [
        {"name": name, "format": "numpy", "path": path, "in_memory": in_memory}
        for name, path in names.items()
    ]
    config["tasks"] = [{"name": "classes", "train_set": [{"data": data}]}]
    (tmp_path / "metadata.yaml").write_text(yaml.safe_dump(config))
    np.save(tmp_path / "a.npy", np.arange(3))
    for labels, text in (
        (np.arange(4), "as long"),
        (np.array(3), "as long|a scalar"),
        (np.arange(3, dtype=np.uint32), "cannot be read"),
        (np.array([None] * 3), "cannot be|Object arrays"),
    ):
        np.save(tmp_path / "b.npy", labels, allow_pickle=True)
        with pytest.raises(errors.AetherError, match=rf"b\.npy.*({text})"):
            load_ondisk_tasks(tmp_path)
