"""The endpoint, asked by HTTP and read by Prometheus' own parser."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aethergraph import observe
from aethergraph.errors import InvalidArgumentError, StorageError

prometheus_client = pytest.importorskip("prometheus_client", reason="pip install prometheus-client")


def scrape(url: str) -> dict[str, Any]:
    from prometheus_client.parser import text_string_to_metric_families

    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        return {f.name: f for f in text_string_to_metric_families(answer.read().decode())}


def test_it_is_scraped(paged: Any) -> None:
    observe.watch(paged, 'pa"pers\n\\')
    observe.watch(paged.features, "x")
    with observe.prometheus(0) as server:
        assert server.address == "127.0.0.1" and server.url.endswith("/metrics")
        paged.features.gather(np.arange(100))
        first = scrape(server.url)
        paged.features.gather(np.arange(100))
        second = scrape(server.url)
        for families, count in ((first, 100), (second, 200)):
            family = families["aethergraph_rows_requested"]
            assert family.type == "counter" and family.documentation == "Rows asked for."
            (sample,) = family.samples
            assert (sample.name, sample.labels, sample.value) == (
                "aethergraph_rows_requested_total", {"name": "x"}, count,
            )  # fmt: skip
        budget = second["aethergraph_paging_budget_bytes"]
        assert budget.type == "gauge" and budget.samples[0].value == 64 << 20
        assert budget.samples[0].labels == {"name": 'pa"pers\n\\'}
        snapshot = observe.snapshot()["metrics"]
        exported = {f"{f.name}_total" if f.type == "counter" else f.name for f in second.values()}
        assert exported == set(snapshot)
        sizes = second["aethergraph_io_size_reads"].samples
        assert [s.labels["size"] for s in sizes] == [str(4096 << n) for n in range(9)]
        port = server.port
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2)


def test_beside_metrics_of_ones_own(paged: Any) -> None:
    observe.watch(paged.features, "x")
    registry = prometheus_client.CollectorRegistry()
    registry.register(observe.Collector())
    text = prometheus_client.generate_latest(registry).decode()
    assert 'aethergraph_rows_requested_total{name="x"} 0.0' in text


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(StorageError, match=f"127.0.0.1, port {port}.*another port"):
            observe.prometheus(port)


@pytest.mark.parametrize(
    ("port", "address"),
    [
        (-1, "127.0.0.1"), (65536, "127.0.0.1"), ("9", "127.0.0.1"), (0, ""), (0, 3), (0, None),
        (0, "localhost"), (0, "a.example.org"), (0, "1.2.3"),
    ],
)  # fmt: skip
def test_bad_arguments(port: Any, address: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        observe.prometheus(port, address)


@pytest.mark.parametrize("address", ["203.0.113.7", "2001:db8::1"])
def test_addresses_of_others(address: str) -> None:
    with pytest.raises(StorageError, match="cannot be served"):
        observe.prometheus(0, address)


def test_without_the_library(run_python: Callable[..., Any]) -> None:
    run_python(
        """
        import sys
        sys.modules["prometheus_client"] = sys.modules["opentelemetry"] = None
        from aethergraph import observe
        from aethergraph.errors import UnsupportedError
        observe.enable(publish=False)
        assert observe.snapshot()["metrics"] == {}
        for call, library in (
            (lambda: observe.prometheus(0), "prometheus-client"),
            (observe.Collector, "prometheus-client"),
            (observe.opentelemetry, "opentelemetry-api"),
        ):
            try:
                call()
            except UnsupportedError as error:
                assert library in str(error) and "aethergraph[observe]" in str(error)
            else:
                raise AssertionError(library)
        """
    )
