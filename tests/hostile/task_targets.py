"""Training tables, edges between keys, and the check of samples in time, for the attack."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from target import Target, methods, then

import aethergraph as ag
from aethergraph import convert
from aethergraph.tasks import LinkTask, TableTask, relbench_task
from aethergraph.testing import check_no_leak

__all__ = ["task_targets"]

_TABLE = {"who": ["a", "b", "c"], "other": ["b", "c", "a"], "at": [4, 5, 6], "label": [0, 1, 1]}


def _graph(folder: Path) -> ag.Graph:
    """Return a graph whose nodes have keys."""
    path = folder / "keyed.aeg"
    if not path.exists():
        (folder / "keyed.csv").write_text("src,dst,at\na,b,1\nb,c,2\nc,a,3\n")
        convert.convert(folder / "keyed.csv", path, ids="string", time_column="at")
    return ag.Graph.load(path)


def _task(folder: Path) -> TableTask:
    return TableTask(
        _graph(folder), _TABLE, entity_col="who", time_col="at", target_col="label"
    )  # fmt: skip


def _relbench() -> Any:
    import pandas as pd

    names = {"entity_table": None, "entity_col": "who", "time_col": "at", "target_col": "label"}
    table = SimpleNamespace(df=pd.DataFrame(_TABLE))
    return SimpleNamespace(**names, get_table=lambda split: table)


def task_targets() -> Iterator[Target]:
    """Yield the targets of ``aethergraph.tasks`` and what goes with it."""
    yield Target(
        "convert of keys",
        lambda f: (
            convert.convert,
            {
                "inputs": _graph(f).path.replace(".aeg", ".csv"),
                "output": f / "k.aeg",  # type: ignore[union-attr]
                "ids": "string",
                "force": True,
            },
        ),
    )
    nodes: dict[str, Any] = {
        "source": _TABLE, "key": "who", "time": "at", "features": "label", "columns": "other",
    }  # fmt: skip
    for use in (convert.check_tables, _build):
        yield Target(
            f"{use.__name__.strip('_')} (NodeTable)",
            lambda _, use=use: (then(convert.NodeTable, lambda own: use(_schema(own))), {**nodes}),
            takes_all=("source",) if use is convert.check_tables else (),  # which reports it
        )
    yield Target("check_tables", lambda _: (convert.check_tables, {"schema": _schema()}))
    yield Target(
        "tables",
        lambda f: (convert.tables, {"schema": _schema(), "output": f / "t.aeg", "force": True}),
    )
    yield Target(
        "TableTask",
        lambda f: (
            then(TableTask, lambda task: task.take([0])),
            {"graph": _graph(f), "table": _TABLE, "entity_col": "who", "time_col": "at"},
        ),
    )
    yield Target(
        "LinkTask",
        lambda f: (
            LinkTask,
            {
                "graph": _graph(f), "table": _TABLE, "src_entity_col": "who",
                "dst_entity_col": "other",
            },
        ),
    )  # fmt: skip
    yield Target(
        "relbench_task", lambda f: (relbench_task, {"graph": _graph(f), "task": _relbench()})
    )
    yield from methods(
        "TableTask",
        _task,
        {
            "split": {"val": 5, "test": 6, "train": 4},
            "take": {"positions": [0, 1]},
            "gather_labels": {"ids": [0]},
        },
    )
    yield Target("check_no_leak", lambda f: (check_no_leak, _sampled(f)))


def _schema(nodes: Any = None) -> Any:
    other = convert.NodeTable({"who": ["a", "b"]}, foreign={"who": "a"})
    nodes = convert.NodeTable(_TABLE, key="who") if nodes is None else nodes
    return convert.TableSchema({"a": nodes, "b": other})


def _build(schema: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        convert.tables(schema, Path(folder, "t.aeg"))


def _sampled(folder: Path) -> dict[str, Any]:
    graph = _graph(folder)
    sampler = ag.NeighborSampler(graph, [2], time_attr="edge_time")
    sub = sampler.sample([0, 1], 1, seed_time=[2, 3])
    return {"graph": graph, "batches": sub, "seed_time": [2, 3]}
