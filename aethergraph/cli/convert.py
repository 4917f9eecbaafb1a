"""``aethergraph convert``: converts edge lists, features and labels to files."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from aethergraph.cli.live_copies import save_live
from aethergraph.cli.terminal import (
    Stages,
    command,
    count,
    duration,
    note,
    refuse_given,
    size,
    stdout,
)
from aethergraph.convert.api import convert
from aethergraph.convert.result import ConvertResult
from aethergraph.dynamic.merge import MEMORY
from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.live_directory import is_live_directory

__all__ = ["convert_command"]


class Layout(str, Enum):
    csc = "csc"
    csr = "csr"
    both = "both"


class Format(str, Enum):
    auto = "auto"
    csv = "csv"
    tsv = "tsv"
    whitespace = "whitespace"
    parquet = "parquet"
    npy = "npy"
    gl = "gl"


class TimeType(str, Enum):
    auto = "auto"
    int64 = "int64"
    float64 = "float64"


class DType(str, Enum):
    bfloat16 = "bfloat16"
    float16 = "float16"
    float32 = "float32"
    float64 = "float64"


class WeightType(str, Enum):
    auto = "auto"
    float32 = "float32"
    float64 = "float64"


class IdType(str, Enum):
    dense = "dense"
    string = "string"
    int64 = "int64"
    uint64 = "uint64"
    uuid = "uuid"


_COLUMN = "name, or number from 0"
_READING = "How the edges are read"
_STORING = "What is stored"
_TABLES = "Features and labels"
_WORKING = "How the work is done"


@command
def convert_command(
    context: typer.Context,
    inputs: Annotated[
        list[str],
        typer.Option(
            "-i",
            "--input",
            help="Edge list, pattern ('e-*.csv') or URL; may be given again. Or a live graph.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Graph file to write.")],
    force: Annotated[bool, typer.Option("-f", "--force", help="Overwrite outputs.")] = False,
    src: Annotated[
        str | None,
        typer.Option(help=f"Column of source ids: {_COLUMN}.", rich_help_panel=_READING),
    ] = None,
    dst: Annotated[
        str | None, typer.Option(help="Column of destination ids.", rich_help_panel=_READING)
    ] = None,
    ids: Annotated[
        IdType,
        typer.Option(
            help="What the ids are: dense 0 to N-1, or keys, which become such ids.",
            rich_help_panel=_READING,
        ),
    ] = IdType.dense,
    weight: Annotated[
        str | None, typer.Option(help="Column of edge weights.", rich_help_panel=_READING)
    ] = None,
    weight_type: Annotated[
        WeightType,
        typer.Option(
            help="Type of the weights; auto: float32, doubles of Parquet float64.",
            rich_help_panel=_READING,
        ),
    ] = WeightType.auto,
    time: Annotated[
        str | None, typer.Option(help="Column of edge times.", rich_help_panel=_READING)
    ] = None,
    time_type: Annotated[
        TimeType, typer.Option(help="Type of the times.", rich_help_panel=_READING)
    ] = TimeType.auto,
    time_unit: Annotated[
        str | None,
        typer.Option(
            help="Unit of the times: D, s, ms, us, ns... Integers count it, dates are read in it.",
            rich_help_panel=_READING,
        ),
    ] = None,
    attr: Annotated[
        list[str] | None,
        typer.Option(
            help="Edge attribute to carry along: NAME[=COLUMN,...][:int64|float32|float64].",
            rich_help_panel=_READING,
        ),
    ] = None,
    format: Annotated[
        Format, typer.Option(help="Input format; auto: by its name.", rich_help_panel=_READING)
    ] = Format.auto,
    delimiter: Annotated[
        str | None,
        typer.Option(
            help="Between fields: one character, or 'tab', 'space'.", rich_help_panel=_READING
        ),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Does the first line hold names? Default: detected.",
            rich_help_panel=_READING,
        ),
    ] = None,
    num_nodes: Annotated[
        int | None,
        typer.Option(
            "-n",
            "--num-nodes",
            min=0,
            help="Nodes; default: the largest id + 1, or the rows of --features or --labels if "
            "those are more.",
            rich_help_panel=_STORING,
        ),
    ] = None,
    layout: Annotated[
        Layout,
        typer.Option(
            help="Lists to store: csc in-edges (for training), csr out-edges.",
            rich_help_panel=_STORING,
        ),
    ] = Layout.csc,
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order", help="Keep the input row of every edge.", rich_help_panel=_STORING
        ),
    ] = False,
    undirected: Annotated[
        bool,
        typer.Option(
            "--undirected", help="Add the reverse of every edge.", rich_help_panel=_STORING
        ),
    ] = False,
    dedup: Annotated[
        bool,
        typer.Option(
            "--dedup",
            help="Keep one edge for each source and destination.",
            rich_help_panel=_STORING,
        ),
    ] = False,
    compress: Annotated[
        bool,
        typer.Option(
            "--compress",
            help="Store the neighbours in compressed blocks.",
            rich_help_panel=_STORING,
        ),
    ] = False,
    features: Annotated[
        Path | None,
        typer.Option(
            help="Table of features, a row per node: .npy, CSV, Parquet.", rich_help_panel=_TABLES
        ),
    ] = None,
    features_out: Annotated[
        Path | None,
        typer.Option(
            help="Where they go: .npy, or native format by any other name.",
            rich_help_panel=_TABLES,
        ),
    ] = None,
    feature_columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns that are features: COLUMN[,COLUMN...]; default: all but the id column.",
            rich_help_panel=_TABLES,
        ),
    ] = None,
    dtype: Annotated[
        DType | None,
        typer.Option(help="Store the features as this type.", rich_help_panel=_TABLES),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="One integer per node: .npy, CSV, Parquet.", rich_help_panel=_TABLES),
    ] = None,
    labels_out: Annotated[
        Path | None, typer.Option(help="Where they go (.npy).", rich_help_panel=_TABLES)
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            help="Column with the node id in CSV or Parquet features and labels.",
            rich_help_panel=_TABLES,
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Memory to take in all, such as 1G: sorts on disk, goes on after a kill.",
            rich_help_panel=_WORKING,
        ),
    ] = None,
    restart: Annotated[
        bool,
        typer.Option(
            "--restart",
            help="With --memory: begin an interrupted build anew.",
            rich_help_panel=_WORKING,
        ),
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Parsing threads.", rich_help_panel=_WORKING)
    ] = None,
) -> None:
    """Convert edge lists (CSV, TSV, blank-separated, Parquet, .npy, .gl) into a graph file.

    Of the directory of a live graph the last commit is written, whoever writes it meanwhile.

    Example: aethergraph convert -i edges.csv -o graph.aeg --features features.npy
    """
    if any(is_live_directory(path) for path in inputs):
        _convert_live(context, inputs, output, force, compress, memory)
        return
    with Stages() as stages:
        result = convert(
            list(inputs),
            output,
            num_nodes=num_nodes,
            src=src,
            dst=dst,
            weight=weight,
            time_column=time,
            time_type=time_type.value,
            time_unit=time_unit,
            weight_type=weight_type.value,
            attrs=attr or (),
            format=None if format is Format.auto else format.value,
            delimiter=delimiter,
            header=header,
            layout=layout.value,
            keep_order=keep_order,
            undirected=undirected,
            dedup=dedup,
            compress=compress,
            features=features,
            features_out=features_out,
            feature_columns=_split(feature_columns),
            dtype=None if dtype is None else dtype.value,
            labels=labels,
            labels_out=labels_out,
            id_column=id_column,
            ids=ids.value,
            memory_budget=memory,
            restart=restart,
            force=force,
            threads=threads,
            stages=stages,
            remark=note,
        )
    _report(result, features)


def _convert_live(
    context: typer.Context,
    inputs: list[str],
    output: Path,
    force: bool,
    compress: bool,
    memory: str | None,
) -> None:
    """Write the last commit of a live graph into a graph file."""
    names = set(context.params) - {"inputs", "output", "force", "compress", "memory"}
    refuse_given(context, names, "is for edge lists: a live graph is written as it is")
    if len(inputs) > 1:
        raise InvalidArgumentError(
            f"a live graph is converted alone, not with {len(inputs)} inputs"
        )
    began = perf_counter()
    with Stages() as stages:
        lsn = save_live(
            Path(inputs[0]), output, stages, force=force, compress=compress,
            memory=MEMORY if memory is None else memory,
        )  # fmt: skip
    text = f"{output}: commit {lsn} of {inputs[0]}, {size(os.path.getsize(output))}"
    stdout().print(f"{text}, {duration(perf_counter() - began)}", markup=False, soft_wrap=True)


def _split(columns: list[str] | None) -> list[str] | None:
    if columns is None:
        return None
    return [name.strip() for text in columns for name in text.split(",") if name.strip()]


def _report(result: ConvertResult, features: Path | None) -> None:
    for text in result.notes:
        note(text)
    seconds = sum(result.seconds.values())
    out = stdout()
    out.print(
        f"{result.graph}: {result.num_nodes:,} nodes, {result.num_edges:,} edges, "
        f"{result.layout}, {size(os.path.getsize(result.graph))}",
        markup=False,
        soft_wrap=True,
    )
    if result.features is not None:
        shape = " x ".join(f"{n:,}" for n in result.feature_shape)
        state = ", the file as it is" if result.features == os.fspath(features or "") else ""
        out.print(f"{result.features}: features {shape}{state}", markup=False, soft_wrap=True)
    if result.labels is not None:
        out.print(f"{result.labels}: labels", markup=False, soft_wrap=True)
    if result.ids is not None:
        out.print(f"{result.ids}: map of ids", markup=False, soft_wrap=True)
    done = f"done in {duration(seconds)}"
    if result.edges_read_now:
        speed = result.edges_read_now / max(result.seconds["read"], 1e-9)
        done += f", edges read at {count(speed)}/s"
    out.print(done, markup=False, soft_wrap=True)
