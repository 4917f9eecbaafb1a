"""Replay: answers that were given, made again from the graph as it was, and compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from aethergraph import _native as native
from aethergraph.dynamic import History
from aethergraph.dynamic.directory import LiveDirectory, is_live_directory
from aethergraph.errors import AetherError, FileChangedError
from aethergraph.graph import HeteroGraph
from aethergraph.protocols import HomogeneousGraph
from aethergraph.remote.commits import open_any
from aethergraph.remote.samples.client import ServedSample
from aethergraph.remote.samples.log import Answered, read_answers, sum_of
from aethergraph.remote.samples.service import SampleService

__all__ = ["Replayed", "check_replay", "replay"]


class Replayed(NamedTuple):
    """Result of :func:`check_replay`.

    Attributes:
        answers: number of answers in the log.
        commits: number of commits that they were drawn from.
        differences: what is wrong, a text for each answer that is another one now.
    """

    answers: int
    commits: int
    differences: list[str]


def replay(
    log: native.Path,
    graph: Any,
    *,
    check: bool = True,
    arena_mb: int = 1024,
    missing: Callable[[int, AetherError], object] | None = None,
) -> Iterator[ServedSample]:
    """Make the answers in a log again, such as to train on what a model saw in production.

    ::

        for found in replay("answers.jsonl", "g.aegd"):
            step(found.x, found.edge_index)

    Answers come by commit, and those of a commit in the order of the log. One that cannot be made
    any more, such as one from a commit that a merge has given up, is reported and left out.

    Args:
        log: file of ``aethergraph serve --log`` or ``open_sampler(log=)``.
        graph: path of the live graph's directory, which another process may write meanwhile; or of
            a graph file; or a graph, such as a snapshot that is held, or one that was saved.
        check: compare the bytes with those that were answered.
        arena_mb: MiB of memory for the edges of a live graph, as of :class:`DynamicGraph`.
        missing: ``missing(line, error)`` is called for each answer that cannot be made again, with
            the number of its line in the log. None: a warning for each.

    Raises:
        FileChangedError: an answer is another one now; names the line. Or the graph is another.
        OutOfRangeError: the commits of all answers were given up by a merge.
        FormatError: the log is none.
    """
    name = native.encode_path(log)[0]
    first: AetherError | None = None
    is_empty = True
    for answered, found in _replay(log, graph, arena_mb):
        if isinstance(found, AetherError):
            first = first or found
            if missing is not None:
                missing(answered.line, found)
            else:
                text = f"{name}, line {answered.line}: not made again: {found}"
                warnings.warn(text, stacklevel=2)
            continue
        if check:
            wrong = _difference(answered, found)
            if wrong is not None:
                raise FileChangedError(f"{name}, {wrong}")
        is_empty = False
        yield ServedSample.of(answered.form, answered.request, found)
    if is_empty and first is not None:
        raise first


def check_replay(log: native.Path, graph: Any, *, arena_mb: int = 1024) -> Replayed:
    """Make all answers in a log again, and compare them byte by byte; see :func:`replay`.

    Raises:
        FileChangedError: the graph is another one.
        FormatError: the log is none.
    """
    answers, commits, differences = 0, set[int](), []
    for answered, found in _replay(log, graph, arena_mb):
        answers += 1
        commits.add(answered.commit)
        if isinstance(found, AetherError):
            differences.append(f"line {answered.line}: {found}")
        elif (wrong := _difference(answered, found)) is not None:
            differences.append(wrong)
    return Replayed(answers, len(commits), differences)


def _difference(answered: Answered, found: Any) -> str | None:
    if sum_of(found) == answered.sum:
        return None
    return (
        f"line {answered.line}: the answer to key {answered.request.key} from commit "
        f"{answered.commit} is another one now"
    )


def _replay(log: native.Path, graph: Any, arena_mb: int) -> Iterator[tuple[Answered, Any]]:
    """Yield each answer of the log, and its bytes as they are now, or why there are none."""
    answers = sorted(read_answers(log), key=lambda one: one.commit)
    if isinstance(graph, (HomogeneousGraph, HeteroGraph)):
        yield from _from_one(answers, graph, None)
    elif is_live_directory(graph):
        with History(graph, arena_mb) as history:
            yield from _from_history(answers, history, LiveDirectory(graph).uuid.hex())
    else:
        yield from _from_one(answers, *open_any(graph))


def _from_one(
    answers: list[Answered], graph: Any, identity: str | None
) -> Iterator[tuple[Answered, Any]]:
    services: dict[str, SampleService] = {}
    now: Any = graph.pinned()
    for one in answers:
        yield one, _answer(one, services, now, identity)


def _from_history(
    answers: list[Answered], history: History, identity: str
) -> Iterator[tuple[Answered, Any]]:
    commit, services, now = -1, dict[str, SampleService](), None
    for one in answers:
        if one.commit != commit:
            try:
                commit, services, now = one.commit, {}, history.at(one.commit)
            except AetherError as error:
                yield one, error
                continue
        yield one, _answer(one, services, now, identity)


def _answer(
    one: Answered, services: dict[str, SampleService], graph: Any, identity: str | None
) -> Any:
    """Return the bytes of an answer as they are now, or the error that there is instead.

    Raises:
        FileChangedError: it is another graph.
    """
    if identity is not None and one.graph not in (None, identity):
        raise FileChangedError(
            f"line {one.line}: the answer is from another graph ({one.graph}) than this one "
            f"({identity})"
        )
    told = repr(one.plan.told())
    try:
        if told not in services:
            saved = one.commit > 0 and not hasattr(graph, "commit")
            services[told] = SampleService(graph, one.plan, saved=saved)
        return services[told].answer(one.request, commit=one.commit)
    except AetherError as error:
        return error
