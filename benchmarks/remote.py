"""Rows of features from a server on this machine: ours, Redis, and files without a server.

    python benchmarks/remote.py [--quick] [--rows 200000] [--rounds 7]

Gathers of random rows of 512 bytes, one after the other, by contenders that take turns:

    FeatureTable   a file that is mapped, in this process
    numpy.memmap   the same file
    mapped         the same file, by the descriptor that `aethergraph serve` gives at a unix socket
    unix, TCP, TLS `aethergraph serve` in another process, asked for each row
    sockets        a server of ten lines in Python: ids come, `rows[ids].tobytes()` goes
    bytes alone    as many bytes over TCP, the same ones each time, so nothing is gathered: the most
                   that any server can do with whom it does not share memory
    Flight         Arrow Flight, an exchange of ids and rows over one stream (needs pyarrow)
    redis          redis-py with hiredis: MGET over TCP from a Redis (needs redis-server)

Then epochs of PyG's own NodeLoader, alone and with LookAhead(plan=10), which asks for rows
of coming batches ahead, and of our NeighborLoader, with features of the file and of the server:
batches alone, and with a step of a two-layer GraphSAGE, which takes both cores. Last, samples of
two hops from a graph file, mapped and by io_uring within a budget, and from a server of it. In
epochs, too, "bytes alone" are rows that are not those asked for, but come as soon as they can; and
"TCP, 1 ms away" goes through a process that hands everything on half a millisecond later, in both
directions: what `tc netem` does, where the kernel lacks it.
"""

from __future__ import annotations

import multiprocessing
import queue
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from harness import common
from harness.common import Ratio, Report
from numpy.typing import NDArray

WIDTH = 128  # float32: 512 bytes
AWAY, ALONE = "TCP, 1 ms away", "bytes alone"
Gather = Callable[[NDArray[np.int64]], Any]


