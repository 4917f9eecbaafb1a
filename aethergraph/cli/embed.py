"""``aethergraph embed``: computes a vector of every node with a trained model."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, cast

import typer

from aethergraph._checks.optional import require
from aethergraph.cli.graphs import opened
from aethergraph.cli.models import importing_from, kind_of, load_model, load_weights
from aethergraph.cli.terminal import Stages, command, duration, note, size, stdout
from aethergraph.convert.readers.base import check_readable
from aethergraph.errors import InvalidArgumentError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.inference import embed

__all__ = ["embed_command"]


class DType(str, Enum):
    float16 = "float16"
    float32 = "float32"
    float64 = "float64"


_READING = "What layers read"
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
    output: Annotated[
        Path,
        typer.Argument(
            help="File of the vectors to write (.npy); of a graph of many types the folder of them."
        ),
    ],
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights to load: a file of torch.save(model.state_dict(), ...)."),
    ] = None,
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite the output.")] = False,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows of nodes for the first layer, .npy or native; of a graph of many types "
            "TYPE=FILE, for each type that has some. Default: x of the graph.",
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
    commit: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Of a live graph, the commit of the log that is taken; default: the last one.",
            rich_help_panel=_READING,
        ),
    ] = None,
    dtype: Annotated[
        DType | None,
        typer.Option(
            help="Store the vectors as this type; default: as they come.", rich_help_panel=_WORKING
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
    restart: Annotated[
        bool,
        typer.Option(
            "--restart", help="Do not go on from an interrupted run.", rich_help_panel=_WORKING
        ),
    ] = False,
) -> None:
    """Compute a vector of every node with a trained model, layer by layer, out of core.

    Runs the Python of MODEL: give what you trust. A run that was killed goes on where it was when
    it is repeated.

    Example: aethergraph embed graph.aeg model.py:net vectors.npy --weights net.pt --features x.npy
    """
    began = perf_counter()
    with importing_from(model), opened(graph, commit) as source, Stages() as stages:
        layers = load_model(model)
        if weights is not None:
            load_weights(layers, str(weights), model)
        elif kind_of(layers) != "batches":
            note(f"without --weights, {model} has those that it is made with")
        rows = _open_rows(features, source, graph, memory_budget)
        options: dict[str, Any] = {
            "batch_size": batch_size, "num_neighbors": _as_fanouts(num_neighbors),
            "memory_budget": memory_budget, "dtype": None if dtype is None else dtype.value,
            "seed": seed, "force": force, "restart": restart, "stages": stages, "remark": note,
        }  # fmt: skip
        if source.native_snapshot is not None:
            more = f": with --commit {source.lsn} the command goes on if others follow"
            note(f"commit {source.lsn} of {graph}{more * (commit is None)}")
        values = {"edge_weight": edge_weight, "edge_attr": edge_attr}
        result = _embed(layers, source, rows, output, values, device, options)
    tables = result.values() if isinstance(result, dict) else [result]
    for table in tables:
        file = output / Path(table.path).name if isinstance(result, dict) else output
        shape = " x ".join(map(str, table.row_shape))
        text = f"{file}: {table.num_rows:,} vectors of {shape} {table.dtype_name}"
        _say(f"{text}, {size(os.path.getsize(file))}")
    _say(f"done in {duration(perf_counter() - began)}")


def _say(text: str) -> None:
    stdout().print(text, markup=False, soft_wrap=True)


def _open_rows(
    features: list[str] | None, graph: Any, name: Path, budget: str | None
) -> FeatureTable | dict[str, FeatureTable] | None:
    """Open the rows of nodes, of a graph of many types by type; None: those that the graph has."""
    if not features:
        types = graph.node_types if graph.is_typed else []
        attrs = [graph[kind].node_attrs for kind in types] or [graph.node_attrs]
        if all(table.get("x") is None for table in attrs):
            form = " TYPE=FILE" if graph.is_typed else ""
            raise InvalidArgumentError(f"{name} has no rows of nodes (x): give --features{form}")
        return None
    if not graph.is_typed:
        if len(features) > 1:
            raise InvalidArgumentError(f"--features is given once: {name} has nodes of one type")
        return _load_rows(features[0], budget)
    by_type = {}
    for text in features:
        kind, equals, path = text.partition("=")
        if not equals or kind not in graph.node_types:
            raise InvalidArgumentError(
                f"--features {text!r} is not TYPE=FILE: {name} has the types "
                f"{', '.join(graph.node_types)}"
            )
        by_type[kind] = _load_rows(path, budget)
    return by_type


def _load_rows(path: str, budget: str | None) -> FeatureTable:
    check_readable(path)
    return FeatureTable.load(path, "auto", memory_budget=budget)


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


def _embed(
    model: Any, graph: Any, features: Any, out: Path, values: dict[str, str | None],
    device: str | None, options: dict[str, Any],
) -> Any:  # fmt: skip
    """Compute the vectors by the function that is for such a model."""
    kind = kind_of(model)
    named = {option: name for option, name in values.items() if name is not None}
    if kind == "batches":
        if device is not None:
            raise InvalidArgumentError(f"--device {device}: MODEL has no torch modules to move")
        layers = model if isinstance(model, (list, tuple)) else [model]
        names = list(dict.fromkeys(named.values()))
        return cast(FeatureTable, embed(layers, graph, features, out, edge_attrs=names, **options))
    if kind == "dgl":
        if "edge_attr" in named:
            raise InvalidArgumentError("--edge-attr is for models of PyG, and MODEL is of DGL")
        backend = require("aethergraph.dgl", "convolutions of DGL need", "dgl", "dgl")
    else:
        require("torch_geometric", "models of torch need", "pyg")
        backend = require("aethergraph.pyg", "models of torch need", "pyg")
    return backend.embed(model, graph, out, features=features, device=device, **named, **options)
