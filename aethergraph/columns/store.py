"""ColumnStore: the columns of a table in a file, gathered by row."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_ids
from aethergraph._checks.options import as_flag, shown
from aethergraph.columns.batch import ColumnBatch, TextRows
from aethergraph.columns.file import ColumnFile, write_columns
from aethergraph.columns.inputs import ColumnInput
from aethergraph.columns.layout import Column
from aethergraph.errors import ClosedError, CorruptFileError, InvalidArgumentError, StorageError
from aethergraph.features.parts import load_part
from aethergraph.storage.meta import check_fingerprint
from aethergraph.storage.opening import open_container

if TYPE_CHECKING:
    from aethergraph.features.feature_table import FeatureTable
    from aethergraph.storage.choice import Storage

__all__ = ["ColumnStore"]


class ColumnStore:
    """Columns of several dtypes, a row for each node: numbers, booleans, times, categories, texts.

    ::

        store = ColumnStore.load("shop.user.columns")     # or graph.columns["user"]
        batch = store.gather([3, 1, 3])
        batch["age"], batch["country"], batch["bio"]      # arrays; texts as offsets and bytes
        store.columns["country"].categories               # what the codes stand for
        store.columns["age"].statistics["mean"]

    All values of fixed width of a row lie side by side in the file. So one native gather, which
    reads one page for a row, brings all of them, whatever their dtypes are. Texts are a second
    gather, from their column, and only if they are asked for. A store is safe to share between
    threads and with forked children, and pickles by path.
    """

    def __init__(self, *_: Any, **__: Any) -> None:
        raise InvalidArgumentError("use ColumnStore.load(path), or .build(path, columns)")

    _file: ColumnFile | None
    _rows: FeatureTable
    _guard: native.FileGuard
    _how: tuple[Storage, int | str | None]
    #: Absolute path of the file.
    path: str
    #: Columns by name, with their statistics and categories.
    columns: Mapping[str, Column]

    @classmethod
    def load(
        cls,
        path: native.Path,
        storage: Storage = "mmap",
        *,
        memory_budget: int | str | None = None,
    ) -> ColumnStore:
        """Open a file of columns.

        Args:
            path: the file.
            storage: where the values of fixed width are, as in :meth:`FeatureTable.load`: with
                ``"uring"`` and a budget they are read past the page cache. Texts are always mapped.
            memory_budget: bytes, or a text such as ``"1G"``.

        Raises:
            MissingFileError, StorageError: the file cannot be opened.
            FormatError, TruncatedFileError, CorruptFileError, VersionError: its content is wrong.
        """
        self = cls.__new__(cls)
        self._file = file = ColumnFile(open_container(path))
        self.path = file.path
        self._how = storage, memory_budget
        self._guard = file.file.guard()
        self._rows = load_part(path, 0, storage, memory_budget)
        check_fingerprint(self.path, file.table.fingerprint(), str(self._rows.fingerprint))
        self.columns = MappingProxyType({column.name: column for column in file.columns})
        return self

    @classmethod
    def build(
        cls,
        path: native.Path,
        columns: Mapping[str, Any],
        *,
        kinds: Mapping[str, str] | None = None,
        force: bool = False,
    ) -> ColumnStore:
        """Write columns in memory to a file, and open it.

        Args:
            path: the file to write.
            columns: by name a vector [N] of numbers, booleans or datetime64 (NaN, NaT and what a
                masked array masks are null), or a list of texts and None.
            kinds: ``"category"`` for columns of texts that are categories. Their codes are in the
                order in which they first appear.
            force: overwrite the file.

        Raises:
            InvalidArgumentError: a column is none of these; names it.
            StorageError: the file exists (unless ``force``), or cannot be written.
        """
        name, _ = native.encode_path(path)
        if os.path.lexists(name) and not as_flag(force, "force"):
            raise StorageError(17, f"{name}: exists already; force=True overwrites it", name)
        inputs = ColumnInput(columns, kinds)
        write_columns(path, inputs.columns, inputs.rows, inputs.texts, inputs.categories)
        return cls.load(path)

    # ---- what it holds ---------------------------------------------------------------------

    def _open(self) -> ColumnFile:
        if self._file is None:
            raise ClosedError(f"{self.path}: the columns were closed")
        return self._file

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._open().num_rows

    def __len__(self) -> int:
        return self.num_rows

    def gather(self, ids: ArrayLike, columns: Sequence[str] | None = None) -> ColumnBatch:
        """Return the columns of some rows.

        Args:
            ids: integers [n]; any order, also several times.
            columns: names of the columns to return; default: all.

        Raises:
            OutOfRangeError: an id is not a row; names it and its position.
            InvalidArgumentError: there is no such column.
        """
        file, rows = self._open(), as_ids(ids, "ids")
        chosen = self._chosen(columns)
        packed = self._rows.gather(rows)
        values: dict[str, Any] = {}
        nulls: dict[str, NDArray[np.bool_]] = {}
        for column in chosen:
            null = None
            if column.statistics.get("nulls") != 0:
                null = nulls[column.name] = file.layout.nulls(packed, column.name)
            if column.kind == "text":
                values[column.name] = self._texts(file, column.name, rows, null)
                continue
            column_values = file.layout.values(packed, column.name)
            if column.kind == "category" and len(column_values):
                self._check_codes(column, column_values)
            values[column.name] = (
                column_values
                if column.unit is None
                else column_values.view(f"datetime64[{column.unit}]")
            )
        return ColumnBatch({column.name: column for column in chosen}, values, nulls, len(rows))

    def _check_codes(self, column: Column, codes: NDArray[Any]) -> None:
        if codes.min() < -1 or codes.max() >= len(column.categories):
            raise CorruptFileError(
                f"{self.path}: {column.name!r} has a code beyond its {len(column.categories)} "
                "categories"
            )

    def _texts(
        self, file: ColumnFile, name: str, rows: NDArray[np.int64], null: Any
    ) -> TextRows:  # fmt: skip
        texts = file.texts[name].take(rows.astype(np.uint64), self._guard)
        assert texts.offsets is not None
        return TextRows(texts.offsets.view(np.int64), texts.data, null)

    def _chosen(self, names: Sequence[str] | None) -> list[Column]:
        if names is None:
            return list(self.columns.values())
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise InvalidArgumentError(f"columns is a list of names, got {shown(names)}")
        for name in names:
            if not isinstance(name, str) or name not in self.columns:
                raise InvalidArgumentError(
                    f"{self.path}: there is no column {shown(name)}; there are: "
                    f"{', '.join(self.columns)}"
                )
        return [self.columns[name] for name in dict.fromkeys(names)]

    def tensor_frame(
        self,
        ids: ArrayLike,
        encoders: Mapping[str, Callable[[list[str]], Any]] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Any:
        """Return some rows as a ``TensorFrame``; see :meth:`ColumnBatch.tensor_frame`.

        Texts that have no encoder are not read.
        """
        kept = self._chosen(columns)
        named = [
            column.name
            for column in kept
            if column.kind != "text" or column.name in (encoders or {})
        ]
        return self.gather(ids, named).tensor_frame(encoders)

    def frame_statistics(
        self, dimensions: Mapping[str, int] | None = None
    ) -> dict[str, dict[Any, Any]]:
        """Return ``col_stats`` for PyTorch Frame's encoders, by column, from the file.

        Categories are in the order of the codes of :meth:`tensor_frame`, the most frequent first.

        Args:
            dimensions: by column of texts the dimension of what its encoder returns
                (``StatType.EMB_DIM``); other columns of texts are left out.

        Raises:
            InvalidArgumentError: a dimension is not positive, or is not of a column of texts.
            UnsupportedError: PyTorch Frame is not installed.
        """
        from aethergraph.columns.frame import make_statistics

        sizes = {name: as_count(dimension, name) for name, dimension in (dimensions or {}).items()}
        for column in self._chosen(list(sizes)) if sizes else []:
            if column.kind != "text" or not sizes[column.name]:
                raise InvalidArgumentError(
                    f"dimensions are those of texts, positive, got {sizes[column.name]} for "
                    f"{column.name!r}, a column of kind {column.kind!r}"
                )
        return make_statistics(self.columns.values(), sizes)

    # ---- the file --------------------------------------------------------------------------

    def verify(self, progress: native.Progress | None = None) -> None:
        """Read the whole file and compare all checksums.

        Raises:
            CorruptFileError: a section is damaged.
        """
        file = self._open().file
        native.run_long(file.verify, progress, file.size)
        file.check()

    def close(self) -> None:
        """Let go of the file; what was gathered stays."""
        if self._file is not None:
            self._rows.close()
            self._file = None

    def __enter__(self) -> ColumnStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path, *self._how, self._open().table.fingerprint())

    def __repr__(self) -> str:
        state = "closed" if self._file is None else f"{self.num_rows:,} rows"
        return f"ColumnStore({self.path!r}, {state} of {', '.join(self.columns)})"


def _reopen(path: str, storage: Any, budget: Any, fingerprint: str) -> ColumnStore:
    store = ColumnStore.load(path, storage, memory_budget=budget)
    check_fingerprint(path, fingerprint, store._open().table.fingerprint())
    return store
