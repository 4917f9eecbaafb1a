"""Conversion of edges, features and labels from files to graph files.

:func:`read_edges` and :func:`iter_edges` parse edge lists; :func:`convert` does all of
``aethergraph convert``, :func:`convert_chunks` the same for edges that a program makes;
:func:`tables` builds a typed graph of tables with keys, which a :class:`Schema` describes, or
:func:`relbench_schema` for a database of RelBench, and :func:`check_tables` lists what is wrong
with them;
:func:`reorder` writes a graph file with its nodes in another order;
:func:`export` writes rows of nodes, such as vectors, with their keys into Parquet or Arrow files;
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
from aethergraph.convert.readers.edge_plan import AttrSpec
from aethergraph.convert.readers.edges import EdgeChunk, EdgeTable, iter_edges, read_edges
from aethergraph.convert.readers.nodes import read_labels
from aethergraph.convert.reordering import ReorderResult, reorder
from aethergraph.convert.result import ConvertResult
from aethergraph.convert.typed.api import check_tables, tables
from aethergraph.convert.typed.build import TablesResult
from aethergraph.convert.typed.guess import guess_schema
from aethergraph.convert.typed.problems import Problem, TablesReport
from aethergraph.convert.typed.relbench import relbench_schema
from aethergraph.convert.typed.schema import (
    ForeignKey,
    LinkTable,
    NodeTable,
    Schema,
    load_schema,
)

__all__ = [
    "convert",
    "ConvertResult",
    "tables",
    "load_schema",
    "guess_schema",
    "check_tables",
    "Schema",
    "NodeTable",
    "EdgeTable",
    "LinkTable",
    "ForeignKey",
    "AttrSpec",
    "EdgeChunk",
    "InputError",
    "Problem",
    "ReorderResult",
    "TablesReport",
    "TablesResult",
    "convert_chunks",
    "export",
    "iter_edges",
    "read_edges",
    "read_gd",
    "read_gl",
    "read_labels",
    "read_ogb",
    "relbench_schema",
    "reorder",
]
