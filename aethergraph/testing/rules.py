"""Common base of the contracts: rules, messages about broken ones, other threads and processes."""

from __future__ import annotations

import multiprocessing
import threading
import traceback
import unittest
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from aethergraph.errors import AetherError

__all__ = [
    "BrokenRule",
    "Contract",
    "broken_rules",
    "equal",
    "given",
    "in_child",
    "in_threads",
    "out_of_range",
    "refused",
    "require",
]

T = TypeVar("T")

#: Errors that bad input may raise.
REFUSALS = (AetherError, ValueError, TypeError, NotImplementedError)
_SECONDS = 120


class BrokenRule(AssertionError):
    """Error of a broken rule; the message has the rule, the input and the expected value."""


class Contract:
    """Base class of the contracts. Every method ``test_*`` is a rule, stated by its docstring.

    pytest collects a subclass whose name begins with ``Test``; :func:`broken_rules` needs no
    pytest. A rule that cannot hold is left out by ``test_name = None``.

    Attributes:
        supports: the options that the implementation declares, out of :attr:`known`.
        known: the words that ``supports`` may hold.
    """

    supports: ClassVar[Collection[str]] = frozenset()
    known: ClassVar[Collection[str]] = frozenset()

    def test_supports_holds_known_words(self) -> None:
        """``supports`` holds only words that the contract knows."""
        unknown = sorted(set(self.supports) - set(self.known))
        require(not unknown, f"supports may hold {sorted(self.known)}, found {unknown}")

    def need(self, *words: str) -> None:
        """Skip the rule if one of ``words`` is not declared."""
        for word in words:
            if word not in self.supports:
                raise unittest.SkipTest(f"{type(self).__name__} does not declare {word!r}")


def broken_rules(contract: type[Contract]) -> dict[str, str]:
    """Run all rules without pytest; return the names of the broken ones, and why.

    Methods that pytest would run before a test (fixtures) are not run.
    """
    failures = {}
    for name in sorted(dir(contract)):
        rule = getattr(contract, name)
        if name.startswith("test_") and callable(rule):
            try:
                getattr(contract(), name)()
            except unittest.SkipTest:
                pass
            except Exception as error:
                failures[name] = f"{type(error).__name__}: {error}"
    return failures


def show(value: Any) -> str:
    """Format a value for messages: short, arrays with their dtype."""
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=40, edgeitems=8, separator=", ")
        return f"{' '.join(text.split())} ({value.dtype}, shape {value.shape})"
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}..."


@contextmanager
def given(subject: str, **inputs: Any) -> Iterator[None]:
    """Add ``subject`` and the inputs to the message of an error that is raised inside."""
    try:
        yield
    except unittest.SkipTest:
        raise
    except Exception as error:
        text = str(error) if isinstance(error, BrokenRule) else f"raised {error!r}"
        lines = [text, f"  given {subject}", *(f"    {k} = {show(v)}" for k, v in inputs.items())]
        raise BrokenRule("\n".join(lines)) from error


def require(holds: Any, message: str) -> None:
    """Raise BrokenRule with ``message`` unless ``holds``."""
    if not holds:
        raise BrokenRule(message)


def equal(array: Any, expected: NDArray[Any], subject: str, dtype: Any = None) -> None:
    """Require an array of the shape and values of ``expected`` (NaN equals NaN), and ``dtype``."""
    require(isinstance(array, np.ndarray), f"{subject} must be a numpy array, found {type(array)}")
    if dtype is not None:
        require(array.dtype == dtype, f"{subject} must have dtype {dtype}, found {array.dtype}")
    require(
        array.shape == expected.shape,
        f"{subject} must have shape {expected.shape}, found {array.shape}",
    )
    if not np.array_equal(array, expected, equal_nan=expected.dtype.kind in "fc"):
        raise BrokenRule(f"{subject}: expected {show(expected)}\n  found {show(array)}")


def refused(subject: str, call: Callable[..., Any], *args: Any, **options: Any) -> Exception:
    """Require ``call(*args, **options)`` to raise an error of bad input, and return the error."""
    try:
        result = call(*args, **options)
    except REFUSALS as error:
        return error
    except Exception as error:
        raise BrokenRule(
            f"{subject} must raise an AetherError (or ValueError, TypeError), raised {error!r}"
        ) from error
    raise BrokenRule(f"{subject} must be refused, found the result {show(result)}")


def out_of_range(
    value: int, position: int | None, call: Callable[..., Any], *args: Any, **options: Any
) -> None:
    """Require an AetherError that is an IndexError and names value and position."""
    subject = f"a call with {value}" + ("" if position is None else f" at position {position}")
    try:
        result = call(*args, **options)
    except IndexError as error:
        require(
            isinstance(error, AetherError),
            f"{subject}: the error must be an AetherError (OutOfRangeError), it is {error!r}",
        )
        assert isinstance(error, AetherError)
        require(
            error.value == value,
            f"{subject}: the error must carry value = {value}, found {error.value}",
        )
        require(str(value) in str(error), f"{subject}: the message must name {value}: {error}")
        if position is not None:
            require(
                error.position == position,
                f"{subject}: the error must carry position = {position}, found {error.position}",
            )
        return
    except Exception as error:
        raise BrokenRule(f"{subject} must raise an OutOfRangeError, raised {error!r}") from error
    raise BrokenRule(f"{subject} must raise an OutOfRangeError, found the result {show(result)}")


# ---- threads and processes -------------------------------------------------------------------


def in_threads(calls: Sequence[Callable[[], T]], rounds: int = 10) -> list[list[T]]:
    """Run each of ``calls`` in a thread, all at once, ``rounds`` times; return their results."""
    barrier = threading.Barrier(len(calls))
    results: list[list[T]] = [[] for _ in calls]
    failures: list[Exception] = []

    def work(number: int) -> None:
        try:
            barrier.wait(_SECONDS)
            for _ in range(rounds):
                results[number].append(calls[number]())
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failures:
        raise BrokenRule(f"a thread raised {error!r}") from error
    return results


def in_child(call: Callable[[], T]) -> T:
    """Return the result of ``call`` in a forked child, which must send it back in two minutes."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        try:
            sender.send((True, call()))
        except BaseException:
            sender.send((False, traceback.format_exc()))

    child = context.Process(target=work)
    child.start()
    sender.close()
    try:
        require(receiver.poll(_SECONDS), f"the forked child gave no answer in {_SECONDS} s")
        try:
            worked, result = receiver.recv()
        except EOFError:
            child.join()
            raise BrokenRule(f"the forked child ended with code {child.exitcode}") from None
        require(worked, f"the forked child raised\n{result}")
    finally:
        if child.is_alive():
            child.join(1)
        if child.is_alive():
            child.kill()
        child.join()
    value: T = result
    return value
