"""Keys as users have them, columns of values, and as a map stores them, bytes.

::

    int64, uint64    8 bytes, little-endian
    uuid             16 bytes, in the order in which a UUID is written
    str, bytes       the bytes (UTF-8)
    several columns  one after the other; a str or bytes column begins with its length, 4 bytes

Equal keys have equal bytes, and different keys of the same types have different bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.exact import of_integers
from aethergraph._checks.options import as_choice, shown
from aethergraph.errors import CorruptFileError, InvalidArgumentError, OutOfRangeError

__all__ = ["KEY_TYPES", "KeyColumns", "check_types", "read_key_types"]

#: Types of a key column, and the bytes of a key; 0: any length.
KEY_TYPES = {"int64": 8, "uint64": 8, "uuid": 16, "str": 0, "bytes": 0}
_INT64_MAX = 2**63 - 1
Mask = NDArray[np.bool_]
Ids = NDArray[np.int64]


def check_types(types: str | Sequence[str]) -> tuple[str, ...]:
    """Return the types of the columns of a key, checked.

    Raises:
        InvalidArgumentError: a type that is not one of ``KEY_TYPES``, or none at all.
    """
    if not isinstance(types, (str, list, tuple)):
        raise InvalidArgumentError(f"the type of a key is a name, or several, got {shown(types)}")
    kinds = (types,) if isinstance(types, str) else tuple(types)
    for kind in kinds:
        if not isinstance(kind, str) or kind not in KEY_TYPES:
            raise InvalidArgumentError(
                f"a key is of type {', '.join(KEY_TYPES)}, or of several of these, not "
                f"{shown(kind)}"
            )
    if not kinds:
        raise InvalidArgumentError("a key needs the type of at least one column")
    return kinds


def read_key_types(ids: Any, names: Collection[str], noun: str) -> dict[str, str]:
    """Return the type of the keys by name: one for all names, or a table of some.

    Args:
        ids: what a user gave as ``ids``.
        names: names that there are.
        noun: what they are names of, for messages, such as "node type".

    Raises:
        InvalidArgumentError: no type of keys, or a name that there is not.
    """
    types = dict(ids) if isinstance(ids, Mapping) else dict.fromkeys(names, ids)
    for name, kind in types.items():
        if name not in names:
            raise InvalidArgumentError(
                f"ids has {shown(name)}, which is no {noun}: there are {', '.join(names)}"
            )
        if not isinstance(kind, str):
            raise InvalidArgumentError(f"ids = {shown(kind)} is no type of keys, such as 'str'")
        check_types(kind)
    return types


class KeyColumns:
    """Types of a key: one, or one for each of its columns.

    Attributes:
        types: names of the types, of :data:`KEY_TYPES`.
    """

    def __init__(self, types: str | Sequence[str]) -> None:
        self.types = check_types(types)

    def __str__(self) -> str:
        return self.types[0] if len(self.types) == 1 else f"({', '.join(self.types)})"

    @property
    def width(self) -> int:
        """Bytes of every key; 0 if they differ in length."""
        sizes = [KEY_TYPES[kind] for kind in self.types]
        return sum(sizes) if all(sizes) else 0

    def columns(self, keys: Any) -> list[Any]:
        """Return the columns of ``keys``, which are one column, or a sequence of several."""
        if len(self.types) == 1:
            return [keys]
        try:
            columns = list(keys)
        except TypeError:
            columns = []
        if len(columns) != len(self.types):
            raise InvalidArgumentError(
                f"keys of {len(self.types)} columns are given as {len(self.types)} columns, one "
                f"after the other, got {len(columns)}"
            )
        return columns

    def encode(self, keys: Any) -> tuple[native.KeyBlock, Mask | None]:
        """Return keys as bytes, and a mask of those that no key of these types can equal.

        The mask is None if there are none: a uint64 above 2^63 - 1 among keys of type int64, or a
        negative number among those of type uint64.

        Raises:
            InvalidArgumentError: keys of another type, or a missing one; names the position.
        """
        blocks: list[native.KeyBlock] = []
        impossible: Mask | None = None
        for kind, column in zip(self.types, self.columns(keys), strict=True):
            block, mask = _encode(column, kind)
            if blocks and len(block) != len(blocks[0]):
                raise InvalidArgumentError(
                    f"the columns of a key have {len(blocks[0])} and {len(block)} rows"
                )
            blocks.append(block)
            if mask is not None:
                impossible = mask if impossible is None else impossible | mask
        return (blocks[0] if len(blocks) == 1 else _joined(blocks)), impossible

    def encode_exactly(self, keys: Any) -> native.KeyBlock:
        """Return keys as bytes.

        Raises:
            OutOfRangeError: an integer is outside the type of the keys; names the position.
            InvalidArgumentError: as :meth:`encode`.
        """
        block, impossible = self.encode(keys)
        if impossible is not None:
            at = int(impossible.argmax())
            value = f" = {self.show(block, at, fits=False)}" if len(self.types) == 1 else ""
            raise OutOfRangeError(
                f"key {at}{value} does not fit in keys of type {self}", position=at
            )
        return block

    def decode(self, block: native.KeyBlock) -> Any:
        """Return keys as a column, or as a tuple of columns if they have several.

        Integers are an array, other types a list.

        Raises:
            CorruptFileError: the bytes are not keys of these types.
        """
        try:
            if len(self.types) == 1:
                return _decode(block, self.types[0])
            parts = zip(_split(block, self.types), self.types, strict=True)
            return tuple(_decode(part, kind) for part, kind in parts)
        except (UnicodeDecodeError, IndexError, ValueError):
            raise CorruptFileError(f"the keys are not of type {self}") from None

    def look_up(
        self,
        keys: Any,
        find: Callable[[native.KeyBlock], Ids],
        missing: Literal["raise", "mark"],
        refusal: str,
    ) -> Ids:
        """Return the id of each key of a user, int64 [n].

        Args:
            keys: as :meth:`encode` takes them.
            find: returns the ids of keys, -1 where there is none.
            missing: "raise": a key without an id is an error; "mark": its id is -1.
            refusal: words of the error before the key.

        Raises:
            OutOfRangeError: a key has no id; names the first one and its position.
            InvalidArgumentError: keys of another type, or a missing value; names the position.
        """
        as_choice(missing, ("raise", "mark"), "missing")
        block, impossible = self.encode(keys)
        ids = find(block)
        if impossible is not None:
            ids[impossible] = -1
        if missing == "raise" and len(ids) and ids.min() < 0:
            at = int((ids < 0).argmax())
            fits = impossible is None or not impossible[at]
            raise OutOfRangeError(
                f"{refusal} {self.show(block, at, fits)} (position {at}); "
                "missing='mark' gives it the id -1",
                position=at,
            )
        return ids

    def show(self, block: native.KeyBlock, at: int, fits: bool = True) -> str:
        """Return key ``at`` of ``block`` for a message.

        Args:
            block: the keys.
            at: number of the key.
            fits: no integer of it is outside its type, as :meth:`encode` says. The bytes of one
                that is outside are those of another number.
        """
        if not fits and len(self.types) > 1:
            return f"that has an integer outside its type, {self}"
        key = self.decode(block.take(np.array([at], np.uint64)))
        if not fits:
            return str(int(key[0]) + (2**64 if self.types[0] == "int64" else -(2**64)))
        columns = [key] if len(self.types) == 1 else key
        texts = [
            str(column[0]) if kind == "uuid" else repr(_plain(column[0]))
            for kind, column in zip(self.types, columns, strict=True)
        ]
        text = texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
        return text if len(text) <= 80 else text[:77] + "..."


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# ---- one column -> bytes -----------------------------------------------------------------------


def _encode(column: Any, kind: str) -> tuple[native.KeyBlock, Mask | None]:
    if type(column).__module__.split(".")[0] == "pyarrow":
        return _encode_arrow(column, kind)
    if np.ma.isMaskedArray(column) and np.ma.getmaskarray(column).any():
        raise _missing(int(np.ma.getmaskarray(column).argmax()))
    if kind in ("int64", "uint64"):
        return _encode_integers(_as_array(column), kind)
    values = _as_list(column)
    for at, value in enumerate(values):
        if _is_missing(value):
            raise _missing(at)
    if kind == "str":
        return _encode_texts(values), None
    if kind == "bytes":
        return _encode_bytes(values), None
    return _encode_uuids(values), None


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except (ValueError, TypeError, RuntimeError):  # of arrays and tensors, which are no keys
        return False


def _missing(at: int) -> InvalidArgumentError:
    return InvalidArgumentError(f"key {at} is missing (null)", position=at)


def _as_array(column: Any) -> NDArray[Any]:
    array = np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)
    if isinstance(column, (list, tuple)) and array.dtype.kind == "f" and array.ndim == 1:
        array = np.array(column, object)  # numpy makes floats of integers that int64 does not hold
    if array.dtype == object and array.ndim == 1:  # large integers, or missing ones
        for at, value in enumerate(array.tolist()):
            if value is None or value != value:
                raise _missing(at)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise InvalidArgumentError(
                    f"key {at} is {shown(value)}, not an integer", position=at
                )
        return _of_large(array.tolist())
    return array


def _of_large(values: list[int]) -> NDArray[Any]:
    """Return integers; as objects where only both integer types together hold them."""
    for at, value in enumerate(values):
        if not -(2**63) <= value < 2**64:
            raise OutOfRangeError(f"key {at} = {value} does not fit in 64 bits", position=at)
    return of_integers(values)


def _encode_integers(array: NDArray[Any], kind: str) -> tuple[native.KeyBlock, Mask | None]:
    if array.ndim != 1:
        raise InvalidArgumentError(f"keys are a vector, got shape {array.shape}")
    impossible = None
    if array.dtype == object:  # signs and large ones: the bytes of those outside are not used
        values = array.tolist()
        low, high = (-(2**63), 2**63) if kind == "int64" else (0, 2**64)
        impossible = np.array([not low <= value < high for value in values])
        array = np.array([value % 2**64 for value in values], np.uint64)
    elif array.dtype.kind not in "iu" and array.size:
        advice = ""
        if array.dtype.kind == "f":
            advice = (
                "; pandas makes floats of integers if one is missing: leave that row out, then "
                "astype('int64')"
            )
        raise InvalidArgumentError(f"keys of type {kind} are integers, got {array.dtype}{advice}")
    elif kind == "int64" and array.dtype.newbyteorder("=") == np.uint64:
        impossible = array > _INT64_MAX
    elif kind == "uint64" and array.dtype.kind == "i":
        impossible = array < 0
    if impossible is not None and not impossible.any():
        impossible = None
    with np.errstate(invalid="ignore"):
        numbers = np.ascontiguousarray(array.astype(f"<{kind[0]}8"))
    return native.KeyBlock(numbers.view(np.uint8), None, 8), impossible


def _as_list(column: Any) -> list[Any]:
    if isinstance(column, (str, bytes)):
        raise InvalidArgumentError(
            f"keys are a sequence, got one key, {shown(column)}: put it in a list"
        )
    try:
        if hasattr(column, "tolist"):
            column = column.tolist()
        elif hasattr(column, "to_list"):
            column = column.to_list()
        return list(column)
    except (TypeError, RuntimeError, ValueError):  # closed files, and tensors without memory
        raise InvalidArgumentError(f"keys are a sequence, got {type(column).__name__}") from None


def _of_pieces(pieces: list[bytes]) -> native.KeyBlock:
    offsets = np.zeros(len(pieces) + 1, np.uint64)
    np.cumsum(np.fromiter(map(len, pieces), np.uint64, len(pieces)), out=offsets[1:])
    return native.KeyBlock(np.frombuffer(b"".join(pieces), np.uint8), offsets)


def _encode_texts(values: list[Any]) -> native.KeyBlock:
    try:
        return _of_pieces([str.encode(value) for value in values])
    except (TypeError, UnicodeEncodeError):
        for at, value in enumerate(values):
            if not isinstance(value, str):
                raise InvalidArgumentError(
                    f"key {at} is {shown(value)}, not a string, as keys of this map are",
                    position=at,
                ) from None
            try:
                value.encode()
            except UnicodeEncodeError:
                break
        raise InvalidArgumentError(
            f"key {at} has characters that UTF-8 does not have", position=at
        ) from None


def _encode_bytes(values: list[Any]) -> native.KeyBlock:
    for at, value in enumerate(values):
        if not isinstance(value, bytes):
            raise InvalidArgumentError(f"key {at} is {shown(value)}, not bytes", position=at)
    return _of_pieces(values)


def _encode_uuids(values: list[Any]) -> native.KeyBlock:
    import uuid  # for these keys alone

    pieces = []
    for at, value in enumerate(values):
        try:
            if isinstance(value, bytes) and len(value) == 16:
                pieces.append(value)
            else:
                pieces.append((value if isinstance(value, uuid.UUID) else uuid.UUID(value)).bytes)
        except (ValueError, AttributeError, TypeError):
            raise InvalidArgumentError(
                f"key {at} is {shown(value)}, not a UUID", position=at
            ) from None
    return native.KeyBlock(np.frombuffer(b"".join(pieces), np.uint8), None, 16)


# ---- Arrow -> bytes ----------------------------------------------------------------------------


def _encode_arrow(column: Any, kind: str) -> tuple[native.KeyBlock, Mask | None]:
    import pyarrow as pa
    import pyarrow.types as pat

    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = pa.concat_arrays(column.chunks)
    if pat.is_dictionary(column.type):
        column = column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.null_count:
        raise _missing(int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]))
    arrow_type = column.type
    is_text = arrow_type in (pa.string(), pa.large_string(), _view_type(pa, "string"))
    is_bytes = arrow_type in (pa.binary(), pa.large_binary(), _view_type(pa, "binary"))
    if kind in ("int64", "uint64") and (pat.is_integer(arrow_type) or not len(column)):
        return _encode_integers(column.to_numpy(zero_copy_only=False), kind)
    if kind == "str" and is_text:
        return _of_buffers(column.cast(pa.large_string())), None
    if kind == "bytes" and (is_bytes or pat.is_fixed_size_binary(arrow_type)):
        return _of_buffers(column.cast(pa.large_binary())), None
    if kind == "uuid" and pat.is_fixed_size_binary(arrow_type) and arrow_type.byte_width == 16:
        return native.KeyBlock(_of_buffers(column.cast(pa.large_binary())).data, None, 16), None
    if kind == "uuid" and (is_text or is_bytes):
        return _encode_uuids(column.to_pylist()), None
    raise InvalidArgumentError(f"keys of type {kind} are needed, got a column of type {arrow_type}")


def _view_type(pa: Any, kind: str) -> Any:
    make = getattr(pa, f"{kind}_view", None)
    return None if make is None else make()


def _of_buffers(column: Any) -> native.KeyBlock:
    """Return the bytes of a large_string or large_binary array, without copying them."""
    _, offsets, data = column.buffers()
    count = len(column)
    if not count:
        return native.KeyBlock(np.empty(0, np.uint8), np.zeros(1, np.uint64))
    ends = np.frombuffer(offsets, np.uint64)[column.offset : column.offset + count + 1]
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return native.KeyBlock(content[int(ends[0]) : int(ends[-1])], ends - ends[0])


# ---- keys of several columns -------------------------------------------------------------------


def _sizes(block: native.KeyBlock) -> NDArray[np.int64]:
    if block.offsets is None:
        return np.full(len(block), block.width, np.int64)
    offsets = block.offsets.view(np.int64)
    return offsets[1:] - offsets[:-1]


def _joined(blocks: list[native.KeyBlock]) -> native.KeyBlock:
    """Return keys whose bytes are those of several columns, one after the other."""
    if all(block.offsets is None for block in blocks):
        rows = [block.data.reshape(len(block), block.width) for block in blocks]
        data = np.ascontiguousarray(np.concatenate(rows, axis=1))
        return native.KeyBlock(data.reshape(-1), None, data.shape[1])
    count = len(blocks[0])
    sizes = [_sizes(block) for block in blocks]
    offsets = np.zeros(count + 1, np.int64)
    prefixes = 4 * sum(block.offsets is not None for block in blocks)
    np.cumsum(np.sum(sizes, axis=0) + prefixes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    for size, block in zip(sizes, blocks, strict=True):
        if block.offsets is not None:
            as_bytes = np.ascontiguousarray(size, "<u4").view(np.uint8).reshape(count, 4)
            out[at[:, None] + np.arange(4)] = as_bytes
            at += 4
        begins = np.cumsum(size) - size
        out[np.repeat(at - begins, size) + np.arange(int(size.sum()))] = block.data
        at += size
    return native.KeyBlock(out, offsets.view(np.uint64))


def _split(block: native.KeyBlock, types: tuple[str, ...]) -> list[native.KeyBlock]:
    """Return the columns of keys that :func:`_joined` has made.

    Raises:
        IndexError, ValueError: the bytes are not such keys.
    """
    sizes = _sizes(block)
    at = np.cumsum(sizes) - sizes
    ends = at + sizes
    blocks = []
    for kind in types:
        width = KEY_TYPES[kind]
        if width:
            size = np.full(len(block), width, np.int64)
        else:
            if (at + 4 > ends).any():
                raise ValueError
            size = (
                block.data[at[:, None] + np.arange(4)]
                .copy()
                .view("<u4")
                .reshape(-1)
                .astype(np.int64)
            )
            at = at + 4
        if (at + size > ends).any():
            raise ValueError
        begins = np.cumsum(size) - size
        data = block.data[np.repeat(at - begins, size) + np.arange(int(size.sum()))]
        offsets = None if width else np.append(begins, size.sum()).astype(np.uint64)
        blocks.append(native.KeyBlock(data, offsets, width))
        at = at + size
    if (at != ends).any():
        raise ValueError
    return blocks


# ---- bytes -> one column -----------------------------------------------------------------------


def _decode(block: native.KeyBlock, kind: str) -> Any:
    if kind in ("int64", "uint64"):
        return block.data.view(f"<{kind[0]}8").astype(kind)
    data = block.data.tobytes()
    if kind == "uuid":
        from uuid import UUID  # for these keys alone

        return [UUID(bytes=data[at : at + 16]) for at in range(0, len(data), 16)]
    assert block.offsets is not None
    ends = block.offsets.tolist()
    pieces = [data[a:b] for a, b in itertools.pairwise(ends)]
    return pieces if kind == "bytes" else [piece.decode() for piece in pieces]
