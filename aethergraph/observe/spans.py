"""Spans of OpenTelemetry around the stages of batches and commits."""

from __future__ import annotations

from typing import Any

from aethergraph import _tracepoints as tracepoints
from aethergraph._checks.optional import require
from aethergraph.errors import InvalidArgumentError

__all__ = ["Spans", "opentelemetry"]


class Spans:
    """Spans that :func:`opentelemetry` has switched on; a context manager.

    Also the observer of stages that makes them.
    """

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._trace = require(
            "opentelemetry.trace", "opentelemetry() needs", "observe", "opentelemetry-api"
        )
        self._context = require(
            "opentelemetry.context", "opentelemetry() needs", "observe", "opentelemetry-api"
        )

    def begin(self, name: str, of: str, reads: Any) -> tuple[Any, Any]:
        """Begin a span within the current one of this thread."""
        attributes = {"aethergraph.of": of} if of else None
        span = self._tracer.start_span(f"aethergraph.{name}", attributes=attributes)
        return span, self._context.attach(self._trace.set_span_in_context(span))

    def end(self, begun: tuple[Any, Any], error: BaseException | None) -> None:
        """End the span, as an error if there was one."""
        span, token = begun
        self._context.detach(token)
        if error is not None and not isinstance(error, (StopIteration, GeneratorExit)):
            span.record_exception(error)
            span.set_status(self._trace.StatusCode.ERROR, str(error))
        span.end()

    def close(self) -> None:
        """Make no further spans."""
        tracepoints.remove_observer(self)

    def __enter__(self) -> Spans:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def opentelemetry(tracer_provider: Any = None) -> Spans:
    """Make spans of OpenTelemetry, from now on, around the stages of batches and of live graphs.

    Their names are ``aethergraph.batch``, and in it ``sample`` (``draw`` in it is the core's part)
    and ``gather``, with the attribute ``aethergraph.of``, the name of what is gathered; ``wait``,
    ``plan``, ``build``, ``transform``, ``pin``; of live graphs ``transaction`` and in it
    ``commit``, and ``merge``. Edges that are inserted one by one have no span, which would take
    longer than they do. Threads that work ahead have traces of their own; what the thread
    that iterates does is within its current span.

    Args:
        tracer_provider: where spans go; None: OpenTelemetry's global one. Without an SDK they go
            nowhere.

    Returns:
        An object with ``close()``, after which no spans are made.

    Raises:
        UnsupportedError: opentelemetry-api is not installed.
        InvalidArgumentError: no provider of tracers.
    """
    trace = require("opentelemetry.trace", "opentelemetry() needs", "observe", "opentelemetry-api")
    provider = trace.get_tracer_provider() if tracer_provider is None else tracer_provider
    if not callable(getattr(provider, "get_tracer", None)):
        raise InvalidArgumentError(
            f"tracer_provider must be a TracerProvider, got {type(provider).__name__}"
        )
    spans = Spans(provider.get_tracer("aethergraph"))
    tracepoints.add_observer(spans)
    return spans