@contextmanager
def served(*args: object) -> Iterator[list[str]]:
    """Run ``aethergraph serve``; yield its addresses."""
    command = [sys.executable, "-c", "from aethergraph.cli import main; main()", "serve"]
    with subprocess.Popen([*command, *map(str, args)], stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        try:
            yield one.stdout.readline().split(" at ")[1].split(" and ")
        finally:
            one.terminate()


@contextmanager
def redis_of(table: NDArray[np.float32], folder: Path) -> Iterator[Gather | None]:
    """Run a Redis that has the rows by their number; yield its gather, or None without one."""
    if shutil.which("redis-server") is None or not common.importable("redis"):
        yield None
        return
    import redis

    with subprocess.Popen(
        ["redis-server", "--port", "7391", "--bind", "127.0.0.1", "--save", "", "--dir", folder],
        stdout=subprocess.DEVNULL,
    ) as server:
        try:
            client = redis.Redis(port=7391)
            for _ in range(100):
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    time.sleep(0.05)
            for begin in range(0, len(table), 10_000):
                rows = table[begin : begin + 10_000]
                client.mset({begin + i: row.tobytes() for i, row in enumerate(rows)})

            def gather(ids: NDArray[np.int64]) -> Any:
                found = b"".join(client.mget(ids.tolist()))
                return np.frombuffer(found, np.float32).reshape(len(ids), WIDTH)

            yield gather
        finally:
            server.terminate()


@contextmanager
def apart(serve: Callable[..., None], *args: Any) -> Iterator[int]:
    """Run ``serve(*args, port queue)`` in a process of its own; yield the port."""
    context = multiprocessing.get_context("spawn")
    ports = context.Queue()
    process = context.Process(target=serve, args=(*args, ports), daemon=True)
    process.start()
    try:
        yield ports.get(timeout=60)
    finally:
        process.kill()
        process.join()


@contextmanager
def only_client(ports: Any) -> Iterator[socket.socket]:
    """Listen at a free port, and yield the one connection that comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ports.put(listener.getsockname()[1])
        with listener.accept()[0] as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield client


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


def serve_sockets(path: str, ports: Any) -> None:
    """Answer ids with rows: as short as a server in Python can be."""
    rows = np.load(path, mmap_mode="r")
    with only_client(ports) as client:
        while size := client.recv(8, socket.MSG_WAITALL):
            count = int.from_bytes(size, "little")
            ids = np.frombuffer(client.recv(8 * count, socket.MSG_WAITALL), np.int64)
            client.sendall(rows[ids].tobytes())


@contextmanager
def sockets_of(path: Path) -> Iterator[Gather]:
    with apart(serve_sockets, str(path)) as port, connected(port) as sock:

        def gather(ids: NDArray[np.int64]) -> Any:
            sock.sendall(len(ids).to_bytes(8, "little") + ids.tobytes())
            out = np.empty((len(ids), WIDTH), np.float32)
            view = memoryview(out).cast("B")
            while len(view):
                view = view[sock.recv_into(view) :]
            return out

        yield gather


def serve_late(port: int, seconds: float, ports: Any) -> None:
    """Hand on what comes in either direction, as much later."""

    def carry(source: socket.socket, sink: socket.socket) -> None:
        under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def deliver() -> None:
            while True:
                due, some = under_way.get()
                time.sleep(max(0.0, due - time.monotonic()))
                sink.sendall(some)

        threading.Thread(target=deliver, daemon=True).start()
        while some := source.recv(1 << 18):
            under_way.put((time.monotonic() + seconds, some))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        ports.put(listener.getsockname()[1])
        while True:
            near, far = listener.accept()[0], socket.create_connection(("127.0.0.1", port))
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for pair in ((near, far), (far, near)):
                threading.Thread(target=carry, args=pair, daemon=True).start()


def serve_bytes(most: int, ports: Any) -> None:
    """Answer a number with as many bytes."""
    memory = memoryview(bytearray(most))
    with only_client(ports) as client:
        while size := client.recv(8, socket.MSG_WAITALL):
            client.sendall(memory[: int.from_bytes(size, "little")])


class BytesAlone:
    """Source of rows that are as large as those of a table, and come over TCP, but are not its."""

    dtype_name = "float32"

    def __init__(self, sock: socket.socket, num_rows: int) -> None:
        self.num_rows, self.shape = num_rows, (num_rows, WIDTH)
        self._sock = sock

    def gather(
        self, ids: NDArray[np.int64], out: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        if out is None:
            out = np.empty((len(ids), WIDTH), np.float32)
        self._sock.sendall(out.nbytes.to_bytes(8, "little"))
        view = memoryview(out).cast("B")
        while len(view):
            view = view[self._sock.recv_into(view) :]
        return out


@contextmanager
def bytes_alone(num_rows: int) -> Iterator[BytesAlone]:
    with apart(serve_bytes, 512 * num_rows) as port, connected(port) as sock:
        yield BytesAlone(sock, num_rows)


def serve_flight(path: str, ports: Any) -> None:
    """Answer batches of ids with batches of rows, over one exchange."""
    import pyarrow as pa
    from pyarrow import flight

    rows = np.load(path, mmap_mode="r")
    schema = pa.schema([("x", pa.list_(pa.float32(), WIDTH))])

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            writer.begin(schema)
            for chunk in reader:
                found = rows[chunk.data.column(0).to_numpy()].reshape(-1)
                column = pa.FixedSizeListArray.from_arrays(pa.array(found), WIDTH)
                writer.write_batch(pa.record_batch([column], schema=schema))

    server = Server("grpc://127.0.0.1:0")
    ports.put(server.port)
    server.serve()


@contextmanager
def flight_of(path: Path) -> Iterator[Gather | None]:
    if not common.importable("pyarrow"):
        yield None
        return
    import pyarrow as pa
    from pyarrow import flight

    schema = pa.schema([("id", pa.int64())])
    with (
        apart(serve_flight, str(path)) as port,
        flight.connect(f"grpc://127.0.0.1:{port}") as client,
    ):
        writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(b"x"))
        with writer:
            writer.begin(schema)

            def gather(ids: NDArray[np.int64]) -> Any:
                writer.write_batch(pa.record_batch([pa.array(ids)], schema=schema))
                column = reader.read_chunk().data.column(0)
                return column.values.to_numpy().reshape(len(ids), WIDTH)

            yield gather


def certificate(folder: Path) -> tuple[Path, Path]:
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out",
         str(cert), "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key


def measure(
    contenders: dict[str, Gather], table: NDArray[np.float32], count: int, rounds: int, calls: int
) -> dict[str, list[float]]:
    """Return the median seconds of a gather in each round."""
    rng = np.random.default_rng(count)
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(-1, rounds):
        for name, gather in contenders.items():
            times = []
            for _ in range(calls):
                ids = rng.integers(0, len(table), count)
                begin = time.perf_counter()
                rows = gather(ids)
                times.append(time.perf_counter() - begin)
            assert name == ALONE or (rows == table[ids]).all()
            if turn >= 0:
                found[name].append(statistics.median(times))
    return found


def epochs(
    sources: dict[str, Any], num_nodes: int, batch: int, rounds: int, training: bool
) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of epochs by loader and source, in turns."""
    import torch
    from torch.utils.data import BatchSampler, SequentialSampler
    from torch_geometric.loader import NodeLoader
    from torch_geometric.nn import GraphSAGE

    from aethergraph import Graph
    from aethergraph.pyg import FeatureStore, GraphStore, LookAhead, NeighborLoader, NeighborSampler

    src, dst = common.power_law_edges(num_nodes, 10 * num_nodes)
    seeds = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))[: 20 * batch]
    ahead = "NodeLoader, LookAhead"
    loaders: dict[str, dict[str, Any]] = {"PyG's NodeLoader": {}, ahead: {}, "NeighborLoader": {}}
    for name, source in sources.items():
        graph = Graph.from_edges(num_nodes, src, dst)
        graph.node_attrs["x"] = source
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        sampler = NeighborSampler(stores, [10, 5])
        loaders["PyG's NodeLoader"][name] = NodeLoader(stores, sampler, seeds, batch_size=batch)
        planner = NeighborSampler(stores, [10, 5])
        batches = BatchSampler(SequentialSampler(range(len(seeds))), batch, False)
        look = LookAhead(planner, seeds, batches, plan=10, features=stores[0])
        loaders[ahead][name] = NodeLoader(stores, planner, seeds, batch_sampler=look)
        loaders["NeighborLoader"][name] = NeighborLoader(stores, [10, 5], seeds, batch_size=batch)
    model = GraphSAGE(WIDTH, 64, 2)

    def step(data: Any) -> None:
        if training:
            model.zero_grad()
            model(data.x, data.edge_index)[: data.batch_size].sum().backward()

    found: dict[str, dict[str, list[float]]] = {
        kind: {name: [] for name in sources} for kind in loaders
    }
    for turn in range(-1, rounds):
        for kind, by_source in loaders.items():
            for name, loader in by_source.items():
                begin = time.perf_counter()
                for data in loader:
                    step(data)
                if turn >= 0:
                    found[kind][name].append(time.perf_counter() - begin)
    return found


