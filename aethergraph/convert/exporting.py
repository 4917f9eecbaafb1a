"""export: rows of nodes as a table of Parquet, Arrow or Lance, with their keys.

::

    ids 0, 1, 2...  ──>  key    vector            a batch of Arrow at a time, each of which is a row
    rows 0, 1, 2...      'u17'  [0.5, 1.25, ...]  group of Parquet; the file appears at the end
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_flag, as_text, shown
from aethergraph.convert.arguments import as_file
from aethergraph.convert.lance_dataset import check_lance, write_lance
from aethergraph.convert.outputs import check_outputs
from aethergraph.convert.readers.base import PathLike, require_pyarrow
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.features.adapters import as_row_source
from aethergraph.protocols import FeatureSource

if TYPE_CHECKING:
    from aethergraph.dynamic.keys import NodeIds
    from aethergraph.ids import IdMap

__all__ = ["export"]

#: Bytes of the vectors of a batch, about, and rows of it at most.
_BATCH_BYTES, _MOST_ROWS = 32 << 20, 1 << 17
_FORMATS = {".parquet": "parquet", ".arrow": "ipc", ".feather": "ipc", ".lance": "lance"}


def export(
    rows: FeatureSource | ArrayLike,
    output: PathLike,
    *,
    ids: IdMap | NodeIds | None = None,
    key: str | None = None,
    column: str = "vector",
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write rows of nodes, such as vectors, into a table for other programs, with the nodes' keys.

    ::

        table = embed(model, graph, "vectors.npy")
        export(table, "vectors.parquet", ids=graph.ids)      # columns "key" and "vector"

    A row is a list of fixed size; rows of one number, of shape ``(n,)``, are numbers. bfloat16 is
    written as float32. Memory holds a batch of rows at a time, about 32 MB.

    Args:
        rows: the rows, in the order of the ids.
        output: the file to write: ``.parquet``, or ``.arrow`` or ``.feather`` for Arrow's own
            format; or ``.lance``, a dataset of Lance, a folder. It appears complete, or not at all.
        ids: keys of the nodes, as ``graph.ids`` or ``typed.ids["user"]`` has them; None: the ids
            themselves are written.
        key: name of the column of keys; None: ``"key"``, without ``ids`` ``"node"``. Keys of
            several columns have several, ``key_0``, ``key_1``... UUIDs are text.
        column: name of the column of rows.
        force: overwrite the output; a dataset of Lance gets a new version.
        progress: called with (rows done, all rows).

    Raises:
        InvalidArgumentError: a bad argument; as many keys as rows are needed.
        UnsupportedError: pyarrow or Lance is not installed, or too old for float16 in Parquet.
        DiskFullError, StorageError: the file exists, or cannot be written.
    """
    source = as_row_source(rows, "rows")
    path, force = as_file(output), as_flag(force, "force")
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _FORMATS:
        raise InvalidArgumentError(
            f"output = {path!r} ends neither in .parquet nor in .arrow, .feather or .lance"
        )
    if 0 in source.row_shape:
        raise InvalidArgumentError(f"rows has rows of shape {source.row_shape}, without a number")
    count = source.num_rows
    if ids is not None and not hasattr(ids, "keys"):
        raise InvalidArgumentError(f"ids = {shown(ids)} is no map of ids, such as graph.ids")
    if ids is not None and len(ids) != count:
        raise InvalidArgumentError(f"rows has {count:,} rows, but ids has {len(ids):,} keys")
    names = _key_names(as_text(key, "key"), ids)
    if column in names:
        raise InvalidArgumentError(f"column = {column!r} is the name of the keys, too")
    require_pyarrow("Parquet and Arrow files need", "")
    form, inputs = _FORMATS[suffix], [name for name in (source.path,) if name]
    if form == "lance":
        check_lance(path, inputs, force)
    else:
        check_outputs([path], inputs, force)
    import pyarrow as pa

    dtype = source.dtype_name.replace("bfloat16", "float32")
    types = [*_key_types(ids), _type_of(dtype, source.row_shape)]
    schema = pa.schema([
        pa.field(name, kind, nullable=False)
        for name, kind in zip([*names, column], types, strict=True)
    ])  # fmt: skip
    row_bytes = np.dtype(dtype).itemsize * int(np.prod(source.row_shape, dtype=np.int64))
    step = min(_MOST_ROWS, max(1, _BATCH_BYTES // row_bytes))

    def batches() -> Iterator[pa.RecordBatch]:
        for begin in range(0, count, step):
            nodes = np.arange(begin, min(begin + step, count))
            vectors = _vectors(source.gather(nodes, dtype=dtype), types[-1])
            yield pa.RecordBatch.from_arrays([*_key_columns(nodes, ids), vectors], schema=schema)
            if progress is not None:
                progress(begin + len(nodes), count)

    if form == "lance":
        write_lance(path, schema, batches())
        return
    with (
        native.NativeReplacement(path) as file,
        _open_writer(form, file, schema, names) as writer,
    ):
        for batch in batches():
            writer.write_batch(batch)


def _type_of(dtype: str, row_shape: tuple[int, ...]) -> Any:
    """Return Arrow's type of a row: lists within each other, each of a fixed size."""
    import pyarrow as pa

    kind = pa.from_numpy_dtype(np.dtype(dtype))
    for length in reversed(row_shape):
        kind = pa.list_(pa.field("item", kind, nullable=False), length)
    return kind


def _vectors(rows: NDArray[Any], kind: Any) -> Any:
    """Return rows as an array of such a type."""
    import pyarrow as pa

    kinds = [kind]
    while pa.types.is_fixed_size_list(kinds[-1]):
        kinds.append(kinds[-1].value_type)
    values = pa.array(rows.reshape(-1), kinds.pop())
    for outer in reversed(kinds):
        values = pa.FixedSizeListArray.from_arrays(values, type=outer)
    return values


# ---- keys ----------------------------------------------------------------------------------------


def _key_names(key: str | None, ids: Any) -> list[str]:
    if ids is None:
        return [key or "node"]
    name, count = key or "key", len(ids.columns.types)
    return [name] if count == 1 else [f"{name}_{number}" for number in range(count)]


def _key_types(ids: Any) -> list[Any]:
    import pyarrow as pa

    types = {"int64": pa.int64(), "uint64": pa.uint64(), "bytes": pa.binary()}
    kinds = ("int64",) if ids is None else ids.columns.types
    return [types.get(kind, pa.string()) for kind in kinds]


def _key_columns(nodes: Any, ids: Any) -> list[Any]:
    """Return the keys of nodes as arrays of Arrow."""
    import pyarrow as pa

    if ids is None:
        return [pa.array(nodes)]
    keys, kinds = ids.keys(nodes), ids.columns.types
    columns = [keys] if len(kinds) == 1 else keys
    return [
        pa.array(map(str, values) if kind == "uuid" else values, type)
        for values, kind, type in zip(columns, kinds, _key_types(ids), strict=True)
    ]


# ---- the file ------------------------------------------------------------------------------------


class _Sink(io.RawIOBase):
    """File beside the output, for pyarrow to write to."""

    def __init__(self, file: native.NativeReplacement) -> None:
        self._file, self._size = file, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        view = np.frombuffer(data, np.uint8)
        self._file.append(view)
        self._size += len(view)
        return len(view)


def _open_writer(form: str, file: native.NativeReplacement, schema: Any, keys: list[str]) -> Any:
    """Return a writer of batches, which is a context manager."""
    import pyarrow as pa

    if form == "ipc":
        return pa.ipc.new_file(_Sink(file), schema)
    import pyarrow.parquet as pq

    try:
        # Neither bounds of vectors nor tables of values that differ are of use to a reader.
        return pq.ParquetWriter(_Sink(file), schema, use_dictionary=False, write_statistics=keys)
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(
            f"pyarrow {pa.__version__} cannot write these rows to Parquet ({error}): give rows of "
            "float32, or a name that ends in .arrow"
        ) from None
