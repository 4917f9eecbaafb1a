"""Conversion of edges, features and labels from files to graph files.

:func:`convert` does all of ``aethergraph convert``, :func:`convert_chunks` the same for edges that
a program makes; :func:`read_edges` reads an edge list into memory; :func:`tables` builds a typed
graph of tables with keys, which a :class:`TableSchema` describes, or :func:`relbench_schema` for a
database of RelBench, and :func:`check_tables` lists what is wrong with them; :func:`reorder` writes
a graph file with its nodes in another order; :func:`export` writes rows of nodes, such as vectors,
with their keys into Parquet or Arrow files;
:func:`read_gl` and :func:`read_gd` open GraphZero's files, :func:`read_ogb` the folders of OGB's
node datasets.
"""

from __future__ import annotations

from aethergraph.convert.api import convert
from aethergraph.convert.exporting import export
from aethergraph.convert.external.driver import convert_chunks
from aethergraph.convert.formats.graphzero import read_gd, read_gl
from aethergraph.convert.formats.ogb import read_ogb
from aethergraph.convert.readers.base import InputError
from aethergraph.convert.readers.edges import read_edges
from aethergraph.convert.reordering.api import reorder
from aethergraph.convert.typed.api import check_tables, tables
from aethergraph.convert.typed.guess import guess_schema
from aethergraph.convert.typed.relbench import relbench_schema
from aethergraph.convert.typed.schema import (
    ForeignKey,
    LinkTable,
    NodeTable,
    TableSchema,
)

__all__ = [
    "convert",
    "tables",
    "guess_schema",
    "check_tables",
    "TableSchema",
    "NodeTable",
    "LinkTable",
    "ForeignKey",
    "InputError",
    "convert_chunks",
    "export",
    "read_edges",
    "read_gd",
    "read_gl",
    "read_ogb",
    "relbench_schema",
    "reorder",
]
