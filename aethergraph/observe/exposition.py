"""Prometheus: a collector that reads the counts when it is scraped, and a server for it."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

from aethergraph._checks.arrays import as_port
from aethergraph._checks.optional import require
from aethergraph._checks.options import as_text, shown
from aethergraph.errors import InvalidArgumentError, StorageError
from aethergraph.observe.metrics import METRICS
from aethergraph.observe.registry import collect

__all__ = ["Collector", "MetricsServer", "prometheus"]


class Collector:
    """Collector of prometheus-client with all metrics of this process.

    ::

        prometheus_client.REGISTRY.register(observe.Collector())   # beside those of your own

    Raises:
        UnsupportedError: prometheus-client is not installed.
    """

    def __init__(self) -> None:
        self._core = require(
            "prometheus_client.core", "Collector needs", "observe", "prometheus-client"
        )

    def describe(self) -> list[Any]:
        """Return nothing: objects, and so metrics, come and go."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the families of metrics that have samples, read now."""
        by_name: dict[str, list[Any]] = {}
        for sample in collect():
            by_name.setdefault(sample.name, []).append(sample)
        for metric in METRICS:
            if metric.name not in by_name:
                continue
            counts = metric.kind == "counter"
            kind = self._core.CounterMetricFamily if counts else self._core.GaugeMetricFamily
            labels = ["name", *metric.labels]
            family = kind(metric.name, metric.help, labels=labels)
            for sample in by_name[metric.name]:
                family.add_metric([sample.labels[label] for label in labels], sample.value)
            yield family


class MetricsServer:
    """Server of ``/metrics`` that :func:`prometheus` has started; a context manager.

    Attributes:
        address: address that it listens at.
        port: port that it listens at.
    """

    def __init__(self, server: Any, thread: Any) -> None:
        self._server, self._thread = server, thread
        self.address, self.port = str(server.server_address[0]), int(server.server_address[1])

    @property
    def url(self) -> str:
        """Address of the metrics, for a browser or Prometheus."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.port}/metrics"

    def close(self) -> None:
        """End the server; its port is free afterwards."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def prometheus(port: int, address: str = "127.0.0.1") -> MetricsServer:
    """Serve the metrics of this process to Prometheus, from a thread.

    Counts are read when the server is asked. Nobody is asked for a password: an address beyond this
    machine shows names of files and rates to whoever can reach it.

    Args:
        port: port; 0: a free one, which the result names.
        address: IP address to listen at.

    Raises:
        UnsupportedError: prometheus-client is not installed.
        InvalidArgumentError: no port, or no address.
        StorageError: the port is taken, or must not be used.
    """
    number, host = as_port(port), as_text(address, "address")
    try:  # names are not looked up: that may take long, and may end elsewhere
        ipaddress.ip_address(host or "")
    except ValueError:
        raise InvalidArgumentError(
            f"address = {shown(host)} is no IP address of this machine, such as '127.0.0.1'"
        ) from None
    client = require("prometheus_client", "prometheus() needs", "observe", "prometheus-client")
    registry = client.CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    try:
        server, thread = client.start_http_server(number, host, registry)
    except OSError as error:
        raise StorageError(
            error.errno,
            f"metrics cannot be served at {host}, port {number}: "
            f"{error.strerror or error}; give another port, or 0 for a free one",
        ) from None
    return MetricsServer(server, thread)
