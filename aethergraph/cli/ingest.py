"""``aethergraph ingest``: takes records of a stream into a live graph."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.live import Live
from rich.text import Text

from aethergraph.cli.terminal import (
    amount,
    command,
    count,
    duration,
    ending_by_signals,
    note,
    print_error,
    showing_metrics,
    stderr,
    stdout,
)  # fmt: skip
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.graph import DynamicGraph
from aethergraph.dynamic.hetero import DynamicHeteroGraph
from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.live_directory import is_live_directory
from aethergraph.streaming import Ingestor, Schema
from aethergraph.streaming.address import open_source
from aethergraph.streaming.stats import IngestStats

__all__ = ["ingest_command"]

#: Seconds between two looks at the numbers, and between two lines where there is no terminal.
_LOOK, _LINE = 0.25, 10.0


class Late(str, Enum):
    insert = "insert"
    dead_letter = "dead_letter"


class Durability(str, Enum):
    sync = "sync"
    batch = "batch"
    none = "none"


class Order(str, Enum):
    id = "id"
    time = "time"


_NEW = "A graph that is made"
_BAD = "Records that are bad or late"
_WORKING = "How the work is done"


@command
@showing_metrics()
def ingest_command(
    directory: Annotated[Path, typer.Argument(help="Directory of the live graph.")],
    source: Annotated[
        str,
        typer.Argument(
            help="kafka://HOST:PORT/TOPIC, a file or folder; or tcp://HOST:PORT, "
            "grpc[+tls]://HOST:PORT or udp://HOST:PORT to listen at.",
        ),
    ],
    schema: Annotated[Path, typer.Option(help="What fields mean, in TOML or JSON.")],
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="KEY=VALUE: of librdkafka, and start, on_gap, partitions=0,3 and timeout of a "
            "topic; token_file, cert, key, max_message of what listens; pattern of a folder."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name that the graph keeps the offsets under.")
    ] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="End behind what is there now.")
    ] = False,
    dead_letter: Annotated[
        Path | None, typer.Option(help="File for records that do not fit.", rich_help_panel=_BAD)
    ] = None,
    max_bad: Annotated[
        str, typer.Option(help="Most of them: a number or a share.", rich_help_panel=_BAD)
    ] = "1%",
    late: Annotated[
        Late, typer.Option(help="What becomes of late records.", rich_help_panel=_BAD)
    ] = Late.insert,
    lateness: Annotated[
        str, typer.Option(help="Age of a record that is not late yet.", rich_help_panel=_BAD)
    ] = "0",
    max_skew: Annotated[
        str | None,
        typer.Option(help="How far a partition may be ahead of others.", rich_help_panel=_BAD),
    ] = None,
    max_ahead: Annotated[
        str,
        typer.Option(
            help="How far a time may be ahead of the clock: 1h, none; auto: a day, where times "
            "are dates.",
            rich_help_panel=_BAD,
        ),
    ] = "auto",
    max_time: Annotated[
        str | None,
        typer.Option(
            help="Largest time, a number or a date: one beyond is bad.", rich_help_panel=_BAD
        ),
    ] = None,
    new_nodes: Annotated[
        int,
        typer.Option(min=0, help="Nodes that a commit may add for new ids.", rich_help_panel=_BAD),
    ] = 0,
    batch: Annotated[
        int, typer.Option(min=1, help="Records to a commit.", rich_help_panel=_WORKING)
    ] = 10_000,
    linger: Annotated[
        str, typer.Option(help="Time until a smaller commit.", rich_help_panel=_WORKING)
    ] = "5ms",
    cut: Annotated[
        int | None,
        typer.Option(
            min=1,
            rich_help_panel=_WORKING,
            help="Commit at multiples of this many offsets of all partitions: the same everywhere.",
        ),
    ] = None,
    durability: Annotated[
        Durability, typer.Option(help="When commits are on disk.", rich_help_panel=_WORKING)
    ] = Durability.batch,
    arena_mb: Annotated[
        int, typer.Option(min=1, help="MiB of memory for edges.", rich_help_panel=_WORKING)
    ] = 1024,
    num_nodes: Annotated[
        int | None, typer.Option("-n", "--num-nodes", min=0, help="Nodes.", rich_help_panel=_NEW)
    ] = None,
    order: Annotated[
        Order | None, typer.Option(help="Order of the lists.", rich_help_panel=_NEW)
    ] = None,
    edge_time: Annotated[
        str | None,
        typer.Option(
            help="int64, or datetime64\\[us], or of another unit: edges have times.",
            rich_help_panel=_NEW,
        ),
    ] = None,
    edge_weight: Annotated[
        str | None, typer.Option(help="float32: edges have weights.", rich_help_panel=_NEW)
    ] = None,
) -> None:
    """Take records of a stream into a live graph, each of them once, until Ctrl-C.

    What was read is committed then; a second Ctrl-C does not wait for that. With --until-end the
    exit status is 130 if the end was not reached.

    Killed at any moment and run again, it goes on where the graph is. Other processes read the
    graph meanwhile: DynamicGraph.attach(DIRECTORY).

    Example: aethergraph ingest g.aegd kafka://localhost:9092/edges --schema edges.toml
    """
    fields = Schema.load(schema)
    stream = open_source(source, fields, name=name, until_end=until_end, options=_options(option))
    new = {"order": order and order.value, "edge_time": edge_time, "edge_weight": edge_weight}
    is_new = not directory.exists()
    with (
        closing(
            _open_graph(directory, num_nodes, arena_mb, durability.value, new, fields)
        ) as graph,
        _forgetting(directory, graph, is_new=is_new),
    ):
        ingestor = Ingestor(
            graph, stream, batch=batch, linger=linger, dead_letter=dead_letter,
            max_bad=_number(max_bad), late=late.value, lateness=_number(lateness), cut=cut,
            max_skew=None if max_skew is None else _number(max_skew), new_nodes=new_nodes,
            max_ahead=None if max_ahead == "none" else max_ahead,
            max_time=None if max_time is None else _number(max_time), gives_way=False,
        )  # fmt: skip
        began = time.monotonic()
        stats = _watch(ingestor)
    seconds = time.monotonic() - began
    stdout().print(
        f"{directory}: {stats.records:,} records in {duration(seconds)}: {_summary(stats)}",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    if until_end and stats.state != "ended":
        why = f" ({stats.reason})" if stats.reason else ""
        print_error(f"{source} was not read to its end{why}: run the command again to go on")
        raise typer.Exit(130)  # as of what is interrupted


@contextmanager
def _forgetting(directory: Path, graph: Any, *, is_new: bool) -> Iterator[None]:
    """Remove a graph that this made, if nothing was committed to it before an error.

    Else the same command with other options would be refused, for a graph that never was.
    """
    first = graph.lsn
    try:
        yield
    except BaseException:
        if is_new and graph.lsn == first:
            graph.close()
            shutil.rmtree(directory, ignore_errors=True)
        raise


def _options(texts: list[str] | None) -> dict[str, str]:
    options = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise InvalidArgumentError(f"--option {text!r} is not KEY=VALUE")
        options[key] = value
    return options


def _number(text: str) -> Any:
    return int(text) if text.removeprefix("-").isdecimal() else text


def _open_graph(
    path: Path,
    num_nodes: int | None,
    arena_mb: int,
    durability: str,
    new: dict[str, Any],
    schema: Schema,
) -> Any:
    """Open the graph, of one type or of many; or make one."""
    options: dict[str, Any] = {"arena_mb": arena_mb, "durability": durability}
    if not is_live_directory(path):
        _refuse_types(schema)
        kinds = set(schema.ids.values())
        if num_nodes is None and not kinds:
            raise InvalidArgumentError(
                f"there is no live graph in {path}: give --num-nodes to make one, or ids in the "
                "schema, if nodes have keys"
            )
        if len(kinds) > 1:
            raise InvalidArgumentError(
                f"ids = {dict(schema.ids)}: nodes of one type have keys of one type; make a typed "
                "graph in Python"
            )
        return DynamicGraph.open(
            path, num_nodes, ids=kinds.pop() if kinds else None, **options, **new
        )
    if list(LiveDirectory(path).description()["num_nodes"]) == ["node"]:
        return DynamicGraph.open(path, num_nodes, **options, **new)
    names = [name for name, value in {"num_nodes": num_nodes, **new}.items() if value is not None]
    if names:
        raise InvalidArgumentError(
            f"--{names[0].replace('_', '-')} is for a graph of one type, and that in {path} has "
            "several: leave it out"
        )
    return DynamicHeteroGraph.open(path, **options)


def _refuse_types(schema: Schema) -> None:
    """Refuse a schema that names types, where a graph is made for it."""
    for name in ("edge_type", "relation", "node_type"):
        value = getattr(schema, name)
        if value not in (None, "node", ("node", "to", "node")):
            example = value if name == "edge_type" else ("user", "votes", "post")
            nodes = ", ".join(f"{kind!r}: COUNT" for kind in dict.fromkeys(example[::2]))
            raise InvalidArgumentError(
                f"the schema has {name} = {value!r}, and aethergraph ingest makes graphs of one "
                "type: make the graph in Python, by DynamicHeteroGraph.open(DIRECTORY, "
                f"{{{nodes}}}, [{example!r}]), and run the command again"
            )


def _watch(ingestor: Ingestor) -> IngestStats:
    """Run an ingestor, and show how it goes, until it ends or is interrupted.

    The first signal lets it make its last commit; the second does not wait for that.
    """
    console = stderr()
    with ending_by_signals() as is_ending:
        with Live(console=console, refresh_per_second=4, transient=True) as display:
            ingestor.start()
            last, at, note_time = ingestor.stats(), time.monotonic(), time.monotonic()
            while last.state not in ("ended", "stopped", "failed") and not is_ending():
                time.sleep(_LOOK)
                now = ingestor.stats()
                if now.state == "failed":  # which is printed as an error
                    break
                seconds = time.monotonic() - at
                speed = (now.records - last.records) / seconds
                text = _line(now, speed, console.width if console.is_terminal else None)
                last, at = now, time.monotonic()
                if console.is_terminal:
                    display.update(Text(text))
                elif time.monotonic() - note_time >= _LINE:
                    note_time = time.monotonic()
                    note(text)
        ingestor.stop()
    return ingestor.stats()


#: What the numbers of an ingestor count, those of the graph and those of records.
_CHANGES = {
    "edges": "edges", "deleted": "edges deleted", "rows": "rows of nodes", "nodes": "new nodes"
}  # fmt: skip
_RECORDS = {"bad": "bad", "late": "late"}


def _line(stats: IngestStats, speed: float, width: int | None = None) -> str:
    """Return how it goes in words.

    Args:
        stats: the numbers as of now.
        speed: records in a second.
        width: columns for it, where only what is needed most is said if they are few; None: any.
    """
    text = f"{stats.state}: {count(stats.records)} records, {count(speed)}/s"
    if stats.total_lag:
        text += f", {amount(stats.total_lag, stats.lag_unit or 'records')} left"
    if stats.reason:
        return f"{text} ({stats.reason})"
    time = stats.watermark_time
    if isinstance(time, np.datetime64) and np.can_cast("datetime64[s]", time.dtype, "safe"):
        time = time.astype("datetime64[s]")  # it goes on by whole seconds at best
    parts = _numbers(stats, _RECORDS, count)
    parts += [] if time is None else [f"watermark {time}"]
    for part in (*parts, *_numbers(stats, _CHANGES, count)):
        if width is None or len(f"{text}, {part}") <= width:
            text += f", {part}"
    return text


def _numbers(stats: IngestStats, nouns: Mapping[str, str], text: Callable[[int], str]) -> list[str]:
    return [f"{text(getattr(stats, name))} {noun}" for name, noun in nouns.items()
            if getattr(stats, name)]  # fmt: skip


def _summary(stats: IngestStats) -> str:
    parts = _numbers(stats, {**_CHANGES, **_RECORDS}, "{:,}".format) or ["0 edges"]
    return f"{', '.join(parts)}; {stats.commits:,} commits"
