"""A live graph of several types against plain Python: one commit number, also in snapshots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from support.live import Edge, Form, Model, check, random_edges
from support.share import examples_of

from aethergraph import DynamicHeteroGraph

#: Edge types and their forms; all nodes are of one count, so that a model of one type serves.
FORMS = {
    ("a", "by id", "b"): Form("id", weighted=True),
    ("b", "in time", "a"): Form("time", "csc", timed=True, noted=True),
    ("a", "plain", "a"): Form("time", "csr"),
}
SEED = st.integers(0, 2**32)


class View:
    """One edge type, with the members that :func:`check` asks a graph for."""

    closed = False
    num_nodes: int
    features = None

    def __init__(self, graph: Any, kind: Any) -> None:
        self._view = graph[kind]
        self.num_nodes = self._view.num_src
        assert self._view.num_dst == self.num_nodes
        self.edge_attrs = self._view.attrs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)


class TypedLiveGraph(RuleBasedStateMachine):
    """Changes of several types in one transaction; snapshots are held until the end."""

    @initialize(nodes=st.integers(1, 6))
    def create(self, nodes: int) -> None:
        kinds = {kind: form.options for kind, form in FORMS.items()}
        self.graph = DynamicHeteroGraph({"a": nodes, "b": nodes}, kinds, 8, huge_pages=False)
        self.models = {kind: Model(form, nodes) for kind, form in FORMS.items()}
        self.rows = np.zeros((nodes, 2))
        self.graph["b"].attrs["x"] = self.rows.copy()
        self.held: list[Any] = []

    def _change(self, data: st.DataObject, models: dict[Any, Model], rows: list[Any]) -> None:
        kind = data.draw(st.sampled_from(sorted(FORMS)))
        model, view, form = models[kind], self.graph[kind], FORMS[kind]
        edges = random_edges(
            model.num_nodes, data.draw(st.sampled_from([1, 6, 200])), data.draw(SEED)
        )
        src, dst = [edge.src for edge in edges], [edge.dst for edge in edges]
        what = data.draw(st.sampled_from(["insert", "insert", "delete", "nodes", "rows"]))
        if what == "insert":
            assert view.insert(src, dst, **form.columns(edges)).tolist() == model.insert(edges)
        elif what == "delete":
            pairs = list(zip(src, dst, strict=True))
            assert view.delete(src, dst) == model.delete(pairs)
        elif what == "nodes":
            count = data.draw(st.integers(0, 2))
            new = np.full((count, 2), float(len(edges)))
            begin = model.num_nodes
            expected = list(range(begin, begin + count))
            assert self.graph["a"].add(count).tolist() == expected
            assert self.graph["b"].add(count, x=new).tolist() == expected
            rows += new.tolist()
            for one in models.values():
                one.num_nodes += count
        else:
            node = data.draw(st.integers(0, model.num_nodes - 1))
            rows[node] = [float(node), float(src[0])]
            self.graph["b"].update([node], x=[rows[node]])

    @rule(data=st.data(), count=st.integers(1, 4), fails=st.booleans())
    def change(self, data: st.DataObject, count: int, fails: bool) -> None:
        models = {kind: model.copy() for kind, model in self.models.items()}
        rows, before = self.rows.tolist(), self.graph.commit
        try:
            with self.graph.transaction():
                for _ in range(count):
                    self._change(data, models, rows)
                assert self.graph.commit == before
                if fails:
                    raise KeyError
        except KeyError:
            return
        assert self.graph.commit <= before + 1
        self.models, self.rows = models, np.array(rows).reshape(-1, 2)

    @rule()
    def hold_a_snapshot(self) -> None:
        models = {kind: model.copy() for kind, model in self.models.items()}
        self.held.append((self.graph.snapshot(), models, self.rows.copy()))

    @rule()
    def reclaim(self) -> None:
        self.graph.reclaim()

    def _check(self, graph: Any, models: dict[Any, Model], rows: Any) -> None:
        count = len(rows)
        assert graph.num_nodes == {"a": count, "b": count}
        assert graph.num_edges == {kind: len(model.edges) for kind, model in models.items()}
        for kind, model in models.items():
            check(View(graph, kind), model)
        assert graph["b"].attrs["x"].gather(range(count)).tolist() == rows.tolist()

    @rule()
    def check_the_graph(self) -> None:
        self._check(self.graph, self.models, self.rows)

    def teardown(self) -> None:
        if hasattr(self, "graph"):
            self._check(self.graph, self.models, self.rows)
            for snapshot, models, rows in self.held:
                assert {snapshot.commit} <= set(range(1, self.graph.commit + 1))
                self._check(snapshot, models, rows)


TestTypedLiveGraph = TypedLiveGraph.TestCase
TestTypedLiveGraph.settings = settings(
    max_examples=examples_of(60),
    stateful_step_count=15,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.generate],
)


def test_types_with_columns_of_their_own() -> None:
    kinds = {kind: form.options for kind, form in FORMS.items()}
    graph = DynamicHeteroGraph({"a": 3, "b": 3}, kinds, 1)
    with graph.transaction():
        for kind, form in FORMS.items():
            graph[kind].insert([0, 1], [1, 2], **form.columns([Edge(0, 1), Edge(1, 2)]))
    with pytest.raises(NotImplementedError, match="lists of one kind"):
        graph.to_graph()
    snapshot = graph.snapshot()
    assert (
        snapshot.commit == graph.commit and "commit" in repr(snapshot) and "Hetero" in repr(graph)
    )
    snapshot.close()
    with pytest.raises(ValueError, match="was closed"):
        snapshot["a", "plain", "a"].out_degrees()
