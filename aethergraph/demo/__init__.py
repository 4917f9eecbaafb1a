"""Demonstration: GraphSAGE on a graph that stays on disk, beside the in-memory way.

::

    prepare (dataset.py) ──> graph.aeg, features.npy, labels.npy       made once, kept
        │
            ├─ process 1: features alone (MLP)           accuracy without the graph
        ├─ process 2: stock NodeLoader, our stores
        ├─ process 3: our NeighborLoader
        └─ process 4: PyG's NeighborLoader on Data in memory, where that is possible
        │       each: train.py, one JSON object per line on its standard output
        v
    report (report.py): a table, report.json, demo.png

Each run has a process of its own, so that its peak memory is its own. ``live/`` has a demonstration
of its own: a graph that changes while it is trained on.
"""
