"""Models and contracts for tests of AetherGraph and of implementations of its protocols.

The contracts test a graph, a feature source, a sampler or a source of streams of your own, see
``docs/testing.md``; those for PyG's stores and samplers are in :mod:`aethergraph.pyg.testing`.
:func:`check_no_leak` proves on samples that no seed sees its future.
"""

from aethergraph.testing.adjacency import AdjacencyContract
from aethergraph.testing.features import FeatureSourceContract
from aethergraph.testing.leaks import LeakError, check_no_leak
from aethergraph.testing.rules import broken_rules
from aethergraph.testing.sampler import HeteroSamplerContract, SamplerContract
from aethergraph.testing.sources import SourceContract

__all__ = [
    "AdjacencyContract",
    "FeatureSourceContract",
    "HeteroSamplerContract",
    "LeakError",
    "SamplerContract",
    "SourceContract",
    "broken_rules",
    "check_no_leak",
]
