"""One batch as one row of an Arrow table, and back to arrays.

::

    epoch  number  batch_size | node  row  col  edge  index  num_sampled_...  node:x   shape:node:x
    0      17      1024       | [..]  [..] [..] [..]  [..]   [..]             [.....]  [9021, 100]

Arrays are flat lists; those of several dimensions have their shape in a column beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.optional import require
from aethergraph.errors import InvalidArgumentError
from aethergraph.loading.batch import Batch

__all__ = ["Row", "RowsOfBlocks", "as_row", "as_table"]

Row: TypeAlias = "dict[str, Any]"
"""Numbers and arrays of a batch by name."""

_NUMBERS = ("epoch", "number", "batch_size")
_LISTS = ("batch", "num_sampled_nodes", "num_sampled_edges")  # None in some samples
_SHAPE = "shape:"


def as_table(batch: Batch, epoch: int, number: int) -> Any:
    """Return a table of one row, whose arrays are those of ``batch``, without a copy."""
    pa = require("pyarrow", "tables of batches need", "ray")
    sub: Any = batch.subgraph
    arrays: dict[str, Any] = {
        "node": sub.node, "row": sub.row, "col": sub.col, "edge": sub.edge, "index": batch.index,
    }  # fmt: skip
    for name in _LISTS:
        value = getattr(sub, name, None)
        if value is not None:
            arrays[name] = np.asarray(value, np.int64)
    for prefix, attrs in (("node", batch.node_attrs), ("edge", batch.edge_attrs)):
        arrays |= {f"{prefix}:{name}": rows for name, rows in attrs.items()}
    columns = {
        name: pa.array([value], pa.int64())
        for name, value in zip(_NUMBERS, (epoch, number, batch.batch_size), strict=True)
    }
    for name, array in arrays.items():
        columns[name] = _as_list(pa, array)
        if array.ndim != 1:
            columns[_SHAPE + name] = _as_list(pa, np.asarray(array.shape, np.int64))
    return pa.table(columns)


def _as_list(pa: Any, array: NDArray[Any]) -> Any:
    flat = np.ascontiguousarray(array).reshape(-1)
    ends = pa.array(np.array([0, len(flat)], np.int64))
    return pa.LargeListArray.from_arrays(ends, pa.array(flat))


class RowsOfBlocks:
    """The rows of tables, each as a table of one row over the same memory.

    Ray's own batches of one row copy a table's columns of several chunks first: for features that
    took longer than to sample and gather them.

    Args:
        blocks: pyarrow tables, which may be iterated over again.
    """

    def __init__(self, blocks: Iterable[Any]) -> None:
        self._blocks = blocks

    def __iter__(self) -> Iterator[Any]:
        for block in self._blocks:
            for number in range(block.num_rows):
                yield block.slice(number, 1)


def as_row(batch: Any) -> Row:
    """Return the numbers and arrays of a batch that Ray hands over in any of its formats.

    Args:
        batch: a pyarrow table of one row, a dict of arrays of one row, or a row, a dict of values.

    Raises:
        InvalidArgumentError: it is none of these, or has several rows.
    """
    if hasattr(batch, "column_names") and hasattr(batch, "num_rows"):
        count, row = batch.num_rows, _row_of_table(batch) if batch.num_rows == 1 else {}
    elif isinstance(batch, Mapping):
        count, row = _row_of_mapping(batch)
    else:
        raise InvalidArgumentError(
            f"batch must be a pyarrow table or a dict, got {type(batch).__name__}: take "
            "iter_batches(batch_format='pyarrow')"
        )
    if count != 1:
        raise InvalidArgumentError(
            f"batch holds {count} sampled batches, each is a row: take iter_batches(batch_size=1)"
        )
    missing = [n for n in (*_NUMBERS, "node", "row", "col", "edge", "index") if n not in row]
    if missing:
        raise InvalidArgumentError(
            f"batch has no column {missing[0]!r}: it is not of create_sampling_dataset"
        )
    return {
        name: _in_shape(value, row.get(_SHAPE + name))
        for name, value in row.items()
        if not name.startswith(_SHAPE)
    }


def _row_of_table(table: Any) -> Row:
    row: Row = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        # One row is one chunk, which combine_chunks() would copy; empty ones may lie beside it.
        values = next(chunk for chunk in column.chunks if len(chunk))
        if name in _NUMBERS or not hasattr(values, "flatten"):  # no list
            row[name] = values[0].as_py()
        else:
            row[name] = values.flatten().to_numpy(zero_copy_only=False)
    return row


def _row_of_mapping(batch: Mapping[str, Any]) -> tuple[int, Row]:
    number = batch.get("number", 0)
    if np.ndim(number) == 0:
        return 1, {k: int(v) if k in _NUMBERS else np.asarray(v) for k, v in batch.items()}
    count = len(number)
    if count != 1:
        return count, {}
    return 1, {k: int(v[0]) if k in _NUMBERS else np.asarray(v[0]) for k, v in batch.items()}


def _in_shape(value: Any, shape: Any) -> Any:
    if shape is None:
        return value
    return value.reshape(tuple(int(size) for size in shape))
