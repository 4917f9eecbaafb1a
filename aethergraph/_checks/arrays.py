"""Checks at the boundary: users' arguments become native-endian, contiguous numpy arrays.

Each check is done once, here; the code behind it trusts its arrays. Errors name the argument and,
if one value is at fault, the value and its position.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from aethergraph._checks.exact import array_of, describe_change, first_changed
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, OutOfMemoryError, OutOfRangeError

__all__ = [
    "as_count",
    "as_float_values",
    "as_ids",
    "as_integer",
    "as_node",
    "as_port",
    "check_length",
    "check_weights",
    "check_vector",
    "empty",
    "read_only",
    "refuse_masked",
    "reject_first",
    "reject_large",
    "stretches",
]

Ids = NDArray[np.int64]
T = TypeVar("T")

_INT64 = np.dtype(np.int64)
_INT64_MAX = int(np.iinfo(np.int64).max)

#: Items per numpy call; Ctrl-C is noticed between two calls.
STRETCH = 1 << 20


class _Checked(Protocol):
    def check(self) -> None:
        """Raise CancelledError if the work is to end."""


def stretches(count: int, task: _Checked | None = None) -> Iterator[slice]:
    """Yield slices that make up ``range(count)``, of at most ``STRETCH`` items each.

    Between two of them ``task``, the long call that the work is part of, may raise CancelledError.
    """
    for begin in range(0, count, STRETCH):
        if task is not None:
            task.check()
        yield slice(begin, min(begin + STRETCH, count))


def to_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return an array; raise an error with ``name`` for ragged, foreign or masked input."""
    refuse_masked(values, name)
    try:
        return array_of(values)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise InvalidArgumentError(f"{name} cannot be read as an array: {error}") from error


def refuse_masked(values: Any, name: str) -> None:
    """Raise InvalidArgumentError for a masked value; numpy would use the value under the mask.

    A list may hold masked values or masked rows; the position is then that of the first one.
    """
    if type(values) is np.ndarray:
        return
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        if not mask.any():
            return
        place = tuple(int(i) for i in np.argwhere(mask)[0])
    elif isinstance(values, list | tuple):
        if not any(issubclass(kind, np.ma.MaskedArray) for kind in set(map(type, values))):
            return
        masked = (i for i, value in enumerate(values) if isinstance(value, np.ma.MaskedArray))
        first = next((i for i in masked if np.ma.getmaskarray(values[i]).any()), None)
        if first is None:
            return
        place = (first,)
    else:
        return
    raise InvalidArgumentError(
        f"{name}[{', '.join(map(str, place))}] is masked: fill it, or leave the masked ones out "
        "(.compressed())",
        position=place[0] if place else None,
    )


def as_ids(values: ArrayLike, name: str) -> Ids:
    """Return node or edge ids as a contiguous int64 vector, without a copy if possible.

    Any integer dtype, byte order and stride is accepted, and so are lists. The native call that
    uses the ids checks their range.

    Raises:
        InvalidArgumentError: not one-dimensional or not integers (bool and float are refused).
        OutOfRangeError: a uint64 value above 2^63 - 1.
    """
    if type(values) is np.ndarray and values.dtype == _INT64 and values.ndim == 1:
        flags = values.flags
        if flags.c_contiguous and flags.aligned:
            return values
    array = to_array(values, name)
    if array.ndim != 1:
        form = f"shape {array.shape}"
        if array.ndim == 0:
            is_id = array.dtype.kind in "iu"
            form = f"{form}: for one id use [{array}]" if is_id else type(values).__name__
        raise InvalidArgumentError(f"{name} must be one-dimensional, got {form}")
    if array.dtype.kind not in "iu":
        if array.size == 0 and not hasattr(values, "dtype"):
            return np.empty(0, np.int64)  # an empty list has no dtype of its own
        if array.dtype.kind == "O" or (
            array.dtype.kind == "f" and isinstance(values, (list, tuple))
        ):
            reject_large(values, name)  # which numpy takes for objects, or for floats
        hint = "; for a mask use np.flatnonzero(mask)" if array.dtype.kind == "b" else ""
        raise InvalidArgumentError(f"{name} must hold integers, got dtype {array.dtype}{hint}")
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        for some in stretches(len(array)):
            large = array[some] > _INT64_MAX
            if large.any():
                at = some.start + int(large.argmax())
                raise OutOfRangeError(
                    f"{name}[{at}] = {array[at]} is above 2**63 - 1",
                    position=at, value=int(array[at]),
                )  # fmt: skip
    return as_vector(array, np.int64, f"{name} as int64")


