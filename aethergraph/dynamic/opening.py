"""Live graphs in directories: opened as they were left, or made, empty or over a graph file.

::

    arguments of a user ──FormRequest──> GraphForm ──> LiveStore ──> DynamicGraph, ...
    base, graph.json ──────────┘
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from aethergraph import _native as native
from aethergraph._checks.arrays import as_count, as_integer
from aethergraph._checks.options import as_choice, shown
from aethergraph.dynamic.base_graph import Base
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.edge_types import EdgeType
from aethergraph.dynamic.forms import EdgeOptions, MemoryOptions
from aethergraph.dynamic.graph_form import GraphForm
from aethergraph.dynamic.growing_keys import GrowingKeys
from aethergraph.dynamic.journal import Journal
from aethergraph.dynamic.node_times import check_same_node_time, node_time_to_json
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import AetherError, FileChangedError, InvalidArgumentError
from aethergraph.ids import IdMap
from aethergraph.ids.columns import read_key_types
from aethergraph.storage.budget import Budget
from aethergraph.storage.choice import Storage, check_budget, check_storage

__all__ = [
    "Durability",
    "FormRequest",
    "Opening",
    "check_same_count",
    "open_base_of",
    "open_store",
    "restore_keys",
]

Durability = Literal["sync", "batch", "none"]
G = TypeVar("G")


@dataclass(frozen=True)
class Opening:
    """How a live graph in a directory is opened.

    Attributes:
        durability: ``"sync"``, ``"batch"`` or ``"none"``.
        interval_ms: of ``"batch"``.
        base: graph file that a new graph begins with.
        storage: where the lists of the base live.
        memory_budget: of ``storage="uring"``.
        progress: called with (done, total).
        ids: type of the keys of nodes, or by node type; None: those that the graph has.
    """

    durability: Any
    interval_ms: Any
    base: native.Path | None
    storage: Storage
    memory_budget: int | str | None
    progress: native.Progress | None
    ids: Any = None

    def __post_init__(self) -> None:
        as_choice(self.durability, tuple(native.DURABILITY), "durability")
        if not 0 < as_integer(self.interval_ms, "interval_ms", bools=False) <= 60_000:
            raise InvalidArgumentError(f"interval_ms = {self.interval_ms} is not in 1..60000")
        check_storage(self.storage)
        check_budget(self.storage, Budget.optional(self.memory_budget))


class FormRequest:
    """Request of the arguments of ``open``: the form of a new graph, or of one that is there.

    Args:
        options: those of all edge types.
        node_time: dtypes of the times of nodes, by type; None: as they are.
        max_nodes: as of the graph; None: as it is.
    """

    def __init__(self, options: EdgeOptions, node_time: Any, max_nodes: Any) -> None:
        self._options, self._node_time, self._max_nodes = options, node_time, max_nodes

    @abstractmethod
    def new(self, path: native.Path) -> GraphForm:
        """Return the form of a graph that is made in a directory."""

    @abstractmethod
    def over(self, base: Base, progress: native.Progress | None) -> GraphForm:
        """Return the form of a graph that is made over a base."""

    @abstractmethod
    def same(self, form: GraphForm, path: native.Path) -> GraphForm:
        """Return the form of the graph that is there, with edge ids as they are asked for.

        Raises:
            InvalidArgumentError: it was made with others.
        """

    def _over(
        self, base: Base, nodes: Sequence[str], kinds: Sequence[EdgeType],
        progress: native.Progress | None,
    ) -> GraphForm:  # fmt: skip
        """Return a form with what a base has, which must be what is asked for.

        Args:
            base: the base.
            nodes: names of its node types in the live graph.
            kinds: names of its edge types there.
            progress: called with (done, total).
        """
        options, forms = self._options, {}
        for kind, edges in zip(kinds, base.edges, strict=True):
            form = edges.form("time" if options.order is None else options.order)
            forms[kind] = form.same(options)
            if options.order == "id":
                edges.check_sorted(progress)
            edges.check_by_source(progress)
        units = {
            name: base.node_time[own_name]
            for name, own_name in zip(nodes, base.graph.node_types, strict=True)
            if own_name in base.node_time
        }
        check_same_node_time(self._node_time, units, nodes)
        counts = dict(zip(nodes, base.num_nodes, strict=True))
        return GraphForm(counts, forms, units, self._max_nodes)

    def _same(self, form: GraphForm, options: Mapping[EdgeType, EdgeOptions]) -> GraphForm:
        """Return the form, with edge ids as they are asked for, which has all else that is."""
        check_same_count(self._max_nodes, form.max_nodes, "max_nodes")
        check_same_node_time(self._node_time, form.node_time, form.num_nodes)
        return replace(
            form, edges={kind: edges.same(options[kind]) for kind, edges in form.edges.items()}
        )


def check_same_count(argument: Any, count: int | None, name: str) -> None:
    """Raise unless an argument is None, or the count that a graph was made with.

    Raises:
        InvalidArgumentError: it is another, or no count; names it.
    """
    if argument is not None and as_count(argument, name) != count:
        raise InvalidArgumentError(
            f"the graph was made with {name} = {count}, not {argument}: leave it out"
        )


def open_store(
    path: native.Path,
    how: Opening,
    request: FormRequest,
    memory: MemoryOptions,
    wrap: Callable[[LiveStore], G],
) -> G:
    """Open the live graph in a directory, or make one there; return it.

    Args:
        path: the directory.
        how: the way in which it is opened.
        request: the form that the user asks for.
        memory: memory for its edges.
        wrap: makes the graph of a store.
    """
    directory, store = LiveDirectory(path), None
    if not directory.exists:
        directory.check_empty()
        base = None if how.base is None else _open_base(how, how.base, own_ids=True)
        # Arguments are checked before anything is written.
        form = request.new(path) if base is None else request.over(base, how.progress)
        store, description = LiveStore(form, memory, base), form.to_json()
        _begin_keys(store, description, how.ids)
    elif how.base is not None:
        raise InvalidArgumentError(
            f"{directory.path} holds a live graph already: base= is for one that is made"
        )
    directory.lock()
    try:
        if directory.exists:
            description, current = directory.description(), directory.current()
            form = request.same(GraphForm.from_json(description), path)
            form = replace(form, num_nodes=current.get("nodes") or form.num_nodes)
            below = open_base_of(directory, form, current, how, is_writer=True)
            store = LiveStore(form, memory, below)
            restore_keys(store, directory, current, description.get("ids", {}), how.ids)
        else:
            assert store is not None
            directory.create(description, _describe_base(store))
        Journal(
            store, directory, how.durability, operator.index(how.interval_ms), how.storage,
            how.memory_budget, how.progress,
        )  # fmt: skip
        return wrap(store)
    except BaseException:
        if store is not None:
            # Whoever keeps the exception, such as a notebook, has the store in its frames, and
            # the log would stay locked.
            with suppress(AetherError):
                store.live.close_journal()
        directory.unlock()
        raise


def _begin_keys(store: LiveStore, description: dict[str, Any], ids: Any) -> None:
    """Let the nodes of a new graph have keys, those of its base to begin with."""
    kinds = {} if ids is None else read_key_types(ids, store.node_rows, "node type")
    if kinds:
        description["ids"] = kinds
    for name, kind in kinds.items():
        count, base = store.first_nodes[name], None
        if store.base is not None and count:
            own_name = store.base.graph.node_types[list(store.node_rows).index(name)]
            base = _of_type(store.base.graph.ids[own_name], kind)
        elif count:
            raise InvalidArgumentError(
                f"{count} nodes of type {name!r} would have no keys: with ids= a graph begins "
                "without nodes, or over a base that has a map of ids"
            )
        store.keys[name] = GrowingKeys(kind, store.max_nodes, base)


def restore_keys(
    store: LiveStore, directory: LiveDirectory, current: Mapping[str, Any], kinds: Any, ids: Any
) -> None:
    """Give the nodes of a graph the keys that its base has."""
    if ids is not None and read_key_types(ids, store.node_rows, "node type") != kinds:
        was = f"with ids = {shown(kinds)}" if kinds else "without ids"
        raise InvalidArgumentError(f"the graph was made {was}, not {shown(ids)}: leave it out")
    for name, kind in kinds.items():
        file = current.get("ids", {}).get(name)
        base = None
        if file is not None:
            base = _load_keys(str(directory.path / file), kind, store.first_nodes[name])
        store.keys[name] = GrowingKeys(kind, store.max_nodes, base)


def _load_keys(path: str, kind: str, count: int) -> IdMap:
    """Open the keys of a base.

    Raises:
        InvalidArgumentError: they are of another type.
        FileChangedError: they are of another base.
    """
    keys = _of_type(IdMap.load(path), kind)
    if len(keys) != count:
        raise FileChangedError(
            116, f"{path}: has {len(keys):,} keys, but its base has {count:,} nodes", path
        )
    return keys


def _of_type(keys: IdMap, kind: str) -> IdMap:
    if keys.types != (kind,):
        raise InvalidArgumentError(
            f"ids = {kind!r}, but the keys of {keys.path} are {keys.columns}"
        )
    return keys


def _open_base(how: Opening, path: native.Path, **facts: Any) -> Base:
    return Base(path, how.storage, how.memory_budget, progress=how.progress, **facts)


def open_base_of(
    directory: LiveDirectory, form: GraphForm, current: Mapping[str, Any], how: Opening, *,
    is_writer: bool = False,
) -> Base | None:  # fmt: skip
    """Open the base that a directory names, its own or a file elsewhere; None: there is none.

    Args:
        directory: the directory, which this process has locked if it ``is_writer``.
        form: what the graph has.
        current: what its ``CURRENT`` says.
        how: what the user wants.
        is_writer: False: nothing is written.
    """
    if current.get("base") is None:
        return None
    base = _open_base(
        how, directory.path / current["base"], own_ids=current.get("own_ids", False),
        renumbers_edges=current.get("renumbers_edges", False), ends=current["edge_ids"],
        fingerprint=current.get("fingerprint"), keep_places=is_writer,
    )  # fmt: skip
    times = node_time_to_json(form.node_time)
    base.check_forms(
        form.num_nodes.values(), form.edges.values(), [times.get(name) for name in form.num_nodes]
    )
    for edges, last in zip(base.edges, current.get("last_times", []), strict=False):
        edges.last_time = last
    return base


def _describe_base(store: LiveStore) -> dict[str, Any]:
    """Return what ``CURRENT`` says of the file that a new graph begins with."""
    base = store.base
    if base is None:
        return {}
    ids = {
        name: node_keys.base.path
        for name, node_keys in store.keys.items()
        if node_keys.base is not None
    }
    return {
        "base": base.path, "own_ids": True, "fingerprint": base.fingerprint,
        "nodes": store.first_nodes, "edge_ids": [edges.end for edges in base.edges],
        "last_times": [edges.last_time for edges in base.edges],
        **({"ids": ids} if ids else {}),
    }  # fmt: skip
