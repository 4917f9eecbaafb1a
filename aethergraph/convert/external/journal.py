"""Record of what a long build has done, so that it can continue after it was killed.

A folder beside the output holds the work files and ``manifest.json``: the command, and the state
that was recorded last. The manifest is replaced atomically, after the files that it describes were
made durable. It has a checksum of itself; those of the files are in the state.

A build that is complete may record that too, before its work files are deleted: so a kill meanwhile
leaves a folder which says that nothing is left to do.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aethergraph.convert.inputs import input_state
from aethergraph.convert.readers.base import PathLike
from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.other_process import holder_of, sign_lock
from aethergraph.storage.scratch import storage_error

__all__ = [
    "Journal", "changed_inputs", "changed_options", "interrupted_build", "left_behind",
    "load_manifest",
]  # fmt: skip

_VERSION = 2


class Journal:
    """Work folder of an output, and the record of the build in it.

    Args:
        output: the file to build; the folder is beside it.
        command: description of the build, in JSON's types; a build with another one cannot
            continue from here.
        restart: forget what an earlier build has done.

    Attributes:
        state: state that was recorded last; empty at first.
        folder: path of the work folder.

    Raises:
        InvalidArgumentError: the folder is of another command, or of a build that is running.
        StorageError: it cannot be written.
    """

    #: Behind the name of the output, the name of the folder.
    SUFFIX = ".building"

    def __init__(self, output: PathLike, command: dict[str, Any], restart: bool) -> None:
        self.folder = _folder_of(output, self.SUFFIX)
        self._command = json.loads(json.dumps(command))
        self.state: dict[str, Any] = {}
        try:
            os.makedirs(self.folder, exist_ok=True)
            self._lock = open(self.path("lock"), "ab+")  # noqa: SIM115 - held until closed
        except OSError as error:
            raise storage_error(error, self.folder) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = holder_of(self._lock.fileno())  # which may not have signed it yet
            place = f" in process {holder}" if holder else ""
            self._lock.close()
            raise InvalidArgumentError(
                f"{self.folder}: another build of {os.fspath(output)} is running{place}: wait for "
                "it, or end it"
            ) from None
        try:
            sign_lock(self._lock.fileno())
            if restart:
                self._empty()
            else:
                self._read()
        except BaseException:
            self.close()
            raise

    def path(self, name: str) -> str:
        """Return the path of a work file."""
        return os.path.join(self.folder, name)

    def _empty(self) -> None:
        self._forget()
        self._delete_but("lock")

    def _delete_but(self, *kept: str) -> None:
        for entry in Path(self.folder).iterdir():
            if entry.name not in kept:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def _forget(self) -> None:
        """Delete the manifest before the files that it describes, which may take long."""
        try:
            os.unlink(self.path("manifest.json"))
        except FileNotFoundError:
            return
        self._sync()

    def _sync(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _read(self) -> None:
        known = load_manifest(self.folder)
        if known is None:
            self._empty()  # killed before anything was recorded
            return
        command, state = known["command"], known["state"]
        options = changed_options(command, self._command)
        inputs = changed_inputs(command.get("inputs", []), self._command.get("inputs", []))
        if (options or inputs) and (known.get("refused") is True or "finished" in state):
            self._empty()  # it failed by what it was made of, or is complete; this is another one
            return
        if options or inputs:
            way = "restart=True begins anew"
            if not inputs:
                way = f"The command as it was goes on; {way}"
            raise InvalidArgumentError(
                f"{self.folder}: holds a build that was interrupted, and what it was made of has "
                f"changed: {'; '.join(options + inputs)}. {way}"
            )
        if "finished" in state and not self._has_outputs(state["finished"]["outputs"]):
            self._empty()  # complete, but its outputs were deleted or replaced since
            return
        self.state = state

    def _has_outputs(self, outputs: list[dict[str, Any]]) -> bool:
        """Return whether a complete build's outputs are still those that it has written."""
        try:
            states = [input_state(output["path"]) for output in outputs]
        except OSError:
            return False
        return states == outputs and _folder_of(outputs[0]["path"]) == self.folder

    def record(self, **state: Any) -> None:
        """Replace the recorded state, durably."""
        self._write(state)

    def refuse(self) -> None:
        """Record that the command failed by itself: another one begins anew, without a restart."""
        if self.state:
            self._write(self.state, refused=True)

    def finish(self, outputs: Sequence[PathLike], result: dict[str, Any]) -> None:
        """Record that the build is complete, before :meth:`remove`; if that fails, so be it.

        Args:
            outputs: files that were written, the one that the folder is of first.
            result: what the call returns, in JSON's types; ``state["finished"]["result"]`` of a
                later call that finds the folder not quite removed.
        """
        before = self.state
        try:
            states = [input_state(path) for path in outputs]
            self._write({**before, "finished": {"outputs": states, "result": result}})
        except OSError:  # such as a full disk: the graph is there, and its folder goes as ever
            self.state = before

    def _write(self, state: dict[str, Any], **more: bool) -> None:
        self.state = state
        text = json.dumps({
            "version": _VERSION, "command": self._command, "state": state,
            "checksum": _checksum(self._command, state), **more,
        })  # fmt: skip
        path, fresh = self.path("manifest.json"), self.path("manifest.tmp")
        try:
            with open(fresh, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, path)
            self._sync()  # before files that only the old manifest describes are deleted
        except OSError as error:
            raise storage_error(error, path) from None

    def close(self) -> None:
        """Release the folder; a later build may continue from it."""
        self._lock.close()

    def remove(self) -> None:
        """Delete the folder."""
        with contextlib.suppress(OSError):
            if "finished" in self.state:  # the manifest says so, until there is nothing else
                self._delete_but("lock", "manifest.json")
        with contextlib.suppress(OSError):
            self._forget()
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


