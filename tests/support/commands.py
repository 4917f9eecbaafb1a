"""Runs the commands of ``aethergraph`` in this process, or in forks of one that imported them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.processes import WarmPython
from typer.testing import CliRunner

from aethergraph.cli.app import app

__all__ = ["MAIN", "ae", "run_instead", "said", "warm_commands"]

#: A program that runs the command of its arguments.
MAIN = "from aethergraph.cli import main\nmain()\n"


def ae(*args: object, code: int = 0) -> Any:
    """Run a command in this process."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    assert result.exit_code == code, f"{result.stdout}\n{result.stderr}\n{result.exception!r}"
    return result


def said(*args: object, code: int = 0) -> str:
    """Run a command in this process; return its output, or its errors if it fails, as one line."""
    result = ae(*args, code=code)
    return " ".join((result.stdout if code == 0 else result.stderr).split())


def run_instead(script: str, module: str, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``place.Popen`` run a script in the place of a module of the demonstration."""
    start = subprocess.Popen

    def instead(command: list[str], **options: Any) -> Any:
        assert command[1:] == ["-m", module]
        return start([sys.executable, "-c", script], **options)

    monkeypatch.setattr(place, "Popen", instead)


@contextmanager
def warm_commands(*modules: str) -> Iterator[WarmPython]:
    """An interpreter that has imported the commands, with buffered output, for a ``with`` block."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with WarmPython(["aethergraph.cli.app", *modules], env) as warm:
        yield warm
