"""Contenders run in processes of their own; the parent gives them turns.

One process per contender keeps allocators, thread pools and memory apart, lets DGL run under an
interpreter of its own, and lets the parent interleave: A, B, A, B... over pipes with one line of
JSON per message. Standard library only, because every contender imports it.

A contender's script ends with ``serve(setup)``: ``setup(config)`` returns its commands by name,
functions of keyword arguments that return a JSON value.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

WORKER_ROLE = "--worker"  # tells a script that is both benchmark and contender what it is
BENCHMARKS = Path(__file__).resolve().parents[1]
Commands = Mapping[str, Callable[..., Any]]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "AETHERGRAPH_NUM_THREADS": "1"}


def contender_command(script: str, python: str = sys.executable) -> list[str]:
    """The command that runs a file of benchmarks/, or a module of contenders/."""
    if script.endswith(".py"):
        return [python, str(BENCHMARKS / script)]
    return [python, str(BENCHMARKS / "contenders"), script]


class WorkerError(RuntimeError):
    """The contender failed; the text is its traceback or how it ended."""


class Worker:
    """A contender's process. It sets itself up while the others do; the first ``ask`` waits.

    Args:
        name: the contender.
        script: file of benchmarks/, or module of contenders/.
        config: goes to ``setup`` there; ``config["core"]``, if not None, pins the process.
        python: its interpreter.
        env: added to the environment.
        enter: called in the new process before its program begins, such as ``Cgroup.enter``.
    """

    def __init__(
        self,
        name: str,
        script: str,
        config: Mapping[str, Any],
        *,
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
        enter: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [*contender_command(script, python), WORKER_ROLE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
            text=True,
            preexec_fn=enter,
        )
        self._ready = False
        self._write({**config, "contender": name})

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, command: str, **arguments: Any) -> Any:
        """The answer to one command; blocks until it is there."""
        if not self._ready:
            self._read()
            self._ready = True
        self._write([command, arguments])
        return self._read()

    def _write(self, message: Any) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it died: _read says how
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError(f"{self.name} ended with status {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(f"{self.name}: {answer['error']}")
        return answer["value"]

    def close(self) -> None:
        """End the process and wait for it."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def take_turns(
    workers: Sequence[Worker], rounds: int, ask: Callable[[Worker, int], Any]
) -> dict[str, list[Any]]:
    """``ask(worker, round)`` for every worker in each round, the first one changing by round.

    Round -1 warms up and is thrown away.
    """
    answers: dict[str, list[Any]] = {worker.name: [] for worker in workers}
    for number in range(-1, rounds):
        shift = (number + 1) % len(workers)
        for worker in [*workers[shift:], *workers[:shift]]:
            answer = ask(worker, number)
            if number >= 0:
                answers[worker.name].append(answer)
    return answers


def memory() -> dict[str, int]:
    """Resident bytes of this process: "anonymous", "file" (mapped pages), and "peak" of both."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return {
        name: int(fields[key].split()[0]) * 1024
        for name, key in (("anonymous", "RssAnon"), ("file", "RssFile"), ("peak", "VmHWM"))
    }


def time_batches(
    batches: Iterable[Any],
    sample: Callable[[Any], Any],
    num_edges: Callable[[Any], int],
    clock: Callable[[], float],
) -> dict[str, list[float]]:
    """Seconds and edges of each batch; freeing a batch is part of the next one's time."""
    times: list[float] = []
    edges: list[float] = []
    out = None
    gc.collect()
    for ids in batches:
        start = clock()
        out = sample(ids)
        times.append(clock() - start)
        edges.append(num_edges(out))
    return {"seconds": times, "edges": edges}


def serve(setup: Callable[[dict[str, Any]], Commands]) -> None:
    """Answer the parent until it closes the pipe."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to stderr

    def reply(answer: dict[str, Any]) -> None:
        print(json.dumps(answer), file=out, flush=True)

    config = json.loads(sys.stdin.readline())
    if config.get("core") is not None:
        os.sched_setaffinity(0, {config["core"]})
    try:
        commands = setup(config)
        reply({"value": None})
        for line in sys.stdin:
            name, arguments = json.loads(line)
            reply({"value": commands[name](**arguments)})
    except Exception:
        reply({"error": traceback.format_exc()})
