"""Tables of any kind as streams of Arrow record batches, in the same order every time.

::

    files      Parquet, CSV, TSV, Arrow; patterns, folders, URLs      read anew in every pass
    frames     pandas, Polars, Arrow, a mapping of arrays             in memory already
    databases  DuckDB, SQLite                                         read once, into a Parquet file

A query may give its rows in another order the next time; a file does not.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.options import shown
from aethergraph.convert.arguments import as_file
from aethergraph.convert.inputs import expand_inputs, input_state, is_url, open_input
from aethergraph.convert.readers.base import (
    InputError,
    check_readable,
    read_beginning,
    reading_error,
    require_pyarrow,
)
from aethergraph.convert.typed.parts import (
    are_maybe_whole,
    are_one_type,
    are_whole,
    as_arrow,
    as_first,
)
from aethergraph.convert.typed.queries import duckdb_batches, sqlite_batches
from aethergraph.convert.typed.text_files import TextForm, open_text, without_compression
from aethergraph.errors import AetherError, InvalidArgumentError
from aethergraph.storage.scratch import storage_error

__all__ = [
    "Batch", "RowError", "Table", "failing_rows", "is_comparable", "is_table_name", "kind_of",
    "needs_spool", "open_table", "source_state", "spool", "table_files",
]  # fmt: skip

_ROWS = 1 << 16  # rows of a batch
_TABLE_NAMES = (".parquet", ".pq", ".csv", ".tsv", ".tab", ".arrow", ".feather", ".ipc")
_BLOCK = 1 << 20
_IN_MEMORY = ":memory:"  # DuckDB without a file


@dataclass(frozen=True)
class Batch:
    """Some rows of a table.

    Attributes:
        file: number of the file.
        path: its name, for messages.
        first_row: number of the first row in the file.
        number: number of the batch in the file.
        rows: the record batch.
        places: where each of the rows was, counted from ``first_row``; None: all rows are there.
    """

    file: int
    path: str
    first_row: int
    number: int
    rows: Any
    places: Any = None

    def only(self, kept: Any) -> Batch:
        """Return the batch of some of the rows, by mask."""
        import pyarrow as pa

        places = np.flatnonzero(kept) if self.places is None else self.places[kept]
        return replace(self, rows=self.rows.filter(pa.array(kept)), places=places)

    def bad(
        self,
        problem: str,
        rows: int | NDArray[np.bool_],
        column: str | None = None,
        fails: Callable[[int, int], bool] | None = None,
    ) -> RowError:
        """Return the error about rows of this batch, which names the first of them.

        Args:
            problem: the problem, of the first row.
            rows: the first row, or the mask of all rows that have the problem.
            column: the column, for the message.
            fails: returns whether some row of a range has the problem, if ``rows`` is the first.
        """
        row = int(rows) if isinstance(rows, (int, np.integer)) else int(rows.argmax())
        place = row if self.places is None else int(self.places[row])
        error = RowError(
            self.path, problem if column is None else f"column {column!r}: {problem}",
            line=self.first_row + place + 1, unit="row",
        )  # fmt: skip
        error.problem, error.of_column = problem, column

        def find_rows() -> NDArray[np.bool_]:
            if not isinstance(rows, (int, np.integer)):
                return rows
            mask = np.zeros(self.rows.num_rows, np.bool_)
            mask[row] = True
            return mask if fails is None else mask | failing_rows(self.rows.num_rows, fails)

        error.find_rows = find_rows
        return error


class RowError(InputError):
    """Error of some rows of a batch with a problem, which names the first of them.

    Attributes:
        problem: the problem, without its place.
        of_column: the column, or None.
        find_rows: returns the mask of all rows of the batch that have the problem; an error that
            comes from another process has none.
    """

    problem: str
    of_column: str | None
    find_rows: Callable[[], NDArray[np.bool_]]

    def __reduce__(self) -> tuple[Any, ...]:
        constructor, args, *_ = super().__reduce__()
        return constructor, args, {k: v for k, v in vars(self).items() if k != "find_rows"}


def failing_rows(count: int, fails: Callable[[int, int], bool]) -> NDArray[np.bool_]:
    """Return which of some rows fail, where a range fails if one of its rows does."""
    mask = np.zeros(count, np.bool_)
    ranges = [(0, count)]
    while ranges:
        begin, end = ranges.pop()
        if begin == end or not fails(begin, end):
            continue
        if end - begin == 1:
            mask[begin] = True
        else:
            middle = (begin + end) // 2
            ranges += [(begin, middle), (middle, end)]
    return mask


class Table:
    """Table in one or more files of the same columns, or in memory.

    Attributes:
        name: name for messages.
        files: names of the files; of a table in memory its name, of one in a database where it is.
        is_text: the values are text, to be converted by what they are used for.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[str],
        kinds: Sequence[str],
        data: Any,
        form: TextForm | None = None,
        paths: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.files = list(files)
        self._paths = self.files if paths is None else list(paths)
        self._form = form or TextForm()
        self._twice: set[str] = set()  # names that say nothing, as several columns have them
        self.is_text = "text" in kinds
        self._whole: dict[str, bool] = {}  # by column, whether all its floats are integers
        self._kinds = kinds
        self._data = data
        self._kept: Any = None  # by row of all files, whether it is there
        self._first_rows: list[int] = []
        if self.is_text and set(kinds) != {"text"}:
            raise InvalidArgumentError(
                f"{name}: text files and others cannot be one table: their types differ"
            )
        self.types = self._schema(0)

    def _schema(self, file: int) -> dict[str, Any]:
        """Return the types of the columns by name."""
        with _named_errors(self.files[file]):
            schema = self._open(file).schema
        self._twice |= {name for name, count in Counter(schema.names).items() if count > 1}
        return {field.name: field.type for field in schema}

    def is_null(self, column: str) -> bool:
        """Return whether a column is of Arrow's type null, which has no values, in every file."""
        import pyarrow.types as pat

        if not pat.is_null(self.types[column]):
            return False
        schemas = map(self._schema, range(1, len(self.files)))
        return all(column in schema and pat.is_null(schema[column]) for schema in schemas)

    @property
    def num_rows(self) -> int:
        """Number of rows, for progress; 0 if it is not known without reading."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._data is not None:
            return int(self._data.num_rows)
        if set(self._kinds) != {"parquet"} or any(map(is_url, self._paths)):
            return 0
        try:
            return sum(pq.read_metadata(path).num_rows for path in self._paths)
        except (OSError, pa.ArrowInvalid):  # reading will say what is wrong
            return 0

    def check_columns(self, columns: Sequence[str], role: str) -> None:
        """Check that the first file has some columns.

        Raises:
            InputError: it has not; the message lists those that exist.
        """
        _check_columns(self.files[0], self.types, columns, role)
        for name in columns:
            if name in self._twice:
                raise InputError(self.files[0], f"several columns are called {name!r} ({role})")

    def keep_only(self, kept: Any, file_rows: Sequence[int]) -> None:
        """Leave rows out of all batches from now on, as if the files did not have them.

        Args:
            kept: mask of all rows.
            file_rows: number of rows by file.
        """
        self._kept = kept
        self._first_rows = np.cumsum([0, *file_rows]).tolist()

    def batches(self, columns: Sequence[str], start: tuple[int, int] = (0, 0)) -> Iterator[Batch]:
        """Yield the rows of all files, from a file and a batch in it on.

        Raises:
            InputError: a file is damaged, lacks a column, or has another type in it.
        """
        for file in range(start[0], len(self.files)):
            path = self.files[file]
            row = left_out = 0
            with _named_errors(path):
                reader = self._open(file, columns)
                types = {field.name: field.type for field in reader.schema}
                _check_columns(path, types, columns, "schema")
                for name in columns:
                    self._check_type(path, name, types[name])
                changed = {name for name in columns if types[name] != self.types[name]}
                for number, rows in enumerate(reader):
                    batch = Batch(file, path, row, number, rows)
                    row += rows.num_rows
                    if self._kept is not None:
                        batch = self._kept_rows(batch, left_out)
                        left_out += rows.num_rows - batch.rows.num_rows
                    if (file, number) >= start and (batch.rows.num_rows or not rows.num_rows):
                        yield self._as_first(batch, changed) if changed else batch

    def _kept_rows(self, batch: Batch, left_out: int) -> Batch:
        """Return the rows of a batch that are kept, after so many of its file that are not."""
        first = self._first_rows[batch.file] + batch.first_row
        kept = np.asarray(self._kept[first : first + batch.rows.num_rows])
        some = batch.only(kept)
        # Rows are counted without those left out, and named by where they were.
        return replace(some, first_row=batch.first_row - left_out, places=some.places + left_out)

    def _check_type(self, path: str, column: str, kind: Any) -> None:
        """Refuse a type that holds other values than the first file's type does."""
        first = self.types[column]
        if are_one_type(kind, first):
            return
        advice = ""
        if are_maybe_whole(kind, first):
            if self._is_whole(column):
                return
            advice = ", and not all floats are integers below 2**53 or missing"
        raise InputError(
            path,
            f"column {column!r} is of type {kind}, but of type {first} in {self.files[0]}{advice}",
        )

    def _is_whole(self, column: str) -> bool:
        """Return whether all floats of a column are integers or missing, in every file."""
        import pyarrow.types as pat

        if column not in self._whole:
            self._whole[column] = True
            for file, path in enumerate(self.files):
                with _named_errors(path):
                    reader = self._open(file, [column])
                    kinds = {field.name: field.type for field in reader.schema}
                    if column in kinds and pat.is_float64(kinds[column]):
                        is_whole = all(are_whole(rows.column(column)) for rows in reader)
                        self._whole[column] &= is_whole
        return self._whole[column]

    def _as_first(self, batch: Batch, changed: set[str]) -> Batch:
        """Return a batch whose columns are held as in the first file."""
        import pyarrow as pa

        arrays = []
        for name, array in zip(batch.rows.schema.names, batch.rows.columns, strict=True):
            bad = partial(batch.bad, column=name)
            arrays.append(as_first(array, self.types[name], bad) if name in changed else array)
        return replace(batch, rows=pa.record_batch(arrays, names=batch.rows.schema.names))

    def _open(self, file: int, columns: Sequence[str] | None = None) -> _Reader:
        kind, path = self._kinds[file], self._paths[file]
        if kind == "memory":
            return _of_table(self._data, columns)
        if kind == "parquet":
            return _open_parquet(path, columns)
        if kind == "arrow":
            return _open_arrow(path, columns)
        schema, batches = open_text(path, self._form, columns)
        return _Reader(schema, _sliced(batches))


