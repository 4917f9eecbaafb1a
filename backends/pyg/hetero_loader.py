"""``NeighborLoader`` for typed graphs only."""

from __future__ import annotations

from aethergraph.errors import InvalidArgumentError
from aethergraph.pyg._inputs import is_typed
from aethergraph.pyg.loader import NeighborLoader
from aethergraph.pyg.stores import Stores

__all__ = ["HeteroNeighborLoader"]


class HeteroNeighborLoader(NeighborLoader):
    """Loader of neighbourhoods around typed seed nodes, which gives PyG's ``HeteroData``.

    Example::

        loader = HeteroNeighborLoader(
            graph,
            num_neighbors={("user", "votes", "post"): [15, 10]},
            input_nodes=("post", train_posts),
            batch_size=128,
        )
        for batch in loader:
            batch["user"].x, batch["user", "votes", "post"].edge_index

    Differs from :class:`NeighborLoader`, which takes typed graphs too, in refusing all others.

    Args:
        data: a :class:`aethergraph.HeteroGraph`, the path of its file, a PyG ``HeteroData``, or
            ``(feature_store, graph_store)`` over one.
        num_neighbors: a list per hop for each edge type, or one list for all types; types that are
            missing are not followed.
        input_nodes: ``(node type, ids or a mask or a slice or None)``, or a node type.
        *args, **kwargs: see :class:`NeighborLoader`.

    Raises:
        InvalidArgumentError: a graph of one type; else as :class:`NeighborLoader`.
    """

    def _check_stores(self, stores: Stores) -> None:
        if not is_typed(stores):
            raise InvalidArgumentError(
                "data is a graph of one type of nodes and edges: take NeighborLoader"
            )
