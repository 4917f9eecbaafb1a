"""Edges that samples of seed links leave out: the links themselves, and their reverses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aethergraph._checks.options import as_choice, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.pyg._links import link_type
from aethergraph.sampling.subgraph import reverse_name

if TYPE_CHECKING:
    from aethergraph.graph.hetero import EdgeType
    from aethergraph.graph.schema import Schema

__all__ = ["Exclude", "check_exclude", "reverse_types"]

#: What to leave out; reverses by edge type where they are named.
Exclude: TypeAlias = "Literal['self', 'reverse'] | Mapping[EdgeType, tuple[EdgeType, ...]] | None"


def check_exclude(exclude: Any, schema: Schema) -> Exclude:
    """Return ``exclude``, checked, with the reverses of each edge type that it names.

    Raises:
        InvalidArgumentError: another word, or an edge type that is no reverse.
    """
    if exclude is None:
        return None
    if not isinstance(exclude, Mapping) or not schema.is_typed:
        word: Literal["self", "reverse"] = as_choice(exclude, ("self", "reverse"), "exclude")
        return word
    reverses = {}
    for name, value in exclude.items():
        kind = link_type(name, schema, "exclude: an edge")
        back = _types_back(kind, schema.edge_types)
        # A tuple of texts is a type; any other tuple or list is one of types.
        is_list = isinstance(value, (tuple, list)) and not any(isinstance(t, str) for t in value)
        types = list(value) if is_list else [value]
        for backward in types:
            if not isinstance(backward, tuple) or backward not in back:
                names = ", ".join(map(repr, back))
                raise InvalidArgumentError(
                    f"exclude[{name!r}]: {shown(backward)} is no edge type of the graph from "
                    f"{kind[2]!r} to {kind[0]!r}, as a reverse has to be: "
                    + (f"give one or a list of {names}" if back else "give exclude='self'")
                )
        reverses[kind] = tuple(types)
    return reverses


def reverse_types(exclude: Exclude, kind: EdgeType, schema: Schema) -> set[EdgeType]:
    """Return the edge types of the graph that hold reverses of the links of a type.

    Args:
        exclude: what :func:`check_exclude` returned.
        kind: the type of the links.
        schema: types of the graph.

    Raises:
        InvalidArgumentError: it cannot be known, and a model would read the answers off them.
    """
    kinds = schema.edge_types
    backward = {_partner(kind)}
    if isinstance(exclude, Mapping):
        if kind not in exclude:
            named = ", ".join(map(repr, exclude)) or "no edge type"
            raise InvalidArgumentError(
                f"exclude names the reverses of {named}, but the links are of {kind!r}: name theirs"
            )
        backward = set(exclude[kind])
    elif exclude == "reverse":
        (by_name,) = backward
        is_there = by_name in kinds
        alternatives = [
            name
            for name in _types_back(kind, kinds)
            if name not in (kind, by_name)
            # Beside a reverse by name, what has a partner of its own is that one's.
            and not (is_there and _partner(name) in kinds and _partner(name) != kind)
        ]
        if alternatives:
            candidates = [by_name, *alternatives] if is_there else alternatives
            has = "beside" if is_there else "the graph has no"
            but = "" if is_there else "but "
            raise InvalidArgumentError(
                f"exclude = 'reverse': {has} {by_name!r}, the reverse of {kind!r} by its name, "
                f"{but}{', '.join(map(repr, alternatives))} go back between the same node types: "
                f"give exclude={{{kind!r}: {candidates!r}}} with those of them that are its "
                "reverses, be it none"
            )
    same = {kind} if kind[0] == kind[2] else set()
    return {name for name in backward | same if name in kinds}


def _partner(kind: EdgeType) -> EdgeType:
    """Return the reverse of an edge type by its name."""
    return (kind[2], reverse_name(kind[1]), kind[0])


def _types_back(kind: EdgeType, kinds: Sequence[EdgeType]) -> list[EdgeType]:
    """Return the edge types that go back between the node types of another."""
    return [name for name in kinds if (name[0], name[2]) == (kind[2], kind[0])]
