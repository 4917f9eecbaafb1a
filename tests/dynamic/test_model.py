"""A live graph of one type against plain Python: whatever happens, and what snapshots keep."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from support.live import Edge, Form, Model, check, insert, make_live, random_edges
from support.share import examples_of

from aethergraph import errors

FORMS = [
    Form(order, layout, timed, weighted, noted)
    for order in ("id", "time")
    for layout in ("csc", "csr", "both")
    for timed in (False, True)[: 1 + (order == "time")]
    for weighted, noted in ((False, False), (True, False), (False, True), (True, True))
]
MOST_NODES = 14
SEED = st.integers(0, 2**32)


class Failed(Exception):
    """Exception that makes a transaction fail."""


class LiveGraph(RuleBasedStateMachine):
    """Changes, alone and in transactions that fail or not; snapshots are held until the end."""

    @initialize(form=st.sampled_from(FORMS), nodes=st.integers(0, 8), rows=st.booleans())
    def create(self, form: Form, nodes: int, rows: bool) -> None:
        self.graph: Any = make_live(form, nodes, max_nodes=MOST_NODES)
        self.model = Model(form, nodes)
        self.held: list[tuple[Any, Model]] = []
        self.later: Model = self.model
        self.in_transaction = False
        if rows:
            self.model.rows = [[float(node), 0.5] for node in range(nodes)]
            self.graph.features = np.reshape(self.model.rows, (nodes, 2))

    # ---- changes -----------------------------------------------------------------------------

    def _edges(self, data: st.DataObject) -> list[Edge]:
        count = data.draw(st.sampled_from([0, 1, 2, 5, 40, 700]))
        if not self.later.num_nodes:
            return []
        return random_edges(self.later.num_nodes, count, data.draw(SEED))

    def _insert(self, data: st.DataObject) -> None:
        edges = self._edges(data)
        assert insert(self.graph, self.model.form, edges) == self.later.insert(edges)

    def _insert_one(self, data: st.DataObject) -> None:
        form = self.model.form
        for edge in self._edges(data)[:5]:
            columns: dict[str, Any] = {}
            if form.timed:
                columns["time"] = edge.time
            if form.weighted:
                columns["weight"] = edge.weight
            if form.noted:
                columns["edge_attrs"] = {"note": edge.note}
            (expected,) = self.later.insert([edge])
            assert self.graph.insert_edge(edge.src, edge.dst, **columns) == expected

    def _delete(self, data: st.DataObject) -> None:
        pairs = [(edge.src, edge.dst) for edge in self._edges(data)[:60]]
        src, dst = [u for u, _ in pairs], [v for _, v in pairs]
        if len(pairs) == 1 and data.draw(st.booleans()):
            assert self.graph.delete_edge(src[0], dst[0]) == self.later.delete(pairs)
            return
        assert self.graph.delete_edges(src, dst) == self.later.delete(pairs)

    def _delete_by_id(self, data: st.DataObject) -> None:
        known = sorted(self.later.edges)
        if not known:
            return
        ids = data.draw(st.lists(st.sampled_from(known), max_size=30))
        pairs = [(self.later.edges[i].src, self.later.edges[i].dst) for i in ids]
        if ids and data.draw(st.booleans()):  # an id of another pair is no edge of this one
            pairs[0] = pairs[0][::-1]
        src, dst = [u for u, _ in pairs], [v for _, v in pairs]
        assert self.graph.delete_edges(src, dst, ids) == self.later.delete(pairs, ids)

    def _add_nodes(self, data: st.DataObject) -> None:
        room = MOST_NODES - self.later.num_nodes
        count = data.draw(st.integers(0, min(3, room)))
        begin, attrs = self.later.num_nodes, {}
        if self.later.rows is not None:
            rows = np.random.default_rng(data.draw(SEED)).random((count, 2))
            attrs["x"] = rows
            self.later.rows += rows.tolist()
        ids = self.graph.add_nodes(count, **attrs)
        self.later.num_nodes += count
        assert ids.tolist() == list(range(begin, begin + count))

    def _update_nodes(self, data: st.DataObject) -> None:
        if self.later.rows is None:
            return
        nodes = st.integers(0, max(0, self.later.num_nodes - 1))
        ids = data.draw(st.lists(nodes, max_size=6 * (self.later.num_nodes > 0)))
        rows = np.random.default_rng(data.draw(SEED)).random((len(ids), 2))
        self.graph.update_nodes(np.array(ids, np.int64), x=rows)
        for node, row in zip(ids, rows.tolist(), strict=True):
            self.later.rows[node] = row

    def _change(self, data: st.DataObject) -> None:
        changes = [
            self._insert, self._insert_one, self._delete, self._delete_by_id, self._add_nodes,
            self._update_nodes,
        ]  # fmt: skip
        data.draw(st.sampled_from(changes))(data)

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        self._change(data)

    @rule(data=st.data(), count=st.integers(0, 5))
    def commit_a_transaction(self, data: st.DataObject, count: int) -> None:
        before = self.graph.commit
        self.later = self.model.copy()
        with self.graph.transaction():
            for _ in range(count):
                self._change(data)
                self._fail_alone()
            assert self.graph.commit == before  # nobody sees it yet
            assert self.graph.num_edges == len(self.model.edges)
            assert self.graph.num_nodes == self.model.num_nodes
        assert self.graph.commit <= before + 1
        self.model = self.later

    @rule(
        data=st.data(),
        count=st.integers(0, 5),
        how=st.sampled_from(["raise", "src", "one", "update", "limit"]),
    )
    def fail_a_transaction(self, data: st.DataObject, count: int, how: str) -> None:
        self.later = self.model.copy()
        with pytest.raises((Failed, errors.AetherError)), self.graph.transaction():
            for _ in range(count):
                self._change(data)
            self._fail(how)
        self.later = self.model
        check(self.graph, self.model)

    def _fail(self, how: str) -> None:
        form, nodes = self.model.form, self.later.num_nodes
        columns = form.columns([Edge(0, 0)])
        rows = {} if self.later.rows is None else {"x": np.zeros((1, 2))}
        if how == "raise":
            raise Failed
        if how == "src":
            self.graph.insert_edges([nodes], [0], **columns)
        if how == "one" and not columns:
            self.graph.insert_edge(nodes, 0)
        if how == "update":
            self.graph.update_nodes([nodes], **rows)
        if how == "limit":
            rows = {name: np.zeros((MOST_NODES + 1, 2)) for name in rows}
            self.graph.add_nodes(MOST_NODES + 1, **rows)
        raise Failed

    def _fail_alone(self) -> None:
        """Make a call that is refused: the transaction goes on without it."""
        columns = self.model.form.columns([Edge(0, 0)])
        with pytest.raises(errors.OutOfRangeError):
            self.graph.insert_edges([self.later.num_nodes], [0], **columns)

    # ---- snapshots ---------------------------------------------------------------------------

    @rule()
    def hold_a_snapshot(self) -> None:
        self.held.append((self.graph.snapshot(), self.model.copy()))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release_a_snapshot(self, data: st.DataObject) -> None:
        snapshot, model = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        check(snapshot, model)
        snapshot.close()

    @rule()
    def reclaim(self) -> None:
        self.graph.reclaim()
        assert self.graph.stats().num_edges == len(self.model.edges)

    @rule()
    def check_the_graph(self) -> None:
        check(self.graph, self.model)

    @rule()
    def change_in_another_thread(self) -> None:
        if self.model.num_nodes:
            edges = random_edges(self.model.num_nodes, 3, self.model.next_id)
            found: list[list[int]] = []
            other = threading.Thread(
                target=lambda: found.append(insert(self.graph, self.model.form, edges))
            )
            other.start()
            other.join()
            assert found == [self.model.insert(edges)]

    def teardown(self) -> None:
        if not hasattr(self, "graph"):
            return
        check(self.graph, self.model)
        for snapshot, model in self.held:
            assert snapshot.end_edge_ids == model.next_id
            check(snapshot, model)
        self.graph.close()
        for snapshot, model in self.held:
            check(snapshot, model)  # a snapshot keeps what it needs


TestLiveGraph = LiveGraph.TestCase
TestLiveGraph.settings = settings(
    max_examples=examples_of(150),
    stateful_step_count=20,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.generate],
)
