"""Replay: answers that were given, made again from the graph as it was, and compared."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import groupby
from typing import Any, NamedTuple

from aethergraph import _native as native
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.history import History
from aethergraph.errors import AetherError, FileChangedError, OutOfRangeError
from aethergraph.protocols import AnyGraph
from aethergraph.remote.commits import commit_number, open_any, saved_commit
from aethergraph.remote.graph import open_graph
from aethergraph.remote.samples.client import ServedSample
from aethergraph.remote.samples.log import Answered, read_answers, sum_of
from aethergraph.remote.samples.service import SampleService
from aethergraph.storage.live_directory import is_live_directory

__all__ = ["Replayed", "check_replay", "replay"]

#: Lines that a warning names.
_LINES = 10


class Replayed(NamedTuple):
    """Result of :func:`check_replay`.

    Attributes:
        answers: number of answers in the log.
        commits: number of commits that they were drawn from.
        differences: what is wrong, a text for each answer that is another one now.
        missing: why it cannot be made again, a text for each answer of which that is so.
    """

    answers: int
    commits: int
    differences: list[str]
    missing: list[str]


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
    any more, such as one from a commit that a merge has given up, or from another than the one that
    was saved, is reported and left out.

    Args:
        log: file of ``aethergraph serve --log`` or ``open_sampler(log=)``.
        graph: path of the live graph's directory, which another process may write meanwhile; or of
            a graph file, such as one that a snapshot was saved to; or a graph, such as a snapshot
            that is held; or the URL of a server's graph (:func:`open_graph`).
        check: compare the bytes with those that were answered.
        arena_mb: MiB of memory for the edges of a live graph, as of :class:`DynamicGraph`.
        missing: ``missing(line, error)`` is called for each answer that cannot be made again, with
            the number of its line in the log. None: a warning for those of each commit.

    Raises:
        FileChangedError: an answer is another one now; names the line. Or the graph is another.
        OutOfRangeError: the graph has the commits of none of the answers.
        FormatError: the log is none.
    """
    name = native.encode_path(log)[0]
    first: _Made | None = None
    is_empty, untold = True, list[_Made]()
    for answer in _replay(log, graph, arena_mb, check):
        if untold and not _is_missing_alike(answer, untold[0]):
            warnings.warn(_warning(name, untold), stacklevel=2)
            untold = []
        answered = answer.answered
        if answer.missing is not None:
            first = first or answer
            if missing is not None:
                missing(answered.line, answer.missing)
            else:
                untold.append(answer)
            continue
        if answer.difference is not None:
            raise FileChangedError(f"{name}, {answer.difference}")
        is_empty = False
        yield ServedSample.of(answered.form, answered.request, answer.content)
    if untold:
        warnings.warn(_warning(name, untold), stacklevel=2)
    if is_empty and first is not None and first.missing is not None:
        raise _named(first.missing, f"{name}, line {first.answered.line}")


def _named(error: AetherError, where: str) -> AetherError:
    """Return an error of the same kind whose text begins with a place."""
    return type(error)(f"{where}: {error}", position=error.position, value=error.value)


def _is_missing_alike(answer: _Made, earlier: _Made) -> bool:
    """Return whether two answers of one commit cannot be made for the same reason."""
    return answer.answered.commit == earlier.answered.commit and str(answer.missing) == str(
        earlier.missing
    )


def _warning(name: str, untold: list[_Made]) -> str:
    """Say which answers cannot be made again, all for the same reason."""
    lines = [str(answer.answered.line) for answer in untold[:_LINES]]
    text = ("line " if len(untold) == 1 else "lines ") + ", ".join(lines)
    if len(untold) > _LINES:
        text += f" and {len(untold) - _LINES} more"
    return f"{name}, {text}: not made again: {untold[0].missing}"


def check_replay(log: native.Path, graph: Any, *, arena_mb: int = 1024) -> Replayed:
    """Make all answers in a log again, and compare them byte by byte; see :func:`replay`.

    Raises:
        FileChangedError: the graph is another one.
        FormatError: the log is none.
    """
    replayed = Replayed(0, 0, [], [])
    commits = set[int]()
    for answer in _replay(log, graph, arena_mb, check=True):
        replayed = replayed._replace(answers=replayed.answers + 1)
        commits.add(answer.answered.commit)
        if answer.missing is not None:
            replayed.missing.append(f"line {answer.answered.line}: {answer.missing}")
        elif answer.difference is not None:
            replayed.differences.append(answer.difference)
    return replayed._replace(commits=len(commits))


