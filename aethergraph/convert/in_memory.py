"""Conversion in memory: :func:`aethergraph.convert.convert` without ``memory_budget``."""

from __future__ import annotations

from contextlib import ExitStack

from aethergraph import _native as native
from aethergraph.convert.edge_table import drop_duplicates, with_reverses
from aethergraph.convert.external.journal import left_behind
from aethergraph.convert.form import GraphForm
from aethergraph.convert.readers.edges import EdgeTable, read_planned
from aethergraph.convert.request import Request
from aethergraph.convert.result import Clock, ConvertResult, Stages
from aethergraph.graph.file import GraphWriter
from aethergraph.graph.graph import Graph

__all__ = ["convert_in_memory"]


def convert_in_memory(
    request: Request, *, force: bool, threads: int | None, show: Stages
) -> ConvertResult:
    """Read all inputs, sort the edges, and write the outputs."""
    request.check_all(force)
    form = request.form
    result = ConvertResult(request.output, layout=form.layout)
    clock = Clock(result.seconds)
    with ExitStack() as stack, native.FileSet() as files:
        table = read_planned(
            request.files,
            request.plan,
            **request.reading,
            threads=threads,
            progress=show("Reading edges", "B"),
        )
        clock.lap("read")
        result.read_edges = result.edges_read_now = table.num_edges
        if table.unused:
            result.notes.append(f"columns not used: {', '.join(table.unused)}")
        result.notes += table.notes
        companions = request.tables.open(request.output, stack, show)
        result.notes += companions.notes
        clock.lap("features")
        result.num_nodes = companions.check_rows(table.num_nodes, form.num_nodes)
        request.check_density(result.num_nodes, table.num_edges)
        graph = _build(table, form, result, show)
        del table
        clock.lap("build")
        companions.finish(result, files)
        writer = GraphWriter.of_one(graph._live(), form.compress)
        native.run_long(
            lambda task: writer.write(request.output, None, task, files),
            show("Writing graph", "B"),
            writer.size,
        )
        files.commit()
        clock.lap("write")
    folder = left_behind(request.output)
    if folder is not None:
        result.notes.append(
            f"{folder} was left by an interrupted build with --memory (memory_budget=); this "
            "graph does not need it: delete it"
        )
    return result


def _build(table: EdgeTable, form: GraphForm, result: ConvertResult, show: Stages) -> Graph:
    if form.undirected:
        table = with_reverses(table)
    if form.dedup:
        before = table.num_edges
        table = drop_duplicates(table, show("Finding duplicates", "B"))
        result.notes.append(f"{before - table.num_edges:,} duplicate edges dropped")
    result.num_edges = table.num_edges
    return Graph.from_edges(
        result.num_nodes,
        table.src,
        table.dst,
        edge_weight=table.weight,
        edge_time=table.time,
        edge_attrs=dict(table.attrs) or None,
        layout=form.layout,
        keep_order=form.keep_order,
        progress=show("Building lists", "B"),
    )
