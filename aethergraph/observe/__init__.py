"""What happens inside: counters of the whole package, spans, and where a batch's time goes.

>>> from aethergraph import observe
>>> observe.enable()                                    # doctest: +SKIP
>>> observe.prometheus(9464)                            # doctest: +SKIP

Nothing is observed before :func:`enable`; until then this costs nothing, and it is not imported by
the rest of the package. :func:`profile` works by itself. ``aethergraph top`` shows the processes
that are observed.
"""

from __future__ import annotations

import threading

from aethergraph._checks.options import as_flag
from aethergraph.observe import registry
from aethergraph.observe.exposition import Collector, prometheus
from aethergraph.observe.metrics import METRICS
from aethergraph.observe.profiling import profile
from aethergraph.observe.publishing import Publisher
from aethergraph.observe.registry import snapshot, watch
from aethergraph.observe.spans import opentelemetry

__all__ = [
    "enable",
    "disable",
    "snapshot",
    "profile",
    "prometheus",
    "opentelemetry",
    "METRICS",
    "Collector",
    "watch",
]

_lock = threading.Lock()
_publisher: Publisher | None = None


def enable(*, publish: bool = True) -> None:
    """Observe what is made from now on: stores, graphs, ingestors; and add up stages of batches.

    Objects are referred to weakly, and their counts read only when someone asks. What was made
    before can be given to :func:`watch`. Calling it again changes nothing but ``publish``.

    Args:
        publish: show the metrics to ``aethergraph top``, by a socket that only processes of the
            same user can use, in ``$XDG_RUNTIME_DIR/aethergraph`` or, without that, in
            ``/tmp/aethergraph-UID``. It goes with the process, or with :func:`disable`.

    Raises:
        StorageError: the folder of the socket belongs to somebody else, or cannot be written.
    """
    global _publisher
    is_public = as_flag(publish, "publish")
    with _lock:
        registry.start()
        if is_public and (_publisher is None or _publisher.is_closed):
            _publisher = Publisher(snapshot)
        elif not is_public and _publisher is not None:
            _publisher.close()
            _publisher = None


def disable() -> None:
    """Observe nothing any more, and forget what was observed; nothing happens if it is off."""
    global _publisher
    with _lock:
        registry.stop()
        if _publisher is not None:
            _publisher.close()
        _publisher = None
