"""Graphs that change while they are sampled.

::

    DynamicGraph, DynamicHeteroGraph      what users hold; live.py has what both have in common
      └── store.py       LiveStore: one writer, transactions, numbers of commits
            ├── forms.py, inputs.py       what is kept, and what a writer hands over, checked
            ├── native live graph         lists of edges, versioned (native/src/live)
            ├── rows.py, shared.py        rows of nodes and edges, versioned; attrs.py shows them
            ├── sharing.py                the same memory in other processes
            └── journal.py, directory.py  commits on disk, and a graph made of them again
    snapshot.py                           one commit, a graph like any other
"""

from aethergraph.dynamic.graph import DynamicGraph
from aethergraph.dynamic.hetero import DynamicHeteroGraph
from aethergraph.dynamic.hetero_snapshot import HeteroSnapshot
from aethergraph.dynamic.snapshot import Snapshot

__all__ = ["DynamicGraph", "DynamicHeteroGraph", "HeteroSnapshot", "Snapshot"]
