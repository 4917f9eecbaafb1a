"""What a long build has done so far, so that it can go on after it was killed.

A folder beside the output holds the work files and ``manifest.json``: the command, and the state
that was recorded last. The manifest is replaced atomically, after the files it speaks of were
made durable.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

from aethergraph.build.outputs import storage_error
from aethergraph.build.source import PathLike
from aethergraph.errors import InvalidArgumentError

__all__ = ["Journal"]

_VERSION = 1


class Journal:
    """The work folder of ``output``.

    Arguments:
        command: what the build does, in JSON's types; another one does not go on from here.
        restart: forget what an earlier build has done.

    Attributes:
        state: what was recorded last; empty at first.
        folder: where work files go.

    Errors:
        InvalidArgumentError: the folder is of another command, or of a build that is running.
        StorageError: it cannot be written.
    """

    def __init__(self, output: PathLike, command: dict[str, Any], restart: bool) -> None:
        self.folder = f"{os.path.abspath(os.fspath(output))}.building"
        self._command = json.loads(json.dumps(command))
        self.state: dict[str, Any] = {}
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._lock = open(self.path("lock"), "wb")  # noqa: SIM115 - held until closed
        except OSError as error:
            raise storage_error(error, self.folder) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise InvalidArgumentError(
                f"{self.folder}: another build of {os.fspath(output)} is running"
            ) from None
        try:
            if restart:
                self._empty()
            else:
                self._read()
        except BaseException:
            self.close()
            raise

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _empty(self) -> None:
        for entry in Path(self.folder).iterdir():
            if entry.name != "lock":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def _read(self) -> None:
        try:
            known = json.loads(Path(self.path("manifest.json")).read_text("utf-8"))
            version, command, state = known["version"], known["command"], known["state"]
        except FileNotFoundError:
            self._empty()  # killed before anything was recorded
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidArgumentError(
                f"{self.folder}: its manifest cannot be read ({error}); --restart begins anew"
            ) from None
        if version != _VERSION:
            raise InvalidArgumentError(
                f"{self.folder}: is of another version of aethergraph; --restart begins anew"
            )
        changes = _changes(command, self._command)
        if changes:
            raise InvalidArgumentError(
                f"{self.folder}: holds a build that was interrupted, and what it was made of has "
                f"changed: {'; '.join(changes)}. Give the same command again to go on, or "
                "--restart (restart=True) to begin anew"
            )
        self.state = state

    def record(self, **state: Any) -> None:
        """Replace the state."""
        self.state = state
        text = json.dumps({"version": _VERSION, "command": self._command, "state": state})
        path, fresh = self.path("manifest.json"), self.path("manifest.tmp")
        try:
            with open(fresh, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, path)
        except OSError as error:
            raise storage_error(error, path) from None

    def close(self) -> None:
        """Let go of the folder; a later build may go on from it."""
        self._lock.close()

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.close()

    def remove_if_new(self) -> None:
        """Delete the folder if nothing was recorded in it, else keep it."""
        if self._lock.closed:
            return
        if self.state:
            self.close()
        else:
            with contextlib.suppress(OSError):
                self.remove()


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    found = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if name == "inputs" and isinstance(old, list) and isinstance(new, list):
            found += _changed_inputs(old, new)
        else:
            found.append(f"{name} was {old!r} and is {new!r}")
    return found


def _changed_inputs(before: list[Any], now: list[Any]) -> list[str]:
    if [one["path"] for one in before] != [one["path"] for one in now]:
        names = [", ".join(one["path"] for one in some) for some in (before, now)]
        return [f"the inputs were {names[0]} and are {names[1]}"]
    return [
        f"{new['path']} has changed (size {old['size']}, now {new['size']}; or its time)"
        for old, new in zip(before, now, strict=True)
        if old != new
    ]
