"""Named attributes of the nodes or edges of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from numpy.typing import ArrayLike

from aethergraph._checks.options import is_name, shown
from aethergraph.errors import InvalidArgumentError, MissingNameError
from aethergraph.features.adapters import attribute_store
from aethergraph.protocols import FeatureSource, RowSource
from aethergraph.storage.meta import Owner

__all__ = ["AttributeTable", "check_attr_name"]


class AttributeTable(MutableMapping[str, RowSource]):
    """Named attributes of nodes or edges: ``graph.node_attrs["y"] = labels``.

    Assigning an array wraps it in a :class:`FeatureTable`; any
    :class:`aethergraph.protocols.FeatureSource` may be assigned as it is. The number of rows is
    checked.
    """

    def __init__(
        self, kind: Owner, num_rows: int, stores: Mapping[str, RowSource] | None = None
    ) -> None:
        self.kind: Owner = kind
        self._num_rows = num_rows
        self._stores = dict(stores or {})

    def __getitem__(self, name: str) -> RowSource:
        self._require(name)
        return self._stores[name]

    def _require(self, name: str) -> None:
        if not isinstance(name, str) or name not in self._stores:
            known = ", ".join(map(repr, self._stores)) or "none"
            raise MissingNameError(f"no {self.kind} attribute {shown(name)}; there are: {known}")

    def __setitem__(self, name: str, value: FeatureSource | ArrayLike) -> None:
        check_attr_name(name, self.kind)
        label = f"{self.kind}_attrs[{name!r}]"
        self._stores[name] = attribute_store(value, self._num_rows, label, f"num_{self.kind}s")

    def replaced(self, stores: Mapping[str, RowSource]) -> AttributeTable:
        """Return a table of ``stores``, but keep own stores of rows of the graph's file.

        A graph that reads its lists from the file reads short rows together with them, within one
        budget. A store that comes out of a pickle would read the same rows outside that budget.
        """
        former = self._stores
        kept = {
            name: former[name] if name in former and former[name].is_same_rows(store) else store
            for name, store in stores.items()
        }
        return AttributeTable(self.kind, self._num_rows, kept)

    def __delitem__(self, name: str) -> None:
        self._require(name)
        del self._stores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stores)

    def __len__(self) -> int:
        return len(self._stores)

    def __repr__(self) -> str:
        shapes = {name: (store.shape, store.dtype_name) for name, store in self._stores.items()}
        return f"AttributeTable({self.kind}, {shapes})"


def check_attr_name(name: Any, kind: Owner) -> None:
    """Raise unless ``name`` is a non-empty string that UTF-8, the encoding in the file, has."""
    if not is_name(name):
        raise InvalidArgumentError(
            f"the name of a {kind} attribute must be a non-empty string of characters that UTF-8 "
            f"has, got {shown(name)}"
        )
