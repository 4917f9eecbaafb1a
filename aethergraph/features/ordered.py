"""OrderedRows: rows whose file is in another order than their ids, so that neighbours lie together.

::

    place in the file   0  1  2  3  4
    row of node         4  2  0  1  3        the order; ids of nodes stay: the graph, labels, splits
                                             and models know nothing of it
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, empty, stretches
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.adapters import as_row_source
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.files import is_npy_name, row_pieces, save_native, save_npy, write_rows
from aethergraph.features.gathering import check_rows
from aethergraph.features.table import RowTable
from aethergraph.protocols import FeatureSource, RowSource

__all__ = ["OrderedRows"]


class OrderedRows(RowTable):
    """Rows by id whose source has them in another order.

    Batches of nodes that are sampled together read fewer pages if their rows lie together, and
    nothing but the file of rows need change for that::

        order = graph.reorder()                                  # or any other
        OrderedRows.save("features.npy", order, "ordered.npy")   # written once
        rows = FeatureTable.load("ordered.npy", "uring", memory_budget="1G")
        graph.node_attrs["x"] = OrderedRows(rows, order)

    It keeps 4 bytes of memory for each row (8 from 2^32 - 1 rows on). Gathers are not planned ahead
    (``Ahead.plan`` of loaders does nothing); the source's hot rows and cache work as ever.

    Args:
        rows: the rows as they lie: place i has row ``order[i]``.
        order: id of the row at each place, an integer vector with every id once.

    Raises:
        InvalidArgumentError: another length, or an id that comes twice; names the first one.
        OutOfRangeError: an id is of no row; names the first one.
    """

    def __init__(self, rows: FeatureSource | ArrayLike, order: ArrayLike) -> None:
        #: The source, as rows that loaders gather from.
        self.source = as_row_source(rows, "rows")
        self._begin(_places(order, self.source.num_rows))

    def _begin(self, places: NDArray[Any]) -> None:
        self._places = places
        shape = (self.source.num_rows, *self.source.row_shape)
        self._set_form(native.dtype_code(self.source.dtype_name), shape)

    @classmethod
    def save(
        cls, rows: FeatureSource | ArrayLike | native.Path, order: ArrayLike, path: native.Path,
        *, progress: native.Progress | None = None,
    ) -> None:  # fmt: skip
        """Write rows into a feature file in another order: place i has row ``order[i]``.

        16 MiB are gathered at a time, so rows may be larger than memory; what they take to read
        depends on where they are.

        Args:
            rows: a source of rows, an array, or the path of a feature file.
            order: id of the row at each place, an integer vector with every id once.
            path: the file, in numpy's format if it ends in ``.npy``.
            progress: called with (bytes done, total bytes).

        Raises:
            InvalidArgumentError, OutOfRangeError: ``order`` is none.
            StorageError: the file cannot be written.
        """
        argument: Any = rows
        is_path = isinstance(argument, str | bytes) or hasattr(argument, "__fspath__")
        source = FeatureTable.load(argument) if is_path else as_row_source(argument, "rows")
        ids = as_ids(order, "order")
        _places(ids, source.num_rows)
        moved = cls.__new__(cls)
        moved.source = source
        moved._begin(ids)  # row i of it is row order[i]
        code = moved._code
        if is_npy_name(path):
            native.run_long(
                lambda task: save_npy(
                    path, moved.shape, code, row_pieces(moved, code), source.guard, task
                ),
                progress, moved.nbytes,
            )  # fmt: skip
            return
        native.run_long(
            lambda task: save_native(
                path, moved.shape, code,
                lambda out, section_task: write_rows(moved, out, 0, section_task), task,
            ),
            progress, moved.nbytes,
        )  # fmt: skip

    def gather_into(self, ids: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Set ``out[i]`` to row ``ids[i]``."""
        self.source.gather_into(self._places[ids].astype(np.int64, copy=False), out)

    def widen_into(self, ids: NDArray[np.int64], out: NDArray[Any], dtype: str) -> None:
        """Set ``out[i]`` to row ``ids[i]``, converted as the source does."""
        self.source.widen_into(self._places[ids].astype(np.int64, copy=False), out, dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows ``start .. stop - 1``."""
        return self.source.gather(self._places[start:stop])

    @property
    def array(self) -> NDArray[Any]:
        """All rows in the order of their ids, gathered at each use."""
        return self.read(0, self._num_rows)

    @property
    def is_in_memory(self) -> bool:
        """True if a gather waits for nothing but memory."""
        return self.source.is_in_memory

    @property
    def path(self) -> str | None:
        """Path of the file of the source, or None."""
        return self.source.path

    @property
    def fingerprint(self) -> str | None:
        """Identity of the content: the source's and the order's; None if the source has none."""
        identity = self.source.fingerprint
        if identity is None:
            return None
        return f"{identity}/{hashlib.blake2b(self._places.tobytes(), digest_size=8).hexdigest()}"

    def __repr__(self) -> str:
        return f"OrderedRows({self.source!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.source, self._places)


def _restored(source: RowSource, places: NDArray[Any]) -> OrderedRows:
    rows = OrderedRows.__new__(OrderedRows)
    rows.source = source
    rows._begin(places)
    return rows


def _places(order: ArrayLike, count: int) -> NDArray[Any]:
    """Return the place of each row; raise unless ``order`` has every row once."""
    ids = as_ids(order, "order")
    if len(ids) != count:
        raise InvalidArgumentError(
            f"order has {len(ids)} ids, but there are {count} rows: an order has each once"
        )
    dtype = native.id_dtype(native.id_bytes_for(count))
    places = empty(count, dtype, f"an order of {count} rows")
    check_rows(ids, count)
    native.put_places(ids, 0, places)
    for some in stretches(count):
        twice = places[ids[some]] != np.arange(some.start, some.stop, dtype=dtype)
        if twice.any():  # an id that comes twice has its last place
            at = some.start + int(twice.argmax())
            raise InvalidArgumentError(
                f"order[{at}] = {ids[at]} comes again as order[{places[ids[at]]}]: an order has "
                "every row once",
                position=at,
            )
    return places
