"""``aethergraph serve``: answers gathers of rows, and requests for samples, of other processes."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Annotated, Any

import typer

from aethergraph.cli.terminal import command, count, note, settle_stdout, showing_metrics, size
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.live import LiveFeatureTable
from aethergraph.protocols import RowSource
from aethergraph.remote import FeatureServer, SampleService, open_tables
from aethergraph.remote.address import read_token
from aethergraph.remote.files import is_graph
from aethergraph.remote.leases import LEASE_SECONDS, MOST_LEASES
from aethergraph.remote.listening import LOOPBACK
from aethergraph.remote.server import MOST_CONNECTIONS, check_seconds
from aethergraph.storage.live_directory import is_live_directory

__all__ = ["serve_command"]

_PLACE = "Where it listens"
_SECURITY = "Who may connect"
_SAMPLES = "Samples"
#: Seconds that a thread may keep the interpreter while others want it: Python's own, 5 ms, would be
#: seen in the slowest answers.
_SWITCH_SECONDS = 0.0005
#: Seconds between two looks for a signal that another thread has taken.
_LOOK = 0.2
#: Letters of a token that nobody goes through all of.
_TOKEN_LETTERS = 16


@command
@showing_metrics()
def serve_command(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Feature files, .npy or native, live tables (.aet), graph files, and live graphs."
        ),
    ],
    tcp: Annotated[
        str | None,
        typer.Option(help="HOST:PORT; port 0: any that is free.", rich_help_panel=_PLACE),
    ] = None,
    unix: Annotated[
        Path | None,
        typer.Option(
            help="Path of a unix socket, which its user alone can open (mode 0600).",
            rich_help_panel=_PLACE,
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File of the secret.", rich_help_panel=_SECURITY)
    ] = None,
    tls: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Files of certificate and key.", rich_help_panel=_SECURITY),
    ] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name of a file's table, once for each file; else that of the file."),
    ] = None,
    graph: Annotated[
        bool,
        typer.Option(
            "--graph",
            help="Serve the lists of graphs, too, to sample from; those of live graphs are anyway, "
            "but with --sample.",
        ),
    ] = False,
    sample: Annotated[
        Path | None,
        typer.Option(
            help="Plan in TOML: draw samples from the graphs for whoever asks.",
            rich_help_panel=_SAMPLES,
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(
            help="File that gets a line for each sample; see aethergraph replay.",
            rich_help_panel=_SAMPLES,
        ),
    ] = None,
    shard: Annotated[
        str, typer.Option(help="K/N: serve the K-th (from 0) of N ranges of the rows.")
    ] = "0/1",
    missing: Annotated[
        str,
        typer.Option(help="Rows of live tables that nobody has written: error, zero, or nan."),
    ] = "error",
    rdma: Annotated[
        bool,
        typer.Option(
            "--rdma",
            help="Let network cards read live tables, and copies of other rows, in memory.",
            rich_help_panel=_SECURITY,
        ),
    ] = False,
    lease: Annotated[
        float,
        typer.Option(
            help="Seconds that a commit of a live graph is held for a client at most; inf: as long "
            "as it is connected."
        ),
    ] = LEASE_SECONDS,
    max_leases: Annotated[
        int,
        typer.Option(help="Commits of live graphs that are held for clients, at once: 1 to 256."),
    ] = MOST_LEASES,
    max_connections: Annotated[
        int,
        typer.Option(
            help="Connections at once; a client has one for each table and thread.",
            rich_help_panel=_PLACE,
        ),
    ] = MOST_CONNECTIONS,
    grace: Annotated[
        float,
        typer.Option(
            help="Seconds that answers may take at the end; inf: as long as they do. A second "
            "Ctrl-C or SIGTERM ends them at once."
        ),
    ] = 10.0,
) -> None:
    """Answer gathers of rows, and requests for samples, until Ctrl-C or SIGTERM.

    It listens at 127.0.0.1 with a free port, unless told otherwise. Addresses that others reach
    need --token-file and --tls. Readers: aethergraph.remote.open_source("tcp://HOST:PORT/NAME"),
    or feature_source= of a loader. Of a graph file its attributes are served; with --graph, and of
    a live graph, the lists, too: aethergraph.remote.open_graph("tcp://HOST:PORT") samples from
    them. With --sample it answers aethergraph.remote.open_sampler("tcp://HOST:PORT") by whole
    samples with their rows, of a live graph from its last commit.

    Example: aethergraph serve features.npy --tcp 127.0.0.1:9999
    """
    host, port = _place(tcp, unix)
    if port is not None and host not in LOOPBACK and (token_file is None or tls is None):
        raise InvalidArgumentError(
            f"--tcp {tcp} is open to others: give --token-file and --tls, or listen at 127.0.0.1"
        )
    if tls is not None and port is None:
        raise InvalidArgumentError(
            "--tls is of TCP, and --unix goes without: give --tcp, too, or leave it out"
        )
    check_seconds(grace)
    if "" in (name or []):
        raise InvalidArgumentError("--name is empty: give the table one, or leave it out")
    if log is not None and sample is None:
        raise InvalidArgumentError("--log is of samples: give --sample PLAN, too")
    if graph and not any(is_graph(path) for path in files):
        raise InvalidArgumentError("--graph: none of the files is a graph with lists to serve")
    if missing != "error" and not any(map(_is_live_table, files)):
        raise InvalidArgumentError(
            f"--missing {missing}: none of the files is a live table (.aet), of which rows may be "
            "missing"
        )
    if token_file is not None:
        _check_token(token_file)
    tables = _tables(files, name or [], graph, sample is not None, rdma, missing)
    if shard != "0/1" and not tables:
        raise InvalidArgumentError(
            f"--shard {shard} is of rows, and none are served but with lists or samples: leave it "
            "out"
        )
    live = _live(files, name or [], graph, sample is not None)
    if not live:
        for option, value, default in (
            ("--lease", lease, LEASE_SECONDS),
            ("--max-leases", max_leases, MOST_LEASES),
        ):
            if value != default:
                raise InvalidArgumentError(
                    f"{option} {value}: no lists of a live graph are served, whose commits would "
                    "be held: leave it out"
                )
    samples = _samples(files, name or [], sample)
    if log is not None and len(samples) > 1:
        raise InvalidArgumentError(
            f"--log is of samples of one graph, and there are {len(samples)}: {', '.join(samples)}"
        )
    server = FeatureServer(
        tables,
        host=host, port=port, unix=unix,
        token=None if token_file is None else read_token(token_file),
        tls=tls, shard=_shard(shard), max_connections=max_connections, rdma=rdma, samples=samples,
        log=log, graphs=live, lease=lease, max_leases=max_leases,
    )  # fmt: skip
    if sample is not None:
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.freeze()  # what is there stays, and passes over it would be seen, too
    signals: SimpleQueue[int | None] = SimpleQueue()  # a handler may put into it at any time

    def stop(number: int, _: object) -> None:
        signals.put(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.start()
        _say(f"serving {', '.join(server.names)} at {' and '.join(server.addresses)}")
        _next(signals)
        _close(server, grace, signals)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    stats = server.stats()
    _say(
        f"ended: {count(stats.rows)} rows ({size(stats.row_bytes)}) in {count(stats.requests)} "
        f"requests, {count(stats.accepted)} connections"
        + (f", {count(stats.samples)} samples" if stats.samples else "")
    )


def _close(server: FeatureServer, grace: float, signals: SimpleQueue[int | None]) -> None:
    """Close a server, within its grace, or at once when another signal comes meanwhile."""
    failed: list[BaseException] = []

    def close() -> None:
        try:
            server.close(grace)
        except BaseException as error:  # is raised where the command can say it
            failed.append(error)
        signals.put(None)

    threading.Thread(target=close, daemon=True, name="aethergraph close").start()
    if _next(signals) is not None:
        server.close(0)
    if failed:
        raise failed[0]


def _next(signals: SimpleQueue[int | None]) -> int | None:
    """Return the next signal; None: the server has closed.

    Any thread of the process may take a signal from the system, such as one that begins another;
    the main thread, where its handler runs, does not wake up then.
    """
    while True:
        with suppress(Empty):
            return signals.get(timeout=_LOOK)


def _say(text: str) -> None:
    """Print a line at once, since a service's log is no terminal; go on when nobody reads it."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        settle_stdout()


