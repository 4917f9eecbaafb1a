"""Work under limits of the system: no more threads, or hardly any memory.

    python refusals.py threads FOLDER     every step gives what it gave before threads were refused
    python refusals.py memory FOLDER MIB  every step succeeds, or raises MemoryError or StorageError

The steps are what users do: build, save, open, convert, sample, walk, gather, load batches.
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import aethergraph as ag
from aethergraph import SubgraphLoader, convert, packing
from aethergraph._parallel.prefetch import prefetch_map
from aethergraph.errors import StorageError
from aethergraph.loading import Ahead
from aethergraph.testing import graphs as synthetic

NODES, EDGES = 20_000, 200_000
NOBODY = 65534


def _show(*_: int) -> None:
    """Take progress: long calls then run beside their caller."""


def _digest(value: Any) -> str:
    """Tell results apart, of whatever arrays they are made."""
    if isinstance(value, np.ndarray):
        found = np.ascontiguousarray(value).tobytes()
    elif isinstance(value, (list, tuple)):
        found = "".join(map(_digest, value)).encode()
    elif hasattr(value, "numpy"):
        return _digest(value.numpy())
    else:
        found = repr(value).encode()
    return hashlib.sha256(found).hexdigest()[:16]


class Steps:
    """What is done, on files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        self.src, self.dst = rng.integers(0, NODES, (2, EDGES))
        self.rows = rng.random((NODES, 16), dtype=np.float32)
        self.seeds = rng.integers(0, NODES, 4_000)

    def prepare(self) -> None:
        """Write the files."""
        graph = ag.Graph.from_edges(NODES, self.src, self.dst, layout="both")
        graph.node_attrs["x"] = self.rows
        graph.save(self.folder / "graph.aether")
        np.save(self.folder / "x.npy", self.rows)
        lines = (f"{u},{v}\n" for u, v in zip(self.src.tolist(), self.dst.tolist(), strict=True))
        (self.folder / "edges.csv").write_text("src,dst\n" + "".join(lines))

    def _open(self, storage: Any = "mmap") -> ag.Graph:
        budget = "64M" if storage == "uring" else None
        return ag.Graph.load(
            self.folder / "graph.aether", storage=storage, memory_budget=budget, progress=_show
        )

    def from_edges(self) -> Any:
        graph = ag.Graph.from_edges(NODES, self.src, self.dst, layout="both", progress=_show)
        return graph.csc()

    def save(self) -> Any:
        self._open().save(self.folder / "copy.aether", progress=_show, compress=True)
        return ag.Graph.load(self.folder / "copy.aether").edge_index()

    def verify(self) -> Any:
        return self._open("memory").verify(progress=_show)

    def edge_index(self) -> Any:
        return self._open().edge_index()

    def find(self) -> Any:
        return self._open().edges_between(self.src[:5000], self.dst[:5000])

    def sample(self) -> Any:
        return self._sample("mmap", "directional")

    def induced(self) -> Any:
        return self._sample("mmap", "induced")

    def sample_paged(self) -> Any:
        return self._sample("uring", "directional")

    def _sample(self, storage: str, subgraph_type: Any) -> Any:
        sampler = ag.NeighborSampler(
            self._open(storage), [10, 5], subgraph_type=subgraph_type, num_threads=4
        )
        sub = sampler.sample(self.seeds, key=3)
        return sub.node, sub.row, sub.col, sub.edge

    def walk(self) -> Any:
        return ag.RandomWalker(self._open(), num_threads=4).walk(self.seeds, 20, key=1)

    def gather(self) -> Any:
        store = ag.FeatureTable.load(
            self.folder / "x.npy", storage="uring", memory_budget="16M", progress=_show
        )
        return store.gather(self.seeds)

    def batches(self) -> Any:
        loader = SubgraphLoader(
            self._open(), [5, 5], self.seeds, batch_size=500, ahead=Ahead(3, threads=2)
        )
        return [(batch.subgraph.node, batch.node_attrs["x"]) for batch in islice(loader, 5)]

    def prefetch(self) -> Any:
        return list(prefetch_map(abs, range(-20, 20), num_threads=3, depth=4))

    def convert(self) -> Any:
        return self._convert(None)

    def convert_within(self) -> Any:
        return self._convert("4G")

    def _convert(self, budget: str | None) -> Any:
        out = self.folder / "converted.aether"
        convert.convert(
            self.folder / "edges.csv", out, memory_budget=budget, force=True, threads=4,
            features=self.folder / "x.npy", layout="both",
        )  # fmt: skip
        return ag.Graph.load(out).edge_index()

    def pack(self) -> Any:
        store = ag.FeatureTable.load(self.folder / "x.npy")
        lists = [self.seeds[:1000], self.seeds[1000:2000]]
        packing.pack(lists, store, self.folder / "packed.bin", hot_budget="64K")
        packed = packing.PackedFeatures.load(self.folder / "packed.bin", features=store)
        return packed.batch(1)

    def live(self) -> Any:
        graph = ag.DynamicGraph(NODES, 64, order="time", max_nodes=NODES)
        graph.features = self.rows
        return self._change(graph)

    def live_kept(self) -> Any:
        path = self.folder / f"live-{time.monotonic_ns()}"
        graph = ag.DynamicGraph.open(path, NODES, 64, order="time", max_nodes=NODES)
        graph.features = self.rows
        self._change(graph)
        graph.merge(progress=_show)
        graph.close()
        again = ag.DynamicGraph.open(path, arena_mb=64, progress=_show)
        try:
            return again.snapshot().edge_list()
        finally:
            again.close()
            shutil.rmtree(path)

    def _change(self, graph: ag.DynamicGraph) -> Any:
        for some in np.array_split(np.arange(EDGES), 20):
            with graph.transaction():
                graph.insert_edges(self.src[some], self.dst[some])
                graph.update_nodes([int(some[0]) % NODES], x=self.rows[:1])
        graph.delete_edges(self.src[:500], self.dst[:500])
        sub = ag.NeighborSampler(graph, [10, 5], num_threads=4).sample(self.seeds, key=3)
        rows = graph.node_attrs["x"].gather(sub.node)
        return sub.node, sub.edge, rows, graph.to_graph().edge_index()

    def make_graph(self) -> Any:
        return synthetic.RmatGraph(12, 50_000).edges(threads=4)

    def pyg_batches(self) -> Any:
        try:
            import torch

            import aethergraph.pyg as pyg
        except ImportError:
            return None
        loader = pyg.NeighborLoader(
            self._open(), [5, 5], input_nodes=torch.from_numpy(self.seeds), batch_size=500,
            ahead=Ahead(3, threads=2), seed=1,
        )  # fmt: skip
        return [(batch.n_id, batch.x, batch.edge_index) for batch in islice(loader, 4)]

    def all(self) -> dict[str, Callable[[], Any]]:
        """Return the steps by name."""
        hidden = {"prepare", "all", "folder", "src", "dst", "rows", "seeds"}
        names = [name for name in dir(self) if not name.startswith("_") and name not in hidden]
        return {name: getattr(self, name) for name in names}


