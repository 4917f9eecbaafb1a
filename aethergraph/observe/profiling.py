"""profile: where the time of a loader's batches goes, measured at the stages of the work.

    the thread that iterates   | wait | build | transform | step | wait | build | ... | rest
    a thread that works ahead  | sample | gather x | other | sample | ... | idle
    a worker process           | sample | gather x | build | transform | ... | idle

The parts of each thread add up to the time that the profile took.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from aethergraph import _tracepoints as tracepoints
from aethergraph._checks.arrays import as_count
from aethergraph._checks.options import as_iterator, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.observe.plotting import plot_parts
from aethergraph.observe.recording import READING, Key, Recorder
from aethergraph.observe.workers import ProcessRecorder

__all__ = ["Part", "Profile", "profile"]

#: What stages are called in the table, in its order.
_TEXTS = {
    "wait": "waiting for batches",
    "workers": "waiting for worker processes",
    "plan": "planning reads",
    "sample": "sampling",
    "draw": "sampling, in the core",
    "gather": "gathering",
    "batch": "other work for batches",
    "build": "building the batch",
    "transform": "transform",
    "pin": "pinning memory",
    "loader": "the loader itself",
    "step": "your step",
    "rest": "rest",
    "idle": "idle",
}
Where: TypeAlias = Literal["iterating", "ahead", "workers"]
_WAIT_FOR_PLAN = "waiting for batches to plan"
#: Of workers of which nothing was seen.
_UNSEEN = "not seen: they began before, or are no forks"


class Part(NamedTuple):
    """Part of the time of a profile.

    Attributes:
        where: ``"iterating"``: the thread that iterates; ``"ahead"``: those that work ahead of it;
            ``"workers"``: the worker processes.
        name: what was done.
        seconds: time in all, over all threads or processes of ``where``.
        calls: number of times; 0 for what is left over.
    """

    where: Where
    name: str
    seconds: float
    calls: int


class Profile:
    """Profile of batches: the time of each part of the work; made by :func:`profile`.

    ``print`` shows a table.

    Attributes:
        batches: number of batches.
        seconds: time that they took, from the first request to the end of the last step.
        threads: most threads that worked ahead at the same time.
        parts: where the time went. Those of the thread that iterates add up to ``seconds``, those
            ahead to ``threads * seconds``, those of workers to ``workers * seconds``; ``"rest"``
            and ``"idle"`` are what is in no stage.
        workers: worker processes of the loader.
    """

    def __init__(
        self,
        batches: int,
        seconds: float,
        threads: int,
        parts: tuple[Part, ...],
        workers: int = 0,
    ) -> None:
        self.batches, self.seconds, self.threads, self.parts = batches, seconds, threads, parts
        self.workers = workers

    def __getitem__(self, name: str) -> float:
        """Return the seconds of the parts called ``name``, 0.0 if there are none."""
        return sum(part.seconds for part in self.parts if part.name == name)

    def of(self, where: str) -> list[Part]:
        """Return the parts of one place, such as ``"iterating"``, in the order of the table."""
        return [part for part in self.parts if part.where == where]

    def table(self) -> str:
        """Return the table: milliseconds per batch, and shares of the time of the threads."""
        each = 1e3 / self.batches
        lines = [
            f"{self.batches} batches in {self.seconds:.2f} s: {each * self.seconds:.2f} ms each"
        ]
        width = max(len(part.name) for part in self.parts) + 2
        for where, total, title in (
            ("iterating", self.seconds, "the thread that iterates"),
            ("ahead", self.threads * self.seconds, f"threads ahead: {self.threads}"),
            ("workers", self.workers * self.seconds, f"worker processes: {self.workers}"),
        ):
            rows = self.of(where)
            if where == "workers" and self.workers and not rows:
                lines.append(f"{title}, {_UNSEEN}")
            if rows:
                lines.append(f"{title:<{width + 2}}  ms/batch   share")
            for part in rows:
                share = part.seconds / total if total else 0.0
                lines.append(f"  {part.name:<{width}}{each * part.seconds:10.2f}{share:8.0%}")
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draw the parts as bars into a ``.png``, ``.pdf`` or ``.svg`` file.

        Raises:
            UnsupportedError: matplotlib is not installed.
            InvalidArgumentError: another kind of file.
            StorageError: it cannot be written.
        """
        titles = {
            "iterating": "the thread that iterates",
            "ahead": f"{self.threads} ahead",
            "workers": f"{self.workers} workers",
        }
        bars = [
            (
                titles[where],
                [(part.name, 1e3 * part.seconds / self.batches) for part in self.of(where)],
            )
            for where in get_args(Where)
            if self.of(where)
        ]
        plot_parts(path, bars, f"{self.batches} batches, {self.seconds:.2f} s")

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"Profile({self.batches} batches, {self.seconds:.3f} s, {len(self.parts)} parts)"