def _check_token(path: Path) -> None:
    """Note what makes a token easy to know."""
    if path.exists() and path.stat().st_mode & 0o077:
        note(f"--token-file {path} can be read by others than its user: chmod 600")
    if len(read_token(path)) < _TOKEN_LETTERS:
        note(f"--token-file {path} has few letters, which can be guessed: openssl rand -hex 32")


def _place(tcp: str | None, unix: Path | None) -> tuple[str, int | None]:
    """Return host and port of ``--tcp``; port None: not over TCP."""
    if tcp is None:
        return "127.0.0.1", 0 if unix is None else None
    host, colon, port = tcp.rpartition(":")
    if not colon or not host or not port.isdecimal():
        raise InvalidArgumentError(f"--tcp {tcp!r} is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _shard(text: str) -> tuple[int, int]:
    k, slash, n = text.partition("/")
    if not slash or not k.isdecimal() or not n.isdecimal():
        raise InvalidArgumentError(f"--shard {text!r} is not K/N: 0/2 and 1/2 are two")
    return int(k), int(n)


def _is_live_table(path: Path) -> bool:
    return not is_live_directory(path) and LiveFeatureTable.is_table(path)


def _samples(files: list[Path], names: list[str], plan: Path | None) -> dict[str, SampleService]:
    """Return what draws samples, from each of the files that is a graph."""
    if plan is None:
        return {}
    services = {}
    for path, name in zip(files, names or [file.stem for file in files], strict=True):
        if is_graph(path):
            if name in services:
                raise InvalidArgumentError(
                    f"two graphs are called {name!r}: give --name for each file"
                )
            services[name] = SampleService(path, plan)
    if not services:
        raise InvalidArgumentError("--sample: none of the files is a graph to draw samples from")
    return services


def _live(files: list[Path], names: list[str], lists: bool, samples: bool) -> dict[str, Path]:
    """Return the live graphs whose lists are served."""
    directories: dict[str, Path] = {}
    for path, name in zip(files, names or [file.stem for file in files], strict=True):
        if is_live_directory(path) and (lists or not samples):
            if name in directories:
                raise InvalidArgumentError(
                    f"two graphs are called {name!r}: give --name for each file"
                )
            directories[name] = path
    return directories


def _tables(
    files: list[Path], names: list[str], lists: bool, samples: bool, writable: bool, missing: Any
) -> dict[str, RowSource]:
    if names and len(names) != len(files):
        raise InvalidArgumentError(
            f"--name is given {len(names)} times for {len(files)} files: give one for each, or none"
        )
    sources: dict[str, Any] = {}
    for i, path in enumerate(files):
        if is_live_directory(path):
            continue  # commits of it are served, or samples
        if samples and not lists and is_graph(path):
            continue  # their rows come with the samples
        name = names[i] if names else None
        tables = open_tables(path, name, lists=lists, writable=writable, missing=missing)
        for key, rows in tables.items():
            if key in sources:
                raise InvalidArgumentError(
                    f"two tables are called {key!r}: give --name for each file"
                )
            sources[key] = rows
    return sources