@dataclass
class _Reader:
    """Schema of a file, and its record batches of the columns asked for."""

    schema: Any
    batches: Iterator[Any]

    def __iter__(self) -> Iterator[Any]:
        return self.batches


def _check_columns(path: str, types: Mapping[str, Any], columns: Sequence[str], role: str) -> None:
    for name in columns:
        if name not in types:
            known = ", ".join(repr(column) for column in [*types][:20])
            more = ", ..." if len(types) > 20 else ""
            raise InputError(path, f"there is no column {name!r} ({role}); columns: {known}{more}")


class _named_errors:
    """Context that gives Arrow's errors the name of the file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: object) -> None:
        import pyarrow as pa

        if isinstance(error, AetherError):
            return
        if isinstance(error, UnicodeDecodeError):
            raise InputError(self._path, f"is not UTF-8: {error}") from None
        if isinstance(error, (pa.ArrowException, ValueError)) and not isinstance(
            error, AetherError
        ):
            if "\0" in str(error):
                raise InputError(self._path, "holds zero bytes, so it is not text") from None
            raise InputError(self._path, f"cannot be read: {error}") from None
        if isinstance(error, OSError):
            raise reading_error(self._path, error) from None


# ---- readers -----------------------------------------------------------------------------------


def _sliced(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        for begin in range(0, batch.num_rows, _ROWS):
            yield batch.slice(begin, _ROWS)


def _of_table(table: Any, columns: Sequence[str] | None) -> _Reader:
    chosen = table if columns is None else table.select(list(columns))
    return _Reader(table.schema, iter(chosen.to_batches(max_chunksize=_ROWS)))


def _open_parquet(path: str, columns: Sequence[str] | None) -> _Reader:
    import pyarrow.parquet as pq

    source = open_input(path) if is_url(path) else path
    file = pq.ParquetFile(
        source, buffer_size=_BLOCK, pre_buffer=False, page_checksum_verification=True
    )
    chosen = (
        [] if columns is None else [name for name in columns if name in file.schema_arrow.names]
    )
    return _Reader(file.schema_arrow, file.iter_batches(_ROWS, columns=chosen))


def _open_arrow(path: str, columns: Sequence[str] | None) -> _Reader:
    import pyarrow as pa

    source = pa.PythonFile(open_input(path)) if is_url(path) else pa.memory_map(path)
    if read_beginning(path) == b"ARROW1":
        file = pa.ipc.open_file(source)
        batches = (file.get_batch(number) for number in range(file.num_record_batches))
    else:
        file = pa.ipc.open_stream(source)
        batches = iter(file)
    names = file.schema.names
    chosen = [name for name in columns or () if name in names]

    def checked() -> Iterator[Any]:
        for batch in batches:
            some = batch.select(chosen)
            some.validate(full=True)  # the bytes of a file may be anything: offsets, UTF-8
            yield some

    return _Reader(file.schema, _sliced(checked()))


# ---- choosing a reader --------------------------------------------------------------------------


def open_table(source: Any, name: str, folder: str | None, spooled: str | None = None) -> Table:
    """Open a table; ``name`` is for messages, and ``folder`` is where relative paths begin.

    Args:
        source: as in :class:`aethergraph.convert.NodeTable`.
        name: name for messages.
        folder: folder that relative paths begin at; None: the working folder.
        spooled: Parquet file that :func:`spool` has made of a database.

    Raises:
        InputError, MissingFileError, StorageError: a file cannot be read.
        InvalidArgumentError: not a source.
    """
    require_pyarrow()
    if spooled is not None:
        return Table(name, [_place(source, name)], ["parquet"], None, None, [spooled])
    if isinstance(source, (str, os.PathLike)):
        files = table_files(as_file(source), folder)
        return Table(name, files, [kind_of(path) for path in files], None)
    return Table(name, [name], ["memory"], _frame(source, name))


def table_files(path: str, folder: str | None) -> list[str]:
    """Return the files of a path, pattern or folder, sorted by name."""
    if folder is not None and not is_url(path):
        path = os.path.join(folder, path)
    if not is_url(path) and os.path.isdir(path):
        files = sorted(
            os.path.join(base, name)
            for base, _, names in os.walk(path)
            for name in names
            if not name.startswith((".", "_")) and is_table_name(name)
        )
        if not files:
            raise InputError(path, f"holds no tables ({', '.join(_TABLE_NAMES)})")
        return files
    files = [os.fspath(file) for file in expand_inputs(path)]
    for file in files:
        check_readable(file)
    return files


def is_table_name(name: str) -> bool:
    """Return whether a file's name ends as a table's does, perhaps compressed."""
    return without_compression(name).suffix.lower() in _TABLE_NAMES


def kind_of(path: str) -> str:
    """Return "parquet", "arrow" or "text" for a file.

    Raises:
        InvalidArgumentError: it is a database.
    """
    magic = read_beginning(path)
    suffix = Path(path).suffix.lower()
    if magic[:4] == b"PAR1" or suffix in (".parquet", ".pq"):
        return "parquet"
    if magic == b"ARROW1" or suffix in (".arrow", ".feather", ".ipc"):
        return "arrow"
    if magic.startswith(b"SQLite") or suffix == ".duckdb":
        raise InvalidArgumentError(
            f'{path}: is a database: give {{duckdb = "{path}"}} or {{sqlite = "{path}"}}, with '
            "table or query"
        )
    return "text"


def _frame(source: Any, name: str) -> Any:
    """Return a data frame, or a mapping of names to arrays, as a table of Arrow."""
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    package = type(source).__module__.split(".")[0]
    try:
        if package == "polars":
            return (source.collect() if hasattr(source, "collect") else source).to_arrow()
        if package == "pandas":
            with suppress(OverflowError, pa.ArrowInvalid):  # an integer, which is named below
                return pa.Table.from_pandas(source, preserve_index=False)
        if package == "pandas" or isinstance(source, Mapping):
            return pa.table({key: _column(source[key], key, name) for key in source})
    except InputError:
        raise
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise InvalidArgumentError(f"{name}: Arrow cannot take this table: {error}") from None
    raise InvalidArgumentError(
        f"{name}: a table is a path, a data frame of pandas or Polars, a table of Arrow, a mapping "
        f"of names to arrays, or a database (duckdb or sqlite, with table or query), got "
        f"{shown(source)}"
    )


def _column(values: Any, column: Any, name: str) -> Any:
    import pyarrow as pa

    is_array = isinstance(values, pa.Array | pa.ChunkedArray)
    return values if is_array else as_arrow(values, None, name, column)


# ---- databases ----------------------------------------------------------------------------------


def needs_spool(source: Any) -> bool:
    """Return whether a source is a database, or a query over files."""
    if not isinstance(source, Mapping):
        return False
    return bool({"duckdb", "sqlite"} & source.keys()) or isinstance(source.get("query"), str)


def _database(source: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the kind of a database, and its path or connection; DuckDB needs none."""
    kind = "sqlite" if "sqlite" in source and "duckdb" not in source else "duckdb"
    return kind, source.get(kind, _IN_MEMORY)


