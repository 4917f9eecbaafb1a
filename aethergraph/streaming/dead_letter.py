"""File of the records that did not become part of the graph, one JSON object per line."""

from __future__ import annotations

import base64
import errno
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from aethergraph._checks.regular import open_regular
from aethergraph.errors import MissingFileError, StorageError
from aethergraph.streaming.records import BadRecord

__all__ = ["DeadLetters"]


class DeadLetters:
    """File that bad records are appended to, on disk before the commit that passes them by.

    ::

        {"source": "clicks", "partition": 0, "offset": 17, "reason": "...", "record": "base64"}

    After a crash between the two, the records are read again. Those that the file has already are
    known by their offsets and reasons, and not written again.

    Args:
        path: the file; it is made when there is something to write.
        source: name of the source.
        offsets: where the graph goes on.
    """

    def __init__(self, path: str | Path, source: str, offsets: Mapping[int, int]) -> None:
        self.path, self._source = Path(path), source
        self._file: IO[bytes] | None = None
        self._written = self._read(offsets)

    def _read(self, offsets: Mapping[int, int]) -> set[tuple[Any, Any, Any]]:
        """Return the records in the file that the graph has not passed by."""
        written: set[tuple[Any, Any, Any]] = set()
        try:
            with open_regular(self.path) as file:
                for line in file:
                    letter = _parse(line)
                    if letter is not None and letter.get("source") == self._source:
                        partition, offset = letter.get("partition"), letter.get("offset")
                        if not isinstance(partition, int) or not isinstance(offset, int):
                            continue
                        if offset >= offsets.get(partition, 0):
                            written.add((partition, offset, letter.get("reason")))
        except FileNotFoundError:
            # It is made with the first bad record, which may come after days: said now.
            if not os.path.isdir(self.path.parent):
                raise MissingFileError(
                    errno.ENOENT, f"{self.path}: dead letters: there is no such folder",
                    str(self.path),
                ) from None  # fmt: skip
        except OSError as error:
            raise _failed(error, self.path) from None
        return written

    def write(self, partition: int, records: Sequence[BadRecord]) -> None:
        """Append the records that the file does not have."""
        lines = []
        for record in records:
            if (partition, record.offset, record.reason) in self._written:
                continue
            payload = None if record.payload is None else base64.b64encode(record.payload).decode()
            lines.append(
                json.dumps(
                    {
                        "source": self._source, "partition": partition, "offset": record.offset,
                        "reason": record.reason, "record": payload,
                    }
                )
            )  # fmt: skip
        if not lines:
            return
        try:
            if self._file is None:
                self._file = open(self.path, "ab+")  # noqa: SIM115
                if self._file.tell():
                    self._file.seek(-1, os.SEEK_END)
                    if self._file.read(1) != b"\n":  # a run was killed amid a line
                        self._file.write(b"\n")
            self._file.write(("\n".join(lines) + "\n").encode())
        except OSError as error:
            raise _failed(error, self.path) from None

    def flush(self) -> None:
        """Wait until all is on disk."""
        if self._file is None:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _failed(error, self.path) from None

    def close(self) -> None:
        """Close the file. What could not be written is of no commit, and was said."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        letter = json.loads(line)
    except ValueError:
        return None
    return letter if isinstance(letter, dict) else None


def _failed(error: OSError, path: Path) -> StorageError:
    return StorageError(error.errno, f"{path}: dead letters: {error.strerror}", str(path))
