"""The contracts of PyG can fail: every mutant breaks the rule that it was made to break."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.sampler import BaseSampler, NegativeSampling

from aethergraph import Graph
from aethergraph.pyg import FeatureStore, GraphStore, NeighborSampler
from aethergraph.pyg.testing import BaseSamplerContract, FeatureStoreContract, GraphStoreContract
from aethergraph.testing.rules import BrokenRule

pytestmark = pytest.mark.pyg


# ---- stores ----------------------------------------------------------------------------------


class Unlisted(FeatureStore):
    def get_all_tensor_attrs(self) -> Any:
        return super().get_all_tensor_attrs()[1:]


class SameAttrs(FeatureStore):
    def get_all_tensor_attrs(self) -> Any:
        if not hasattr(self, "attrs"):
            self.attrs = super().get_all_tensor_attrs()
        return self.attrs


class SortedRows(FeatureStore):
    def _get_tensor(self, attr: Any) -> Any:
        if isinstance(attr.index, torch.Tensor):
            attr.index = attr.index.sort().values
        return super()._get_tensor(attr)


class Float32(FeatureStore):
    def _get_tensor(self, attr: Any) -> Any:
        return super()._get_tensor(attr).float()


class OtherOrder(FeatureStore):
    def _multi_get_tensor(self, attrs: Any) -> Any:
        return super()._multi_get_tensor(attrs)[::-1]


class Shared(FeatureStore):
    def _get_tensor(self, attr: Any) -> Any:
        index = attr.index
        if isinstance(index, torch.Tensor) and index.equal(torch.arange(40)):
            attr.index = None
        return super()._get_tensor(attr)


class Nothing(FeatureStore):
    def _get_tensor(self, attr: Any) -> Any:
        return super()._get_tensor(attr) if self._find(attr) is not None else torch.empty(0)


class Wrapped(FeatureStore):
    def _get_tensor(self, attr: Any) -> Any:
        if isinstance(attr.index, torch.Tensor):
            attr.index = attr.index % 40
        return super()._get_tensor(attr)


class KeptForever(FeatureStore):
    def _remove_tensor(self, attr: Any) -> bool:
        return True


class MainProcessOnly(FeatureStore):
    def _get_tensor(self, attr: Any) -> Any:
        found = super()._get_tensor(attr)
        return found if torch.utils.data.get_worker_info() is None else found[:0]


class EmptyPickle(FeatureStore):
    def __reduce__(self) -> Any:
        return type(self), ()


STORES = [
    (Unlisted, "test_all_tensors_are_listed"),
    (SameAttrs, "test_all_tensors_are_listed"),
    (Float32, "test_whole_tensors"),
    (SortedRows, "test_rows_come_in_the_order_of_the_ids"),
    (OtherOrder, "test_many_tensors_at_once"),
    (Shared, "test_rows_belong_to_the_caller"),
    (Nothing, "test_what_is_not_there_is_a_key_error"),
    (Wrapped, "test_ids_out_of_range_are_refused"),
    (KeptForever, "test_put_and_remove"),
    (MainProcessOnly, "test_workers_and_threads_gather"),
    (EmptyPickle, "test_it_pickles"),
]


@pytest.mark.parametrize(("mutant", "rule"), STORES)
def test_feature_store_mutants(mutant: type[FeatureStore], rule: str) -> None:
    class Mutant(FeatureStoreContract):
        supports = {"put"}

        def make(self, tensors: Any) -> Any:
            store = mutant()
            for (group, name), tensor in tensors.items():
                store.put_tensor(tensor, group, name, index=None)
            return store

    with pytest.raises(BrokenRule):
        getattr(Mutant(), rule)()


class NoSize(GraphStore):
    def get_all_edge_attrs(self) -> Any:
        attrs = super().get_all_edge_attrs()
        for attr in attrs:
            attr.size = (attr.size[0] + 1, attr.size[1])
        return attrs


class Transposed(GraphStore):
    def coo(self, *args: Any, **options: Any) -> Any:
        row, col, perm = super().coo(*args, **options)
        return col, row, perm


class OwnIds(GraphStore):
    """Edge ids of a layout count in that layout."""

    def csr(self, *args: Any, **options: Any) -> Any:
        row, col, _ = super().csr(*args, **options)
        return row, col, None


class OtherPair(GraphStore):
    def get_edge_index(self, *args: Any, **options: Any) -> Any:
        first, second = super().get_edge_index(*args, **options)
        return second, first


class OtherEdges(GraphStore):
    def __reduce__(self) -> Any:
        assert self._graph is not None
        src, dst = self._graph.edge_index()
        return type(self), (Graph.from_edges(self._graph.num_nodes, dst, src),)


GRAPHS = [
    (NoSize, "test_sizes"),
    (Transposed, "test_coo_holds_the_edges"),
    (OwnIds, "test_all_layouts_agree"),
    (OtherPair, "test_listed_layouts_can_be_read"),
    (OtherEdges, "test_it_pickles"),
]


@pytest.mark.parametrize(("mutant", "rule"), GRAPHS)
def test_graph_store_mutants(mutant: type[GraphStore], rule: str) -> None:
    class Mutant(GraphStoreContract):
        def make(self, num_nodes: int, src: Any, dst: Any) -> Any:
            return mutant(Graph.from_edges(num_nodes, src, dst))

    with pytest.raises(BrokenRule):
        getattr(Mutant(), rule)()


# ---- samplers --------------------------------------------------------------------------------


DECLARED = {
    "replace", "disjoint", "induced", "bidirectional", "weight", "time", "node_time", "last",
    "strict", "window", "links",
}  # fmt: skip


class Changed(BaseSampler):  # type: ignore[misc]
    """Ours, with another output."""

    def __init__(self, data: Any, num_neighbors: Any, **options: Any) -> None:
        self.data, self.num_neighbors, self.options = data, num_neighbors, options
        self.own = NeighborSampler(data, num_neighbors, **options)

    @property
    def edge_permutation(self) -> Any:
        return None

    def sample_from_nodes(self, index: Any, **options: Any) -> Any:
        return self.change(self.own.sample_from_nodes(index, **options))

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> Any:
        return self.change(self.own.sample_from_edges(index, neg_sampling))

    def change(self, out: Any) -> Any:
        return out


class TestUnchanged(BaseSamplerContract):
    supports = DECLARED

    def make(self, graph: Any, num_neighbors: Any, **options: Any) -> Any:
        stores = FeatureStore.from_graph(graph), GraphStore(graph)
        return stores, Changed(stores, num_neighbors, **options)


class Unsorted(Changed):
    def change(self, out: Any) -> Any:
        out.row, out.col, out.edge = out.row.flip(0), out.col.flip(0), out.edge.flip(0)
        return out


class WrongIds(Changed):
    def change(self, out: Any) -> Any:
        out.edge = torch.arange(len(out.edge))
        return out


class Fewer(Changed):
    def change(self, out: Any) -> Any:
        keep = slice(0, max(0, len(out.row) - 1))
        out.row, out.col, out.edge = out.row[keep], out.col[keep], out.edge[keep]
        return out


class Miscounted(Changed):
    def change(self, out: Any) -> Any:
        out.num_sampled_edges = out.num_sampled_edges[::-1]
        return out


class OneTree(Changed):
    def change(self, out: Any) -> Any:
        out.batch = None if out.batch is None else torch.zeros_like(out.batch)
        return out


def without(name: str, dropped: str, **beside: Any) -> type[Changed]:
    """Make a mutant that drops an option, where the others are given as here."""

    def init(self: Any, data: Any, num_neighbors: Any, **options: Any) -> None:
        if beside.items() <= options.items():
            options.pop(dropped, None)
        Changed.__init__(self, data, num_neighbors, **options)

    return type(name, (Changed,), {"__init__": init})


Directional = without("Directional", "subgraph_type")
IgnoresWeights = without("IgnoresWeights", "weight_attr")
InducedUnlessDisjoint = without("InducedUnlessDisjoint", "subgraph_type", disjoint=True)
NoWindowOfNodes = without("NoWindowOfNodes", "window", time_attr="node_time")


class Timeless(Changed):
    def __init__(self, data: Any, num_neighbors: Any, **options: Any) -> None:
        self.timed = options.pop("time_attr", None) is not None
        super().__init__(data, num_neighbors, disjoint=self.timed)

    def sample_from_nodes(self, index: Any, **options: Any) -> Any:
        index.time = None
        return super().sample_from_nodes(index, **options)


class ByProcess(Changed):
    def sample_from_nodes(self, index: Any, **options: Any) -> Any:
        info = torch.utils.data.get_worker_info()
        self.own.set_epoch(0 if info is None else info.id + 1)
        return super().sample_from_nodes(index, **options)


class ForgetsItsSeeds(Changed):
    def __reduce__(self) -> Any:
        return type(self), (self.data, [1, 1])


class Clamped(Changed):
    def sample_from_nodes(self, index: Any, **options: Any) -> Any:
        index.node = index.node.clamp(0, self.own.num_nodes - 1)
        return super().sample_from_nodes(index, **options)


class OtherEnds(Changed):
    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> Any:
        index.row, index.col = index.col, index.row
        return super().sample_from_edges(index, neg_sampling)


class OtherFeatures(FeatureStore):
    def _multi_get_tensor(self, attrs: Any) -> Any:
        return [rows.flip(0) for rows in super()._multi_get_tensor(attrs)]


class WholeAmounts(Changed):
    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> Any:
        if neg_sampling is not None:
            neg_sampling = NegativeSampling(neg_sampling.mode, max(1, int(neg_sampling.amount)))
        return super().sample_from_edges(index, neg_sampling)


class AllPositive(Changed):
    def change(self, out: Any) -> Any:
        if len(out.metadata) == 4 and out.metadata[2] is not None:
            ids, ends, label, time = out.metadata
            out.metadata = ids, ends, torch.ones_like(label), time
        return out


class NegativesOfOthers(Changed):
    """Negatives go by the time of the next link."""

    def change(self, out: Any) -> Any:
        if len(out.metadata) == 4:
            ends, count = out.metadata[1], len(out.metadata[0])
            ends[:, count:] = ends[:, count:].roll(1, dims=1)
        return out


TOGETHER = "test_options_hold_together"
SAMPLERS = [
    (Unsorted, "test_batches_are_samples"),
    (WrongIds, "test_batches_are_samples"),
    (Fewer, "test_every_node_draws_as_many_as_it_should"),
    (Miscounted, "test_counts_by_hop"),
    (OneTree, "test_disjoint_trees"),
    (Directional, "test_induced_batches"),
    (Timeless, "test_no_edge_is_later_than_its_seed"),
    (ByProcess, "test_workers_draw_the_same"),
    (ForgetsItsSeeds, "test_it_pickles"),
    (Clamped, "test_seeds_out_of_range_are_refused"),
    (OtherEnds, "test_link_batches"),
    (IgnoresWeights, TOGETHER),
    (InducedUnlessDisjoint, TOGETHER),
    (NoWindowOfNodes, TOGETHER),
    (WholeAmounts, "test_negative_links"),
    (AllPositive, "test_negative_links"),
    (NegativesOfOthers, "test_negative_links_are_in_time"),
]


@pytest.mark.parametrize(("mutant", "rule"), SAMPLERS)
def test_sampler_mutants(mutant: type[Changed], rule: str) -> None:
    class Mutant(BaseSamplerContract):
        supports = DECLARED

        def make(self, graph: Any, num_neighbors: Any, **options: Any) -> Any:
            stores = FeatureStore.from_graph(graph), GraphStore(graph)
            return stores, mutant(stores, num_neighbors, **options)

    with pytest.raises(BrokenRule):
        getattr(Mutant(), rule)()


def test_features_of_other_nodes_and_ignored_options_are_caught() -> None:
    class Mutant(BaseSamplerContract):
        supports = DECLARED - {"weight"}

        def make(self, graph: Any, num_neighbors: Any, **options: Any) -> Any:
            stores = OtherFeatures.from_graph(graph), GraphStore(graph)
            return stores, IgnoresWeights(stores, num_neighbors, **options)

    for rule in (
        "test_batches_hold_the_features_of_their_nodes", "test_undeclared_options_are_refused"
    ):  # fmt: skip
        with pytest.raises(BrokenRule):
            getattr(Mutant(), rule)()


def test_every_rule_of_pyg_can_be_broken() -> None:
    broken = {rule for _, rule in (*STORES, *GRAPHS, *SAMPLERS)} | {
        "test_batches_hold_the_features_of_their_nodes",
        "test_undeclared_options_are_refused",
        "test_supports_holds_known_words",
    }
    for contract in (FeatureStoreContract, GraphStoreContract, BaseSamplerContract):
        rules = {name for name in dir(contract) if name.startswith("test_")}
        assert rules - broken == set()