def take_turns(
    graphs: dict[str, Any], draw: Callable[[Any, int], Any], rounds: int
) -> dict[str, list[float]]:
    """Return the seconds of ten samples by where the graph is; they are the same everywhere."""
    found: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(-1, rounds):
        edges = {}
        for name, one in graphs.items():
            begin = time.perf_counter()
            for key in range(10):
                edges[name] = draw(one, key)
            if turn >= 0:
                found[name].append(time.perf_counter() - begin)
        first = next(iter(edges.values()))
        assert all((one == first).all() for one in edges.values())
    return found


def samples(folder: Path, num_nodes: int, rounds: int) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of ten samples of two hops, by kind of graph and where it is."""
    from aethergraph import (
        DynamicGraph,
        Graph,
        HeteroGraph,
        HeteroNeighborSampler,
        NeighborSampler,
    )
    from aethergraph.remote import open_graph

    src, dst = common.power_law_edges(num_nodes, 10 * num_nodes)
    at = "--tcp", "127.0.0.1:0", "--unix", folder / "g"

    def seeds(key: int) -> Any:
        return np.random.default_rng(key).permutation(num_nodes)[:512]

    def draw(sampler: Any, key: int) -> Any:
        return sampler.sample(seeds(key), key).edge

    def draw_typed(sampler: Any, key: int) -> Any:
        return np.concatenate(list(sampler.sample({"user": seeds(key)}, key).edge.values()))

    found = {}
    path = folder / "graph.aeg"
    Graph.from_edges(num_nodes, src, dst).save(path)
    with served(path, "--graph", *at) as (tcp, unix):
        graphs = {
            "mapped": Graph.load(path),
            "uring": Graph.load(path, storage="uring", memory_budget="32M"),
            "unix": open_graph(unix.strip()),
            "TCP": open_graph(tcp.strip()),
        }
        samplers = {name: NeighborSampler(one, [10, 5]) for name, one in graphs.items()}
        found["one type"] = take_turns(samplers, draw, rounds)
    path = folder / "typed.aeg"
    third = len(src) // 3
    kinds = [("user", "rates", "film"), ("film", "rated_by", "user"), ("user", "knows", "user")]
    HeteroGraph.from_edges(
        {
            kind: (src[i * third : (i + 1) * third], dst[i * third : (i + 1) * third])
            for i, kind in enumerate(kinds)
        },
        {"user": num_nodes, "film": num_nodes},
    ).save(path)
    with served(path, "--graph", *at) as (tcp, unix):
        typed = {
            "mapped": HeteroGraph.load(path),
            "uring": HeteroGraph.load(path, storage="uring", memory_budget="32M"),
            "unix": HeteroGraph.load(unix.strip()),
            "TCP": HeteroGraph.load(tcp.strip()),
        }
        samplers = {name: HeteroNeighborSampler(one, [10, 5]) for name, one in typed.items()}
        found["three edge types"] = take_turns(samplers, draw_typed, rounds)
    path = folder / "graph.aegd"
    with DynamicGraph.open(path, num_nodes, 1024, durability="none", order="time") as live:
        live.insert_edges(src, dst)
        with served(path, *at) as (tcp, unix), live.snapshot() as here:
            commits = {
                "snapshot": here,
                "unix": open_graph(unix.strip()),
                "TCP": open_graph(tcp.strip()),
            }
            samplers = {name: NeighborSampler(one, [10, 5]) for name, one in commits.items()}
            found["live"] = take_turns(samplers, draw, rounds)
            for name in ("unix", "TCP"):
                commits[name].close()
    return found


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--rows", type=int, help="rows of the table")
    made.add_argument("--rounds", type=int, default=7)
    args = common.parse(made, argv)
    from aethergraph import FeatureTable
    from aethergraph.remote import open_source

    report = Report("remote", "Rows of features from a server on this machine", args)
    num_rows = args.rows or (5_000 if args.quick else 200_000)
    rounds, calls = (2, 5) if args.quick else (args.rounds, 100)
    report.parameters = {"rows": num_rows, "row_bytes": 4 * WIDTH, "rounds": rounds, "calls": calls}
    table = np.random.default_rng(0).random((num_rows, WIDTH), dtype=np.float32)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        np.save(folder / "x.npy", table)
        cert = certificate(folder)
        places = stack.enter_context(
            served(folder / "x.npy", "--tcp", "127.0.0.1:0", "--unix", folder / "s")
        )
        secure = stack.enter_context(
            served(folder / "x.npy", "--tcp", "127.0.0.1:0", "--tls", *cert)
        )
        local, mapped = (
            FeatureTable.load(folder / "x.npy"),
            np.load(folder / "x.npy", mmap_mode="r"),
        )
        sources = {
            "FeatureTable": local,
            "mapped": open_source(places[1].strip()),
            "unix": open_source(f"{places[1].strip()}?map=no"),
            "TCP": open_source(places[0].strip()),
            "TLS": open_source(f"{secure[0].strip()}?ca={cert[0]}"),
        }
        contenders: dict[str, Gather] = {name: one.gather for name, one in sources.items()}
        contenders["numpy.memmap"] = lambda ids: mapped[ids]
        contenders["sockets"] = stack.enter_context(sockets_of(folder / "x.npy"))
        alone = stack.enter_context(bytes_alone(num_rows))
        contenders[ALONE] = alone.gather
        from_flight = stack.enter_context(flight_of(folder / "x.npy"))
        if from_flight is not None:
            contenders["Flight"] = from_flight
        from_redis = stack.enter_context(redis_of(table, folder))
        if from_redis is not None:
            contenders["redis"] = from_redis
        lines: list[list[common.Cell]] = []
        for count in (1, 256, 4096):
            found = measure(contenders, table, count, rounds, calls if count < 4096 else calls // 5)
            report.data[f"{count} rows"] = found
            for name, times in found.items():
                seconds = statistics.median(times)
                lines.append([
                    count, name, 1e6 * seconds, 512e-9 * count / seconds,
                    str(Ratio.paired(times, found["FeatureTable"])),
                    str(Ratio.paired(found["redis"], times)) if "redis" in found else "-",
                ])  # fmt: skip
        report.table(
            "one gather after the other, p50; how long beside the file, and how many while Redis "
            "answers one",
            ["rows", "contender", "us", "GB/s", "time as FeatureTable", "times as fast as Redis"],
            lines,
        )
        if common.importable("torch_geometric"):
            near = places[0].strip()
            late = stack.enter_context(apart(serve_late, int(near.rsplit(":", 1)[1]), 0.5e-3))
            far = open_source(f"tcp://127.0.0.1:{late}")
            rows: list[list[common.Cell]] = []
            for training in (False, True):
                more = {**sources, AWAY: far, ALONE: alone}
                loaded = epochs(more, num_rows, 50 if args.quick else 512, rounds, training)
                report.data["training" if training else "batches"] = loaded
                rows += [
                    [
                        kind, "training" if training else "batches alone", name,
                        50 * statistics.median(times),
                        str(Ratio.paired(found["FeatureTable"], times)),
                    ]
                    for kind, found in loaded.items() for name, times in found.items()
                ]  # fmt: skip
            report.table(
                "epochs of 20 batches, two hops; speed beside features of the file",
                ["loader", "what", "features", "ms per batch", "speed as FeatureTable"],
                rows,
            )
        drawn = samples(folder, num_rows, rounds)
        report.data["samples"] = drawn
        where: list[list[common.Cell]] = []
        for kind, by_place in drawn.items():
            local_times = next(iter(by_place.values()))
            for name, times in by_place.items():
                by_uring = Ratio.paired(by_place["uring"], times) if "uring" in by_place else "-"
                where.append([
                    kind, name, 100 * statistics.median(times),
                    str(Ratio.paired(local_times, times)), str(by_uring),
                ])  # fmt: skip
        report.table(
            "samples of 512 seeds and two hops, the same everywhere; speed beside the mapped file, "
            "and beside a snapshot in the process that writes",
            ["graph", "where", "ms", "speed as mapped, or snapshot", "speed as uring"],
            where,
        )
    if from_redis is None:
        report.note("There is no Redis here: apt install redis-server, pip install redis hiredis.")

    def draw(axes: Sequence[Any]) -> None:
        some = [line for line in lines if line[0] == 256]
        common.bars(axes[0], [str(one[1]) for one in some], [float(str(one[2])) for one in some],
                    "us for 256 rows")  # fmt: skip

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
