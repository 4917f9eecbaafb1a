"""Demonstration of a graph that changes: one process writes to it, another one trains.

::

    this process                                         a process of its own (train.py)
    stream.py ──nodes, edges──> DynamicGraph ──────────> NeighborLoader ──> GraphSAGE
       classes drift                                       │
    main.py <──────────── events, one JSON object per line ┘
       │
       v
    report.py: live.json, live.png

The process that made a graph writes to it, so it is training that moves to another one. That
unpickles the graph, which brings no data along: both processes have the same memory.
"""
