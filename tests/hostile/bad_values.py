"""Values that no argument is meant to have, or hardly any: made anew for every call."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aethergraph import FeatureTable, Graph

__all__ = ["bad_values"]


class _NotAPath:
    def __fspath__(self) -> Any:
        return 3


class _Index:
    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


class _NoIndex:
    def __index__(self) -> int:
        raise RuntimeError("no index after all")


class _NoTruth:
    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class _NegativeLength:
    def __len__(self) -> int:
        return -1


class _Str(str):
    pass


class _Int(int):
    pass


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _objects(*items: Any) -> Any:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def _closed_graph(folder: Path) -> Graph:
    graph = Graph.load(folder / "graph.aether")
    graph.close()
    return graph


def _closed_features(folder: Path) -> FeatureTable:
    store = FeatureTable.load(folder / "x.aether")
    store.close()
    return store


def _fifo(folder: Path) -> Path:
    path = folder / "fifo"
    if not path.exists():
        os.mkfifo(path)
    return path


def _closed_file(folder: Path) -> Any:
    with open(folder / "edges.csv") as file:
        return file


_PLAIN: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "object": object,
    "type": lambda: int,
    "module": lambda: sys,
    "function": lambda: len,
    "Ellipsis": lambda: ...,
    "True": lambda: True,
    "-1": lambda: -1,
    "0": lambda: 0,
    "2**63": lambda: 2**63,
    "-2**63": lambda: -(2**63),
    "2**63 - 1": lambda: 2**63 - 1,
    "10**30": lambda: 10**30,
    "10**400": lambda: 10**400,
    "1.5": lambda: 1.5,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: -float("inf"),
    "1e308": lambda: 1e308,
    "complex": lambda: 1j,
    "int subclass": lambda: _Int(3),
    "index": lambda: _Index(1),
    "index of 2**70": lambda: _Index(2**70),
    "no index": _NoIndex,
    "no truth": _NoTruth,
    "[index]": lambda: [_Index(0), _Index(1)],
    "date": lambda: dt.date(2020, 1, 1),
    # text and bytes
    "''": lambda: "",
    "'3'": lambda: "3",
    "'abc'": lambda: "abc",
    "NUL": lambda: "\0",
    "'a NUL b'": lambda: "a\0b",
    "lone surrogate": lambda: "\ud800",
    "escaped byte": lambda: "\udcff",
    "long text": lambda: "a" * 100_000,
    "str subclass": lambda: _Str("abc"),
    "b''": lambda: b"",
    "bytes": lambda: b"\xff\x00",
    "bytearray": lambda: bytearray(8),
    "memoryview": lambda: memoryview(b"12345678"),
    "not a path": _NotAPath,
    # containers
    "[]": list,
    "()": tuple,
    "{}": dict,
    "set": lambda: {1, 2},
    "frozenset": frozenset,
    "generator": lambda: (i for i in range(3)),
    "dict keys": lambda: {1: 2}.keys(),
    "{'a': 1}": lambda: {"a": 1},
    "{1: 2}": lambda: {1: 2},
    "{None: None}": lambda: {None: None},
    "{surrogate: []}": lambda: {"\ud800": []},
    "{NUL: [0]}": lambda: {"\0": [0]},
    "{('a', 'b'): 1}": lambda: {("a", "b"): 1},
    "{triple: 1}": lambda: {("a", "b", "c"): 1},
    "{triple: pair of surrogates}": lambda: {("\ud800", "b", "\udc00"): ([0], [0])},
    "[None]": lambda: [None],
    "['a']": lambda: ["a"],
    "['\\ud800']": lambda: ["\ud800"],
    "[1.5]": lambda: [1.5],
    "[nan]": lambda: [float("nan")],
    "[True]": lambda: [True],
    "[-1]": lambda: [-1],
    "[2**63]": lambda: [2**63],
    "[10**30]": lambda: [10**30],
    "[object]": lambda: [object()],
    "ragged": lambda: [1, [2, 3]],
    "ragged rows": lambda: [[1, 2], [3]],
    "[[]]": lambda: [[]],
    "mixed": lambda: [0, "a", None],
    "pair": lambda: ([0], [1, 2]),
    "nested deeply": lambda: _nested(5000),
    "cycle": _cycle,
    "negative length": _NegativeLength,
    # arrays
    "no items": lambda: np.empty(0),
    "0-d": lambda: np.array(3),
    "2-d": lambda: np.zeros((2, 2), np.int64),
    "3-d": lambda: np.zeros((2, 1, 0), np.int64),
    "float ids": lambda: np.array([0.5, 1.0]),
    "nan array": lambda: np.array([np.nan, 0, 1]),
    "float16": lambda: np.zeros(3, np.float16),
    "longdouble": lambda: np.zeros(3, np.longdouble),
    "complex array": lambda: np.zeros(3, complex),
    "bool array": lambda: np.array([True, False]),
    "int8": lambda: np.array([-1, 0, 1], np.int8),
    "uint64 huge": lambda: np.array([2**64 - 1, 0], np.uint64),
    "text array": lambda: np.array(["a", "bb"]),
    "bytes array": lambda: np.array([b"a", b"bb"]),
    "objects": lambda: _objects(0, 1),
    "objects of None": lambda: _objects(None, 1),
    "objects of lists": lambda: _objects([0], [1, 2]),
    "objects of text": lambda: _objects("a", "\ud800"),
    "datetime64": lambda: np.array(["2020-01-01", "NaT"], "M8[s]"),
    "timedelta64": lambda: np.array([1, 2], "m8[s]"),
    "structured": lambda: np.zeros(2, [("a", int), ("b", float)]),
    "void": lambda: np.zeros(2, "V8"),
    "matrix": lambda: np.matrix([[0, 1]]),
    "masked": lambda: np.ma.masked_array([0, 1], [0, 0]),
    "backwards": lambda: np.arange(6)[::-1],
    "every second": lambda: np.arange(6)[::2],
    "other endian": lambda: np.arange(3).astype(">i8"),
    "unaligned": lambda: np.frombuffer(bytes(25), np.uint8)[1:].view(np.int64),
    "read-only": lambda: np.broadcast_to(np.int64(0), 3),
    "8 TB of zeros": lambda: np.broadcast_to(np.int64(0), 10**12),
    "numpy scalar": lambda: np.int16(1),
    "numpy nan": lambda: np.float64("nan"),
    "numpy bool": lambda: np.bool_(True),
    "dtype": lambda: np.dtype("V3"),
}

_IN_FOLDER: dict[str, Callable[[Path], Any]] = {
    "closed graph": _closed_graph,
    "closed features": _closed_features,
    "closed file": _closed_file,
    "missing path": lambda folder: folder / "no" / "such",
    "folder": lambda folder: folder,
    "empty file": lambda folder: folder / "empty",
    "other file": lambda folder: str(folder / "x.npy"),
    "graph file": lambda folder: folder / "graph.aether",
    "path as bytes": lambda folder: os.fsencode(folder / "graph.aether"),
    "fifo": _fifo,
    "/dev/null": lambda folder: Path("/dev/null"),
    "/dev/full": lambda folder: Path("/dev/full"),
    "/proc/self/mem": lambda folder: Path("/proc/self/mem"),
    "long path": lambda folder: folder / ("a" * 300),
    "path with NUL": lambda folder: f"{folder}/a\0b",
    "path with surrogate": lambda folder: f"{folder}/\ud800",
    "[path]": lambda folder: [folder / "edges.csv", 3],
}


def _tensors() -> dict[str, Callable[[], Any]]:
    try:
        import torch
    except ImportError:
        return {}

    return {
        "tensor": lambda: torch.tensor([0, 1]),
        "tensor of floats": lambda: torch.tensor([0.5, 1.0]),
        "tensor with gradient": lambda: torch.tensor([0.0, 1.0], requires_grad=True),
        "tensor on meta": lambda: torch.empty(2, dtype=torch.int64, device="meta"),
        "sparse tensor": lambda: torch.eye(3).to_sparse(),
        "bfloat16 tensor": lambda: torch.zeros(3, dtype=torch.bfloat16),
        "0-d bfloat16 tensor": lambda: torch.tensor(1.0, dtype=torch.bfloat16),
        "complex tensor": lambda: torch.zeros(3, dtype=torch.complex64),
        "bool tensor": lambda: torch.tensor([True, False]),
        "0-d tensor": lambda: torch.tensor(1),
        "expanded tensor": lambda: torch.zeros(1, dtype=torch.int64).expand(3),
        "conjugate tensor": lambda: torch.zeros(3, dtype=torch.complex64).conj(),
        "quantized tensor": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "list of tensors": lambda: [torch.tensor([0]), torch.tensor([1, 2])],
        "torch dtype": lambda: torch.float16,
        "torch device": lambda: torch.device("meta"),
    }


def bad_values() -> dict[str, Callable[[Path], Any]]:
    """Return makers of values by name; each gets the folder of files that calls work on."""
    plain = {**_PLAIN, **_tensors()}
    found: dict[str, Callable[[Path], Any]] = {
        name: (lambda _, make=make: make()) for name, make in plain.items()
    }
    return {**found, **_IN_FOLDER}
