"""What the ``metadata.yaml`` of a folder of ``gb.OnDiskDataset`` says of its graph, checked.

Source followed: ``impl/ondisk_metadata.py`` of ``dgl/graphbolt``.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from aethergraph.dgl.graphbolt.export import COPY, FLAT
from aethergraph.errors import InvalidArgumentError, MissingFileError

__all__ = ["Entry", "Metadata", "read_metadata"]


class Entry:
    """An entry of one of the lists; errors name it.

    Args:
        config: the ``metadata.yaml``, whose folder paths start at.
        where: the list and the place in it.
        fields: what it says.
    """

    def __init__(self, config: Path, where: str, fields: Any) -> None:
        self.where = f"{config}: {where}"
        self._folder = config.parent
        if not isinstance(fields, Mapping):
            raise InvalidArgumentError(f"{self.where} is {fields!r}: give it fields, name: value")
        self._fields = fields
        if not isinstance(self.type, (str, type(None))):
            raise InvalidArgumentError(f"{self.where}: type = {self.type!r} is no name")

    @property
    def type(self) -> Any:
        """Of nodes or edges; None where there is one."""
        return self._fields.get("type")

    @property
    def flat(self) -> bool:
        """Whether rows of shape (1,) stand for one number each."""
        return bool(self._fields.get(FLAT))

    @property
    def in_memory(self) -> bool:
        """Whether the rows are to be read."""
        return self._fields.get("in_memory", True) is not False

    @property
    def is_copy(self) -> bool:
        """Whether the same rows are there once more."""
        return bool(self._fields.get(COPY))

    def need(self, field: str) -> Any:
        """What a field says that must be there."""
        value = self._fields.get(field)
        if value is None:
            raise InvalidArgumentError(
                f"{self.where} has no {field!r}: add it to {dict(self._fields)!r}"
            )
        return value

    def choose(self, field: str, known: Collection[str]) -> str:
        """What a field says, which must be one of ``known``."""
        value = self.need(field)
        if value not in known:
            raise InvalidArgumentError(
                f"{self.where}: {field} = {value!r} is not {' or '.join(map(repr, known))}"
            )
        return str(value)

    def count(self) -> int:
        """``num``."""
        value = self.need("num")
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InvalidArgumentError(
                f"{self.where}: num = {value!r} is no count: give the number of nodes"
            )
        return value

    def path(self) -> Path:
        """The file."""
        path = self._folder / str(self.need("path"))
        if not path.is_file():
            raise MissingFileError(
                errno.ENOENT, f"{path}: no such file; {self.where} names it as its path", str(path)
            )
        return path

    def same_rows(self, other: Entry) -> bool:
        """Whether the other one names the same file, read in the same way."""
        fields = ("path", "format", FLAT)
        return all(self._fields.get(field) == other._fields.get(field) for field in fields)


class Metadata(NamedTuple):
    """How many nodes there are by type, the edge lists by type, the data by type and name."""

    counts: dict[str | None, int]
    edges: dict[str | None, Entry]
    node_rows: dict[tuple[str | None, str], Entry]
    edge_rows: dict[tuple[str | None, str], Entry]


def read_metadata(folder: Path) -> Metadata:
    """What a folder holds.

    Raises:
        InvalidArgumentError: no such file, or an entry that cannot be; names it and its value.
    """
    config = folder / "metadata.yaml"
    if not config.is_file():
        raise InvalidArgumentError(f"{folder} is no dataset folder: it has no metadata.yaml")
    try:
        described = yaml.safe_load(config.read_text())
    except yaml.YAMLError as error:
        raise InvalidArgumentError(f"{config} is no YAML: {error}") from None
    parts = described.get("graph") if isinstance(described, dict) else None
    if not isinstance(parts, dict) or not parts.get("nodes") or not parts.get("edges"):
        raise InvalidArgumentError(f"{config} has no graph with nodes and edges")
    nodes = _by_type(_entries(config, "graph.nodes", parts["nodes"]))
    edges = _by_type(_entries(config, "graph.edges", parts["edges"]))
    _check_types(nodes, edges)
    listed = [
        *_entries(config, "graph.feature_data", parts.get("feature_data") or []),
        *_entries(config, "feature_data", described.get("feature_data") or []),
    ]
    node_rows: dict[tuple[str | None, str], Entry] = {}
    edge_rows: dict[tuple[str | None, str], Entry] = {}
    for entry in listed:
        of_nodes = entry.choose("domain", ("node", "edge")) == "node"
        if entry.is_copy:
            continue
        _add_rows(node_rows if of_nodes else edge_rows, nodes if of_nodes else edges, entry)
    counts = {name: entry.count() for name, entry in nodes.items()}
    return Metadata(counts, edges, node_rows, edge_rows)


def _entries(config: Path, name: str, listed: Any) -> list[Entry]:
    if not isinstance(listed, list):
        raise InvalidArgumentError(f"{config}: {name} = {listed!r} is no list of entries")
    return [Entry(config, f"{name}[{at}]", fields) for at, fields in enumerate(listed)]


def _by_type(entries: list[Entry]) -> dict[str | None, Entry]:
    found: dict[str | None, Entry] = {}
    for entry in entries:
        if entry.type in found:
            raise InvalidArgumentError(
                f"{entry.where}: type = {entry.type!r} is there twice: give every entry a type of "
                "its own"
            )
        found[entry.type] = entry
    return found


def _check_types(nodes: dict[str | None, Entry], edges: dict[str | None, Entry]) -> None:
    """Either nothing has a type, or everything has one."""
    typed = any(name is not None for name in (*nodes, *edges))
    for entry in (*nodes.values(), *edges.values()):
        if typed and entry.type is None:
            raise InvalidArgumentError(
                f"{entry.where}: type = None, but others have types: give this one its type, too"
            )
    for name, entry in edges.items():
        if name is None:
            continue
        ends = name.split(":")
        if len(ends) != 3:
            raise InvalidArgumentError(
                f"{entry.where}: type = {name!r} is not of the form 'source:relation:target'"
            )
        for end in (ends[0], ends[2]):
            if end not in nodes:
                raise InvalidArgumentError(
                    f"{entry.where}: type = {name!r}, but {end!r} is no type of graph.nodes; "
                    f"there are: {_known(nodes)}"
                )


def _add_rows(
    rows: dict[tuple[str | None, str], Entry], types: dict[str | None, Entry], entry: Entry
) -> None:
    name = str(entry.need("name"))
    if entry.type not in types:
        raise InvalidArgumentError(
            f"{entry.where}: type = {entry.type!r} of {name!r} is no type of the graph's "
            f"{entry.need('domain')}s; there are: {_known(types)}"
        )
    other = rows.setdefault((entry.type, name), entry)
    if not other.same_rows(entry):
        raise InvalidArgumentError(
            f"{entry.where}: name = {name!r} is that of other rows in {other.where}: give one of "
            "them another name"
        )


def _known(types: dict[str | None, Entry]) -> str:
    return ", ".join(map(repr, types))
