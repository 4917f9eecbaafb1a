"""What sources of streams hand over, and what they must answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.arrays import as_count, to_array
from aethergraph._checks.exact import of_integers
from aethergraph._checks.options import as_iterator, shown
from aethergraph.errors import InvalidArgumentError

__all__ = ["BadRecord", "IdMap", "Records", "Source", "one_value_each"]

#: Columns that a record may have besides attributes.
ROLES = ("src", "dst", "time", "weight", "delete", "relation", "node")


class BadRecord(NamedTuple):
    """Record that does not become a change of the graph.

    Attributes:
        offset: its number in the partition.
        reason: what is wrong with it; names the field and its value.
        payload: the record as it came, if the source still has it.
    """

    offset: int
    reason: str
    payload: bytes | None = None


@dataclass
class Records:
    """Some records of one partition, in order, as columns.

    ::

        Records(partition=0, following=3, columns={"src": [1, 2, 3], "dst": [4, 4, 5]})

    Values need not be checked: the ingestor does it, and knows which record they are of. A column
    of dtype object holds any values, None where there is none.

    Attributes:
        partition: number of the partition.
        following: number of the record to go on with after these, the bad ones and those that are
            not there any more.
        columns: ``"src"``, ``"dst"`` and perhaps ``"time"``, ``"weight"``, ``"delete"`` (True:
            the edge is deleted) and ``"relation"`` of edges; or ``"node"`` of rows of nodes. All
            are [n].
        attrs: rows [n, ...] of attributes of the edges, or of the nodes.
        offsets: number of each record, int64 [n]; None: the n numbers before ``following``.
        kind: edge type or node type that all of them are of; None: the only one.
        bad: records that could not be read.
        payload: returns a record as it came, by its place in the columns.
        fields: name in the source by column, for messages.
        given: columns as the source has them, for messages.
        time_unit: unit of times that the graph does not keep.
    """

    partition: int
    following: int
    columns: Mapping[str, Any]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    offsets: NDArray[np.int64] | None = None
    kind: Any = None
    bad: Sequence[BadRecord] = ()
    payload: Callable[[int], bytes | None] | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    time_unit: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise InvalidArgumentError(
                f"columns must be {{role: values}}, got {shown(self.columns)}"
            )
        unknown = [name for name in self.columns if name not in ROLES]
        if unknown:
            raise InvalidArgumentError(
                f"columns of records are {', '.join(ROLES)}, not {unknown[0]!r}: attributes go "
                "into attrs="
            )
        self.partition = as_count(self.partition, "partition")
        self.following = as_count(self.following, "following")
        if not isinstance(self.attrs, Mapping):
            raise InvalidArgumentError(
                f"attrs must be {{attribute: values}}, got {shown(self.attrs)}"
            )
        self.columns = {
            name: one_value_each(_as_column(values, name)) for name, values in self.columns.items()
        }
        self.attrs = {name: _as_column(values, name) for name, values in self.attrs.items()}
        count = self.count
        for name, values in {**self.columns, **self.attrs}.items():
            if len(values) != count:
                raise InvalidArgumentError(
                    f"records have {count} values of one column, but {len(values)} of {name!r}"
                )
        if self.offsets is None:
            self.offsets = np.arange(self.following - count, self.following)

    @property
    def count(self) -> int:
        """Number of records that could be read."""
        for values in (*self.columns.values(), *self.attrs.values()):
            return len(values)
        return 0


def one_value_each(column: NDArray[Any]) -> NDArray[Any]:
    """Return a column as a vector: where records have lists of numbers, each is one value."""
    if column.ndim == 1:
        return column
    vector = np.empty(len(column), object)
    for place, item in enumerate(column.tolist()):
        vector[place] = item
    return vector


def _as_column(values: Any, name: str) -> NDArray[Any]:
    """Return values as an array, of dtype object where they are not of one shape and type.

    Raises:
        InvalidArgumentError: it is not one value for each record.
    """
    if hasattr(values, "__array__"):  # also tensors, and columns of tables
        values = to_array(values, name)
    # Sets have an order of their own, so that ends of edges would not fit each other.
    is_one = isinstance(values, (str, bytes, Mapping, set, frozenset))
    is_one = is_one or not isinstance(values, Iterable)
    if is_one or (isinstance(values, np.ndarray) and not values.ndim):
        raise InvalidArgumentError(
            f"{name} = {shown(values)} is no column: give a list or an array with a value for each "
            f"record, {name}=[...]"
        )
    if isinstance(values, np.ndarray):
        return values
    items = list(as_iterator(values, name))
    kinds = {type(item) for item in items}
    if kinds == {int}:
        return of_integers(items)
    if kinds in ({float}, {bool}, {str}):
        return np.array(items)
    try:
        array = np.array(items)
        if array.ndim > 1 and array.dtype.kind in "iu":
            return array
        # Else a row would become floats because of another one.
        if array.ndim > 1 and set(map(type, np.array(items, object).flat)) == {float}:
            return array
    except (ValueError, OverflowError):
        pass
    column = np.empty(len(items), object)
    for place, item in enumerate(items):
        column[place] = item
    return column


@runtime_checkable
class Source(Protocol):
    """Stream of records in partitions, in each of which records have ascending numbers.

    A source of your own needs these members. It may also have

    - ``lag() -> {partition: records}``: how many records there are that were not read yet;
    - ``acknowledge(offsets)``: called after a commit with the offsets that are now in the graph;
    - ``failed(reason)``: called before :meth:`close` where the ingestor ended by an error;
    - ``needs_disk``: True if they are to be on disk before that call, and those of :meth:`open`;
    - ``stalled``: a text while the other end cannot be reached, else None;
    - ``ended() -> partitions``: those that will give nothing any more, as far as is known;
    - ``describe(partition) -> str``: the partition in words, such as a file's name;
    - ``at_once``: most records that a poll returns, which an ingestor that shares Python with
      other threads makes smaller;
    - ``mark(partition, offset) -> int | None`` and ``check_marks(marks)``: what the records
      before an offset are known by, kept with it, and given back before :meth:`open`; also where
      another stream has had them, of which a warning is given;
    - ``counts_bytes``: True where records are not numbered one by one;
    - ``check(graph)``: raises an error if its schema does not fit, before anything is read.

    :class:`aethergraph.testing.SourceContract` tests one. All calls come from one thread.
    """

    #: Name under which the graph keeps the offsets. It must not change.
    name: str

    def open(self, offsets: Mapping[int, int]) -> None:
        """Begin to read: partitions at the numbers that are given, others at their start.

        Raises:
            SourceError: the other end cannot be reached, or has lost the records.
        """

    def poll(self, timeout: float) -> Sequence[Records] | None:
        """Return the next records, waiting for ``timeout`` seconds at most.

        An empty list: there are none now. None: there will not be any more.
        """

    def pause(self, partitions: Iterable[int]) -> None:
        """Return no records of these partitions, and of all others again, from now on."""

    def close(self) -> None:
        """Give up connections and files. Calling it twice does nothing."""


class IdMap(Protocol):
    """Numbers of nodes by the ids that a stream has, such as texts.

    Numbers that :meth:`append` gave must be found by :meth:`lookup` in a later run, although the
    commit that they were given for may not have happened.
    """

    def lookup(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of each key, -1 where it has none."""

    def append(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Give each key a number, unless it has one; return the numbers."""
