"""What ``aethergraph top`` looks at: processes, the writer of a live graph, a page of metrics."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any

from aethergraph.errors import (
    AetherError,
    FormatError,
    InvalidArgumentError,
    MissingFileError,
    StorageError,
)
from aethergraph.observe.asking import ask, list_processes

__all__ = ["NOBODY", "Snapshots", "asker", "read_page"]

#: Snapshots as of observe.snapshot(), by the number of the process or the address of the page.
Snapshots = dict[str, dict[str, Any]]

NOBODY = (
    "no process of yours is observed: a program is seen from its call of "
    "aethergraph.observe.enable() on; aethergraph ingest, serve, replay and demo make it by "
    "themselves"
)
#: Bytes of a page, and seconds to wait for it.
_MOST, _PATIENCE = 64 << 20, 10.0
_SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? +(\S+)(?: +-?\d+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)",?')
_ESCAPED = {r"\n": "\n", r"\"": '"', r"\\": "\\"}


def asker(target: str | None) -> Callable[[], Snapshots]:
    """Return a call that gives snapshots as of now, and raises an AetherError if there is none.

    Args:
        target: number of a process, directory of a live graph, or address of a page of Prometheus;
            None: all processes of this user that are observed.

    Raises:
        MissingFileError: there is no such directory, or nobody writes its graph.
        InvalidArgumentError: there is no process of that number.
    """
    if target is None:
        return _ask_all
    if target.startswith(("http://", "https://")):
        return lambda: {target: read_page(target)}
    pid = int(target) if target.isdecimal() else _writer(target)
    if not pid:
        raise InvalidArgumentError("there is no process 0: numbers begin with 1")
    return lambda: {str(pid): _ask(pid)}


def _ask(pid: int) -> dict[str, Any]:

    return ask(pid)


def _ask_all() -> Snapshots:

    snapshots = {}
    for pid in list_processes():
        try:
            snapshots[str(pid)] = ask(pid)
        except AetherError:  # it has ended, or is stopped: the others are shown
            continue
    if not snapshots:
        raise MissingFileError(NOBODY)
    return snapshots


def _writer(path: str) -> int:
    """Return the process that writes the live graph in a directory."""
    from aethergraph.dynamic.directory import LiveDirectory

    if not os.path.isdir(path):
        problem = "is a file, no directory" if os.path.exists(path) else "no such directory"
        raise MissingFileError(
            f"{path}: {problem}; give the number of a process, the directory of a live graph, or "
            "an address that begins with http://"
        )
    pid = LiveDirectory(path).writer()
    if pid is None or pid < 1:
        raise MissingFileError(f"{path}: no process writes a live graph there")
    return pid


# ---- pages of Prometheus -------------------------------------------------------------------------


def read_page(url: str) -> dict[str, Any]:
    """Return the snapshot that a page of Prometheus shows, as ``observe.prometheus`` serves one.

    Raises:
        StorageError: it cannot be read.
        FormatError: it has no metrics of this package.
    """
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=_PATIENCE) as answer:
            text = answer.read(_MOST).decode(errors="replace")
    except (OSError, HTTPException, ValueError) as error:
        raise StorageError(f"{url} cannot be read: {error}") from None
    metrics = _metrics(text)
    if not metrics:
        raise FormatError(
            f"{url}: there are no metrics of aethergraph; observe.prometheus(port) serves them at "
            "http://HOST:PORT/metrics"
        )
    return {"pid": None, "command": "", "time": time.time(), "metrics": metrics}


def _metrics(text: str) -> dict[str, Any]:
    from aethergraph.observe.metrics import METRICS

    known = {metric.name: metric for metric in METRICS}
    metrics: dict[str, Any] = {}
    for line in text.splitlines():
        sample = _SAMPLE.fullmatch(line.strip())
        if sample is None or sample[1] not in known:
            continue
        try:
            value = float(sample[3])
        except ValueError:
            continue
        labels = {
            name: re.sub(r"\\.", lambda match: _ESCAPED.get(match[0], match[0]), quoted)
            for name, quoted in _LABEL.findall(sample[2] or "")
        }
        metric = known[sample[1]]
        of_name = metrics.setdefault(
            metric.name,
            {"kind": metric.kind, "unit": metric.unit, "help": metric.help, "samples": []},
        )
        # Counts are integers, which a page shows as numbers.
        of_name["samples"].append({
            "labels": labels, "value": int(value) if value.is_integer() else value,
        })  # fmt: skip
    return metrics