def _refuse_threads() -> bool:
    """Take a user's right to start threads; return whether the system then refuses them."""
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    if os.geteuid() == 0:
        os.setuid(NOBODY)  # the limit is not root's
    try:
        threading.Thread(target=int).start()
    except RuntimeError:
        return True
    return False


def without_threads(folder: Path) -> int:
    """Compare every step with what it gave when there were threads."""
    os.chmod(folder, 0o777)
    steps = Steps(folder)
    steps.prepare()
    expected = {name: _digest(step()) for name, step in steps.all().items()}
    for path in folder.rglob("*"):
        os.chmod(path, 0o666 if path.is_file() else 0o777)
    ag.set_num_threads(4)
    if os.fork():  # the child's native pool has no threads yet
        return os.waitstatus_to_exitcode(os.wait()[1])
    if not _refuse_threads():
        print("this system refuses no threads")
        os._exit(77)
    wrong = 0
    for name, step in steps.all().items():
        try:
            problem = "another result" if _digest(step()) != expected[name] else None
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            if name == "live_kept" and isinstance(error, MemoryError):
                problem = None  # a log has a thread of its own
        if problem is not None:
            wrong = 1
            print(f"{name}: {problem}", flush=True)
    sys.stdout.flush()
    os._exit(wrong)


def within(folder: Path, mebibytes: int) -> int:
    """Try every step with that much address space beyond what the process has."""
    steps = Steps(folder)
    steps.prepare()
    for step in steps.all().values():
        step()  # libraries are loaded now
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    wrong = refused = 0
    for name, step in steps.all().items():
        try:
            step()
        except (MemoryError, StorageError):
            refused += 1
        except Exception as error:
            if _is_refusal_of_a_library(error):
                refused += 1
                continue
            wrong = 1
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
    print(f"{refused} refused")
    return wrong


def _is_refusal_of_a_library(error: BaseException) -> bool:
    """torch's allocator raises a RuntimeError, pyarrow's an ArrowMemoryError (a MemoryError)."""
    return isinstance(error, RuntimeError) and "allocate memory" in str(error)


if __name__ == "__main__":
    where = Path(sys.argv[2])
    sys.exit(
        without_threads(where) if sys.argv[1] == "threads" else within(where, int(sys.argv[3]))
    )
