"""Checks of the descriptions in a live graph's directory: ``graph.json`` and ``CURRENT``."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from aethergraph._checks.options import is_name, shown
from aethergraph.dynamic.forms import EdgeForm, read_time_dtype, time_dtype
from aethergraph.dynamic.watermarks import WATERMARK
from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.described import Fields, is_count, is_integer
from aethergraph.storage.meta import KEY_TYPES

__all__ = ["NODE_TIME", "check_current", "check_description"]

#: Name of the times of nodes, in graphs and in what describes them.
NODE_TIME = "node_time"
_MOST_NODES = 1 << 32  # numbers of nodes are below


def _is_nodes(value: Any) -> bool:
    return is_count(value, _MOST_NODES)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_time(value: Any) -> bool:
    return value is None or is_integer(value)


def _is_time_dtype(value: Any) -> bool:
    """Return whether a value is a dtype of times, as it is written."""
    try:
        return bool(time_dtype(read_time_dtype(value, NODE_TIME)) == value)
    except InvalidArgumentError:
        return False


def _is_kind(value: Any) -> bool:
    """Return whether a value is an edge type: three texts."""
    return isinstance(value, list) and len(value) == 3 and all(map(_is_text, value))


def _is_edge_type(value: Any) -> bool:
    """Return whether a value is an edge type with the form of its edges."""
    return (
        isinstance(value, list) and len(value) == 2 and _is_kind(value[0])
        and isinstance(value[1], dict)
    )  # fmt: skip


def _is_offset(value: Any) -> bool:
    """Return whether a value is the place of a stream with the number of its next record."""
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], list):
        return False
    place, following = value
    return (
        len(place) == 2
        and isinstance(place[0], str)
        and is_count(place[1], least=WATERMARK)
        and is_count(following)
    )


def _check_edge_types(fields: Fields, nodes: Mapping[str, int]) -> None:
    """Raise unless edge types and their forms go together with each other and the node types."""
    kinds = fields.items("edge_types", _is_edge_type)
    fields.require(len(kinds) > 0, "there are no edge types")
    names = {tuple(kind) for kind, _ in kinds}
    fields.require(len(names) == len(kinds), "an edge type comes twice")
    for kind, form in kinds:
        proper = {kind[0], kind[2]} <= set(nodes) and is_name(kind[1])
        fields.require(proper, f"edge type {shown(tuple(kind))} cannot be")
        try:
            EdgeForm.from_json(form)
        except (KeyError, TypeError, ValueError) as error:
            fields.require(False, f"edge type {shown(tuple(kind))}: {error}")


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def check_description(fields: Fields) -> None:
    """Raise the error of ``fields`` unless they say what a graph is, as ``graph.json`` does."""
    text = fields.text("uuid")
    fields.require(_is_uuid(text), f"uuid = {shown(text)} is none")
    nodes = fields.table("num_nodes", _is_nodes)
    _check_edge_types(fields, nodes)
    fields.need("max_nodes")
    fields.count("max_nodes", _MOST_NODES, default=None)
    keys = fields.table("ids", lambda value: value in KEY_TYPES, {})
    fields.require(set(keys) <= set(nodes), f"ids = {shown(keys)} names other node types")
    times = fields.table(NODE_TIME, _is_time_dtype, {})
    fields.require(set(times) <= set(nodes), f"{NODE_TIME} = {shown(times)} names other node types")


def check_current(fields: Fields, description: Mapping[str, Any]) -> None:
    """Raise the error of ``fields`` unless they say which base counts, as ``CURRENT`` does.

    Args:
        fields: those of ``CURRENT``.
        description: what ``graph.json`` says, which has been checked.
    """
    fields.count("lsn")
    fields.count("closed", default=0)
    fields.need("base")
    base = fields.text("base", None)
    if base is not None:
        fields.require("\0" not in base, f"base = {shown(base)} is no name of a file")
        for name in ("nodes", "edge_ids"):
            fields.need(name)
            fields.require(fields.values[name] is not None, f"{name} = None, but there is a base")
    nodes = fields.table("nodes", _is_nodes, None)
    names = list(description["num_nodes"])
    proper = nodes is None or list(nodes) == names
    fields.require(proper, f"nodes = {shown(nodes)} has other types than graph.json")
    kinds = len(description["edge_types"])
    ends = fields.items("edge_ids", is_count, None)
    proper = ends is None or len(ends) == kinds
    fields.require(proper, f"edge_ids = {shown(ends)} where graph.json has {kinds} edge types")
    fields.flag("own_ids", False)
    fields.flag("renumbers_edges", False)
    fields.text("fingerprint", None)
    fields.text("origin", None)
    fields.items("last_times", _is_time, [])
    fields.items("offsets", _is_offset, [])
    files = fields.table("ids", _is_text, {})
    fields.require(set(files) <= set(description.get("ids", {})), f"ids = {shown(files)}")
