"""Rules about batches: what a source of rows holds is what loaders put into batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aethergraph.features.bfloat16 import bfloat16_to_float32, float32_to_bfloat16
from aethergraph.graph.graph import Graph
from aethergraph.loading import Ahead
from aethergraph.loading.loader import SubgraphLoader
from aethergraph.testing.rules import Contract, equal, given, require

__all__ = ["Attributed", "CoreLoadingRules", "LoadingRules"]

_NUM_NODES = 30
#: Shapes of one row: a vector, one number, a table.
_ROW_SHAPES = ((5,), (), (2, 3))


class Attributed(NamedTuple):
    """Graph with sources as node data ``"x"`` and edge data ``"e"``, and the rows of both."""

    graph: Graph
    node_rows: NDArray[Any]
    edge_rows: NDArray[Any]
    dtype: str


class LoadingRules(Contract):
    """Base of the rules about batches; subclasses have the loaders of one framework.

    Attributes:
        dtypes: names of the dtypes that can be stored.
    """

    dtypes: ClassVar[Collection[str]] = ("float32",)

    def make(self, rows: NDArray[Any], dtype: str) -> Any:
        """Make the source with these rows: shape ``(num_rows, ...)``, one of :attr:`dtypes`."""
        raise NotImplementedError("define make(self, rows, dtype)")

    def attributed(self) -> Iterator[Attributed]:
        """Yield graphs whose node data and edge data are sources, for each dtype and row shape."""
        at = np.arange(_NUM_NODES)
        src = np.concatenate([at, at, at])
        dst = np.concatenate([(at + step) % _NUM_NODES for step in (1, 2, 7)])
        for dtype in self.dtypes:
            for shape in _ROW_SHAPES:
                graph = Graph.from_edges(_NUM_NODES, src, dst)
                nodes = _rows((graph.num_nodes, *shape), dtype)
                edges = _rows((graph.num_edges, *shape), dtype)
                with given("a graph with sources as node data and edge data", dtype=dtype):
                    graph.node_attrs["x"] = self.make(nodes.copy(), dtype)
                    graph.edge_attrs["e"] = self.make(edges.copy(), dtype)
                yield Attributed(graph, nodes, edges, dtype)


def _rows(shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    """Return rows that differ from each other, small enough for every dtype."""
    values = (np.arange(np.prod(shape)) % 101).reshape(shape)
    if dtype == "bfloat16":
        return float32_to_bfloat16(values)
    return values.astype(dtype)


class CoreLoadingRules(LoadingRules):
    """Rules about the batches of :class:`aethergraph.SubgraphLoader`."""

    def test_a_subgraph_loader_gathers_its_rows(self) -> None:
        """Batches of SubgraphLoader hold the rows of their nodes and edges, with threads too."""
        for graph, nodes, edges, dtype in self.attributed():
            if dtype == "bfloat16":  # float32 in these batches
                nodes, edges = bfloat16_to_float32(nodes), bfloat16_to_float32(edges)
            for ahead in (0, Ahead(threads=2), Ahead(plan=2)):
                loader = SubgraphLoader(graph, [2, 2], batch_size=8, ahead=ahead)
                count = 0
                for batch in loader:
                    part = batch.subgraph
                    with given(f"a batch of {dtype} rows", node=part.node, edge=part.edge):
                        equal(batch.node_attrs["x"], nodes[part.node], 'node_attrs["x"]')
                        equal(batch.edge_attrs["e"], edges[part.edge], 'edge_attrs["e"]')
                    count += 1
                require(count == len(loader), f"{len(loader)} batches are due, found {count}")

    def test_a_graph_saves_its_rows(self) -> None:
        """``Graph.save`` writes the rows; the file has the same ones."""
        with TemporaryDirectory() as folder:
            for graph, nodes, edges, dtype in self.attributed():
                path = Path(folder) / "graph.aeg"
                graph.save(path)
                with given("the file of a graph", dtype=dtype):
                    saved = Graph.load(path)
                    require(saved.node_attrs["x"].dtype_name == dtype, "the file has another dtype")
                    equal(saved.node_attrs["x"].array, nodes, "the node data of the file")
                    equal(saved.edge_attrs["e"].array, edges, "the edge data of the file")
