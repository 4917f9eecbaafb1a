"""Training beside a stream: by how much it is slower, and how far the graph lags behind the topic.

    python benchmarks/streaming_training.py [--quick] [--rate 200000] [--rounds 7] [--minutes 10]
                                            [--causes 1]

The results are streaming_training, streaming_lag and streaming_lag_causes; --rounds 0, --minutes 0
and --causes 0 leave one of them out.

The broker is a process on the same machine. A turn is a process that trains GraphSAGE on a live
graph with two million edges, batches of 512 nodes and [10, 5] neighbours, torch with one thread,
for some seconds:

    alone             nothing else goes on
    beside a process  another process takes edges from the topic into the graph, at the rate
    beside a thread   a thread of the same process does, so that both take turns at Python

Where there are several cores, training has one to itself, and the stream has all others. Wall
time is what a user waits. Where other programs want the same core, the thread waits for it: Linux
counts how long (/proc/thread-self/schedstat), and without that is what training takes on a quiet
machine, with its waits for the other thread of its process. Processor time is without these, too.

The lag: a producer sends 20,000 edges a second, ten times as many for two seconds out of twenty,
and nothing for four; a reader notes four times a second how many messages wait, and how long ago
the newest edge of the graph was sent.

The causes: the same for a minute, over a topic that has had messages in many small batches before,
as it has after minutes of such load, and into a graph that has many edges; each with a new broker.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report
from harness.kafka import (
    DTYPE,
    ENDS,
    NODES,
    PARTITIONS,
    QUICK,
    broker,
    broker_process,
    producer,
    random_edges,
    send,
)  # fmt: skip

ALONE, THREAD, PROCESS = "alone", "beside a thread", "beside a process"
GRAPH: dict[str, Any] = {"order": "time", "layout": "csc", "edge_time": "int64"}
FEATURES, CLASSES, LINGER = 64, 16, "20ms"
#: Seconds of the pattern of the uneven load, and edges a second in each of its parts.
PATTERN = ((8.0, 1.0), (2.0, 10.0), (6.0, 1.0), (4.0, 0.0))
BASE_RATE = 20_000
#: Seconds of a row of the table that the lag is drawn from, its title and its columns.
WINDOW = 10
COURSE = f"every {WINDOW} seconds"
COURSE_COLUMNS = ("thousand edges/s into the graph", "thousand messages waiting, at most")


def make_graph(path: Path, edges: int) -> None:
    from aethergraph import DynamicGraph

    records = random_edges(edges, seed=1)
    graph = DynamicGraph.open(path, NODES, 2048, **GRAPH)
    for some in np.array_split(records, max(1, edges // 100_000)):
        graph.insert_edges(some["src"], some["dst"], time=np.zeros(len(some), np.int64))
    graph.close()


class Throttled:
    """A source that gives so many records a second at most."""

    def __init__(self, inner: Any, rate: float) -> None:
        self.inner, self.rate, self.given, self.begin = inner, rate, 0, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def at_once(self) -> int:
        """Most records of a poll, which the ingestor sets."""
        return int(self.inner.at_once)

    @at_once.setter
    def at_once(self, most: int) -> None:
        self.inner.at_once = most

    def poll(self, timeout: float) -> Any:
        now = time.monotonic()
        self.begin = self.begin or now
        early = self.given / self.rate - (now - self.begin)
        if early > 0:
            time.sleep(min(early, timeout))
            if early > timeout:
                return []
        found = self.inner.poll(timeout)
        self.given += sum(one.count for one in found or ())
        return found


def ingestor(
    graph: Any, address: str, topic: str, rate: float | None, begin: Any = "earliest",
    gives_way: bool = True,
) -> Any:  # fmt: skip
    from aethergraph.streaming import Ingestor, KafkaSource, Schema

    schema = Schema.struct(DTYPE, **ENDS)
    source: Any = KafkaSource(topic, address, schema, start=begin, options=QUICK)
    given = source if rate is None else Throttled(source, rate)
    return Ingestor(graph, given, linger=LINGER, gives_way=gives_way)


def ingest_until(
    path: Path, address: str, topic: str, rate: float | None, cores: set[int], stop: Any, out: Any,
    begin_at: str = "earliest",
) -> None:  # fmt: skip
    """Ingest in this process until ``stop`` is set; note state in ``out`` meanwhile."""
    from aethergraph import DynamicGraph

    os.sched_setaffinity(0, cores)
    graph = DynamicGraph.open(path)
    with ingestor(graph, address, topic, rate, begin_at, False) as running:
        out.put("running")
        begin = time.monotonic()
        while not stop.wait(0.25):
            running.check()
            now = running.stats()
            delay = None if now.largest is None else time.time() - now.largest / 1e6
            out.put((time.monotonic() - begin, sum(now.lag.values()), delay, now.records))
    out.put(None)
    graph.close()


def train_for(
    path: Path, address: str, mode: str, rate: float, seconds: float, core: int, out: Any
) -> None:
    """Train for some seconds; put steps, seconds, processor seconds and edges that came."""
    import torch
    from torch_geometric.nn import SAGEConv

    from aethergraph import DynamicGraph
    from aethergraph.pyg import NeighborLoader

    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph = DynamicGraph.attach(path) if mode == PROCESS else DynamicGraph.open(path)
    before = graph.num_edges
    running = ingestor(graph, address, "edges", rate).start() if mode == THREAD else None
    os.sched_setaffinity(0, {core})
    x = torch.randn(NODES, FEATURES)
    y = torch.randint(CLASSES, (NODES,))
    first, second = SAGEConv(FEATURES, 64), SAGEConv(64, CLASSES)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
    loader = NeighborLoader(graph, [10, 5], batch_size=512, shuffle=True, num_workers=0)
    batches = iter(loader)

    def step() -> None:
        nonlocal batches
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        hidden = first(x[batch.n_id], batch.edge_index).relu()
        scores = second(hidden, batch.edge_index)[: batch.batch_size]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(scores, y[batch.n_id[: batch.batch_size]]).backward()
        optimizer.step()

    for _ in range(20):
        step()
    waited, steps = queued(), 0
    at_first, begin, used = graph.num_edges, time.perf_counter(), time.thread_time()
    while time.perf_counter() - begin < seconds:
        step()
        steps += 1
    wall, used = time.perf_counter() - begin, time.thread_time() - used
    edges = (graph.num_edges - at_first) / wall
    out.put((steps, wall, wall - (queued() - waited), used, edges))
    if running is not None:
        running.stop()
    assert mode == ALONE or graph.num_edges > before
    graph.close()


def queued() -> float:
    """Seconds that this thread could have run and had no core."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def turn(address: str, mode: str, args: Any, base: int, rate: float) -> dict[str, float]:
    """Train in a process of its own, on a new graph."""
    spawn = multiprocessing.get_context("spawn")
    out, notes, stop = spawn.Queue(), spawn.Queue(), spawn.Event()
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = Path(folder) / "g"
        make_graph(path, base)
        writer = None
        if mode == PROCESS:
            given = (path, address, "edges", rate, others(args.core), stop, notes)
            writer = spawn.Process(target=ingest_until, args=given, daemon=True)
            writer.start()
            notes.get(timeout=60)
        given_too = (path, address, mode, rate, args.seconds, args.core, out)
        trainer = spawn.Process(target=train_for, args=given_too, daemon=True)
        trainer.start()
        steps, wall, own, used, found = out.get(timeout=300)
        stop.set()
        if writer is not None:
            while notes.get(timeout=60) is not None:
                pass
            writer.join()
        trainer.join()
    return {"wall": wall / steps, "own": own / steps, "processor": used / steps, "edges": found}


