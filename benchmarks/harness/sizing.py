"""A model of batches on graphs that are too large to try: what they read, send and cost.

Graphs are those of ``common.power_law_edges``: both ends of an edge are of rank r with a
probability of ~ r^(-2/3). A node of probability p has a Poisson number of in-edges with mean E p,
and m draws reach it with probability 1 - exp(-m p). Ranks are summed in bins that grow with them,
so the size of the graph does not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = 4096
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """A graph and what is asked of it.

    Attributes:
        nodes, edges: size of the graph.
        row_bytes: bytes of a node's features.
        fanouts: neighbours per hop.
        batch: seeds of a batch.
        seeds: seeds of an epoch.
    """

    nodes: float
    edges: float
    row_bytes: int = 512
    fanouts: tuple[int, ...] = (15, 10)
    batch: int = 1024
    seeds: float = 0.0


@dataclass
class BatchModel:
    """Means over shuffled batches, as the model has them.

    Attributes:
        frontiers: nodes whose lists are asked for, by hop.
        edges: edges drawn, by hop.
        nodes: distinct nodes, whose rows are gathered.
        list_pages: pages of 4 KiB of uncompressed lists.
        row_pages: pages of 4 KiB of rows.
    """

    frontiers: list[float] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    nodes: float = 0.0
    list_pages: float = 0.0
    row_pages: float = 0.0
    _ranks: Array = field(default_factory=lambda: np.empty(0))
    _present: Array = field(default_factory=lambda: np.empty(0))

    def hits(self, share: float) -> float:
        """Return the share of the rows of a batch that are of the ``share`` hottest nodes."""
        ends = np.cumsum(self._ranks)
        inside = np.clip((share * ends[-1] - (ends - self._ranks)) / self._ranks, 0, 1)
        return float((self._present * self._ranks * inside).sum() / self.nodes)

    @property
    def list_answers(self) -> float:
        """Bytes that a server of the lists answers: place and degree, and an id for each edge."""
        return 16 * sum(self.frontiers) + 8 * sum(self.edges)

    @property
    def list_questions(self) -> float:
        """Bytes that it is asked by."""
        return 8 * (sum(self.frontiers) + sum(self.edges))


def _bins(nodes: float) -> tuple[Array, Array]:
    """Return the ranks in each bin, and the probability of one of them."""
    small = min(nodes, 4096)
    edges = np.arange(small + 1.0)
    if nodes > small:
        count = 400 * max(1, math.ceil(math.log10(nodes / small)))
        edges = np.concatenate([edges, np.geomspace(small, nodes, count + 1)[1:]])
    ranks = np.diff(edges)
    return ranks, np.diff(np.cbrt(edges / nodes)) / ranks


def _drawn(mean: Array, fanout: int) -> Array:
    """Return E[min(fanout, X)] of Poisson numbers with these means."""
    chance = np.exp(-mean)  # of X = 0
    below, total = chance.copy(), np.zeros_like(mean)
    for k in range(1, fanout + 1):
        total += 1 - below  # P(X >= k)
        chance = chance * mean / k
        below = below + chance
    return total


def model_batch(work: Workload, id_bytes: float = 4) -> BatchModel:
    """Return what a batch of shuffled seeds takes."""
    ranks, chance = _bins(work.nodes)
    degree = work.edges * chance
    found = BatchModel()
    absent = np.full_like(chance, 1 - work.batch / work.nodes)
    new = 1 - absent
    pages = 0.0
    for fanout in work.fanouts:
        drawn = _drawn(degree, fanout)
        found.frontiers.append(float((new * ranks).sum()))
        found.edges.append(float((new * drawn * ranks).sum()))
        # A list lies on 1 + bytes / PAGE pages; its draws fall on some of them.
        most = 1 + np.maximum(degree - 1, 0) * id_bytes / PAGE
        touched = most * -np.expm1(drawn * np.log1p(-1 / np.maximum(most, 1 + 1e-9)))
        touched = np.where(most < 1.01, -np.expm1(-degree), touched)
        pages += float((new * touched * ranks).sum())
        before = absent
        absent = absent * np.exp(-found.edges[-1] * chance)
        new = before - absent
    present = 1 - absent
    found.nodes = float((present * ranks).sum())
    total = work.edges * id_bytes / PAGE
    found.list_pages = -total * math.expm1(-pages / total)
    # Ids say nothing of ranks: a page has any nodes, PAGE / row_bytes of them.
    on_page = PAGE / work.row_bytes
    missed = (1 - found.nodes / work.nodes) ** on_page
    found.row_pages = work.nodes / on_page * (1 - missed) if on_page >= 1 else found.nodes / on_page
    found._ranks, found._present = ranks, present
    return found


@dataclass(frozen=True)
class Machine:
    """A machine to hire: what it can do in a second, and its price.

    Attributes:
        name: what it is called in tables.
        count: how many of them.
        cores: cores that sample and serve, of each.
        memory: bytes for rows that are kept and for caches of lists, of each.
        disk: bytes of local disk, of each.
        reads: random reads per second.
        disk_rate: bytes per second of the disk.
        network: bytes per second.
        price: dollars per hour, of each.
        replicated: every machine has all lists, and a share of the rows; else a share of both.
    """

    name: str
    count: int
    cores: int
    memory: float
    disk: float
    reads: float
    disk_rate: float
    network: float
    price: float
    replicated: bool


@dataclass(frozen=True)
class Costs:
    """Costs of one core and of the formats, as measured.

    Attributes:
        edge_seconds: of a core, for an edge that is drawn.
        row_byte_seconds: of a core, for a byte of rows that is gathered.
        wire_byte_seconds: of cores of both sides, for a byte that is sent.
        edge_bytes: of an edge in a file.
        node_bytes: of a node in a file, without its row.
        step: seconds of a training step, which comes beside all that; 0: it is not the limit.
    """

    edge_seconds: float
    row_byte_seconds: float
    wire_byte_seconds: float
    edge_bytes: float
    node_bytes: float
    step: float = 0.0


def price_epoch(work: Workload, machine: Machine, costs: Costs) -> dict[str, Any]:
    """Return bytes, reads, hits, network, seconds and dollars of an epoch on some machines.

    Memory has the lists, where they take half of it at most. The rest is for rows: of a machine's
    own range, which its server answers from, and copies of the hottest ones of all ranges, which
    its trainer keeps. Of several ways to share it between both the best one is taken.
    """
    one = model_batch(work, id_bytes=8 if work.nodes >= 2**32 - 1 else 4)
    lists = costs.node_bytes * work.nodes + costs.edge_bytes * work.edges
    own_lists = lists if machine.replicated else lists / machine.count
    stored = own_lists + work.nodes * work.row_bytes / machine.count
    held = own_lists if own_lists <= machine.memory / 2 else 0.0
    list_pages = 0.0 if held else one.list_pages
    ways = [
        _with_copies(work, machine, costs, one, list_pages, machine.memory - held, share)
        for share in np.linspace(0, 1, 21)
    ]
    best = min(ways, key=lambda way: float(way["seconds"]))
    return {"fits": stored <= machine.disk, "stored": stored, **best}


def _with_copies(
    work: Workload, machine: Machine, costs: Costs, one: BatchModel, list_pages: float,
    memory: float, share: float,
) -> dict[str, Any]:  # fmt: skip
    """Return what an epoch takes if a share of the memory for rows is copies of hot ones."""
    rows = work.nodes * work.row_bytes
    copied = one.nodes * one.hits(min(1.0, share * memory / rows))
    away = 1 - 1 / machine.count
    # Machines of many have each row of their ranges once, one machine has its copies alone.
    kept = min(1.0, memory / rows * (share + (1 - share) * machine.count))
    read = one.nodes * (1 - one.hits(kept))
    sent = (one.nodes - copied) * away * (work.row_bytes + 8)
    if not machine.replicated:
        sent += away * (one.list_answers + one.list_questions)
    reads = list_pages + read
    cpu = sum(one.edges) * costs.edge_seconds
    cpu += one.nodes * work.row_bytes * costs.row_byte_seconds + sent * costs.wire_byte_seconds
    each = {
        "processor": cpu / machine.cores,
        "reads": reads / machine.reads,
        "disk": (list_pages * PAGE + read * max(work.row_bytes, 512)) / machine.disk_rate,
        "network": sent / machine.network,
        "step": costs.step,
    }
    bound = max(each, key=lambda name: each[name])
    seconds = work.seeds / work.batch / machine.count * each[bound]
    return {
        "reads": reads,
        "hit": 1 - read / one.nodes,
        "sent": sent,
        "bound": bound,
        "batch_seconds": each[bound],
        "seconds": seconds,
        "dollars": seconds / 3600 * machine.count * machine.price,
    }
