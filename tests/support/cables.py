"""Virtual cables between here and a network namespace, for tests that run as root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

__all__ = ["FAR", "NEAR", "Cable", "plugged", "run_ip"]

#: Addresses of the ends.
NEAR, FAR = "10.213.7.1", "10.213.7.2"


def run_ip(*words: str) -> None:
    """Run ``ip`` with these words."""
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


class Cable:
    """Ends of a virtual cable: ``near`` here, the other in a namespace.

    Attributes:
        near: name of the interface here.
        space: name of the namespace.
    """

    def __init__(self) -> None:
        self.near, far = f"aen{os.getpid() % 10**6}", f"aef{os.getpid() % 10**6}"
        self.space = f"aethergraph-{os.getpid()}"
        run_ip("netns", "add", self.space)
        run_ip("link", "add", self.near, "type", "veth", "peer", "name", far)
        run_ip("link", "set", far, "netns", self.space)
        run_ip("addr", "add", f"{NEAR}/24", "dev", self.near)
        run_ip("link", "set", self.near, "up")
        run_ip("-n", self.space, "addr", "add", f"{FAR}/24", "dev", far)
        run_ip("-n", self.space, "link", "set", far, "up")

    def remove(self) -> None:
        """Remove the cable and the namespace."""
        for words in (("link", "del", self.near), ("netns", "del", self.space)):
            subprocess.run(["ip", *words], check=False, capture_output=True, timeout=30)


C = TypeVar("C", bound=Cable)


@contextmanager
def plugged(kind: type[C]) -> Iterator[C]:
    """Make a cable for a block, or skip the test where there can be none."""
    if shutil.which("ip") is None:
        pytest.skip("no program ip: apt install iproute2")
    if os.geteuid() != 0:
        pytest.skip("namespaces need root: sudo ./scripts/test.sh python")
    try:
        made = kind()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no virtual networks here ({error.stderr.strip()}): a machine of its own has")
    try:
        yield made
    finally:
        made.remove()