def profile(
    loader: Any,
    batches: int = 50,
    step: Callable[[Any], object] | None = None,
    *,
    warmup: int = 2,
) -> Profile:
    """Run batches of a loader and return where their time went.

    Stages are measured where they begin and end, in every thread of this process, and in worker
    processes that are forks of it and begin with this profile; what they cost is a few microseconds
    a batch. Of other workers, such as persistent ones of an epoch before, it is seen that they are
    waited for, and nothing else, which the table says. Other work of this package in other threads
    meanwhile counts as work ahead. Epochs that this begins count as any other; at the end of one it
    goes on with the next.

    Args:
        loader: any iterable of batches over stores and samplers of this package: one of its
            loaders, or a stock loader of PyG or DGL.
        batches: number of batches to measure, at least 1.
        step: called with each batch, as training would be. Where it starts work on a GPU it should
            wait for its end. None: the batches are dropped.
        warmup: batches before, which are not measured.

    Raises:
        InvalidArgumentError: ``loader`` is not iterable or has no batches, or ``step`` cannot be
            called.
    """
    count, before = as_count(batches, "batches"), as_count(warmup, "warmup")
    if not count:
        raise InvalidArgumentError("batches = 0: a profile is of one batch at least")
    if step is not None and not callable(step):
        raise InvalidArgumentError(f"step must be a function of a batch, got {shown(step)}")
    recorder, stream = Recorder(), _endless(loader)
    observer = ProcessRecorder(recorder)
    try:
        tracepoints.add_observer(observer)  # workers begin with the first batch
        for _ in range(before):
            _run(next(stream), step)
        observer.is_recording = True
        began = time.perf_counter()
        for _ in range(count):
            loader_stage = recorder.begin("loader")
            batch = next(stream)
            recorder.end(loader_stage)
            step_stage = recorder.begin("step")
            _run(batch, step)
            del batch  # giving its memory back is the consumer's
            recorder.end(step_stage)
        ended = recorder.stop()
        in_workers = observer.take(began, ended)
    finally:
        tracepoints.remove_observer(observer)
        stream.close()
        observer.close()
    workers = getattr(loader, "num_workers", 0) or 0
    return _summary(recorder, in_workers, count, ended - began, workers)


def _run(batch: Any, step: Callable[[Any], object] | None) -> None:
    if step is not None:
        step(batch)


def _endless(loader: Any) -> Generator[Any, None, None]:
    """Yield the batches of one epoch after the other."""
    while True:
        is_empty = True
        for batch in as_iterator(loader, "loader", "batches"):
            is_empty = False
            yield batch
            del batch
        if is_empty:
            raise InvalidArgumentError(f"{shown(loader)} has no batches")


def _summary(
    recorder: Recorder,
    in_workers: dict[Key, list[float]],
    batches: int,
    seconds: float,
    workers: int,
) -> Profile:
    own_times = recorder.take_own()
    if workers:  # the frame of next() is all that is known of them
        own_times["workers",] = own_times.pop(("loader", ""), [0, 0.0])
    parts = _parts("iterating", own_times)
    parts.append(_left("iterating", "rest", seconds, parts))
    ahead: dict[Key, list[float]] = {}
    for times in recorder.times:
        for key, (calls, spent) in times.items():
            total = ahead.setdefault(key, [0, 0.0])
            total[0] += calls
            total[1] += spent
    threads = len(recorder.times)
    if threads:
        ahead_parts = _parts("ahead", ahead)
        parts += [*ahead_parts, _left("ahead", "idle", threads * seconds, ahead_parts)]
    if in_workers:
        worker_parts = _parts("workers", in_workers)
        parts += [*worker_parts, _left("workers", "idle", workers * seconds, worker_parts)]
    return Profile(batches, seconds, threads, tuple(parts), workers)


def _parts(where: Where, times: dict[Key, list[float]]) -> list[Part]:
    order = list(_TEXTS)

    def place(key: Key) -> tuple[int, Key]:
        return (order.index(key[0]) if key[0] in order else len(order)), key

    return [
        Part(where, _text(key), times[key][1], int(times[key][0]))
        for key in sorted(times, key=place)
    ]


def _left(where: Where, name: str, total: float, parts: list[Part]) -> Part:
    return Part(where, name, total - sum(part.seconds for part in parts), 0)


def _text(key: Key) -> str:
    """Return what a stage is called in the table."""
    name, of = key[0], key[1] if len(key) > 1 else ""
    if name == "wait" and of == "plan":
        return _WAIT_FOR_PLAN
    text = _TEXTS.get(name, name) + (f" {of}" if of else "")
    if READING not in key[2:]:
        return text
    return "reading lists" if name == "draw" else f"{text}, reading"
