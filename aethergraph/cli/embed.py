"""``aethergraph embed``: computes a vector of every node with a trained model."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, suppress
from enum import Enum
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Annotated, Any

import numpy as np
import typer

from aethergraph._checks.optional import require
from aethergraph.cli.graphs import opened
from aethergraph.cli.live_copies import ARENA_MB
from aethergraph.cli.models import importing_from, kind_of, load_model, load_weights
from aethergraph.cli.terminal import (
    Stages,
    command,
    duration,
    ending_by_signals,
    note,
    size,
    stdout,
)  # fmt: skip
from aethergraph.convert.readers.base import check_readable
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.history import History
from aethergraph.errors import InvalidArgumentError, OutOfRangeError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.schema import NODE, as_typed
from aethergraph.inference import embed
from aethergraph.storage.budget import Budget
from aethergraph.storage.live_directory import is_live_directory

__all__ = ["embed_command"]


class DType(str, Enum):
    float16 = "float16"
    bfloat16 = "bfloat16"
    float32 = "float32"
    float64 = "float64"


#: Seconds between two looks at a graph that is followed, and between two at a signal.
_INTERVAL, _LOOK = 10.0, 0.25
_READING = "What layers read"
_FOLLOWING = "Vectors that follow a graph"
_WORKING = "How the work is done"


@command
def embed_command(
    graph: Annotated[Path, typer.Argument(help="Graph file, or directory of a live graph.")],
    model: Annotated[
        str,
        typer.Argument(
            help="FILE.py:NAME or MODULE:NAME: a model of PyG, a list of convolutions of PyG or "
            "DGL and what stands between them, functions of batches; or a function of no argument "
            "that returns one. Its Python is run."
        ),
    ],
    output: Annotated[Path, typer.Argument(help="File of the vectors to write (.npy), or folder.")],
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights to load: a file of torch.save(model.state_dict(), ...)."),
    ] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite the output.")] = False,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows of nodes for the first layer, .npy or native; default: x of the graph. "
            "TYPE=FILE of a graph of many types, for each type that has them elsewhere.",
            rich_help_panel=_READING,
        ),
    ] = None,
    edge_weight: Annotated[
        str | None,
        typer.Option(
            help="Attribute of edges that convolutions get as edge_weight.",
            rich_help_panel=_READING,
        ),
    ] = None,
    edge_attr: Annotated[
        str | None,
        typer.Option(
            help="Attribute of edges that convolutions get as edge_attr.", rich_help_panel=_READING
        ),
    ] = None,
    num_neighbors: Annotated[
        str | None,
        typer.Option(
            help="Neighbours to draw in each layer: 20, or 20,10; default: all of them.",
            rich_help_panel=_READING,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Decides which are drawn.", rich_help_panel=_READING)
    ] = 0,
    until: Annotated[
        str | None,
        typer.Option(
            help="Vectors as of this time, a number or a date: later edges are not there.",
            rich_help_panel=_READING,
        ),
    ] = None,
    time_attr: Annotated[
        str | None,
        typer.Option(
            help="Attribute with the times of --until; default: edge_time or node_time.",
            rich_help_panel=_READING,
        ),
    ] = None,
    commit: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Of a live graph, the commit of the log that is taken; default: the last one.",
            rich_help_panel=_READING,
        ),
    ] = None,
    refresh: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="Keep the rows of all layers; compute what has changed since the last time.",
            rich_help_panel=_FOLLOWING,
        ),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Refresh whenever the live graph has a later commit, until Ctrl-C.",
            rich_help_panel=_FOLLOWING,
        ),
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            max=3600,
            help=f"Seconds between two looks for one; default: {_INTERVAL:g}.",
            rich_help_panel=_FOLLOWING,
        ),
    ] = None,
    dtype: Annotated[
        DType | None,
        typer.Option(
            help="Store the vectors as this type, bfloat16 in a native file, such as vectors.bin; "
            "default: as they come.",
            rich_help_panel=_WORKING,
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Nodes of a batch; default: about 16 MB of rows.", rich_help_panel=_WORKING
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="Where the model runs, such as cuda; default: where its parameters are.",
            rich_help_panel=_WORKING,
        ),
    ] = None,
    memory_budget: Annotated[
        str | None,
        typer.Option(
            "--memory",
            help="Memory for rows and batches, such as 1G, and as much again for --features; "
            "default: 4G at most.",
            rich_help_panel=_WORKING,
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Print how each layer would be computed, what it reads and how long that takes, "
            "about; compute nothing.",
            rich_help_panel=_WORKING,
        ),
    ] = False,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            help="Do not go on from an interrupted run; with --refresh, compute all nodes.",
            rich_help_panel=_WORKING,
        ),
    ] = False,
) -> None:
    """Compute a vector of every node with a trained model, layer by layer, out of core.

    Runs the Python of MODEL: give what you trust. A run that was killed goes on where it was when
    it is repeated. Of a graph of many types OUTPUT is a folder, which gets a file of each type.

    With --refresh the rows of all layers are kept beside the output, and the same command computes
    what has changed since, in a live graph or in --features. With --follow it does so until Ctrl-C,
    which it ends at after the refresh that it is at; a second one ends it at once.

    Example: aethergraph embed graph.aeg model.py:net vectors.npy --weights net.pt --features x.npy
    """
    if follow and commit is not None:
        raise InvalidArgumentError(
            f"--commit {commit} is a single one, and --follow takes all that come: leave it out"
        )
    if interval is not None and not follow:
        raise InvalidArgumentError(
            f"--interval {interval:g} is between two looks of --follow: leave it out, or give that"
        )
    values = {"edge_weight": edge_weight, "edge_attr": edge_attr}
    options: dict[str, Any] = {
        "batch_size": batch_size, "num_neighbors": _as_fanouts(num_neighbors),
        "until": _as_time(until), "time_attr": time_attr,
        "memory_budget": memory_budget, "dtype": None if dtype is None else dtype.value,
        "seed": seed, "force": force, "restart": restart, "refresh": refresh or follow,
        "plan": plan, "remark": note,
    }  # fmt: skip
    seconds = (_INTERVAL if interval is None else interval) if follow else None
    with importing_from(model), closing(_moments(graph, commit, seconds)) as moments:
        layers: Any = None
        for source in moments:
            began = perf_counter()
            if layers is None:
                layers = _load(model, weights)
            is_live = source.native_snapshot is not None
            if is_live and not options["refresh"]:
                more = f": with --commit {source.lsn} the command goes on if others follow"
                note(f"commit {source.lsn} of {graph}{more * (commit is None)}")
            with ExitStack() as files, Stages() as stages:
                rows = _rows(features or [], source, graph, memory_budget, files)
                tables = _embed(
                    layers, source, rows, output, values, device, {**options, "stages": stages}
                )
            if plan:
                stdout().print(str(tables), markup=False, soft_wrap=True)
                continue
            of_commit = f", commit {source.lsn}" if is_live and options["refresh"] else ""
            _print(output, tables, f"{of_commit}, {duration(perf_counter() - began)}")
            options.update(force=False, restart=False)  # of what is there now


def _moments(graph: Path, commit: int | None, interval: float | None) -> Generator[Any, None, None]:
    """Yield a graph as it is; with an interval again whenever it has a later commit.

    Args:
        graph: file or directory.
        commit: the commit; None: the last one.
        interval: seconds between two looks, until a signal ends it; None: there is one look.
    """
    if interval is None:
        with opened(graph, commit) as source:
            yield source
        return
    if not is_live_directory(graph):
        check_readable(graph)
        raise InvalidArgumentError(f"--follow is for live graphs, and {graph} is none")
    directory, history, lsn = LiveDirectory(graph), None, -1
    with ending_by_signals() as is_ending, ExitStack() as files:
        while not is_ending():
            began = monotonic()
            if history is None or history.first < int(directory.current()["lsn"]) <= lsn:
                # Anew from the base of a merge: memory and file of the former one are freed.
                files.close()
                history = files.enter_context(History(graph, ARENA_MB))
            snapshot = _last(history)
            if snapshot.lsn != lsn:
                lsn = snapshot.lsn
                yield snapshot
            while not is_ending() and (left := began + interval - monotonic()) > 0:
                sleep(min(left, _LOOK))


def _last(history: History) -> Any:
    """Return the last commit, also where a merge has given up those before it."""
    while True:
        with suppress(OutOfRangeError):  # after which it begins anew, from the new base
            return history.last()


def _load(model: str, weights: Path | None) -> Any:
    """Return the model with its weights."""
    layers = load_model(model)
    if weights is not None:
        load_weights(layers, str(weights), model)
    elif kind_of(layers) != "batches":
        note(f"without --weights, {model} has those that it is made with")
    return layers


def _rows(
    texts: Sequence[str], source: Any, graph: Path, memory: str | None, files: ExitStack
) -> Any:
    """Return what the first layer reads, of a typed graph by type; None: the ``x`` of the graph.

    Args:
        texts: what ``--features`` gives: a file, or files of types.
        source: the graph at its moment.
        graph: where it is.
        memory: budget for all of them.
        files: closes them.
    """
    if source.is_typed:
        paths = _paths_of_types(texts, source.node_types, graph)
    else:
        paths = dict(zip([NODE], texts, strict=False))
        if len(texts) > 1:
            raise InvalidArgumentError(
                f"--features is given {len(texts)} times, and {graph} has one type of nodes"
            )
    typed = as_typed(source)
    of_graph = {name: rows for name in typed.node_types
                if (rows := typed[name].node_attrs.get("x")) is not None}  # fmt: skip
    if not paths and not of_graph:
        form = " TYPE=FILE" if source.is_typed else ""
        raise InvalidArgumentError(f"{graph} has no rows of nodes (x): give --features{form}")
    if not paths:
        return None
    budget = None if memory is None else Budget.parse(memory).limit // len(paths)
    for path in paths.values():
        check_readable(path)
    tables = {
        name: files.enter_context(FeatureTable.load(path, "auto", memory_budget=budget))
        for name, path in paths.items()
    }
    return {**of_graph, **tables} if source.is_typed else tables[NODE]


def _paths_of_types(texts: Sequence[str], types: Sequence[str], graph: Path) -> dict[str, str]:
    """Return files by node type, of texts such as ``paper=x.npy``."""
    paths: dict[str, str] = {}
    for text in texts:
        # A type may have a "=" in its name.
        name = max((name for name in types if text.startswith(f"{name}=")), key=len, default=None)
        if name is None:
            raise InvalidArgumentError(
                f"--features {text!r} is not TYPE=FILE, where TYPE is one of {graph}: "
                f"{', '.join(types)}"
            )
        if name in paths:
            raise InvalidArgumentError(f"--features {text!r}: {name!r} has {paths[name]!r} already")
        paths[name] = text[len(name) + 1 :]
    return paths


def _print(output: Path, tables: Any, end: str) -> None:
    """Print a line for each file."""
    by_path = {output: tables}
    if isinstance(tables, dict):
        by_path = {output / os.path.basename(table.path): table for table in tables.values()}
    for number, (path, table) in enumerate(by_path.items(), 1):
        text = f"{path}: {table.num_rows:,} vectors of {' x '.join(map(str, table.row_shape))} "
        text += f"{table.dtype_name}, {size(os.path.getsize(path))}"
        text += end if number == len(by_path) else ""
        stdout().print(text, markup=False, soft_wrap=True)


def _as_fanouts(text: str | None) -> int | list[int] | None:
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgumentError(
            f"--num-neighbors {text!r} is no number, and no numbers with commas between them"
        ) from None
    return numbers if len(numbers) > 1 else numbers[0]


def _as_time(text: str | None) -> int | float | np.datetime64 | None:
    if text is None:
        return None
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    from aethergraph.streaming.moments import as_moment, of_iso  # behind modules of sources

    moment = as_moment(of_iso(text))
    if moment is None:
        raise InvalidArgumentError(
            f"--until {text!r} is neither a number nor a date, such as 2024-02-15 or "
            "2024-02-15T12:00"
        )
    return moment


def _embed(
    model: Any, graph: Any, features: Any, out: Path, values: dict[str, str | None],
    device: str | None, options: dict[str, Any],
) -> Any:  # fmt: skip
    """Compute the vectors by the function that is for such a model; return the table or tables."""
    kind = kind_of(model)
    named = {option: name for option, name in values.items() if name is not None}
    if kind == "batches":
        if device is not None:
            raise InvalidArgumentError(f"--device {device}: MODEL has no torch modules to move")
        layers = model if isinstance(model, (list, tuple)) else [model]
        names = list(dict.fromkeys(named.values()))
        return embed(layers, graph, features, out, edge_attrs=names, **options)
    if kind == "dgl":
        if "edge_attr" in named:
            raise InvalidArgumentError("--edge-attr is for models of PyG, and MODEL is of DGL")
        backend = require("aethergraph.dgl", "convolutions of DGL need", "dgl", "dgl")
    else:
        require("torch_geometric", "models of torch need", "pyg")
        backend = require("aethergraph.pyg", "models of torch need", "pyg")
    return backend.embed(model, graph, out, features=features, device=device, **named, **options)
