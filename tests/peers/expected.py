"""Tests of PyG and DGL that fail over our objects, and the difference that is why."""

from __future__ import annotations

from itertools import product

__all__ = ["EXPECTED"]


def _variants(test: str, reason: str, *parts: tuple[str, ...]) -> dict[str, str]:
    """Return the variants of a test whose ids are made of one word of each of ``parts``."""
    return {f"{test}[{'-'.join(words)}]": reason for words in product(*parts)}


SAMPLER = "sampler/test_sampler_neighbor_sampler.py"
FUSED = "graphbolt/impl/test_fused_csc_sampling_graph.py"
FEATURES = "graphbolt/impl/test_torch_based_feature_store.py"
EITHER = ("True", "False")

ALWAYS_IDS = "original edge ids are always given; GraphBolt's graph has none here"
OWN_REPR = "a feature shows its shape and dtype, not its rows, which may be in a file"
STOCK_DRAWS = "compares the text of batches, which depends on the generator and has no edge ids"

PYG: dict[str, str] = {
    "loader/test_shadow.py::test_shadow_k_hop_sampler": (
        "the root is the first node of its subgraph; PyG sorts nodes by id"
    ),
    f"{SAMPLER}::test_homogeneous_neighbor_sampler_weighted_backwards[remote]": (
        "stores may hold weights; PyG refuses them all, and those of the test have none"
    ),
    f"{SAMPLER}::test_homogeneous_neighbor_sampler_temporal_backwards[edge_attr-remote]": (
        "a time per node is wanted; the store has three for four nodes, which PyG does not count"
    ),
}

DGL: dict[str, str] = {
    **_variants(
        "dataloading/test_dataloader.py::test_shadow",
        "a subgraph has the data that its sampler names; DGL's has all data of the graph",
        ("0", "4"),
    ),
}

GRAPHBOLT: dict[str, str] = {
    "graphbolt/impl/test_basic_feature_store.py::test_basic_feature_store_errors": (
        "rows of one number each are features, too"
    ),
    f"{FUSED}::test_in_subgraph_hetero": (
        "original edge ids come by edge type; GraphBolt's in_subgraph gives places in its lists"
    ),
    **_variants(f"{FUSED}::test_sample_neighbors_homo", ALWAYS_IDS, ("True-False",), EITHER),
    **_variants(f"{FUSED}::test_sample_neighbors_hetero", ALWAYS_IDS, EITHER),
    **_variants(
        f"{FEATURES}::test_torch_based_feature",
        "looks into a feature's _tensor, which rows of a file do not have",
        EITHER,
    ),
    **_variants(f"{FEATURES}::test_torch_based_feature_repr", OWN_REPR, EITHER),
    **_variants(f"{FEATURES}::test_torch_based_feature_store_repr", OWN_REPR, EITHER),
    "graphbolt/test_integration.py::test_integration_link_prediction": STOCK_DRAWS,
    "graphbolt/test_integration.py::test_integration_node_classification": STOCK_DRAWS,
}

for _words in product(("homo", "hetero"), ("deduplicated", "duplicated"), ("", "_tensor")):
    _name = f"test_exclude_edges_{_words[0]}_{_words[1]}{_words[2]}"
    GRAPHBOLT |= _variants(
        f"graphbolt/impl/test_sampled_subgraph_impl.py::{_name}",
        "a layer of ours always has the original ids of both ends, and of its edges",
        ("True-False", "False-True", "False-False"),
    )

EXPECTED = {"PyG": PYG, "DGL": DGL, "GraphBolt": GRAPHBOLT}