def reject_large(values: Any, name: str) -> None:
    """Raise for the first int among ``values`` that int64 does not hold, if any."""
    for at, value in enumerate(values):
        if isinstance(value, int) and not -_INT64_MAX <= value <= _INT64_MAX:
            end = "above 2**63 - 1" if value > 0 else "below 0"
            raise OutOfRangeError(f"{name}[{at}] = {value} is {end}", position=at, value=value)


def as_vector(array: NDArray[Any], dtype: DTypeLike, noun: str) -> NDArray[Any]:
    """Return a vector as contiguous, aligned memory of ``dtype``, without a copy if possible.

    Raises:
        OutOfMemoryError: there is no memory for ``noun``.
    """
    if len(array) <= STRETCH or (array.dtype == dtype and array.flags.c_contiguous):
        return allocate(lambda: np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"]), noun)
    out = empty(len(array), dtype, noun)
    for some in stretches(len(array)):
        out[some] = array[some]
    return out


def as_count(value: Any, name: str) -> int:
    """Return any integer-like value as a non-negative Python int; raise for all others."""
    if type(value) is int and 0 <= value <= _INT64_MAX:
        return value  # of batches: short of the general way
    if isinstance(value, (bool, np.bool_)):
        raise InvalidArgumentError(f"{name} must be an integer, got a bool")
    try:
        count = operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidArgumentError(
            f"{name} must be an integer, got {type(value).__name__}"
        ) from None
    if not 0 <= count <= _INT64_MAX:
        raise InvalidArgumentError(f"{name} = {count} is not in 0..2**63 - 1")
    return count


def as_port(value: Any, name: str = "port") -> int:
    """Return the number of a port, 0 for any; raise for all others."""
    port = as_count(value, name)
    if port >= 2**16:
        raise InvalidArgumentError(f"{name} = {port} is not in 0..65535")
    return port


def as_integer(value: Any, name: str, *, bools: bool = True) -> int:
    """Return any integer-like value as a Python int; raise InvalidArgumentError for others.

    Args:
        value: an int, or an object with ``__index__``.
        name: of the argument, for messages.
        bools: False refuses True and False, which are integers to Python.
    """
    if not bools and isinstance(value, (bool, np.bool_)):
        raise InvalidArgumentError(f"{name} must be an integer, got a bool")
    try:
        return operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # arrays and tensors raise the last two
        raise InvalidArgumentError(
            f"{name} must be an integer, got {shown(value)} of type {type(value).__name__}"
        ) from None


def as_node(value: Any, num_nodes: int, name: str) -> int:
    """Return one node id as a Python int; raise unless it is in ``0 .. num_nodes - 1``."""
    if isinstance(value, (bool, np.bool_)):
        raise InvalidArgumentError(f"{name} must be an integer node id, got a bool")
    try:
        node = operator.index(value)
    except (TypeError, ValueError, RuntimeError):  # as in as_integer
        raise InvalidArgumentError(
            f"{name} must be an integer node id, got {type(value).__name__}"
        ) from None
    if not 0 <= node < num_nodes:
        raise OutOfRangeError(f"{name} = {node} is {describe_range(num_nodes)}", value=node)
    return node


def describe_range(count: int, noun: str = "nodes") -> str:
    """Return the end of a message about a node or edge id that does not exist."""
    if count == 0:
        return f"out of range: the graph has no {noun}"
    return f"not in 0..{count - 1} (num_{noun}={count})"


def check_length(array: NDArray[Any], length: int, name: str, count_name: str) -> None:
    """Raise unless ``array`` is a vector or table with ``length`` rows."""
    if array.ndim == 0:
        raise InvalidArgumentError(f"{name} must be an array with one row per item, got a scalar")
    if array.shape[0] != length:
        raise InvalidArgumentError(f"{name} has {array.shape[0]} rows, but {count_name} = {length}")


def as_float_values(values: ArrayLike, length: int, name: str, count_name: str) -> NDArray[Any]:
    """Return a float32 or float64 vector: float16 becomes float32, integers become float64.

    Raises:
        InvalidArgumentError: not ``length`` numbers, or one that float64 does not hold exactly.
    """
    array = to_array(values, name)
    check_vector(array, length, name, count_name)
    if array.size == 0 and array.dtype.kind not in "fiu":
        return np.empty(0, np.float32)
    if array.dtype.kind == "f":
        target: DTypeLike = np.float32 if array.dtype.itemsize <= 4 else np.float64
    elif array.dtype.kind in "iu":
        target = np.float64
    else:
        raise InvalidArgumentError(f"{name} must hold numbers, got dtype {array.dtype}")
    at = first_changed(array, "float64")
    if at is not None:
        way = "round them first, .astype('float64')"
        if array.dtype.kind != "f":
            way = f"{way}, or keep them as an attribute of the edges"
        problem = describe_change(array[at], "float64", f"{name}[{at}] = ")
        raise InvalidArgumentError(f"{problem}: {way}", position=at)
    return as_vector(array, target, f"{name} as {np.dtype(target)}")


def check_weights(weights: NDArray[Any], name: str) -> None:
    """Raise for the first weight that is negative or not finite."""
    reject_first(
        lambda some: ~(np.isfinite(some) & (some >= 0)), weights, name,
        "weights are finite and >= 0",
    )  # fmt: skip


def check_times(times: NDArray[Any], name: str) -> None:
    """Raise for the first time that is NaN."""
    if times.dtype.kind == "f":
        reject_first(np.isnan, times, name, "every time must be known")


def check_vector(array: NDArray[Any], length: int, name: str, count_name: str) -> None:
    """Raise unless ``array`` is one-dimensional with ``length`` items."""
    if array.ndim != 1:
        raise InvalidArgumentError(f"{name} must be one-dimensional, got shape {array.shape}")
    check_length(array, length, name, count_name)


def reject_first(
    is_bad: Callable[[NDArray[Any]], NDArray[np.bool_]], array: NDArray[Any], name: str, rule: str
) -> None:
    """Raise InvalidArgumentError for the first item of ``array`` that is bad, if any."""
    for some in stretches(len(array)):
        bad = is_bad(array[some])
        if bad.any():
            at = some.start + int(bad.argmax())
            raise InvalidArgumentError(f"{name}[{at}] = {array[at]}: {rule}", position=at)


def allocate(make: Callable[[], T], noun: str) -> T:
    """Call ``make``; raise numpy's MemoryError (and size overflow) as OutOfMemoryError."""
    try:
        return make()
    except (MemoryError, ValueError) as error:
        raise OutOfMemoryError(f"no memory for {noun}: {error}") from error


def empty(shape: int | tuple[int, ...], dtype: Any, noun: str) -> NDArray[Any]:
    """Call ``np.empty``; raise OutOfMemoryError naming ``noun`` if the array does not fit."""
    array: NDArray[Any] = allocate(lambda: np.empty(shape, dtype), noun)
    return array


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view of ``array`` that refuses writes."""
    view: NDArray[Any] = array.view()
    view.flags.writeable = False
    return view
