"""Keys of nodes as users ask for them: ids by keys, and keys by ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.arrays import as_ids, describe_range
from aethergraph._checks.options import is_name
from aethergraph.dynamic.growing_keys import GrowingKeys
from aethergraph.dynamic.store import LiveStore
from aethergraph.errors import OutOfRangeError
from aethergraph.graph.typed_edges import unknown_type
from aethergraph.ids.columns import KeyColumns

__all__ = ["IdsByType", "LiveIds", "NodeIds"]

Ids = NDArray[np.int64]


class NodeIds:
    """Ids of nodes by their keys, and keys by ids, as of one commit: ``snapshot.ids``.

    ::

        snapshot.ids.lookup(["u17", "u4"])             # array([17, 4])
        snapshot.ids.lookup(["nobody"], missing="mark")    # array([-1])
        snapshot.ids.keys([4])                         # ['u4']
    """

    def __init__(self, store: LiveStore, node_type: str, count: int | None) -> None:
        self._store, self._type, self._count = store, node_type, count

    def _keys(self) -> tuple[GrowingKeys, int]:
        if self._count is not None:
            return self._store.keys_of(self._type), self._count
        self._store.check_open()
        snapshot, count = self._store.take_nodes(self._type)
        return snapshot.store.keys_of(self._type), count

    def __len__(self) -> int:
        return self._keys()[1]

    @property
    def types(self) -> tuple[str, ...]:
        """Type of the keys: ``("str",)``, ``("int64",)``..."""
        return self._keys()[0].columns.types

    @property
    def columns(self) -> KeyColumns:
        """Type of the keys, which makes bytes of keys for :meth:`find`."""
        return self._keys()[0].columns

    def find(self, block: native.KeyBlock) -> Ids:
        """Return the id of the node of each key that was encoded before; -1 where none has it."""
        keys, count = self._keys()
        return keys.find(block, native.hash_keys(block), count)

    def lookup(self, keys: Any, *, missing: Literal["raise", "mark"] = "raise") -> Ids:
        """Return the id of the node of each key, int64.

        Args:
            keys: a list, an array or a column of Arrow, pandas or Polars.
            missing: "raise": a key that no node has is an error; "mark": its id is -1.

        Raises:
            OutOfRangeError: no node has a key; names the first one and its position.
            InvalidArgumentError: keys of another type, or a missing value; names the position.
        """
        return self.columns.look_up(keys, self.find, missing, "no node has the key")

    def keys(self, ids: ArrayLike) -> Any:
        """Return the key of each node: an array of integers, or a list.

        Raises:
            OutOfRangeError: there is no such node; names it and its position.
        """
        keys, count = self._keys()
        nodes = as_ids(ids, "ids")
        wrong = (nodes < 0) | (nodes >= count)
        if wrong.any():
            at = int(wrong.argmax())
            raise OutOfRangeError(
                f"ids[{at}] = {nodes[at]} is {describe_range(count)}",
                position=at, value=int(nodes[at]),
            )  # fmt: skip
        return keys.columns.decode(keys.block(nodes))

    def __repr__(self) -> str:
        keys, count = self._keys()
        return f"{type(self).__name__}({count:,} keys of type {keys.type})"


class LiveIds(NodeIds):
    """Ids of the nodes of a live graph by their keys, as of the last commit: ``graph.ids``."""

    def __init__(self, store: LiveStore, node_type: str) -> None:
        super().__init__(store, node_type, None)

    def add(self, keys: Any, **attrs: ArrayLike) -> Ids:
        """Return the id of the node of each key; add nodes for keys that have none.

        ::

            src, dst = graph.ids.add(["ann", "bob"]), graph.ids.add(["bob", "cy"])
            graph.insert_edges(src, dst)

        Args:
            keys: as in :meth:`lookup`.
            attrs: rows [n, ...] of each attribute of nodes, one per key; of nodes that are there
                already nothing changes. ``time=`` where nodes have times: of nodes that are there
                already theirs.

        Raises:
            InvalidArgumentError: keys of another type, or a missing one; or an attribute is
                missing, unknown or of another shape, or a node of a key has another time.
            LimitError: more than ``max_nodes``.
        """
        block = self._keys()[0].columns.encode_exactly(keys)
        return self._store.add_keys(self._type, block, attrs)[0]


N = TypeVar("N", bound=NodeIds)


class IdsByType(Mapping[str, N]):
    """Ids of nodes by their keys, by node type; types whose nodes have no keys are not in it.

    Args:
        store: the graph.
        make: returns the ids of a type.
    """

    def __init__(self, store: LiveStore, make: Callable[[str], N]) -> None:
        self._store, self._make = store, make

    def __getitem__(self, name: str) -> N:
        if not is_name(name) or name not in self._store.node_rows:
            raise unknown_type("node type", name, self._store.node_rows)
        self._store.keys_of(name)
        return self._make(name)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._store.keys))

    def __len__(self) -> int:
        return len(self._store.keys)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self)})"
