"""Description of a graph in the ``metadata.yaml`` of ``gb.OnDiskDataset``, checked.

Source followed: ``impl/ondisk_metadata.py`` of ``dgl/graphbolt``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml  # type: ignore[import-untyped]

from aethergraph.convert.formats.untrusted import path_below, read_text, shorten
from aethergraph.convert.readers.base import check_readable
from aethergraph.dgl.graphbolt.export import COPY, FLAT
from aethergraph.errors import InvalidArgumentError, MissingFileError

__all__ = ["Entry", "Metadata", "Task", "read_metadata", "read_tasks"]

_MOST_BYTES: Final = 1 << 20  # most bytes of metadata.yaml, which has some thousand
_MOST_VALUES: Final = 50_000
_MOST_DEPTH: Final = 32
_MOST_NODES: Final = 1 << 62


class Entry:
    """Entry of one of the lists, which is named in errors.

    Args:
        config: the ``metadata.yaml``, whose folder paths start at.
        where: the list and the place in it.
        fields: its fields.
    """

    def __init__(self, config: Path, where: str, fields: Any) -> None:
        self.where = f"{config}: {where}"
        self._config = config
        self._place = where
        if not isinstance(fields, Mapping):
            raise InvalidArgumentError(
                f"{self.where} is {shorten(fields)}: give it fields, name: value"
            )
        self._fields = fields
        if not isinstance(self.type, (str, type(None))):
            raise InvalidArgumentError(f"{self.where}: type = {shorten(self.type)} is no name")

    @property
    def fields(self) -> Mapping[str, Any]:
        """All fields of the entry."""
        return self._fields

    @property
    def type(self) -> Any:
        """Node type or edge type; None if there is only one."""
        return self._fields.get("type")

    @property
    def flat(self) -> bool:
        """True if rows of shape (1,) stand for one number each."""
        return bool(self._fields.get(FLAT))

    @property
    def in_memory(self) -> bool:
        """True if the rows are to be read into memory."""
        return self._fields.get("in_memory", True) is not False

    @property
    def is_copy(self) -> bool:
        """True if the rows are the copy for sampling of rows that are listed as well."""
        return bool(self._fields.get(COPY))

    def need(self, field: str) -> Any:
        """Return the value of a field that must be there."""
        value = self._fields.get(field)
        if value is None:
            raise InvalidArgumentError(
                f"{self.where} has no {field!r}: add it to {shorten(dict(self._fields))}"
            )
        return value

    def text(self, field: str) -> str:
        """Return the value of a field that must be there and be a text."""
        value = self.need(field)
        if not isinstance(value, str):
            raise InvalidArgumentError(
                f"{self.where}: {field} = {shorten(value)} is no text: write it in quotes"
            )
        return value

    def choose(self, field: str, known: Collection[str]) -> str:
        """Return the value of a field, which must be one of ``known``."""
        value = self.need(field)
        if not isinstance(value, str) or value not in known:
            raise InvalidArgumentError(
                f"{self.where}: {field} = {shorten(value)} is not {' or '.join(map(repr, known))}"
            )
        return value

    def count(self) -> int:
        """Return ``num``, the number of nodes."""
        value = self.need("num")
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_NODES:
            raise InvalidArgumentError(
                f"{self.where}: num = {shorten(value)} is no count: give the number of nodes"
            )
        return value

    def path(self) -> Path:
        """Return the path of the file, which is below the folder and can be read."""
        name = self.text("path")
        path = path_below(self._config.parent, name, self._config, f"{self._place}: path")
        if not os.path.exists(path):
            raise MissingFileError(
                errno.ENOENT, f"{path}: no such file; {self.where} names it as its path", str(path)
            )
        check_readable(path)
        return path

    def same_rows(self, other: Entry) -> bool:
        """Return whether another entry names the same file, to be read in the same way."""
        return all(self.text(field) == other.text(field) for field in ("path", "format")) and (
            self.flat == other.flat
        )


class Metadata(NamedTuple):
    """Numbers of nodes by type, edge lists by type, and data by type and name."""

    counts: dict[str | None, int]
    edges: dict[str | None, Entry]
    node_rows: dict[tuple[str | None, str], Entry]
    edge_rows: dict[tuple[str | None, str], Entry]


def _read_description(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the path of the ``metadata.yaml`` of a folder, and its content.

    Raises:
        InvalidArgumentError: no such file, or no YAML.
        InputError: a path that leads out of the folder, or a file that is no text.
    """
    config = path_below(folder, "metadata.yaml", folder, "the file")
    if not os.path.isfile(config):
        raise InvalidArgumentError(f"{folder} is no dataset folder: it has no metadata.yaml")
    described = _parse(read_text(config, _MOST_BYTES), config)
    return config, described if isinstance(described, dict) else {}


