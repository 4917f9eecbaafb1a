"""What one transaction of a live graph has changed besides the lists, and how to take it back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

from aethergraph.errors import InvalidArgumentError

__all__ = ["Transaction", "undoing"]

M = TypeVar("M", bound=Callable[..., Any])


@dataclass
class Transaction:
    """Changes of the open transaction, besides those of the native graph."""

    #: Number of the last commit when it began.
    begun: int
    #: Take back each change of rows and keys.
    undo: list[Callable[[], None]] = field(default_factory=list)
    #: Let readers of the commit see changed rows. Not before the end: a native change that fails
    #: undoes the lists at once, under the number of the commit, and those rows come back later.
    show: list[Callable[[], None]] = field(default_factory=list)
    #: Offsets of streams, which others see once they see the commit.
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    #: What is done once the commit can be seen.
    after: list[Callable[[], None]] = field(default_factory=list)
    #: Number of nodes that were added, by node type.
    added: Counter[str] = field(default_factory=Counter)
    #: True from the moment on that the native graph may have committed it.
    is_ending: bool = False
    #: Error that has undone it already.
    failure: BaseException | None = None

    def check(self) -> None:
        """Raise unless the transaction goes on.

        Raises:
            InvalidArgumentError: it was undone when a change failed.
        """
        if self.failure is not None:
            raise InvalidArgumentError(
                f"the transaction was undone when a change failed: {self.failure}"
            ) from self.failure


def undoing(method: M) -> M:
    """Let a change undo the whole open transaction if it fails, also where its arguments are wrong.

    For methods of a LiveStore, and of what has one as ``_store``.
    """

    @wraps(method)
    def call(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except BaseException as error:
            getattr(self, "_store", self).undo_open(error)
            raise

    return cast("M", call)
