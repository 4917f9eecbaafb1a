"""Rows, a server of them, and files of a token and a certificate."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.network import make_certificate

from aethergraph.remote import FeatureServer


@pytest.fixture
def x() -> Any:
    return np.random.default_rng(0).random((5000, 16), dtype=np.float32)


@pytest.fixture
def server(x: Any) -> Iterator[FeatureServer]:
    """A server of ``x`` on loopback, without a token."""
    with FeatureServer(x, port=0) as made:
        yield made


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("a secret\n")
    return path


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Files of a certificate and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"))
