"""What all tests share."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from support.graphs import make_graph
from support.share import ALL, VARIANTS, examples_of

import aethergraph
from aethergraph import Graph
from aethergraph import _native as native

try:
    from hypothesis import HealthCheck, Phase, settings
except ImportError:  # the packaging tests run without it
    pass
else:
    settings.register_profile(
        "aethergraph",
        # Every run tries the same examples, so that a change fails by itself; a soak tries others.
        derandomize="AETHERGRAPH_SOAK" not in os.environ,
        max_examples=examples_of(100),
        deadline=None,
        # What a planted fault breaks is not made simpler (tests/faults).
        phases=[Phase.explicit, Phase.generate] if "AETHERGRAPH_FAULTS" in os.environ else Phase,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    settings.load_profile("aethergraph")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the share of tests that a person waits for, unless ``AETHERGRAPH_ALL`` is set.

    Slow tests go, and of each test at most ``AETHERGRAPH_VARIANTS`` sets of parameters stay, spread
    evenly: most variants of a test are the same path. A test that the command line names with
    ``::`` stays whole, and so does one that is marked ``own_share``.
    """
    # Planted faults are looked for by what the default run has of the tests that are named.
    named = "AETHERGRAPH_FAULTS" not in os.environ and any("::" in name for name in config.args)
    most = VARIANTS or len(items)
    variants: dict[str, list[pytest.Item]] = {}
    for item in items:
        if ALL or named or not item.get_closest_marker("slow"):
            variants.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set()
    for same in variants.values():
        is_whole = named or same[0].get_closest_marker("own_share") is not None
        count = len(same) if is_whole else min(most, len(same))
        kept |= {id(same[i * len(same) // count]) for i in range(count)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def pytest_collection_finish() -> None:
    """Hide what collecting has made from the garbage collector, which looks at it each time."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests marked `forks` under AddressSanitizer, where a child may hang for ever.

    Its allocator takes locks that fork() knows nothing of. When a thread of the parent starts,
    ends or allocates during the fork, they stay taken in the child, and its next allocation waits.
    """
    if item.get_closest_marker("forks") and os.environ.get("AETHERGRAPH_EXPECT_SANITIZER"):
        pytest.skip("a sanitizer's allocator does not survive a fork: ./scripts/test.sh python")
    skip_draws_of_adapters(item)


def skip_draws_of_adapters(item: pytest.Item) -> None:
    """Skip what a contract counts in draws that are those of the core, bit by bit.

    Another rule compares them with the oracle; test_samplers.py counts the draws of one thread.
    """
    function, owner = getattr(item, "function", None), getattr(item, "cls", None)
    if "AETHERGRAPH_SOAK" in os.environ or getattr(owner, "counts_draws", False):
        return
    is_of_draws = getattr(function, "__module__", "") == "aethergraph.testing.draws"
    if is_of_draws and getattr(owner, "exact", False):
        pytest.skip("equal to the oracle, so drawn as by the core: AETHERGRAPH_SOAK=1")


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in a new interpreter: for tests that may end the process."""

    def run(
        script: str, *args: str, check: bool = True, **env: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), *args],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **env},
        )
        if check:
            assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture
def rewrite_container() -> Callable[..., None]:
    """Copies a container with other content and checksums that are right for it."""

    def rewrite(
        source: Path, target: Path, change: Callable[[native.Section, np.ndarray], np.ndarray]
    ) -> None:
        file = native.NativeFile(source)
        sections = [(s, change(s, file.section_array(s).copy())) for s in file.sections()]
        with native.NativeWriter(target, file.content) as writer:
            for section, array in sections:
                writer.begin(section.kind, section.owner, section.dtype)
                writer.append(np.ascontiguousarray(array))
                writer.end()

    return rewrite


@pytest.fixture(params=[1, 2, 8])
def num_threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """The native pool with 1, 2 and 8 threads."""
    aethergraph.set_num_threads(request.param)
    yield request.param
    aethergraph.set_num_threads(0)


@pytest.fixture
def graph() -> Graph:
    return make_graph()


@pytest.fixture
def full_graph() -> Graph:
    """A graph that has everything a file can hold."""
    num_nodes, num_edges = 120, 900
    rng = np.random.default_rng(5)
    graph = make_graph(
        num_nodes,
        num_edges,
        layout="both",
        keep_order=True,
        edge_weight=rng.random(num_edges, dtype=np.float32),
        edge_time=rng.integers(0, 10**9, num_edges),
        node_time=rng.random(num_nodes),
        edge_attrs={"edge_attr": rng.random((num_edges, 3), dtype=np.float32)},
    )
    graph.features = rng.random((num_nodes, 8), dtype=np.float32)
    graph.node_attrs["y"] = rng.integers(0, 5, num_nodes)
    graph.node_attrs["train_mask"] = rng.random(num_nodes) < 0.5
    return graph


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder for the sockets of observed processes; end observing afterwards."""
    from aethergraph import observe

    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder
    observe.disable()
