"""Marks: numbers that files, topics and the edges of a stream are known by, beside its offsets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aethergraph.dynamic.watermarks import marks_of
from aethergraph.streaming.records import Source
from aethergraph.streaming.schema import Schema

if TYPE_CHECKING:
    from aethergraph.streaming.changes import Target

__all__ = ["EDGES", "OtherStreams", "edges_of", "number_of"]

#: Partition under which the number of the edges is.
EDGES = -1


def number_of(content: bytes) -> int:
    """Return a number of 63 bits that stands for some bytes."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") >> 1


def edges_of(source: Source, target: Target) -> int | None:
    """Return a number of the edges that a source makes of a record.

    Another type, and other ends, are other edges: a record may bring several. None: no record can
    make one twice, as it brings a row, or as the graph has each edge once; or that is not known.
    """
    schema = getattr(source, "schema", None)
    if not isinstance(schema, Schema) or schema.node is not None:
        return None
    kinds = target.edge_types(schema.edge_type, schema.roles)
    if all(target.form(kind).order == "id" for kind in kinds):
        return None
    return number_of(repr((schema.relation, kinds, schema.src, schema.dst)).encode())


class OtherStreams:
    """Files and topics that other streams of a graph have made the same edges of.

    Args:
        offsets: all that the graph keeps.
        name: name of the stream that asks.
        edges: number of the edges that it makes; None: those of a stream are never the same.
    """

    def __init__(
        self, offsets: Mapping[tuple[str, int], int], name: str, edges: int | None
    ) -> None:
        #: Streams by partition, each with the number of its next record, and the mark there.
        self._streams: dict[int, list[tuple[str, int, int]]] = {}
        for (stream, partition), following in offsets.items():
            mark = offsets.get((marks_of(stream), partition))
            # Earlier versions did not note which edges a stream makes: they may be the same.
            is_same = offsets.get((marks_of(stream), EDGES), edges) == edges is not None
            if stream != name and mark is not None and is_same:
                self._streams.setdefault(partition, []).append((stream, following, mark))

    def find(self, source: Any, partition: int, first: int) -> tuple[str, int] | None:
        """Return the stream that has had records of a partition, and the number behind them."""
        for stream, following, mark in self._streams.get(partition, ()):
            if first < following and source.mark(partition, following) == mark:
                return stream, following
        return None
