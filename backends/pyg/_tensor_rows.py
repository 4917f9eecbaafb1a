"""What our loaders ask of a feature store: of ours by column, of any other by PyG's own calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from torch import Tensor
from torch_geometric.data import FeatureStore as _PyGFeatureStore
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput

if TYPE_CHECKING:
    from aethergraph._torch.feature_columns import Column
    from aethergraph.protocols import RowSource

__all__ = ["Fetched", "Key", "Names", "TensorSource", "TypedFetched", "tensors_of"]

#: Group and name of a tensor.
Key: TypeAlias = tuple[Any, str]


class Fetched(NamedTuple):
    """Tensors gathered for a sample, by name."""

    nodes: list[tuple[str, Tensor]]
    edges: list[tuple[str, Tensor]]


class TypedFetched(NamedTuple):
    """Tensors gathered for a typed sample: node type or edge type, name, tensor."""

    tensors: list[tuple[Any, str, Tensor]]


class Names(NamedTuple):
    """Names of the node tensors and edge tensors that a batch holds; None: all that exist."""

    nodes: frozenset[str] | None = None
    edges: frozenset[str] | None = None

    def take(self, group: Any, name: str) -> bool:
        """Return whether a batch holds the tensor ``name`` of a group of the feature store."""
        names = self.edges if isinstance(group, tuple) else self.nodes
        return names is None or name in names


class TensorSource(ABC):
    """Feature store with what our loaders use beyond PyG's own calls; :func:`tensors_of` finds it.

    The members that are not abstract have defaults for a store that offers no more than PyG's.
    """

    #: Values that belong to the graph as a whole, which batches hold too.
    graph_attrs: dict[str, Any]
    #: Values of one type, by type, that are not one row per node or edge.
    type_attrs: dict[Any, dict[str, Any]]

    @abstractmethod
    def tensor_keys(self) -> list[Key]:
        """Return group and name of every tensor."""

    @abstractmethod
    def fetch(self, out: SamplerOutput, names: Names) -> Fetched:
        """Gather the tensors called ``names`` for a sample."""

    @abstractmethod
    def fetch_typed(self, out: HeteroSamplerOutput, names: Names) -> TypedFetched:
        """Gather the tensors called ``names`` for a typed sample."""

    @abstractmethod
    def find_values(self, group: Any, name: str) -> RowSource | Tensor | None:
        """Return the weights or times called ``name``: rows that stay as they are, or a tensor.

        Group None stands for the nodes of a homogeneous graph, whatever the store calls their
        group.
        """

    def find_column(self, group: Any, name: str) -> Column | None:
        """Return the column of a tensor; group as in :meth:`find_values`. Default: None."""
        return None

    def columns(self) -> list[tuple[Key, Column]]:
        """Return the tensors whose gathers can be planned ahead. Default: none."""
        return []

    def refresh(self, drawn_by: set[str]) -> list[str]:
        """Take over what has changed in the data that the store was made of. Default: nothing.

        Args:
            drawn_by: names of attributes that a sampler draws by.

        Returns:
            What samples go by, edges or attributes of ``drawn_by``, and no longer is what it was.
        """
        return []

    @property
    def can_fetch_ahead(self) -> bool:
        """True if ``fetch`` may run in a thread before the batch is asked for. Default: False."""
        return False


class _AnyStore(TensorSource):
    """Feature store of any make, through PyG's calls alone."""

    def __init__(self, store: _PyGFeatureStore) -> None:
        self._store = store
        self.graph_attrs, self.type_attrs = {}, {}

    def tensor_keys(self) -> list[Key]:
        return [(attr.group_name, attr.attr_name) for attr in self._store.get_all_tensor_attrs()]

    def fetch(self, out: SamplerOutput, names: Names) -> Fetched:
        attrs = self._attrs(names)
        for attr in attrs:
            attr.index = out.node
        tensors = self._store.multi_get_tensor(attrs)
        return Fetched([(a.attr_name, t) for a, t in zip(attrs, tensors, strict=True)], [])

    def fetch_typed(self, out: HeteroSamplerOutput, names: Names) -> TypedFetched:
        attrs = [attr for attr in self._attrs(names) if attr.group_name in out.node]
        for attr in attrs:
            attr.index = out.node[attr.group_name]
        tensors = self._store.multi_get_tensor(attrs)
        return TypedFetched(
            [(a.group_name, a.attr_name, t) for a, t in zip(attrs, tensors, strict=True)]
        )

    def _attrs(self, names: Names) -> list[Any]:
        listed = self._store.get_all_tensor_attrs()
        return [attr for attr in listed if names.take(attr.group_name, attr.attr_name)]

    def find_values(self, group: Any, name: str) -> Tensor | None:
        # Some stores give a tensor by its name whatever the group, so ask which groups are of
        # nodes. PyG's loaders require only node tensors to be listed.
        if group is None:
            named = [of for of, known in self.tensor_keys() if known == name]
            of_nodes = [of for of in named if not isinstance(of, tuple)]
            if not of_nodes:
                return None
            group = None if None in of_nodes else of_nodes[0]
        try:
            tensor: Tensor | None = self._store.get_tensor(
                group_name=group, attr_name=name, index=None
            )
        except KeyError:
            return None
        return tensor


def tensors_of(store: Any) -> TensorSource:
    """Return ``store`` itself if it is one of ours, else an adapter of PyG's calls."""
    return store if isinstance(store, TensorSource) else _AnyStore(store)