def is_comparable(source: Any) -> bool:
    """Return whether a later call can tell that the source is still the same."""
    if needs_spool(source):
        _, database = _database(source)
        return isinstance(database, (str, os.PathLike)) and database != _IN_MEMORY
    return source is None or isinstance(source, (str, os.PathLike))


def _place(source: Mapping[str, Any], name: str) -> str:
    """Return the name of a table or query in a database, for messages."""
    _, database = _database(source)
    is_file = isinstance(database, (str, os.PathLike)) and database != _IN_MEMORY
    of = f" of {os.fspath(database)}" if is_file else ""
    return f"{name} (query{of})" if "query" in source else f"{name} ({source['table']}{of})"


def _check_kind(path: str, kind: str) -> None:
    """Refuse a database of another kind, before its library does something about it."""
    with open(path, "rb") as file:
        head = file.read(16)
    file_kind = None
    if head.startswith(b"SQLite format 3"):
        file_kind = "sqlite"
    elif head[8:12] == b"DUCK":
        file_kind = "duckdb"
    if file_kind not in (None, kind):
        raise InvalidArgumentError(
            f'{path}: is a database of another kind: give {{{file_kind} = "{path}"}}'
        )


def _check_database(source: Mapping[str, Any]) -> None:
    kind, database = _database(source)
    unknown = sorted(set(source) - {kind, "table", "query"})
    if unknown or ("table" in source) == ("query" in source):
        raise InvalidArgumentError(
            f"a database is given as {kind}, and table or query, got: {', '.join(source)}"
        )
    if database == _IN_MEMORY and "query" not in source:
        raise InvalidArgumentError("DuckDB without a file has no tables: give a query over files")
    if not isinstance(database, (str, os.PathLike)) and not hasattr(database, "execute"):
        raise InvalidArgumentError(
            f"{kind} is the path of a database, or a connection, got {shown(database)}"
        )


