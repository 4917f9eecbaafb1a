"""SamplePlan: what a server draws for every request, and which rows it sends along."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields
from errno import EIO
from pathlib import Path
from typing import Any

from aethergraph import _native as native
from aethergraph._checks.optional import load_toml
from aethergraph._checks.options import as_list, is_name, shown
from aethergraph._checks.regular import open_regular
from aethergraph.errors import FormatError, InvalidArgumentError, MissingFileError, StorageError
from aethergraph.graph.hetero import EdgeType
from aethergraph.protocols import AnyGraph, HeterogeneousGraph
from aethergraph.sampling.hetero import HeteroNeighborSampler
from aethergraph.sampling.neighbor import NeighborSampler

__all__ = ["AnySampler", "SamplePlan"]

AnySampler = NeighborSampler | HeteroNeighborSampler


@dataclass(frozen=True)
class SamplePlan:
    """Plan of what a server draws for every request, and which rows it sends along.

    In a file (``aethergraph serve g.aegd --sample plan.toml``)::

        fanouts = [15, 10]             # of typed graphs for all edge types, or:
        # [fanouts]
        # "user-rates-film" = [15, 10]
        time_attr = "edge_time"
        node_attrs = ["x"]

    Attributes:
        fanouts: neighbours for each hop; or by edge type, whose words are joined by ``-``.
        options: further arguments of :class:`aethergraph.NeighborSampler`, or of
            :class:`aethergraph.HeteroNeighborSampler`: ``replace``, ``disjoint``,
            ``subgraph_type``, ``weight_attr``, ``time_attr``, ``temporal_strategy``, ``strict``,
            ``window``, ``layered``, ``sample_direction``.
        node_attrs: names of the attributes of nodes that are sent; of typed graphs those of every
            type that has them. None: all, but for rows that change by themselves
            (:class:`aethergraph.LiveFeatureTable`), which no replay could give again.
        edge_attrs: names of the attributes of edges that are sent; None: all.
    """

    fanouts: Sequence[int] | Mapping[str, Sequence[int]]
    options: Mapping[str, Any] = field(default_factory=dict)
    node_attrs: Sequence[str] | None = None
    edge_attrs: Sequence[str] | None = ()

    def __post_init__(self) -> None:
        if not isinstance(self.options, Mapping):
            raise InvalidArgumentError(
                f"options must be {{name: value}}, got {shown(self.options)}"
            )
        for name in self.options:
            if name not in _OPTIONS:
                raise InvalidArgumentError(
                    f"a plan has no {shown(name)}; there are {', '.join((*_FIELDS, *_OPTIONS))}"
                )
        self._check_hops()
        for name in ("node_attrs", "edge_attrs"):
            value = getattr(self, name)
            if value is None:
                continue
            names = tuple(as_list(value, name, "names"))
            for attr in names:
                if not is_name(attr):
                    raise InvalidArgumentError(f"{name}: {shown(attr)} is no name of an attribute")
                if names.count(attr) > 1:
                    raise InvalidArgumentError(f"{name}: {shown(attr)} is there twice")
            object.__setattr__(self, name, names)

    def _check_hops(self) -> None:
        """Raise where nothing would be drawn."""
        by_type = self.fanouts if isinstance(self.fanouts, Mapping) else {}
        rows = {f"fanouts[{shown(name)}]": row for name, row in by_type.items()}
        for name, row in {"fanouts": self.fanouts, **rows}.items():
            if isinstance(row, Sized) and not len(row):
                noun = "edge types with fanouts" if isinstance(row, Mapping) else "hops: [15, 10]"
                raise InvalidArgumentError(f"{name} is empty: give {noun}")

    @classmethod
    def read(cls, path: native.Path) -> SamplePlan:
        """Read a plan from a TOML file, or from JSON if its name ends so.

        Raises:
            MissingFileError, StorageError: the file cannot be read.
            FormatError: it is no TOML or JSON.
            InvalidArgumentError: it says something that plans do not have.
        """
        name = native.encode_path(path)[0]
        try:
            with open_regular(name) as file:
                text = file.read().decode()
        except FileNotFoundError as error:
            raise MissingFileError(error.errno, f"{name} does not exist", name) from None
        except OSError as error:
            text = f"cannot read {name}: {error.strerror}"
            raise StorageError(error.errno or EIO, text, name) from None
        except UnicodeDecodeError as error:
            raise FormatError(f"{name}: {error}") from None
        try:
            facts = json.loads(text) if Path(name).suffix == ".json" else load_toml().loads(text)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{name}: {error}") from None
        return cls.of(facts, name)

    @classmethod
    def of(cls, facts: Any, name: str = "the plan") -> SamplePlan:
        """Return the plan that :meth:`told` describes, or the content of a file.

        Raises:
            InvalidArgumentError: it describes none; ``name`` begins the message.
        """
        if not isinstance(facts, Mapping) or "fanouts" not in facts:
            has = ", ".join(map(str, facts)) if isinstance(facts, Mapping) else ""
            raise InvalidArgumentError(
                f"{name}: fanouts are missing: fanouts = [15, 10]" + (f"; it has {has}" * bool(has))
            )
        values = {key: value for key, value in facts.items() if key in _FIELDS}
        try:
            return cls(**values, options={k: v for k, v in facts.items() if k not in values})
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{name}: {error}") from None

    def told(self) -> dict[str, Any]:
        """Return all of it as an object of JSON."""

        def plain(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {str(key): plain(entry) for key, entry in value.items()}
            if isinstance(value, str) or not isinstance(value, Sequence):
                return value
            return [plain(entry) for entry in value]

        values = {name: plain(getattr(self, name)) for name in _FIELDS}
        return {**values, **{name: plain(value) for name, value in self.options.items()}}

    def sampler(self, graph: AnyGraph) -> AnySampler:
        """Return the sampler of a graph.

        Raises:
            InvalidArgumentError, LayoutError: the graph has not what the plan asks for.
        """
        try:
            if graph.is_typed:
                return HeteroNeighborSampler(graph, self._fanouts(graph), **self.options)
            if isinstance(self.fanouts, Mapping):
                raise InvalidArgumentError("fanouts by edge type are for graphs of many types")
            return NeighborSampler(graph, self.fanouts, **self.options)
        except InvalidArgumentError as error:
            raise type(error)(f"the plan: {error}") from None

    def _fanouts(self, graph: HeterogeneousGraph) -> Any:
        if not isinstance(self.fanouts, Mapping):
            return self.fanouts
        known: dict[str, EdgeType] = {"-".join(kind): kind for kind in graph.edge_types}
        for name in self.fanouts:
            if name not in known:
                raise InvalidArgumentError(
                    f"fanouts: {shown(name)} is no edge type; there are: {', '.join(known)}"
                )
        return {known[name]: row for name, row in self.fanouts.items()}


_FIELDS = tuple(
    plan_field.name for plan_field in fields(SamplePlan) if plan_field.name != "options"
)
_OPTIONS = (
    "replace", "disjoint", "subgraph_type", "weight_attr", "time_attr", "temporal_strategy",
    "strict", "window", "layered", "sample_direction",
)  # fmt: skip
