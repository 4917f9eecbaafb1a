"""``aethergraph demo``: its options; the work is in :mod:`aethergraph.demo`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from aethergraph.cli.terminal import command, refuse_given, showing_metrics
from aethergraph.demo.live.main import run_live_demo
from aethergraph.demo.live.options import LiveOptions
from aethergraph.demo.main import run_demo
from aethergraph.demo.options import DemoOptions

__all__ = ["demo_command"]

_OWN_FILES = {"edges", "features", "labels"}
_GENERATED = {"nodes", "degree"}
_STILL = {"epochs", "batches", "storage", "memory", "compare"}


class Storage(str, Enum):
    mmap = "mmap"
    memory = "memory"
    uring = "uring"
    auto = "auto"


@command
@showing_metrics()
def demo_command(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Option("--dir", help="Folder for the graph (1.2 GB), the report and the plot.")
    ] = Path("data/demo"),
    edges: Annotated[
        list[Path] | None, typer.Option(help="Your own edges instead (anything convert reads).")
    ] = None,
    features: Annotated[Path | None, typer.Option(help="Your features, with --edges.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Your labels, with --edges; -1 means no label.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=100, help="Nodes of the generated graph.")] = 2_000_000,
    degree: Annotated[int, typer.Option(min=1, help="Edges per node of it.")] = 10,
    epochs: Annotated[int, typer.Option(min=1)] = 5,
    batches: Annotated[int, typer.Option(min=1, help="Training batches per epoch.")] = 50,
    batch_size: Annotated[int, typer.Option(min=1, help="Seed nodes per batch.")] = 512,
    fanout: Annotated[str, typer.Option(help="Neighbours to sample per hop.")] = "10,5",
    hidden: Annotated[int, typer.Option(min=1, help="Width of the hidden layer.")] = 64,
    learning_rate: Annotated[
        float | None, typer.Option(min=0, help="0.003 by default, 0.01 with --live.")
    ] = None,
    storage: Annotated[
        Storage, typer.Option(help="Where our runs keep graph and features.")
    ] = Storage.mmap,
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="With uring or auto: budget of graph and features, half each, such as 512M.",
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="Also run PyG on in-memory data.")
    ] = True,
    live: Annotated[
        bool, typer.Option("--live", help="A graph that changes while it is trained on, instead.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=1, help="With --live: how long it goes on.")] = 60.0,
    rate: Annotated[
        int, typer.Option(min=1000, help="With --live: edges to insert per second.")
    ] = 100_000,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="A small graph and little training: half a minute, most of it imports."
        ),
    ] = False,
) -> None:
    """Train GraphSAGE on a graph that stays on disk, or (--live) on one that changes meanwhile."""
    try:
        fanouts = tuple(int(k) for k in fanout.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{fanout!r} is not a list of numbers such as 10,5", param_hint="--fanout"
        ) from None
    if live:
        names = _OWN_FILES | _GENERATED | _STILL
        refuse_given(context, names, "goes without --live, which makes a graph of its own")
        changing = LiveOptions(
            folder=folder,
            seconds=seconds,
            rate=rate,
            batch_size=batch_size,
            fanouts=fanouts,
            hidden=hidden,
            learning_rate=0.01 if learning_rate is None else learning_rate,
            seed=seed,
        )
        run_live_demo(changing.quick() if quick else changing)
        return
    refuse_given(context, {"seconds", "rate"}, "is for --live: give that, too")
    if edges:
        refuse_given(context, _GENERATED, "is of the generated graph, and --edges gives another")
    if edges and (features is None or labels is None):
        raise typer.BadParameter("needs --features and --labels as well", param_hint="--edges")
    if not edges and (features is not None or labels is not None):
        raise typer.BadParameter("need --edges as well", param_hint="--features, --labels")
    options = DemoOptions(
        folder=folder,
        edges=tuple(edges or ()),
        features=features,
        labels=labels,
        num_nodes=nodes,
        num_edges=nodes * degree,
        epochs=epochs,
        batches=batches,
        batch_size=batch_size,
        fanouts=fanouts,
        hidden=hidden,
        learning_rate=0.003 if learning_rate is None else learning_rate,
        storage=storage.value,
        memory_budget=memory,
        compare=compare,
        seed=seed,
    )
    run_demo(options.quick() if quick else options)
