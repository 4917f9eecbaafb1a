"""What :mod:`aethergraph.observe` has for the attack."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from target import Target, then

import aethergraph as ag
from aethergraph import SubgraphLoader, observe
from aethergraph.errors import CancelledError
from aethergraph.observe.asking import ask

__all__ = ["observe_targets"]


def _store(folder: Path) -> ag.FeatureTable:
    return ag.FeatureTable.load(folder / "x.npy", storage="uring", memory_budget="64M")


def _loader(folder: Path) -> SubgraphLoader:
    return SubgraphLoader(ag.Graph.load(folder / "graph.aether"), [2], [0, 1, 2])


def _brief(profile: Callable[..., Any]) -> Callable[..., Any]:
    """``profile`` that ends soon, however many batches are asked for."""
    seen = [0]

    def step(batch: Any) -> None:
        seen[0] += 1
        if seen[0] > 5:
            raise CancelledError("enough")

    def call(batches: Any, warmup: Any, **given: Any) -> Any:
        return profile(batches=batches, warmup=warmup, **{"step": step, **given})

    return call


def observe_targets() -> Iterator[Target]:
    """Targets that need no framework."""
    yield Target("observe.watch", lambda f: (observe.watch, {"thing": _store(f), "name": "x"}))
    yield Target(
        "observe.enable",
        lambda _: (then(observe.enable, lambda _: observe.disable()), {"publish": False}),
    )
    yield Target("observe.ask", lambda _: (ask, {"pid": 1}))
    yield Target(
        "observe.prometheus",
        lambda _: (
            then(observe.prometheus, lambda server: server.close()),
            {"port": 0, "address": "127.0.0.1"},
        ),
    )
    yield Target(
        "observe.opentelemetry",
        lambda _: (
            then(observe.opentelemetry, lambda spans: spans.close()), {"tracer_provider": None}
        ),
    )  # fmt: skip
    given = {"batches": 2, "warmup": 0}
    yield Target(
        "observe.profile", lambda f: (_brief(observe.profile), {"loader": _loader(f), **given})
    )
    yield Target("SubgraphLoader.profile", lambda f: (_brief(_loader(f).profile), dict(given)))
    yield Target(
        "SubgraphLoader.profile(step=)",
        lambda f: (lambda step: _loader(f).profile(2, step), {"step": None}),
        (TypeError, ValueError),  # of a step that takes no batch
    )
    yield Target(
        "Profile.plot",
        lambda f: (_loader(f).profile(1, warmup=0).plot, {"path": f / "profile.svg"}),
    )