def source_state(source: Any, folder: str | None) -> list[dict[str, Any]]:
    """Return what tells the files of a source from changed ones."""
    if needs_spool(source):
        _check_database(source)
        _, path = _database(source)
        if not isinstance(path, (str, os.PathLike)) or path == _IN_MEMORY:
            return []
        path = os.path.join(folder or "", os.fspath(path))
        check_readable(path)
        return [_database_state(path)]
    if isinstance(source, (str, os.PathLike)):
        return [input_state(path) for path in table_files(os.fspath(source), folder)]
    return []


def _database_state(path: str) -> dict[str, Any]:
    """Return the state of a database; commits may be in its log alone for a while."""
    database_state = input_state(path)
    for log in (f"{path}-wal", f"{path}.wal"):  # SQLite's, DuckDB's; an empty one is as none
        with suppress(FileNotFoundError):
            if (state := input_state(log))["size"]:
                database_state["log"] = [state["size"], state["time"]]
    return database_state


def spool(
    source: Mapping[str, Any],
    name: str,
    folder: str | None,
    path: str,
    needed: Collection[str] | None = (),
) -> None:
    """Read a table of a database, or a query, once into a Parquet file.

    Args:
        source: the database, and the table or query.
        name: name for messages.
        folder: folder that relative paths begin at; None: the working folder.
        path: the Parquet file to write.
        needed: columns that are read later; None: all. Of the others, those whose type Parquet does
            not have are left out.

    Raises:
        InputError: the database refuses, a column holds values of several types, or one that is
            needed a type that Parquet does not have.
        UnsupportedError: the library of the database is not installed.
        StorageError: the file cannot be written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    kind, database = _database(source)
    if isinstance(database, (str, os.PathLike)) and database != _IN_MEMORY:
        database = os.path.join(folder or "", os.fspath(database))
        check_readable(database)
        _check_kind(database, kind)
    query = source.get("query")
    if query is None:
        quoted = '"' + str(source["table"]).replace('"', '""') + '"'
        query = f"SELECT * FROM {quoted}"
    if kind == "duckdb":
        scratch = os.path.dirname(os.path.abspath(path))
        schema, batches = duckdb_batches(database, str(query), name, folder, scratch)
    else:
        schema, batches = sqlite_batches(database, str(query), name)
    odd = [number for number, field in enumerate(schema) if not _is_storable(field)]
    for field in (schema.field(number) for number in odd):
        if needed is None or field.name in needed:
            raise InputError(
                name,
                f"column {field.name!r} is of type {field.type}, which cannot be read from a "
                "database: cast it in a query",
            )
    kept = [number for number in range(len(schema)) if number not in odd]
    if odd and not kept:
        raise InputError(name, f"holds only columns of type {schema.field(0).type}")
    if odd:
        schema = pa.schema([schema.field(number) for number in kept])
        batches = (batch.select(kept) for batch in batches)
    try:
        with pq.ParquetWriter(path, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except OSError as error:
        raise storage_error(error, path) from None
    except (pa.ArrowException, sqlite3.Error, RuntimeError) as error:  # DuckDB's are RuntimeErrors
        raise InputError(name, f"the database failed: {error}") from None


def _is_storable(field: Any) -> bool:
    """Return whether Parquet has the type of a column, which it has not of intervals and unions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
    except pa.ArrowNotImplementedError:
        return False
    return True
