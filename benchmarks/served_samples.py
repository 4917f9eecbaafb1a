"""Samples with their rows from a server, beside a process that writes to the graph.

    python benchmarks/served_samples.py [--quick] [--nodes 200000] [--inserts 100000] [--clients 4]
                                        [--rates 250 500 1000]

One process writes a live graph in a directory, so many edges a second, in commits of 1000; another
is ``aethergraph serve DIR --sample``; this one asks, for two hops ([15, 10]) around one seed with
128 floats of each node: from one client, then from several at once, by TCP and by a unix
socket, then without the writer. Each answer is of the last commit. Afterwards some of the answers
are made again from the log, and compared byte by byte.

Two loads: clients that ask again as soon as they have an answer (closed), which take all of the
processors that server and writer leave; and requests that come at a rate, at random times, whether
or not answers have come (open), whose times count from the moment when they were due. Clients run
on the same processors, so the times are those of server and client together.

Published, for another store on another machine, so no comparison: Helios (PPoPP 2025) reports
20,000 requests a second at a 99th percentile under 20 ms, two hops, on 64 cores.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from harness import common
from harness.common import Report
from numpy.typing import NDArray
from remote import served

WIDTH, FANOUTS, COMMIT = 128, [15, 10], 1000
_WRITER = """
import sys, time
import numpy as np
from aethergraph import DynamicGraph
path, rate, commit = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
graph = DynamicGraph.open(path, arena_mb=4096)
rng = np.random.default_rng(1)
edges = rng.integers(0, graph.num_nodes, (64, 2, commit))
print("ready", flush=True)
begin, done, late = time.monotonic(), 0, 0.0
try:
    while True:
        graph.insert_edges(*edges[done // commit % 64])
        done += commit
        wait = begin + done / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)
except KeyboardInterrupt:
    print(done / (time.monotonic() - begin), flush=True)
graph.close()
"""


@contextmanager
def writing(path: Path, rate: float) -> Iterator[list[float]]:
    """Write so many edges a second in another process; the list gets what it has managed."""
    found: list[float] = []
    command = [sys.executable, "-c", _WRITER, str(path), str(rate), str(COMMIT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield found
        finally:
            process.send_signal(2)
            found.append(float(process.stdout.readline()))


def ask(
    url: str, num_nodes: int, requests: int, seed: int
) -> tuple[NDArray[np.float64], float, float]:
    """Return the seconds of each of many requests in turn, and when all began and ended."""
    from aethergraph.remote import open_sampler

    rng = np.random.default_rng(seed)
    seeds = rng.integers(0, num_nodes, requests + 50)
    times = np.empty(len(seeds))
    start = 0.0
    with open_sampler(url) as sampler:
        for i, one in enumerate(seeds):
            begin = time.perf_counter()
            start = begin if i == 50 else start
            sampler.sample([one], key=i)
            times[i] = time.perf_counter() - begin
    return times[50:], start, time.perf_counter()


def ask_at(
    url: str, num_nodes: int, requests: int, seed: int, rate: float
) -> tuple[NDArray[np.float64], float, float]:
    """Return the seconds of requests at random times since they were due, and begin and end."""
    from aethergraph.remote import open_sampler

    rng = np.random.default_rng(seed)
    seeds = rng.integers(0, num_nodes, requests + 50)
    due = np.cumsum(rng.exponential(1 / rate, requests))
    times = np.empty(requests)
    with open_sampler(url) as sampler:
        for one in seeds[requests:]:
            sampler.sample([one])
        start = time.perf_counter()
        for i in range(requests):
            wait = start + due[i] - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            sampler.sample([seeds[i]], key=i)
            times[i] = time.perf_counter() - (start + due[i])
    return times, start, time.perf_counter()


def measure(
    url: str, num_nodes: int, requests: int, clients: int, rate: float | None = None
) -> dict[str, float]:
    """Return percentiles in ms, and requests a second, of several processes at once.

    With a rate requests come at random times, so many a second in all.
    """
    call = ask if rate is None else ask_at
    more = () if rate is None else (rate / clients,)
    with multiprocessing.get_context("fork").Pool(clients) as pool:
        found = pool.starmap(
            call, [(url, num_nodes, requests // clients, i, *more) for i in range(clients)]
        )
    seconds = max(end for *_, end in found) - min(begin for _, begin, _ in found)
    times = np.concatenate([times for times, *_ in found]) * 1e3
    p50, p99, p999 = np.percentile(times, [50, 99, 99.9])
    return {"p50": p50, "p99": p99, "p99.9": p999, "rate": len(times) / seconds}


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--nodes", type=int, help="nodes of the graph")
    made.add_argument("--inserts", type=int, default=100_000, help="edges a second")
    made.add_argument("--requests", type=int, help="requests of a round")
    made.add_argument("--clients", type=int, default=4)
    made.add_argument("--rates", type=float, nargs="*", default=[250.0, 500.0, 1000.0])
    args = common.parse(made, argv)
    from aethergraph import DynamicGraph
    from aethergraph.remote.samples.replay import check_replay

    report = Report("served_samples", "Samples with their rows from a server", args)
    nodes = args.nodes or (5_000 if args.quick else 200_000)
    edges, requests = 20 * nodes, args.requests or (200 if args.quick else 4000)
    report.parameters = {
        "nodes": nodes, "edges": edges, "width": WIDTH, "fanouts": FANOUTS,
        "inserts_per_second": args.inserts, "commit": COMMIT, "requests": requests,
    }  # fmt: skip
    lines: list[list[common.Cell]] = []
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "g.aegd"
        graph = DynamicGraph.open(path, nodes, 4096, durability="none", order="time")
        graph.node_attrs["x"] = np.random.default_rng(0).random((nodes, WIDTH), dtype=np.float32)
        graph.insert_edges(*common.power_law_edges(nodes, edges))
        graph.close()
        plan = folder / "plan.json"
        plan.write_text(json.dumps({"fanouts": FANOUTS, "node_attrs": ["x"]}))
        log = folder / "log"

        def measure_all(what: str) -> None:
            places = "--tcp", "127.0.0.1:0", "--unix", folder / "socket"
            with served(path, "--sample", plan, *places) as urls:
                for way, url in zip(("TCP", "unix"), urls, strict=True):
                    for clients in (1, args.clients):
                        found = measure(url.strip(), nodes, requests, clients)
                        report.data[f"{what}, {way}, {clients}"] = found
                        lines.append([what, way, clients, *found.values()])
                for rate in args.rates:
                    count = min(requests, int(8 * rate))
                    found = measure(urls[0].strip(), nodes, count, args.clients, rate)
                    report.data[f"{what}, TCP, {rate:g}/s"] = found
                    lines.append([what, "TCP", f"{rate:g}/s", *found.values()])

        with writing(path, args.inserts) as managed:
            measure_all("beside the writer")
            with served(path, "--sample", plan, "--log", log) as urls:
                ask(urls[0].strip(), nodes, min(requests, 500), 9)
        measure_all("without a writer")
        replayed = check_replay(log, path, arena_mb=4096)
        wrong = [*replayed.differences, *replayed.missing]
        assert not wrong, wrong[:3]
    report.parameters["inserted_per_second"] = managed[0]
    report.table(
        f"two hops {FANOUTS} around one seed with {WIDTH} float32 of each node; the writer managed "
        f"{managed[0]:,.0f} edges a second",
        ["graph", "by", "clients, or open load", "p50 ms", "p99 ms", "p99.9 ms", "requests/s"],
        lines,
    )
    report.note(
        f"{replayed.answers} answers from {replayed.commits} commits were made again from the log: "
        "all the same, byte by byte."
    )
    report.finish()


if __name__ == "__main__":
    main()
