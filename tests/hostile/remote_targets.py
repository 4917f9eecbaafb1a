"""What :mod:`aethergraph.remote` has for the attack."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from target import Target, then

import aethergraph as ag
from aethergraph.remote import FeatureServer, open_source

__all__ = ["remote_targets"]

_servers: dict[str, FeatureServer] = {}


def _address(folder: Path) -> str:
    """Return the address of a server of the folder's rows, which all targets share."""
    key = str(folder)
    if key not in _servers:
        store = ag.FeatureStore.load(folder / "x.npy")
        _servers[key] = FeatureServer(store, port=0).start()
    return f"{_servers[key].address}?timeout=0.1"


def _serve(sources: Any, **options: Any) -> FeatureServer:
    return FeatureServer(sources, **options)


def remote_targets() -> Iterator[Target]:
    """Targets that need no framework."""
    yield Target(
        "FeatureServer",
        lambda f: (
            then(FeatureServer, lambda server: server.close()),
            {"sources": ag.FeatureStore.load(f / "x.npy"), "port": 0},
        ),
    )
    yield Target("FeatureServer.wait", lambda f: (_closed(f).wait, {"timeout": 0.01}), (TypeError,))
    yield Target("open_source", lambda f: (open_source, {"url": _address(f)}))
    yield Target(
        "RemoteRows.gather", lambda f: (open_source(_address(f)).gather, {"ids": [1, 2]})
    )  # fmt: skip


def _closed(folder: Path) -> FeatureServer:
    server = FeatureServer(ag.FeatureStore.load(folder / "x.npy"), port=0)
    server.close()
    return server
