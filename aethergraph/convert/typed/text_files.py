"""Files of delimited text as streams of Arrow record batches, in which every value is a string."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aethergraph.convert.inputs import is_url, open_input

__all__ = ["TextForm", "open_text", "without_compression"]

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_BLOCK = 1 << 20


@dataclass(frozen=True)
class TextForm:
    """Form of a file of text.

    Attributes:
        delimiter: character between fields; None: a tab in files called .tsv or .tab, else a comma.
        has_names: the first line holds the names of the columns; else these are their numbers
            from 0, as text.
    """

    delimiter: str | None = None
    has_names: bool = True


def open_text(
    path: str, form: TextForm, columns: Sequence[str] | None
) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a file, and its record batches; None for ``columns``: no batches.

    Empty fields are null, unless they are quoted.
    """
    import pyarrow as pa
    import pyarrow.csv as csv

    is_tabbed = without_compression(path).suffix.lower() in (".tsv", ".tab")
    delimiter = form.delimiter or ("\t" if is_tabbed else ",")
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    read: dict[str, Any] = {"block_size": _BLOCK, "use_threads": False}
    named: dict[str, Any] = {} if form.has_names else {"autogenerate_column_names": True}
    header = csv.open_csv(_stream(path), csv.ReadOptions(**read, **named), parse)
    names = header.schema.names
    header.close()
    if not form.has_names:
        names = [str(number) for number in range(len(names))]
        named = {"column_names": names}
    schema = pa.schema([(name, pa.string()) for name in names])
    if columns is None:
        return schema, iter(())
    chosen = [name for name in columns if name in names]
    convert = csv.ConvertOptions(
        column_types=dict.fromkeys(chosen, pa.string()), include_columns=chosen,
        strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False,
    )  # fmt: skip
    return schema, iter(
        csv.open_csv(_stream(path), csv.ReadOptions(**read, **named), parse, convert)
    )


def without_compression(path: str) -> Path:
    """Return the name that a compressed file has when it is not; other names as they are."""
    file = Path(path)
    return file.with_suffix("") if file.suffix.lower() in _CODECS else file


def _stream(path: str) -> Any:
    import pyarrow as pa

    if not is_url(path):
        return pa.input_stream(path, compression="detect")
    plain = pa.PythonFile(open_input(path))
    codec = _CODECS.get(Path(path).suffix.lower())
    return pa.CompressedInputStream(plain, codec) if codec else plain