def load_manifest(folder: str) -> dict[str, Any] | None:
    """Return what the manifest of a folder says; None: nothing was recorded.

    Raises:
        InvalidArgumentError: it cannot be read.
    """
    try:
        text = Path(os.path.join(folder, "manifest.json")).read_text("utf-8")
        known: dict[str, Any] = json.loads(text)
        version, command, state = known["version"], known["command"], known["state"]
        if version == _VERSION and known["checksum"] != _checksum(command, state):
            raise ValueError("its checksum is wrong")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidArgumentError(
            f"{folder}: its manifest cannot be read ({error}); restart=True begins anew"
        ) from None
    if version != _VERSION:
        raise InvalidArgumentError(
            f"{folder}: is of another version of aethergraph; restart=True begins anew"
        )
    return known


def _checksum(command: dict[str, Any], state: dict[str, Any]) -> str:
    text = json.dumps([command, state], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _folder_of(output: PathLike, suffix: str = Journal.SUFFIX) -> str:
    folder, name = os.path.split(os.fspath(output))  # without a name it is in the folder
    return os.path.join(os.path.abspath(folder), f"{name}{suffix}")


def interrupted_build(output: PathLike) -> dict[str, Any] | None:
    """Return command and state of an interrupted build, unless it is running or was not recorded.

    Raises:
        InvalidArgumentError: its record cannot be read.
    """
    if left_behind(output) is None:
        return None
    return load_manifest(_folder_of(output))


def left_behind(output: PathLike) -> str | None:
    """Return the work folder of an interrupted build; None if there is none, or it is running."""
    folder = _folder_of(output)
    try:
        with open(os.path.join(folder, "lock"), "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return None
    return folder


def changed_options(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Describe options that differ from those of an earlier build, for the error message."""
    names = [[state["path"] for state in some.get("inputs", [])] for some in (before, now)]
    changes = []
    if names[0] != names[1]:
        changes.append(f"the inputs were {', '.join(names[0])} and are {', '.join(names[1])}")
    for name in sorted({*before, *now} - {"inputs"}):
        changes += _differences(name, before.get(name), now.get(name))
    return changes


def _differences(name: str, before: Any, now: Any) -> list[str]:
    """Describe how two values differ, entry by entry where both have entries."""
    if before == now:
        return []
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [*before, *(key for key in now if key not in before)]
        return [
            text
            for key in keys
            for text in _differences(f"{name}.{key}", before.get(key), now.get(key))
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = zip(before, now, strict=True)
        if all(isinstance(entry, dict) for entry in (*before, *now)):
            return [
                text
                for number, (old, new) in enumerate(pairs)
                for text in _differences(f"{name}[{number}]", old, new)
            ]
    return [f"{name} was {before!r} and is {now!r}"]


def changed_inputs(before: list[Any], now: list[Any]) -> list[str]:
    """Describe inputs of equal names that were written since, for the error message."""
    known = {state["path"]: state for state in before}
    changes = []
    for new in now:
        old = known.get(new["path"], new)
        if old["size"] != new["size"]:
            changes.append(f"{new['path']} had {old['size']:,} bytes and has {new['size']:,}")
        elif old != new:
            changes.append(
                f"{new['path']} was written again since (its time differs, not its size)"
            )
    return changes