def others(core: int) -> set[int]:
    """Cores for all but training."""
    return (os.sched_getaffinity(0) - {core}) or {core}


# ---- lag ----------------------------------------------------------


def produce_unevenly(address: str, topic: str, seconds: float, cores: set[int], out: Any) -> None:
    os.sched_setaffinity(0, cores)
    made, begin, sent, owed = producer(address), time.monotonic(), 0, 0.0
    edges = random_edges(1 << 16, seed=2)
    length, last = sum(part for part, _ in PATTERN), begin
    while (now := time.monotonic()) - begin < seconds:
        place, rate = (now - begin) % length, 0.0
        for part, factor in PATTERN:
            if place < part:
                rate = factor * BASE_RATE
                break
            place -= part
        owed += rate * (now - last)
        last = now
        stamp = int(time.time() * 1e6)
        for _ in range(int(owed)):
            one = edges[sent % len(edges)]
            one["time"] = stamp
            made.produce(topic, one.tobytes(), partition=sent % PARTITIONS)
            sent += 1
        owed -= int(owed)
        made.poll(0)
        time.sleep(0.01)
    made.flush(60)
    out.put(sent)


def processor_seconds(process: int) -> float:
    """Processor time of a process until now."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def follow_uneven_load(
    address: str, broker: int, args: Any, minutes: float, *, edges: int = 1000, batches: int = 0
) -> dict[str, Any]:
    """Return what a reader noted: seconds, messages that wait, seconds behind, records.

    Args:
        address: of the broker.
        broker: number of its process.
        args: options of the benchmark.
        minutes: length of the load.
        edges: edges that the graph has before.
        batches: batches that the topic has had before, of one message each.
    """
    spawn = multiprocessing.get_context("spawn")
    notes, sent, stop = spawn.Queue(), spawn.Queue(), spawn.Event()
    send(address, "uneven", (one.tobytes() for one in random_edges(batches)), batch=1)
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        path = Path(folder) / "g"
        make_graph(path, edges)
        cores = others(args.core)
        given = (path, address, "uneven", None, {args.core}, stop, notes, "latest")
        writer = spawn.Process(target=ingest_until, args=given)
        writer.start()
        notes.get(timeout=60)
        assert writer.pid is not None
        processes = {"broker": broker, "ingestor": writer.pid}
        used = {name: processor_seconds(number) for name, number in processes.items()}
        sender = spawn.Process(
            target=produce_unevenly, args=(address, "uneven", 60 * minutes, cores, sent)
        )
        sender.start()
        total = sent.get(timeout=60 * minutes + 120)
        until, found = time.monotonic() + 60, []
        while (one := notes.get(timeout=60)) is not None:
            found.append(one)
            if not stop.is_set() and (one[3] >= total or time.monotonic() > until):
                for name, number in processes.items():
                    used[name] = processor_seconds(number) - used[name]
                stop.set()
        writer.join()
        sender.join()
    columns = [list(column) for column in zip(*found, strict=True)]
    names = ("seconds", "waiting", "behind", "records")
    return {"sent": total, "used": used, **dict(zip(names, columns, strict=True))}


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--rate", type=float, default=200_000, help="edges per second beside it")
    made.add_argument("--rounds", type=int, help="turns of each contender")
    made.add_argument("--seconds", type=float, help="length of a turn")
    made.add_argument("--minutes", type=float, help="length of the uneven load; 0: none")
    made.add_argument("--causes", type=float, help="minutes for each cause of lag; 0: none")
    args = common.parse(made, argv)
    rounds = args.rounds if args.rounds is not None else (1 if args.quick else 7)
    args.seconds = args.seconds or (1.0 if args.quick else 8.0)
    minutes = args.minutes if args.minutes is not None else (0.05 if args.quick else 10.0)
    causes = args.causes if args.causes is not None else (0.05 if args.quick else 1.0)
    if rounds:
        with broker() as address:
            report_training(address, args, rounds)
    if minutes:
        report_lag(args, minutes)
    if causes:
        report_causes(args, causes)


def report_training(address: str, args: Any, rounds: int) -> None:
    report = Report("streaming_training", "Training beside a stream", args)
    base, rate = (50_000, 20_000.0) if args.quick else (2_000_000, args.rate)
    modes = [ALONE, PROCESS, THREAD]
    taken: dict[str, list[dict[str, float]]] = {mode: [] for mode in modes}
    # More than a turn with its beginning and its warm-up takes.
    records = random_edges(int(rate * (args.seconds + 20)))
    send(address, "edges", (one.tobytes() for one in records))
    for number in range(rounds):
        for place in range(len(modes)):
            mode = modes[(place + number) % len(modes)]
            taken[mode].append(turn(address, mode, args, base, rate))
    report.data = {"turns": taken}
    report.parameters = {"rounds": rounds, "rate": rate, "edges": base}
    kinds = {"wall": "wall", "own": "without waits for a core", "processor": "processor"}

    def values(mode: str, what: str) -> list[float]:
        return [one[what] for one in taken[mode]]

    rows: list[list[common.Cell]] = []
    for mode in modes:
        each = [1e3 * float(np.median(values(mode, what))) for what in kinds]
        ratios = [str(Ratio.paired(values(mode, what), values(ALONE, what))) for what in kinds]
        rows.append([mode, float(np.median(values(mode, "edges"))) / 1e3, *each, *ratios])
    report.table(
        "milliseconds for a step of training, median; and as many times as long as alone",
        ["contender", "thousand edges/s beside it", *kinds.values(),
         *(f"{name}, times" for name in kinds.values())],
        rows,
    )  # fmt: skip

    def draw(axes: Sequence[Any]) -> None:
        names = [str(row[0]) for row in rows]
        for axis, at in zip(axes, (3, 4), strict=True):
            times = [float(str(row[at])) for row in rows]
            common.bars(axis, names, times, f"ms for a step, {list(kinds.values())[at - 2]}")

    common.plot(report, 2, draw)
    report.finish()


def report_lag(args: Any, minutes: float) -> None:
    report = Report("streaming_lag", "How far a live graph lags behind its stream", args)
    with broker_process() as (address, process):
        report.data = lag = follow_uneven_load(address, process, args, minutes)
    report.parameters = {"minutes": minutes, "pattern": PATTERN, "rate": BASE_RATE}
    report.table(
        f"over {minutes:g} minutes of uneven load, {lag['sent']:,} messages",
        ["", "median", "99th of 100", "most"],
        [[name, *(float(np.percentile(values, q)) for q in (50, 99, 100))]
         for name, values in (("messages waiting", lag["waiting"]),
                              ("milliseconds behind, while edges come", behind(lag)))],
    )  # fmt: skip

    report.table(COURSE, ["seconds", *COURSE_COLUMNS], course(lag))
    draw(report)
    report.finish()


def course(lag: dict[str, Any]) -> list[list[common.Cell]]:
    """Return the rows of COURSE from what a reader noted."""
    seconds, waiting = np.array(lag["seconds"]), np.array(lag["waiting"])
    ends = np.arange(WINDOW, seconds[-1] + WINDOW, WINDOW)
    places = np.searchsorted(seconds, ends, side="right")
    records = np.array([0, *lag["records"]])[places]  # before the first look there are none
    rates = np.diff(records, prepend=0) / WINDOW / 1e3
    most = [max(part, default=0) / 1e3 for part in np.split(waiting, places[:-1])]
    return [
        [int(end), float(rate), float(wait)]
        for end, rate, wait in zip(ends, rates, most, strict=True)
    ]


def draw(report: Report) -> None:
    rows = report.rows(COURSE)

    def panels(axes: Sequence[Any]) -> None:
        for axis, name in zip(axes, COURSE_COLUMNS, strict=True):
            axis.plot([row["seconds"] for row in rows], [row[name] for row in rows], ".-", lw=0.8)
            axis.set_xlabel("seconds")
            axis.set_ylabel(name)

    common.plot(report, 2, panels)


def report_causes(args: Any, minutes: float) -> None:
    report = Report("streaming_lag_causes", "What a stream lags behind for", args)
    batches, edges = (200, 20_000) if args.quick else (60_000, 10_000_000)
    report.parameters = {"minutes": minutes, "pattern": PATTERN, "rate": BASE_RATE}
    rows: list[list[common.Cell]] = []
    for name, before in (
        ("a new topic, a new graph", {}),
        (f"a topic with {batches:,} batches", {"batches": batches}),
        (f"a graph with {edges:,} edges", {"edges": edges}),
    ):
        with broker_process() as (address, process):
            lag = follow_uneven_load(address, process, args, minutes, **before)
        report.data[name] = lag
        each = [1e6 * lag["used"][which] / lag["sent"] for which in ("broker", "ingestor")]
        late = float(np.percentile(behind(lag), 99))
        rows.append([name, lag["sent"], *each, float(np.max(lag["waiting"])), late])
    report.table(
        f"{minutes:g} minutes of uneven load each; microseconds of processor time for a message",
        ["before it begins", "messages", "broker", "ingestor", "messages waiting, at most",
         "milliseconds behind, 99th of 100"],
        rows,
    )  # fmt: skip
    report.finish()


def behind(lag: dict[str, Any]) -> list[float]:
    """Milliseconds since the newest edge was sent, where others have come since the last look."""
    records, delays = lag["records"], lag["behind"]
    return [
        1e3 * delays[at]
        for at in range(1, len(records))
        if records[at] > records[at - 1] and delays[at] is not None
    ] or [0.0]


if __name__ == "__main__":
    main()