class _Made(NamedTuple):
    """Answer of a log, made again.

    Attributes:
        answered: what the log says of it.
        content: its bytes; None: it cannot be made.
        missing: why it cannot.
        difference: how it differs from the one that was given, if it does.
    """

    answered: Answered
    content: Any = None
    missing: AetherError | None = None
    difference: str | None = None


def _replay(log: native.Path, graph: Any, arena_mb: int, check: bool) -> Iterator[_Made]:
    """Yield each answer of the log as it is now."""
    answers = sorted(read_answers(log), key=lambda answered: answered.commit)
    if isinstance(graph, AnyGraph):
        yield from _from_one(answers, graph, check, "the graph")
    elif isinstance(graph, str) and "://" in graph:
        with closing(open_graph(graph)) as remote_graph:
            yield from _from_one(answers, remote_graph, check, graph)
    elif is_live_directory(graph):
        yield from _from_history(answers, graph, arena_mb, check)
    else:
        opened, identity = open_any(graph)
        name = native.encode_path(graph)[0]
        commit = saved_commit(graph)
        _check_identity(answers, name, identity, or_saved=True, saved=commit)
        yield from _from_one(answers, opened, check, name, commit)


def _from_one(
    answers: list[Answered], graph: Any, check: bool, name: str,
    commit: tuple[str, int] | None = None,
) -> Iterator[_Made]:  # fmt: skip
    """Make answers from one commit, or from a file that one may have been saved to.

    ``commit``: live graph and number of the commit, if the file says so.
    """
    services: dict[str, SampleService] = {}
    now: Any = graph.pinned()
    number = commit_number(now)
    for answered in answers:
        of = answered.commit
        if number is not None:
            of = number
        elif commit is not None and answered.is_of_live:  # else the file itself was served
            of = commit[1]
        if check and answered.commit != of:
            text = f"it was drawn from commit {answered.commit}, and {name} is of commit {of}"
            yield _Made(answered, missing=OutOfRangeError(text, value=answered.commit))
            continue
        saved = number is None and answered.is_of_live
        answer = _make(answered, services, now, check, saved)
        if saved and answer.difference is not None and commit is None:
            text = (
                f"it was drawn from commit {answered.commit} of a live graph, and {name} gives "
                "another answer: it was saved from another commit, or has other rows now"
            )
            answer = _Made(answered, missing=OutOfRangeError(text, value=answered.commit))
        yield answer


def _from_history(
    answers: list[Answered], path: native.Path, arena_mb: int, check: bool
) -> Iterator[_Made]:
    directory = LiveDirectory(path)
    _check_identity(answers, str(directory.path), directory.uuid.hex(), or_saved=False)
    with History(path, arena_mb) as history:
        for commit, some in groupby(answers, lambda answered: answered.commit):
            try:
                now = history.at(commit)
            except AetherError as error:
                for answered in some:
                    yield _Made(answered, missing=error)
                continue
            services: dict[str, SampleService] = {}
            for answered in some:
                yield _make(answered, services, now, check, saved=False)


def _check_identity(
    answers: list[Answered],
    name: str,
    identity: str | None,
    *,
    or_saved: bool,
    saved: tuple[str, int] | None = None,
) -> None:
    """Raise FileChangedError for the first answer from another graph than that of a path.

    ``or_saved``: it may be a file that a snapshot of a live graph was saved to; ``saved``: of which
    one and of which commit, if it says so.
    """
    for answered in answers:
        if answered.graph in (None, identity) or (
            or_saved and answered.is_of_live and saved is None
        ):
            continue
        if saved is not None and answered.graph == saved[0]:
            continue
        was = (
            f"another live graph ({answered.graph})"
            if answered.is_of_live
            else "another graph file"
        )
        raise FileChangedError(
            f"line {answered.line}: the answer is from {was} than {name}: give replay the graph "
            "that was served"
        )


def _make(
    answered: Answered, services: dict[str, SampleService], graph: Any, check: bool, saved: bool
) -> _Made:
    """Make an answer from a graph; ``saved``: a file that a snapshot was saved to."""
    plan_text = repr(answered.plan.told())
    try:
        if plan_text not in services:
            services[plan_text] = SampleService(graph, answered.plan, saved=saved)
        content = services[plan_text].answer(answered.request, commit=answered.commit)
    except AetherError as error:
        return _Made(answered, missing=error)
    difference = None
    if check and sum_of(content) != answered.sum:
        difference = (
            f"line {answered.line}: the answer to key {answered.request.key} from commit "
            f"{answered.commit} is another one now"
        )
    return _Made(answered, content, None, difference)
