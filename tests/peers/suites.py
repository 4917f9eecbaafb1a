"""The tests of PyG and DGL that are run over our objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from peers.expected import EXPECTED

__all__ = ["FRAMEWORKS", "Framework", "Suite"]


@dataclass(frozen=True)
class Suite:
    """Tests that run in one process.

    Args:
        name: name in the report.
        plugin: module beside this file that puts our objects in the place of theirs.
        tests: files, or ``file::function``, below the folder of the framework's tests.
        expected: reasons of failures that are expected, by test id.
    """

    name: str
    plugin: str
    tests: tuple[str, ...]
    expected: Mapping[str, str]


@dataclass(frozen=True)
class Framework:
    """Facts of a checkout.

    Args:
        option: option that names the checkout.
        modules: modules that must be importable.
        folder: folder of the tests in the checkout.
        suites: its suites.
        paths: folders in the checkout that the tests import from.
        environment: variables that the tests need.
    """

    option: str
    modules: tuple[str, ...]
    folder: str
    suites: tuple[Suite, ...]
    paths: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


PYG = Framework(
    option="--pyg-tests",
    modules=("torch_geometric", "aethergraph.pyg"),
    folder="test",
    environment={"OMP_NUM_THREADS": "2"},  # a test gives workers two threads
    suites=(
        Suite(
            "PyG",
            "peers.over_pyg",
            (
                "data/test_feature_store.py",
                "data/test_graph_store.py",
                "data/test_remote_backend_utils.py",
                "data/lightning/test_datamodule.py",
                "loader/test_cache.py",
                "loader/test_hgt_loader.py",
                "loader/test_imbalanced_sampler.py",
                "loader/test_link_neighbor_loader.py",
                "loader/test_mixin.py",
                "loader/test_neighbor_loader.py",
                "loader/test_shadow.py",
                "loader/test_zip_loader.py",
                "nn/conv/test_pna_conv.py::test_pna_conv_get_degree_histogram_neighbor_loader",
                "nn/models/test_basic_gnn.py::test_basic_gnn_inference",
                "nn/models/test_basic_gnn.py::test_trim_to_layer",
                "nn/models/test_basic_gnn.py::test_basic_gnn_cache",
                "sampler/test_sampler_neighbor_sampler.py",
                "utils/test_trim_to_layer.py",
            ),
            EXPECTED["PyG"],
        ),
    ),
)

DGL = Framework(
    option="--dgl-tests",
    modules=("dgl", "aethergraph.dgl"),
    folder="tests/python/pytorch",
    paths=("tests",),
    environment={"DGLBACKEND": "pytorch", "DGLTESTDEV": "cpu"},
    suites=(
        Suite(
            "DGL",
            "peers.over_dgl",
            ("dataloading/test_dataloader.py", "dataloading/test_spot_target.py"),
            EXPECTED["DGL"],
        ),
        Suite(
            "GraphBolt",
            "peers.over_graphbolt",
            (
                "graphbolt/impl/test_basic_feature_store.py",
                *(
                    f"graphbolt/impl/test_fused_csc_sampling_graph.py::{name}"
                    for name in (
                        "test_in_subgraph_homo",
                        "test_in_subgraph_hetero",
                        "test_temporal_sample_neighbors_homo",
                        "test_temporal_sample_neighbors_hetero",
                        "test_sample_neighbors_homo",
                        "test_sample_neighbors_hetero",
                        "test_sample_neighbors_fanouts",
                        "test_sample_neighbors_replace",
                        "test_sample_neighbors_return_eids_homo",
                        "test_sample_neighbors_return_eids_hetero",
                        "test_sample_neighbors_probs",
                        "test_sample_neighbors_zero_probs",
                        "test_sample_neighbors_homo_pick_number",
                        "test_sample_neighbors_hetero_pick_number",
                    )
                ),
                "graphbolt/impl/test_in_subgraph_sampler.py",
                "graphbolt/impl/test_negative_sampler.py",
                *(
                    f"graphbolt/impl/test_ondisk_dataset.py::{name}"
                    for name in (
                        "test_OnDiskDataset_Feature_heterograph",
                        "test_OnDiskDataset_Feature_homograph",
                        "test_OnDiskDataset_load_feature",
                        "test_OnDiskDataset_load_1D_feature",
                        "test_OnDiskDataset_homogeneous",
                        "test_OnDiskDataset_heterogeneous",
                    )
                ),
                "graphbolt/impl/test_sampled_subgraph_impl.py",
                "graphbolt/impl/test_torch_based_feature_store.py",
                "graphbolt/test_dataloader.py",
                "graphbolt/test_feature_fetcher.py",
                "graphbolt/test_integration.py",
                "graphbolt/test_subgraph_sampler.py",
                "graphbolt/test_utils.py",
            ),
            EXPECTED["GraphBolt"],
        ),
    ),
)

FRAMEWORKS = (PYG, DGL)
