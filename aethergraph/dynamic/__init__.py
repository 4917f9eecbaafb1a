"""Graphs that change while they are sampled.

::

    graph.py, hetero.py      what users hold; live.py has what both have in common
      ├── opening.py         a graph in a directory, opened or made
      └── store.py           LiveStore: one writer, its changes and commits; transaction.py
            ├── state.py                  what there is, in shared memory, for every process
            ├── forms.py, inputs.py       what is kept, and what a writer hands over, checked
            ├── edge_types.py             edge types, with their rows; edge_ends.py: ends by edge id
            ├── keys.py                   keys of nodes, such as names, and the way back
            ├── native live graph         lists of edges, versioned (native/src/live)
            ├── rows.py, shared.py        rows of nodes and edges, versioned; attrs.py shows them
            ├── base.py                   a graph file below what has changed
            └── journal.py, directory.py  commits on disk, and a graph made of them again;
                                          repair.py finds damage there, and cuts it off;
                                          history.py has the graph as of earlier commits
    snapshot.py, hetero_snapshot.py       one commit, a graph like any other
      └── merge.py                        writes it into a graph file, such as the next base:
                                          merge_sections.py, merge_lists.py
"""

from aethergraph.dynamic.history import History

__all__ = ["History"]