def read_metadata(folder: Path) -> Metadata:
    """Read the description of a folder.

    Raises:
        InvalidArgumentError: no such file, or an invalid entry; names it and its value.
        InputError: a path that leads out of the folder, or a file that is no text.
    """
    config, described = _read_description(folder)
    parts = described.get("graph")
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


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader with bounds: a page of text can stand for more than memory holds."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._values = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self._depth += 1
        self._values += 1
        if self._depth > _MOST_DEPTH or self._values > _MOST_VALUES:
            mark = self.peek_event().start_mark
            raise yaml.MarkedYAMLError(problem="too many values", problem_mark=mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def flatten_mapping(self, node: Any) -> None:
        # A merge key copies the mapping that it names, with all that was merged there.
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.MarkedYAMLError(
                    problem="merge keys (<<) are not read", problem_mark=key.start_mark
                )
        super().flatten_mapping(node)


def _parse(text: str, config: Path) -> Any:
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except Exception as error:
        # Not only YAMLError: a value such as `!!int ""` raises other errors of Python.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        problem = getattr(error, "problem", None) or "a value cannot be read"
        raise InvalidArgumentError(f"{config}{where} is no YAML: {problem[:100]}") from None


def _entries(config: Path, name: str, listed: Any) -> list[Entry]:
    if not isinstance(listed, list):
        raise InvalidArgumentError(f"{config}: {name} = {shorten(listed)} is no list of entries")
    return [Entry(config, f"{name}[{at}]", fields) for at, fields in enumerate(listed)]


def _by_type(entries: list[Entry]) -> dict[str | None, Entry]:
    by_type: dict[str | None, Entry] = {}
    for entry in entries:
        if entry.type in by_type:
            raise InvalidArgumentError(
                f"{entry.where}: type = {shorten(entry.type)} is there twice: give every entry a "
                "type of its own"
            )
        by_type[entry.type] = entry
    return by_type


def _check_types(nodes: dict[str | None, Entry], edges: dict[str | None, Entry]) -> None:
    """Check that either no entry has a type, or all entries have one."""
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
                f"{entry.where}: type = {shorten(name)} is not of the form 'source:relation:target'"
            )
        for end in (ends[0], ends[2]):
            if end not in nodes:
                raise InvalidArgumentError(
                    f"{entry.where}: type = {shorten(name)}, but {shorten(end)} is no type of "
                    f"graph.nodes; there are: {_known(nodes)}"
                )


def _add_rows(
    rows: dict[tuple[str | None, str], Entry], types: dict[str | None, Entry], entry: Entry
) -> None:
    name = entry.text("name")
    if entry.type not in types:
        raise InvalidArgumentError(
            f"{entry.where}: type = {shorten(entry.type)} of {shorten(name)} is no type of the "
            f"graph's {entry.need('domain')}s; there are: {_known(types)}"
        )
    first = rows.setdefault((entry.type, name), entry)
    if not first.same_rows(entry):
        raise InvalidArgumentError(
            f"{entry.where}: name = {shorten(name)} is that of other rows in {first.where}: give "
            "one of them another name"
        )


class Task(NamedTuple):
    """Task: the items of each set by type, as names and entries, and other fields."""

    sets: dict[str, dict[str | None, list[tuple[str, Entry]]]]
    fields: dict[str, Any]


def read_tasks(folder: Path, names: Collection[str]) -> list[Task]:
    """Read the tasks of a folder, with their sets of these names.

    Raises:
        InvalidArgumentError: an invalid entry; names it and its value.
    """
    config, described = _read_description(folder)
    tasks = []
    for task in _entries(config, "tasks", described.get("tasks") or []):
        sets = {
            name: _task_items(config, f"{task.where.removeprefix(f'{config}: ')}.{name}", listed)
            for name in names
            if (listed := task.fields.get(name))
        }
        fields = {name: value for name, value in task.fields.items() if name not in names}
        tasks.append(Task(sets, fields))
    return tasks


def _task_items(config: Path, where: str, listed: Any) -> dict[str | None, list[tuple[str, Entry]]]:
    groups = _by_type(_entries(config, where, listed))
    if None in groups and len(groups) > 1:
        raise InvalidArgumentError(
            f"{groups[None].where}: type = None, but others have types: give this one its type, too"
        )
    items = {}
    for at, (name, group) in enumerate(groups.items()):
        parts = _entries(config, f"{where}[{at}].data", group.need("data"))
        if not parts:
            raise InvalidArgumentError(f"{group.where}: data is empty: give it items")
        items[name] = [(part.text("name"), part) for part in parts]
    return items


def _known(types: dict[str | None, Entry]) -> str:
    return ", ".join(shorten(name) for name in list(types)[:20])
