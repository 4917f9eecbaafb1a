"""Tables as a server has them: rows, their range in this shard, and what is told of them."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aethergraph._checks.options import as_items, is_name, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.adapters import as_row_source
from aethergraph.protocols import RowSource
from aethergraph.remote import wire

__all__ = ["ServedRows", "check_shard", "row_bytes_of", "serve_rows", "shard_range"]


class ServedRows(NamedTuple):
    """Rows that a server answers for.

    Attributes:
        rows: the source of all rows.
        row_bytes: bytes of a row.
        begin: first row of the shard.
        end: row behind its last one, when the server was made; the last shard's may have grown.
        generation: identity of the content; another one after it has changed.
        shard: (k, n): it is the k-th of n ranges.
    """

    rows: RowSource
    row_bytes: int
    begin: int
    end: int
    generation: str
    shard: tuple[int, int]

    @property
    def num_rows(self) -> int:
        """Number of rows of all shards."""
        return self.rows.num_rows

    @property
    def is_whole(self) -> bool:
        """True unless other shards have rows of the table."""
        return self.shard[1] == 1

    @property
    def is_last(self) -> bool:
        """True unless other shards have the rows behind its own."""
        return self.shard[0] == self.shard[1] - 1

    def description(self, number: int, names: Iterable[str]) -> bytes:
        """Return what a client is told about the table, which has this number, one of ``names``."""
        shape = [int(size) for size in self.rows.shape]
        return json.dumps(
            {
                "table": number,
                "shape": shape,
                "dtype": self.rows.dtype_name,
                "generation": self.generation,
                "content": "" if self.rows.content is None else _short(self.rows.content),
                "live": self.rows.is_live,
                "begin": self.begin,
                "end": shape[0] if self.is_last else self.end,  # a live graph may have grown
                "shard": self.shard,
                "names": list(names),
            }
        ).encode()


def serve_rows(sources: Mapping[str, Any], shard: tuple[int, int]) -> dict[str, ServedRows]:
    """Return the tables of a server by name.

    Raises:
        InvalidArgumentError: a name is none, a source is none, or a row does not fit a frame.
    """
    tables = {}
    for name, source in as_items(sources, "sources", "sources of rows"):
        if not is_name(name) or len(name.encode()) > 1000:
            raise InvalidArgumentError(f"sources: {shown(name)} is no name of a table")
        rows = as_row_source(source, f"sources[{name!r}]")
        row_bytes = row_bytes_of(rows)
        if row_bytes > wire.MAX_BODY:
            raise InvalidArgumentError(
                f"sources[{name!r}] has rows of {row_bytes} bytes; {wire.MAX_BODY} are the most"
            )
        begin, end = shard_range(rows.num_rows, *shard)
        tables[name] = ServedRows(rows, row_bytes, begin, end, _generation(rows), shard)
    if not tables:
        raise InvalidArgumentError("sources is empty: give rows to serve")
    return tables


def row_bytes_of(rows: RowSource) -> int:
    """Return the bytes of a row."""
    return math.prod(rows.row_shape) * rows.array_dtype.itemsize


def check_shard(shard: Any) -> tuple[int, int]:
    """Return ``(k, n)`` if it is a shard.

    Raises:
        InvalidArgumentError: it is not.
    """
    try:
        k, n = (operator.index(part) for part in shard)
    except Exception:  # whatever an object of somebody else raises
        k, n = 0, 0
    if not 0 <= k < n:
        raise InvalidArgumentError(
            f"shard = {shown(shard)} is not (k, n) with 0 <= k < n: (0, 2) and (1, 2) are two"
        )
    return k, n


def shard_range(num_rows: int, k: int, n: int) -> tuple[int, int]:
    """Return the begin and the end of the k-th of n equal ranges of rows.

    Ranges, not the remainder of the id: a page of the file then is of one shard, so that the memory
    of n servers holds n times as much of it; and rows that a batch wants together, such as those
    of a reordered graph, are read together.
    """
    return num_rows * k // n, num_rows * (k + 1) // n


def _generation(rows: RowSource) -> str:
    """Return the identity of the rows: of their file, or of this server if they have none."""
    known = rows.identity
    if known is None:
        return secrets.token_hex(16)
    return _short(repr((known, rows.shape, rows.dtype_name)))


def _short(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:32]
