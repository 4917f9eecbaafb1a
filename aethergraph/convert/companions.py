"""Feature and label tables that are converted beside a graph."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast, get_args

import numpy as np

from aethergraph import _native as native
from aethergraph._checks.exact import describe_change, narrowest_float
from aethergraph._checks.options import as_text
from aethergraph.convert.arguments import as_column, as_optional_file
from aethergraph.convert.external.sort_rows import Room
from aethergraph.convert.inputs import is_url
from aethergraph.convert.outputs import NpyWriter
from aethergraph.convert.readers.base import (
    ColumnSelector,
    InputError,
    InputWatch,
    PathLike,
    ProgressFn,
)
from aethergraph.convert.readers.nodes import (
    FeatureColumns,
    is_array_file,
    read_labels,
    write_labels,
    write_row_major,
    write_rows,
)
from aethergraph.convert.readers.npy import read_npy_form
from aethergraph.errors import AetherError, InvalidArgumentError, UnsupportedError
from aethergraph.features.bfloat16 import first_lost
from aethergraph.features.feature_table import FeatureTable
from aethergraph.features.files import save_rows

__all__ = ["CompanionFiles", "Companions"]


Half = Literal["bfloat16", "float16"]
_PIECE_ITEMS = 1 << 19


class Outcome(Protocol):
    """Receiver of the names and shapes of the files that were written."""

    features: str | None
    feature_shape: tuple[int, ...]
    labels: str | None


@dataclass(frozen=True)
class CompanionFiles:
    """Tables to convert beside a graph, and their outputs; see :func:`convert`.

    Raises:
        InvalidArgumentError: an output of a table that is not given.
        UnsupportedError: a table is given by URL.
    """

    features: PathLike | None
    features_out: PathLike | None
    dtype: str | None
    labels: PathLike | None
    labels_out: PathLike | None
    id_column: ColumnSelector | None
    feature_columns: Sequence[ColumnSelector] | None = None

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)  # the class is frozen
        for name in ("features", "features_out", "labels", "labels_out"):
            put(name, as_optional_file(getattr(self, name)))
        dtype = as_text(self.dtype, "dtype")
        if dtype is not None:
            put("dtype", native.DTYPE_NAMES[native.dtype_code(dtype)])
        put("id_column", as_column(self.id_column, "id_column"))
        for path in self.inputs:
            if is_url(path):
                raise UnsupportedError(f"{path}: only edges may be given by URL")
        if self.features is None and (self.features_out is not None or self.dtype is not None):
            raise InvalidArgumentError(
                "an output or a dtype of features was given, but no features"
            )
        if self.feature_columns is not None:
            if self.features is None:
                raise InvalidArgumentError("columns of features were chosen, but no features given")
            if is_array_file(self.features):
                raise InvalidArgumentError(
                    f"{os.fspath(self.features)}: columns can be chosen of text and Parquet files, "
                    "not of an array"
                )
        if self.labels is None and self.labels_out is not None:
            raise InvalidArgumentError("an output of labels was given, but no labels")

    @property
    def inputs(self) -> list[str]:
        """Paths of the tables that are given."""
        return [os.fspath(path) for path in (self.features, self.labels) if path is not None]

    def outputs(self, graph: str) -> tuple[str | None, str | None]:
        """Return the paths to write features (None: used as they are) and labels to."""
        base = Path(graph).with_suffix("")
        features = None if self.features_out is None else os.fspath(self.features_out)
        if self.features is not None and features is None:
            usable = self.dtype is None and is_array_file(self.features)
            name = f"{base}.features.{'bin' if self.dtype == 'bfloat16' else 'npy'}"
            features = None if usable else name
        labels = None
        if self.labels is not None:
            labels = f"{base}.labels.npy" if self.labels_out is None else os.fspath(self.labels_out)
        return features, labels

    def open(
        self,
        graph: str,
        stack: ExitStack,
        show: Callable[[str, str], ProgressFn],
        room: Room | None = None,
    ) -> Companions:
        """Open the tables and start their conversion; see :class:`Companions`."""
        narrow = self.dtype != "float64"
        half = cast("Half", self.dtype) if self.dtype in get_args(Half) else None
        columns = FeatureColumns(
            self.id_column, self.feature_columns, "float32" if narrow else "float64", half
        )
        opened = Companions(stack, columns, show, room)
        features, labels = self.outputs(graph)
        if self.features is not None:
            opened.open_features(self.features, features, self.dtype)
        if self.labels is not None:
            opened.open_labels(self.labels, labels)
        return opened


class Companions:
    """Features and labels in conversion: opened early, put in place only when all is well.

    Args:
        stack: closes the files and discards unfinished outputs.
        columns: columns to read.
        show: called with name and unit of a stage; returns the stage's progress function.
        room: memory and folder for sorting tables on disk; None: in memory.

    Attributes:
        notes: remarks for the user: the columns that were taken, values that were rounded.
    """

    def __init__(
        self,
        stack: ExitStack,
        columns: FeatureColumns,
        show: Callable[[str, str], ProgressFn],
        room: Room | None = None,
    ) -> None:
        self.notes: list[str] = []
        self._columns = columns
        self._room = room
        self._stack = stack
        self._id_column = columns.id_column
        self._show = show
        self._rows: dict[str, tuple[str, int]] = {}
        self._store: FeatureTable | None = None
        self._writer: NpyWriter | None = None
        self._features_name: str | None = None
        self._features_path = ""
        self._dtype: str | None = None
        self._labels: NpyWriter | None = None
        self._labels_name = ""

    def open_features(self, path: PathLike, name: str | None, dtype: str | None) -> None:
        """Open a table of features; convert it to ``name`` (None: used as it is) as ``dtype``."""
        self._features_path = os.fspath(path)
        self._features_name = name
        self._dtype = dtype
        watch = InputWatch(path)
        if not is_array_file(path):
            assert name is not None
            self._writer = self._stack.enter_context(
                write_rows(
                    path,
                    name,
                    self._columns,
                    progress=self._show("Reading features", "B"),
                    remark=self.notes.append,
                    room=self._room,
                )
            )
            path = self._writer.temporary
        elif self._room is not None and name is not None and _column_major(path):
            turned = self._stack.enter_context(write_row_major(path, name))
            path = turned.temporary
        watch.check()
        # Rows are copied one after the other, so an output may come from any layout; without one
        # the file itself must be mappable.
        storage: Literal["mmap", "memory"] = "memory" if _column_major(path) and name else "mmap"
        self._store = self._stack.enter_context(FeatureTable.load(path, storage=storage))
        self._rows["features"] = (self._features_path, self._store.num_rows)
        if dtype is not None and self._writer is None:
            _check_narrowing(self._features_path, self._store, dtype)

    def open_labels(self, path: PathLike, name: str | None) -> None:
        """Read a table of labels, to be written to ``name``."""
        assert name is not None
        watch = InputWatch(path)
        progress = self._show("Reading labels", "B")
        if self._room is None:
            labels = read_labels(path, id_column=self._id_column, progress=progress)
            writer = NpyWriter(name, np.int64, ())
            self._stack.enter_context(writer).append(labels)
        else:
            writer = write_labels(
                path, name, self._room, id_column=self._id_column, progress=progress
            )
            self._stack.enter_context(writer)
        watch.check()
        self._labels = writer
        self._labels_name = name
        self._rows["labels"] = (os.fspath(path), writer.rows)

    def check_rows(self, from_edges: int, num_nodes: int | None) -> int:
        """Return the number of nodes, and check that all tables have so many rows.

        Raises:
            InputError: a table with another number of rows.
        """
        nodes = num_nodes
        if nodes is None:
            nodes = max([from_edges, *(rows for _, rows in self._rows.values())])
        for noun, (path, rows) in self._rows.items():
            if rows != nodes:
                why = "-n" if num_nodes is not None else "the ids and tables given"
                raise InputError(path, f"{rows:,} rows of {noun} for {nodes:,} nodes (by {why})")
        return nodes

    def finish(self, result: Outcome, files: native.FileSet) -> None:
        """Write features and labels, which ``files`` puts in place; enter them into ``result``."""
        self._finish_features(result, files)
        if self._labels is not None:
            files.add(self._labels).finish()
            result.labels = self._labels_name

    def _finish_features(self, result: Outcome, files: native.FileSet) -> None:
        if self._store is None:
            return
        result.feature_shape = self._store.shape
        if self._features_name is None:
            result.features = self._features_path
            return
        result.features = self._features_name
        as_it_is = self._dtype is None or self._dtype == self._store.dtype_name
        if self._writer is not None and as_it_is and self._features_name.endswith(".npy"):
            self._store.close()
            files.add(self._writer).finish()
            return
        progress = self._show("Writing features", "B")
        save_rows(self._features_name, self._store, self._dtype, progress, files)


def _check_narrowing(path: PathLike, store: FeatureTable, dtype: str) -> None:
    """Refuse numbers of an array that ``dtype`` would change by more than rounding fractions.

    Saving would refuse them as well, but only after the edges were converted. Text and Parquet
    files are checked while they are read.
    """
    code, to = native.dtype_code(store.dtype_name), native.dtype_code(dtype)
    step = max(1, _PIECE_ITEMS // max(1, math.prod(store.shape[1:])))
    for begin in range(0, store.num_rows, step):
        rows = store.gather(np.arange(begin, min(begin + step, store.num_rows)))
        lost = first_lost(rows, code, to)
        if lost is not None:
            problem = describe_change(lost[1], dtype, "the feature ")
            wide = narrowest_float(lost[1])
            way = "leave --dtype (dtype=) out to keep it"
            way = way if wide is None else f"--dtype {wide} (dtype=) keeps it"
            raise InputError(path, f"{problem}: {way}", line=begin + lost[0] + 1, unit="row")


def _column_major(path: PathLike) -> bool:
    try:
        form = read_npy_form(path)
    except (AetherError, OSError):
        return False
    return form.fortran_order and sum(extent > 1 for extent in form.shape) > 1
