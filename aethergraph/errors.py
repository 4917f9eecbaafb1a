"""The exceptions of AetherGraph: one class per code of the native error table.

Every class also inherits the builtin that fits, so ``except ValueError`` and
``except FileNotFoundError`` work as a numpy user expects. If a single value is at fault,
``position`` is its index (or byte offset) and ``value`` is the value itself.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AetherError",
    "AbsentError",
    "AccessDeniedError",
    "CancelledError",
    "ClosedError",
    "CorruptFileError",
    "DiskFullError",
    "FileChangedError",
    "FormatError",
    "InvalidArgumentError",
    "LayoutError",
    "LimitError",
    "MissingFileError",
    "MissingNameError",
    "MissingRowError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "RecordError",
    "ServerTimeoutError",
    "SnapshotExpiredError",
    "SourceError",
    "StorageError",
    "TornRowError",
    "TruncatedFileError",
    "UnsupportedError",
    "VersionError",
    "WriterGoneError",
]


class AetherError(Exception):
    """Base of every exception raised by AetherGraph.

    Attributes:
        position: index or byte offset of the offending value, or None.
        value: the offending integer value, or None.
    """

    position: int | None
    value: int | None

    def __init__(
        self, *args: object, position: int | None = None, value: int | None = None
    ) -> None:
        super().__init__(*args)
        self.position = position
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        # Python would call the class with ``args``, which are not what an own __init__ takes.
        reduced = super().__reduce__()
        assert isinstance(reduced, tuple)
        return _made_again, (type(self), *reduced[1]), *reduced[2:]


def _made_again(kind: type[AetherError], *args: object) -> AetherError:
    """Return an error of a class, past the class's own ``__init__``."""
    error = OSError.__new__(kind) if issubclass(kind, OSError) else Exception.__new__(kind)
    AetherError.__init__(error, *args)
    return error


class InvalidArgumentError(AetherError, ValueError):
    """An argument has the wrong type, dtype, shape, length or value."""


class ClosedError(InvalidArgumentError):
    """The object was used after its ``close()``."""


class OutOfRangeError(AetherError, IndexError):
    """A node id, edge id or row number is outside the range that exists."""


class OutOfMemoryError(AetherError, MemoryError):
    """The memory that was asked for is not available."""


class LimitError(AetherError, OverflowError):
    """A count is larger than this build or the file format can hold."""


class SnapshotExpiredError(AetherError, RuntimeError):
    """A snapshot of a live graph was held too long, and its memory is in use again."""


class WriterGoneError(AetherError, RuntimeError):
    """The writer or the file of a reader is gone or has a successor: nothing new will come."""


class TornRowError(AetherError, RuntimeError):
    """The writer of a row ended in the middle of it, or is stopped there; ``value`` is the row."""


class MissingRowError(AetherError, LookupError):
    """A row of a live table was never written; ``value`` is the row."""


class MissingNameError(InvalidArgumentError, KeyError):
    """A mapping has nothing of that name; so ``get`` returns its default."""

    def __str__(self) -> str:
        # KeyError would show the text in quotation marks.
        return Exception.__str__(self)


class UnsupportedError(AetherError, NotImplementedError):
    """The operation is not available for this dtype, layout or storage."""


class AbsentError(MissingNameError, UnsupportedError, AttributeError):
    """The object has nothing of that name; so ``hasattr`` returns False."""


class LayoutError(UnsupportedError):
    """The requested adjacency is not stored; the message names ``layout=``."""


class CancelledError(AetherError):
    """A long call was stopped before its end."""


class StorageError(AetherError, OSError):
    """The operating system refused a file operation; see ``errno`` and ``filename``."""

    def __str__(self) -> str:
        # The message names the file already: no "[Errno 2] ...: 'path'" around it.
        return self.strerror if isinstance(self.strerror, str) else super().__str__()


class MissingFileError(StorageError, FileNotFoundError):
    """The file does not exist."""


class SourceError(StorageError, ConnectionError):
    """The source of a stream cannot be reached, or does not have the records any more."""


class ServerTimeoutError(StorageError, TimeoutError):
    """A server could not be reached, or did not answer, in time; the message has its address."""


class AccessDeniedError(StorageError, PermissionError):
    """A server refused the token, or could not prove that it knows it."""


class DiskFullError(StorageError):
    """The disk, or the quota on it, has no room for what is written."""


class FileChangedError(StorageError):
    """The file was replaced or shrank, or a server has other rows, while it was in use."""


class FormatError(AetherError, ValueError):
    """The file is not what it should be: foreign, malformed or of another kind."""


class VersionError(FormatError):
    """The file was written by a newer version of AetherGraph."""


class TruncatedFileError(FormatError):
    """The file is shorter than its header says."""


class CorruptFileError(FormatError):
    """The file's bytes contradict each other or their checksum."""


class RecordError(FormatError):
    """A record of a stream cannot be read or does not fit; ``position`` is its offset."""
