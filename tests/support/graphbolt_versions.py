"""Signatures of GraphBolt's graph by version, and how its samplers call it.

Read in the sources of DGL (github.com/dmlc/dgl, ``python/dgl/graphbolt``) at the tags v2.1.0,
v2.2.1, v2.3.0 and v2.4.0, and at commit 3d16000b4170 (2.5, not released):
``impl/fused_csc_sampling_graph.py`` for the signatures, ``impl/neighbor_sampler.py`` and
``impl/temporal_neighbor_sampler.py`` for the calls. Annotations are left out.
"""

from __future__ import annotations

_ONE = "(self, nodes, fanouts, replace=False, probs_name=None)"
_ONE_22 = "(self, seeds, fanouts, replace=False, probs_name=None)"
_LAYER_22 = (
    "(self, seeds, fanouts, replace=False, probs_name=None, random_seed=None, "
    "seed2_contribution=0.0)"
)
_ONE_24 = (
    "(self, seeds, fanouts, replace=False, probs_name=None, "
    "returning_indices_and_original_edge_ids_are_optional=False, async_op=False)"
)
_LAYER_24 = (
    "(self, seeds, fanouts, replace=False, probs_name=None, "
    "returning_indices_and_original_edge_ids_are_optional=False, random_seed=None, "
    "seed2_contribution=0.0, async_op=False)"
)
_TIME = (
    "(self, nodes, input_nodes_timestamp, fanouts, replace=False, probs_name=None, "
    "node_timestamp_attr_name=None, edge_timestamp_attr_name=None)"
)
_TIME_23 = (
    "(self, nodes, input_nodes_timestamp, fanouts, replace=False, "
    "input_nodes_pre_time_window=None, probs_name=None, node_timestamp_attr_name=None, "
    "edge_timestamp_attr_name=None)"
)
_TIME_24 = (
    "(self, seeds, seeds_timestamp, fanouts, replace=False, seeds_pre_time_window=None, "
    "probs_name=None, node_timestamp_attr_name=None, edge_timestamp_attr_name=None)"
)
_TIME_LAYER_24 = (
    "(self, seeds, seeds_timestamp, fanouts, replace=False, seeds_pre_time_window=None, "
    "probs_name=None, node_timestamp_attr_name=None, edge_timestamp_attr_name=None, "
    "random_seed=None, seed2_contribution=0.0)"
)

#: By version and method.
SIGNATURES = {
    "2.1": {
        "sample_neighbors": _ONE,
        "sample_layer_neighbors": _ONE,
        "temporal_sample_neighbors": _TIME,
    },
    "2.2": {
        "sample_neighbors": _ONE_22,
        "sample_layer_neighbors": _LAYER_22,
        "temporal_sample_neighbors": _TIME,
    },
    "2.3": {
        "sample_neighbors": _ONE_22,
        "sample_layer_neighbors": _LAYER_22,
        "temporal_sample_neighbors": _TIME_23,
    },
    "2.4": {
        "sample_neighbors": _ONE_24,
        "sample_layer_neighbors": _LAYER_24,
        "temporal_sample_neighbors": _TIME_24,
        "temporal_sample_layer_neighbors": _TIME_LAYER_24,
    },
}
SIGNATURES["2.5"] = SIGNATURES["2.4"]

#: Positional and named arguments of the samplers' calls, by version and method. "window" is None.
_PLAIN = ("nodes", "fanouts", "replace", "prob")
_TIMED = ("nodes", "times", "fanouts", "replace", "prob", "node_time", "edge_time")
_TIMED_23 = ("nodes", "times", "fanouts", "replace", "window", "prob", "node_time", "edge_time")
_SEEDS = {"random_seed": "random_seed", "seed2_contribution": "contribution"}
CALLS: dict[str, dict[str, tuple[tuple[str, ...], dict[str, str]]]] = {
    "2.1": {
        "sample_neighbors": (_PLAIN, {}),
        "sample_layer_neighbors": (_PLAIN, {}),
        "temporal_sample_neighbors": (_TIMED, {}),
    },
    "2.2": {
        "sample_neighbors": (_PLAIN, {}),
        "sample_layer_neighbors": (_PLAIN, _SEEDS),
        "temporal_sample_neighbors": (_TIMED, {}),
    },
    "2.3": {
        "sample_neighbors": (_PLAIN, {}),
        "sample_layer_neighbors": (_PLAIN, _SEEDS),
        "temporal_sample_neighbors": (_TIMED_23, {}),
    },
    "2.4": {
        "sample_neighbors": ((*_PLAIN, "optional"), {"async_op": "waiting"}),
        "sample_layer_neighbors": ((*_PLAIN, "optional"), {"async_op": "waiting", **_SEEDS}),
        "temporal_sample_neighbors": (_TIMED_23, {}),
        "temporal_sample_layer_neighbors": (_TIMED_23, {}),
    },
}
CALLS["2.5"] = CALLS["2.4"]
