"""Files that the demonstration trains on: generated, or converted from the user's."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aethergraph.convert.api import convert
from aethergraph.convert.outputs import NpyWriter
from aethergraph.convert.readers.base import InputError, ProgressFn
from aethergraph.convert.readers.nodes import is_array_file, read_labels
from aethergraph.demo.options import DemoOptions
from aethergraph.errors import StorageError
from aethergraph.features.feature_table import FeatureTable
from aethergraph.graph.graph import Graph
from aethergraph.storage.memory import format_size
from aethergraph.storage.scratch import storage_error
from aethergraph.testing.graphs import CommunityGraph

__all__ = ["Dataset", "prepare"]

Stages = Callable[[str, str], ProgressFn]


@dataclass(frozen=True)
class Dataset:
    """Files and sizes; ``made`` is True if the files were written by this run."""

    graph: str
    features: str
    labels: str
    num_nodes: int
    num_edges: int
    num_features: int
    num_classes: int
    feature_bytes: int
    made: bool = True

    @property
    def in_memory_bytes(self) -> dict[str, int]:
        """Bytes of PyG's in-memory way, by part: the user's tensors, and the sampler's copy."""
        return {
            "features": self.feature_bytes,
            "edge_index (2 x int64 per edge)": 16 * self.num_edges,
            "labels": 8 * self.num_nodes,
            "sampler: CSC copy and permutation": 16 * self.num_edges + 8 * self.num_nodes,
        }


def prepare(options: DemoOptions, stages: Stages) -> Dataset:
    """Make the files in ``options.folder``, or find them there from an earlier run.

    Raises:
        StorageError: the folder cannot be made or the disk is too full.
        InputError: bad files of the user.
    """
    folder = options.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, str(folder)) from None
    recipe = _own_recipe(options) if options.edges else _generated_recipe(options)
    earlier = _find(folder, recipe)
    if earlier is not None:
        return earlier
    record = folder / "dataset.json"
    record.unlink(missing_ok=True)
    dataset = _convert(options, stages) if options.edges else _generate(options, stages)
    temporary = record.with_suffix(".tmp")
    temporary.write_text(json.dumps({"recipe": recipe, "dataset": asdict(dataset)}, indent=2))
    os.replace(temporary, record)
    return dataset


def _find(folder: Path, recipe: dict[str, Any]) -> Dataset | None:
    """Find the dataset of an earlier run; None if its recipe differs or a file is missing."""
    try:
        kept = json.loads((folder / "dataset.json").read_text())
        if kept["recipe"] != recipe:
            return None
        dataset = Dataset(**{**kept["dataset"], "made": False})
    except (OSError, ValueError, KeyError, TypeError):
        return None
    files = (dataset.graph, dataset.features, dataset.labels)
    return dataset if all(os.path.exists(path) for path in files) else None


def _generated_recipe(options: DemoOptions) -> dict[str, Any]:
    return {
        "kind": "communities",
        "version": 1,
        "num_nodes": options.num_nodes,
        "num_edges": options.num_edges,
        "num_features": options.num_features,
        "seed": options.seed,
    }


def _own_recipe(options: DemoOptions) -> dict[str, Any]:
    paths = [*options.edges, options.features, options.labels]
    states = []
    for path in paths:
        assert path is not None
        try:
            status = path.stat()
        except OSError as error:
            text = f"{path}: {error.strerror}"
            raise StorageError(error.errno or 0, text, str(path)) from None
        states.append([os.path.abspath(path), status.st_size, status.st_mtime_ns])
    return {"kind": "own", "version": 1, "files": states}


def _generate(options: DemoOptions, stages: Stages) -> Dataset:
    folder = options.folder
    spec = CommunityGraph(
        options.num_nodes, options.num_edges, num_features=options.num_features, seed=options.seed
    )
    feature_bytes = 4 * spec.num_nodes * spec.num_features
    _check_space(folder, feature_bytes + 4 * spec.num_edges + 16 * spec.num_nodes)
    src, dst = spec.edges(progress=stages("Making edges", "edges"))
    graph = Graph.from_edges(spec.num_nodes, src, dst, progress=stages("Building lists", "B"))
    del src, dst
    graph.save(folder / "graph.aeg", progress=stages("Writing graph", "B"))
    spec.write_features(folder / "features.npy", progress=stages("Making features", "nodes"))
    with NpyWriter(folder / "labels.npy", np.int64, ()) as writer:
        writer.append(spec.labels)
        writer.commit()
    return Dataset(
        graph=str(folder / "graph.aeg"),
        features=str(folder / "features.npy"),
        labels=str(folder / "labels.npy"),
        num_nodes=spec.num_nodes,
        num_edges=spec.num_edges,
        num_features=spec.num_features,
        num_classes=spec.num_classes,
        feature_bytes=feature_bytes,
    )


def _convert(options: DemoOptions, stages: Stages) -> Dataset:
    folder = options.folder
    assert options.features is not None and options.labels is not None
    labels = read_labels(options.labels)
    if labels.max(initial=-1) < 1:
        raise InputError(options.labels, "training needs at least two classes, 0 and 1")
    result = convert(
        list(options.edges),
        folder / "graph.aeg",
        features=options.features,
        features_out=None if is_array_file(options.features) else folder / "features.npy",
        labels=options.labels,
        labels_out=folder / "labels.npy",
        force=True,
        stages=stages,
    )
    assert result.features is not None
    with FeatureTable.load(result.features) as store:
        if store.ndim != 2:
            raise InputError(options.features, f"has shape {store.shape}; features are [N, F]")
        width, feature_bytes = store.shape[1], store.nbytes
    return Dataset(
        graph=str(folder / "graph.aeg"),
        features=os.path.abspath(result.features),
        labels=str(folder / "labels.npy"),
        num_nodes=result.num_nodes,
        num_edges=result.num_edges,
        num_features=width,
        num_classes=int(labels.max()) + 1,
        feature_bytes=feature_bytes,
    )


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed * 1.05:
        raise StorageError(
            28,
            f"{folder}: the demonstration needs {format_size(needed)} of disk, "
            f"{format_size(free)} are free; choose another --dir or fewer --nodes",
            str(folder),
        )
