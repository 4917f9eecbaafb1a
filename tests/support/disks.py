"""File systems with little room, for tests of full disks, and those that cannot be written to."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["read_only", "small_disk"]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A new folder on a file system of ``size``, such as "1M", for a ``with`` block."""
    with _mounted(folder, ["-t", "tmpfs", "-o", f"size={size}", "tmpfs"]):
        yield folder


@contextmanager
def read_only(source: Path, folder: Path) -> Iterator[Path]:
    """A new folder with the files of another, none of which can be written to, for a ``with``."""
    with _mounted(folder, ["--bind", str(source)]):
        remount = ["mount", "-o", "remount,bind,ro", str(folder)]
        subprocess.run(remount, capture_output=True, check=True)
        yield folder


@contextmanager
def _mounted(folder: Path, what: list[str]) -> Iterator[None]:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a file system needs root")
    folder.mkdir()
    mount = ["mount", *what, str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
