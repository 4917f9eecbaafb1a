"""Children that are forked while threads of their parent are at work go on without these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes import in_fork
from support.threads import comes

from aethergraph import DynamicGraph, Graph
from aethergraph.remote import FeatureServer, SamplePlan, SampleService
from aethergraph.remote.commits import commits_of
from aethergraph.remote.rows import RemoteRows
from aethergraph.remote.samples.log import AnswerLog, read_answers
from aethergraph.remote.samples.request import make_request

pytestmark = pytest.mark.forks


def test_a_plan_of_rows() -> None:
    table = np.arange(20, dtype=np.float32).reshape(10, 2)
    with FeatureServer(table, port=0) as server, RemoteRows(server.address) as rows:
        plan = rows.plan([[3, 4], [5]])
        out = np.empty((2, 2), np.float32)

        def work() -> bool:
            return bool((plan.gather([3, 4], out) == table[[3, 4]]).all())

        with plan._lock:
            assert in_fork(work) is True
        assert work()


def test_a_log_of_samples(tmp_path: Path) -> None:
    service = SampleService(Graph.from_edges(4, [1], [2]), SamplePlan([2]))
    log = AnswerLog(tmp_path / "log", service.told())
    request = make_request(service.form, [2], None, 1)

    def work() -> bool:
        log.add(request, 0, service.answer(request))
        return True

    with log._lock:
        assert in_fork(work) is True
    work()
    log.close()
    assert len(list(read_answers(tmp_path / "log"))) == 2


def test_commits(tmp_path: Path) -> None:
    """A child gives up what it keeps itself: it has not the thread of its parent that would."""
    with DynamicGraph.open(tmp_path / "g.aegd", 10, 8, durability="none") as graph:
        graph.insert_edge(0, 1)
        commits: Any = commits_of(tmp_path / "g.aegd")
        assert commits.take().number == 1 and commits._kept._watcher is not None

        def work() -> bool:
            commits._seen = None  # looks for a writer
            found = commits.take().number == 1
            return found and comes(lambda: commits._kept._taken is None)

        with commits._lock, commits._kept._lock:
            assert in_fork(work) is True
        assert comes(lambda: commits._kept._taken is None and commits._kept._watcher is None)
