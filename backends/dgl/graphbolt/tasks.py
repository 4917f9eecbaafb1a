"""Training, validation and test sets of GraphBolt's on-disk datasets, without their graphs.

Sources followed: ``impl/ondisk_dataset.py`` and ``impl/ondisk_metadata.py`` of ``dgl/graphbolt``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import dgl.graphbolt as gb
from aethergraph._native import encode_path
from aethergraph._torch.torch_files import read_tensor
from aethergraph.convert.formats.untrusted import decoding, read_npy
from aethergraph.convert.readers.base import InputError
from aethergraph.dgl.graphbolt._metadata import Entry, read_metadata, read_tasks

__all__ = ["Tasks", "load_ondisk_tasks"]

_SETS = ("train_set", "validation_set", "test_set")

#: Class of item sets by type, which was renamed in GraphBolt 2.3.
_BY_TYPE: Any = getattr(gb, "HeteroItemSet", None) or gb.ItemSetDict


class Tasks(NamedTuple):
    """Tasks of a folder, and all nodes of its graph as an item set.

    ``tasks`` are ``gb.OnDiskTask``, with ``metadata``, ``train_set``, ``validation_set`` and
    ``test_set``. Ids are as in :func:`load_ondisk_dataset`.
    """

    tasks: list[Any]
    all_nodes_set: Any


def load_ondisk_tasks(path: str | os.PathLike[str]) -> Tasks:
    """Read the tasks of a folder of ``gb.OnDiskDataset``, without edges and features.

    Args:
        path: the folder, with a ``metadata.yaml`` as :func:`load_ondisk_dataset` reads it.

    Raises:
        InvalidArgumentError: no such folder, or an invalid entry; names it and its value.
        MissingFileError: a file that is not there.
        InputError: a file that cannot be read, or a path that leads out of the folder.
    """
    folder = Path(encode_path(path)[0])
    tasks = []
    for task in read_tasks(folder, _SETS):
        sets = [_make_set(task.sets.get(name)) for name in _SETS]
        tasks.append(gb.OnDiskTask(task.fields, *sets))
    return Tasks(tasks, _all_nodes(read_metadata(folder).counts))


def _make_set(items: Mapping[str | None, list[tuple[str, Entry]]] | None) -> Any:
    """Return an item set, or one by type; None where there are none."""
    if items is None:
        return None
    sets = {}
    for name, parts in items.items():
        names, entries = zip(*parts, strict=True)
        tensors = tuple(map(_read_items, entries))
        _check_lengths(tensors, entries)
        sets[name] = gb.ItemSet(tensors, names=names)
    return sets[None] if None in sets else _BY_TYPE(sets)


def _check_lengths(items: Sequence[Tensor], entries: Sequence[Entry]) -> None:
    for rows, entry in zip(items, entries, strict=True):
        if rows.ndim == 0 or len(rows) != len(items[0]):
            raise InputError(
                entry.path(),
                f"has items of shape {list(rows.shape)}, but {entries[0].where} has those of shape "
                f"{list(items[0].shape)}: all data of a set is as long",
            )


def _read_items(entry: Entry) -> Tensor:
    """Return the items of a file; those of ``in_memory: false`` in numpy's format are mapped."""
    if entry.choose("format", ("numpy", "torch")) == "torch":
        return read_tensor(entry.path())
    path = entry.path()
    with decoding(path):
        if entry.in_memory:
            return torch.from_numpy(read_npy(path))
        return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))


def _all_nodes(counts: Mapping[str | None, int]) -> Any:
    sets = {
        name: gb.ItemSet(torch.tensor(count), names="seed_nodes") for name, count in counts.items()
    }
    return sets[None] if None in sets else _BY_TYPE(sets)
