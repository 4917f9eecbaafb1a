"""Tensors in files of ``torch.save``, read without executing anything in the file.

``torch.load`` unpickles, which calls what the file names. Before torch 2.6 ``weights_only=True``
does not prevent that: it gives a TorchScript archive to ``torch.jit.load`` (CVE-2025-32434). So the
few opcodes that ``torch.save`` writes for a tensor are followed here; a file with any other one is
refused.

::

    x.pt  a zip archive     x/data.pkl    the pickle: shape, strides, the storage's dtype and key
                            x/data/0      the storage, as it lies in memory
                            x/byteorder   b"little"
"""

from __future__ import annotations

import math
import pickletools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aethergraph.convert.formats.untrusted import Archive, check_memory, decoding, shorten
from aethergraph.convert.readers.base import InputError, PathLike, check_readable

__all__ = ["read_tensor"]

_MOST_PICKLE = 1 << 16  # bytes; a tensor's pickle has some hundred
_STORAGES = {
    "torch BFloat16Storage": torch.bfloat16,
    "torch BoolStorage": torch.bool,
    "torch ByteStorage": torch.uint8,
    "torch CharStorage": torch.int8,
    "torch ComplexDoubleStorage": torch.complex128,
    "torch ComplexFloatStorage": torch.complex64,
    "torch DoubleStorage": torch.float64,
    "torch FloatStorage": torch.float32,
    "torch HalfStorage": torch.float16,
    "torch IntStorage": torch.int32,
    "torch LongStorage": torch.int64,
    "torch ShortStorage": torch.int16,
    "torch.storage UntypedStorage": torch.uint8,
}
_CONSTANTS = {"NEWTRUE": True, "NEWFALSE": False, "NONE": None, "EMPTY_TUPLE": ()}
_VALUES = frozenset({"BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1"})
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def read_tensor(path: PathLike) -> Tensor:
    """Return the tensor that ``torch.save(tensor, path)`` wrote, on the CPU.

    Raises:
        InputError: the file holds something else than one dense tensor, or is damaged.
        OutOfMemoryError: the tensor is larger than the free memory.
        MissingFileError, StorageError: the file cannot be opened.
    """
    check_readable(path)
    with decoding(path), open(path, "rb") as file:
        if file.read(2) != b"PK":
            raise InputError(path, "is no archive of torch.save: save it with torch 1.6 or newer")
    with Archive(path, compressed=False) as archive, decoding(path):
        root = _root(archive)
        pickled = archive.read(f"{root}/data.pkl", _MOST_PICKLE).tobytes()
        saved = _Interpreter(path).run(pickled)
        order = f"{root}/byteorder"
        if order in archive.names and archive.read(order, 16).tobytes() != b"little":
            raise InputError(path, "has another byte order than this machine")
        return _build(archive, f"{root}/data/{saved.storage.key}", saved)


def _root(archive: Archive) -> str:
    roots = [name.removesuffix("/data.pkl") for name in archive.names if name.endswith("/data.pkl")]
    if len(roots) != 1 or f"{roots[0]}/constants.pkl" in archive.names:
        raise InputError(archive.path, "is no tensor that torch.save wrote")
    return roots[0]


class _Global(NamedTuple):
    """Name of an object that unpickling would import; here only compared with known names."""

    name: str


class _Storage(NamedTuple):
    key: str
    dtype: torch.dtype
    numel: int


class _Saved(NamedTuple):
    storage: _Storage
    dtype: torch.dtype
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_MARK = object()


class _Interpreter:
    """Stack machine of pickles, with only the opcodes of a tensor, that calls nothing."""

    def __init__(self, path: PathLike) -> None:
        self._path = path
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, pickled: bytes) -> _Saved:
        for opcode, argument, _ in pickletools.genops(pickled):
            self._step(opcode.name, argument)
        saved = self._stack.pop()
        if not isinstance(saved, _Saved):
            raise self._refuse("something else")
        return saved

    def _refuse(self, content: str) -> InputError:
        return InputError(
            self._path,
            f"holds more than one dense tensor ({content}): nothing else is read, for that "
            "could run code; save the tensor alone by torch.save, or as .npy",
        )

    def _step(self, name: str, argument: Any) -> None:
        stack = self._stack
        if name in ("PROTO", "FRAME", "STOP"):
            pass
        elif name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "TUPLE":
            at = len(stack) - 1 - stack[::-1].index(_MARK)
            stack[at:] = [tuple(stack[at + 1 :])]
        elif name in ("BINPUT", "LONG_BINPUT"):
            self._memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self._memo[argument])
        elif name == "GLOBAL":
            stack.append(_Global(argument))
        elif name == "STACK_GLOBAL":
            qualname, module = stack.pop(), stack.pop()
            stack.append(_Global(f"{_text(module)} {_text(qualname)}"))
        elif name == "BINPERSID":
            stack.append(self._storage(stack.pop()))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(self._rebuild(function, arguments))
        else:
            raise self._refuse(f"opcode {name}")

    def _storage(self, named: Any) -> _Storage:
        _, kind, key, _, numel = named
        if not isinstance(kind, _Global) or kind.name not in _STORAGES:
            raise self._refuse(f"storage {shorten(kind)}")
        return _Storage(_text(key), _STORAGES[kind.name], _count(numel))

    def _rebuild(self, function: Any, arguments: Any) -> Any:
        name = function.name if isinstance(function, _Global) else None
        if name == "collections OrderedDict" and arguments == ():
            return None  # the hooks of a tensor
        if name == "torch._utils _rebuild_parameter" and isinstance(arguments[0], _Saved):
            return arguments[0]
        if name in ("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_tensor_v3"):
            storage, offset, shape, strides = arguments[:4]
            if not isinstance(storage, _Storage):
                raise self._refuse("no storage")
            dtype = storage.dtype if name.endswith("v2") else self._dtype(arguments[6])
            counts = tuple(map(_count, shape)), tuple(map(_count, strides))
            return _Saved(storage, dtype, _count(offset), *counts)
        raise self._refuse(shorten(name))

    def _dtype(self, named: Any) -> torch.dtype:
        module, _, name = named.name.partition(" ")
        dtype = getattr(torch, name, None) if module == "torch" else None
        if not isinstance(dtype, torch.dtype):
            raise self._refuse(f"dtype {shorten(named.name)}")
        return dtype


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{shorten(value)} where the format has a text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise ValueError(f"{shorten(value)} where the format has a count")
    return value


def _build(archive: Archive, member: str, saved: _Saved) -> Tensor:
    """Build the tensor, after checking that all its items lie in the storage."""
    storage, dtype, offset, shape, strides = saved
    path, items = archive.path, math.prod(shape)
    size = archive.size(member)
    have = size // dtype.itemsize
    promised = storage.numel * storage.dtype.itemsize
    if size >= promised + storage.dtype.itemsize:
        raise InputError(
            path, f"{member} has {size} bytes, but the storage of the tensor has {promised}"
        )
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if len(shape) > 32 or promised > size or (items and last >= have):
        raise InputError(path, f"a tensor of shape {shorten(shape)} reaches out of {size} bytes")
    if items == 0:
        return torch.empty(shape, dtype=dtype)
    check_memory(path, items * dtype.itemsize, "the tensor")
    values = torch.frombuffer(archive.read(member), dtype=torch.uint8)
    flat = values[: have * dtype.itemsize].view(dtype)
    return flat.as_strided(shape, strides, offset).contiguous()
