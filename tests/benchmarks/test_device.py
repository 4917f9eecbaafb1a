"""The share of a device's limit that reads of several sizes had."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not ROOT.exists(), reason="the benchmarks are not in this tree")
LIMITS = {4096: 100.0, 8192: 80.0, 16384: 50.0}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("harness.device")


@pytest.mark.parametrize("size", LIMITS)
def test_a_device_that_never_waits_is_at_its_limit(device: Any, size: int) -> None:
    count = int(LIMITS[size])
    assert device.share_of_device(LIMITS, [(count, count * size)], 1.0) == pytest.approx(1.0)
    assert device.share_of_device(LIMITS, [(count, count * size)], 4.0) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("size", "seconds"),
    [
        (512, 1 / 100),
        (6144, (1 / 100 + 1 / 80) / 2),
        (12288, (1 / 80 + 1 / 50) / 2),
        (32768, 2 / 50),
    ],
)
def test_between_the_sizes_and_beyond_them(device: Any, size: int, seconds: float) -> None:
    assert device.share_of_device(LIMITS, [(3, 3 * size)], 1.0) == pytest.approx(3 * seconds)


def test_reads_of_several_sizes_add_up(device: Any) -> None:
    reads = [(10, 10 * 4096), (0, 0), (20, 20 * 16384)]
    assert device.share_of_device(LIMITS, reads, 1.0) == pytest.approx(10 / 100 + 20 / 50)
    assert device.share_of_device(LIMITS, [], 1.0) == 0


def test_random_reads_are_measured_at_every_size(device: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(np.zeros(1 << 20, np.uint8).tobytes())
    found = device.DeviceLimits(path).measure(0.01)
    assert list(found) == [4096, 8192, 16384, 32768, 65536, 131072]
    assert all(rate > 0 for rate in found.values())
