"""Samples as a service: seeds go to a server, a subgraph with its rows comes back.

::

    plan.py      what is drawn and which rows come with it, from a TOML file
    form.py      which arrays a reply has, in which order: bytes <-> arrays
    request.py   seeds, times and key, as bytes
    service.py   answers requests from a graph; of one that changes, each from its last commit
    client.py    asks a server
    log.py       what was answered, a line for each
    replay.py    the same answers again, byte by byte, from the graph as it was

The server and :mod:`replay` answer by the same code, from the same kinds of graphs.
"""
