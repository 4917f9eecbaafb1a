"""Graphs that change while they are sampled.

::

    graph.py, hetero.py      what users hold: one type, many types; live.py, the graph as a whole
      ├── edges.py           edges of one type, of the last commit or of a snapshot
      ├── opening.py         a graph in a directory, opened or made; attaching.py: another process's
      └── store.py           LiveStore: one writer, its changes and commits; transaction.py
            ├── state.py                  what there is, in shared memory, for every process
            ├── graph_form.py, forms.py   what is kept; inputs.py: what a writer hands over, checked
            ├── edge_types.py             edge types, with their rows; edge_ends.py: ends by edge id
            ├── growing_keys.py           keys of nodes, such as names; keys.py shows them
            ├── native live graph         lists of edges, versioned (native/src/live)
            ├── rows.py, shared.py        rows of nodes and edges, versioned; attrs.py shows them
            ├── base_graph.py             a graph file below what has changed
            └── journal.py, directory.py  commits on disk; log_reader.py makes a graph of them;
                                          repair.py finds damage there, and cuts it off;
                                          history.py has the graph as of earlier commits
    snapshot.py, hetero_snapshot.py       one commit, a graph like any other; one_commit.py has
      │                                   what one type and many have in common
      └── merge.py                        writes it into a graph file, such as the next base:
                                          merge_sections.py, merge_lists.py
"""

from aethergraph.dynamic.history import History

__all__ = ["History"]
