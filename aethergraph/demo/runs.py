"""Start of one run in its own process, and its events."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aethergraph.demo.train import RunSpec
from aethergraph.errors import AetherError

__all__ = ["Epoch", "RunFailed", "RunResult", "failure", "run"]


class RunFailed(AetherError):
    """Error of a run; the message holds its last lines."""


@dataclass(frozen=True)
class Epoch:
    """Results of one training epoch: mean loss, held-out accuracy, and times."""

    loss: float
    accuracy: float
    batches: int
    seconds: float
    wait_seconds: float


@dataclass
class RunResult:
    """Results of one run.

    Attributes:
        mode: a key of ``MODES``.
        skipped: why the run was skipped, or None.
        open_seconds: from the start to the first batch request (reading and building included).
        anon_bytes: peak anonymous memory, see :mod:`aethergraph.demo.memory`.
        file_bytes: peak of mapped file pages.
        base_bytes: anonymous memory after the imports, before any data.
        loads_per_second: batches/s of the loader alone, without a model.
        epochs: results of each epoch.
    """

    mode: str
    skipped: str | None = None
    open_seconds: float = 0.0
    anon_bytes: int = 0
    file_bytes: int = 0
    base_bytes: int = 0
    loads_per_second: float = 0.0
    epochs: list[Epoch] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """Held-out accuracy after the last epoch; 0 without epochs."""
        return self.epochs[-1].accuracy if self.epochs else 0.0

    @property
    def data_bytes(self) -> int:
        """Peak anonymous memory beyond that of the libraries, in bytes."""
        return max(0, self.anon_bytes - self.base_bytes)

    def _settled(self) -> list[Epoch]:
        """Return all epochs but the first, which also warms caches (unless there is no other)."""
        return self.epochs[1:] or self.epochs

    @property
    def settled_batches(self) -> int:
        """Number of training batches after the first epoch."""
        return sum(epoch.batches for epoch in self.epochs[1:])

    @property
    def batches_per_second(self) -> float:
        """Training batches per second, without the first epoch if there are others."""
        seconds = sum(e.seconds for e in self._settled())
        return sum(e.batches for e in self._settled()) / seconds if seconds else 0.0

    @property
    def wait_ms(self) -> float:
        """Mean milliseconds that the training loop waited for a batch."""
        batches = sum(e.batches for e in self._settled())
        return 1000 * sum(e.wait_seconds for e in self._settled()) / batches if batches else 0.0


def run(spec: RunSpec, on_event: Callable[[dict[str, Any]], None]) -> RunResult:
    """Run ``spec`` in a child process, and pass each of its events on.

    Raises:
        RunFailed: the child ended with an error, or was killed.
    """
    result = RunResult(spec.mode)
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            [sys.executable, "-m", "aethergraph.demo"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(spec.encode())
            child.stdin.close()
            for line in child.stdout:
                event = json.loads(line)
                _record(result, event)
                on_event(event)
            code = child.wait()
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            child.stdout.close()
        if code != 0:
            errors.seek(0)
            raise RunFailed(f"the run {spec.mode!r} {failure(code, errors.read())}")
    return result


def _record(result: RunResult, event: dict[str, Any]) -> None:
    kind = event["event"]
    if kind == "open":
        result.open_seconds = event["seconds"]
        result.base_bytes = event["anon"]
    elif kind == "epoch":
        result.epochs.append(
            Epoch(
                event["loss"],
                event["accuracy"],
                event["batches"],
                event["seconds"],
                event["wait_seconds"],
            )
        )
    elif kind == "loaded":
        result.loads_per_second = event["batches"] / max(event["seconds"], 1e-9)
    elif kind == "done":
        result.anon_bytes = event["anon"]
        result.file_bytes = event["file"]
    elif kind == "skipped":
        result.skipped = event["reason"]


def failure(code: int, errors: str) -> str:
    """Return why a child process ended, from its exit code and its standard error."""
    if code == -signal.SIGKILL:
        return "was killed, most likely for lack of memory"
    last = errors.strip().splitlines()[-1:] or [f"ended with code {code}"]
    return f"failed: {last[0]}"
