"""Directory of a live graph that survives its process.

::

    g.aegd/
      graph.json       what the graph is: types, what is kept of edges, uuid; written once
      CURRENT          number of the commit that the base holds, and what else belongs to it (JSON)
      gen-000003.aeg   the base: an ordinary graph file, which Graph.load opens, too
      gen-000003.user.ids  keys of its nodes of a type, if they have any (an IdMap)
      wal-1.log ...    the commits since (native/FORMAT.md, "Logs"), the last in NEWEST
      rows-000001.aef  rows that an attribute of nodes began with
      LOCK             held by the process that writes, which is named in it
      LIVE             where readers in other processes find the memory

Each of them appears complete or not at all.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from aethergraph import _native as native
from aethergraph._checks.regular import open_regular
from aethergraph.dynamic.descriptions import NODE_TIME, check_current, check_description
from aethergraph.dynamic.directory_lock import LockedDirectory, named, version_of
from aethergraph.dynamic.file_sizes import bytes_before_zeros, sizes_of
from aethergraph.errors import (
    AetherError,
    ClosedError,
    CorruptFileError,
    InvalidArgumentError,
    MissingFileError,
    UnsupportedError,
    VersionError,
)
from aethergraph.graph.beside import sections_of
from aethergraph.ids.builder import holds_work_files
from aethergraph.storage.described import Fields, read_fields, read_regular

__all__ = ["LiveDirectory", "commits"]

T = TypeVar("T")

#: Of graphs with times of nodes; of others 2 with keys, or 1, which builds before that read.
_VERSION = 3
#: What an attempt to make a graph may have left.
_LEFT = {"LOCK", "CURRENT", "CURRENT.new", "graph.json.new", "wal.lock"}
_BASE = "gen-{:06}.aeg"
_FILE = r"(?:gen-\d{6,}\.(?:aeg|.+\.ids)|rows-\d{6,}\.aef)"
#: Names of bases, keys and rows. Files of users may have them: see :meth:`LiveDirectory.part`.
_OURS = re.compile(_FILE)
_ROWS = re.compile(r"rows-\d{6,}\.aef")
#: Places of the edges of a base, which it begins with the name of.
_PLACES = re.compile(r"(gen-\d{6,}\.aeg)\.places-\d+\.(?:aef|npy)")
_SEGMENT = re.compile(r"wal-[0-9a-f]{16}\.log")
#: What a writer that was killed may have left: files, and folders of work files.
_TEMPORARY = re.compile(rf"\.(?:{_FILE}|{_PLACES.pattern})\.[0-9a-f]{{16}}\.aether-tmp")
_WORK_FOLDER = re.compile(r"gen-\d{6,}\..+\.ids\.building")
#: Bytes of a description in JSON; anything larger is not one of ours.
_MOST_BYTES = 64 << 20


def commits(first: int, last: int) -> str:
    """Name commits in a message."""
    return f"commit {first}" if first == last else f"commits {first} to {last}"


def _checksum(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class LiveDirectory(LockedDirectory):
    """Files of a live graph.

    Args:
        path: the directory; it is made if it does not exist.
    """

    def __init__(self, path: native.Path) -> None:
        super().__init__(path)
        self._current = os.path.join(self.path, "CURRENT")

    @named
    def check_empty(self) -> None:
        """Raise unless a graph can be made here without mixing its files with others.

        Raises:
            InvalidArgumentError: the directory holds something else, or is a file.
            CorruptFileError: it holds files of a live graph, but not what says what it is.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InvalidArgumentError(f"{self.path} is a file: a live graph needs a directory")
        if self.path.is_dir():
            names = sorted(p.name for p in self.path.iterdir() if p.name not in _LEFT)
            if any(_OURS.fullmatch(name) or name.startswith(("wal", "NEWEST")) for name in names):
                raise CorruptFileError(
                    f"{self.path} holds {names[0]!r}, of a live graph, but not graph.json, which "
                    "says what the graph is: put it back; nothing was changed"
                )
            if names:
                raise InvalidArgumentError(
                    f"{self.path} holds {names[0]!r} and no live graph: give an empty directory"
                )

    # ---- what the graph is -----------------------------------------------------------------

    @property
    @named
    def exists(self) -> bool:
        """True if there is a description of a graph, or what is no file in its place."""
        with suppress(FileNotFoundError, NotADirectoryError):
            (self.path / "graph.json").lstat()
            return True
        return False

    def create(self, description: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
        """Make the directory of a new graph; return its description with version and uuid.

        Args:
            description: what the graph is.
            base: what ``CURRENT`` says of its base, if it has one.
        """
        version = 2 if "ids" in description else 1
        if NODE_TIME in description:
            version = _VERSION
        full_description = {"version": version, "uuid": uuid.uuid4().hex, **description}
        self.write_json("CURRENT", {"lsn": 0, "base": None, **base})
        self.write_json("graph.json", full_description)
        return full_description

    def description(self) -> dict[str, Any]:
        """Read what the graph is.

        Raises:
            VersionError: a later version of AetherGraph made it.
            CorruptFileError: the file is damaged.
        """
        fields = self._read("graph.json")
        version = fields.count("version")
        if version > _VERSION:
            raise VersionError(
                f"{self.path / 'graph.json'} has version {version}: this build reads "
                f"versions up to {_VERSION}"
            )
        check_description(fields)
        return fields.values

    @named
    def origin(self, lsn: int) -> str | None:
        """Return what tells a commit from others of its number; None: a merge gave it up.

        Copies of the directory go on with commits of equal numbers, and so does a log that was cut.
        But each writer begins a file of the log, which has a uuid.
        """
        if lsn == 0:
            return "beginning"
        current = self.current()
        of_base = int(current["lsn"])
        if lsn < of_base or (lsn == of_base and "origin" in current):
            return current["origin"] if lsn == of_base else None
        names = {
            int(path.name[4:-4], 16): path
            for path in self.path.glob("wal-*.log")
            if _SEGMENT.fullmatch(path.name)
        }
        first = max((number for number in names if number <= lsn), default=None)
        if first is None:
            return None
        with suppress(OSError), open_regular(names[first]) as file:
            header = file.read(56)
            if header[48:] == first.to_bytes(8, "little"):  # else it is used again meanwhile
                return header[32:48].hex()
        return None

    def open_class(self) -> str:
        """Return the name of the class that opens and attaches the graph, for messages."""
        try:
            edge_types = [kind for kind, _ in self.description()["edge_types"]]
        except AetherError:  # another process is making the graph, or the file is damaged
            return "DynamicGraph"
        return "DynamicGraph" if edge_types == [["node", "to", "node"]] else "DynamicHeteroGraph"

    def no_writer(self, reason: str) -> ClosedError:
        """Return the error for a graph that cannot be attached, as no process has it open."""
        return ClosedError(
            f"{self.path}: {reason}: {self.open_class()}.open(path) opens it for writing, "
            "aethergraph.dynamic.History(path).last() reads its last commit"
        )

    def current(self) -> dict[str, Any]:
        """Read which base counts, and what belongs to its commit.

        Raises:
            CorruptFileError: the file is damaged.
        """
        fields = self._read("CURRENT")
        check_current(fields, self.description())
        return fields.values

    @named
    def _read(self, name: str) -> Fields:
        """Read a file of the directory, whose checksum must be right if it has one.

        Raises:
            CorruptFileError: the file is damaged.
        """
        path = self.path / name

        def damaged(text: str) -> CorruptFileError:
            return CorruptFileError(f"{path} is damaged: {text}")

        try:
            content = read_regular(path, _MOST_BYTES)
        except FileNotFoundError:
            message = f"{path} does not exist: there is no live graph"
            raise MissingFileError(errno.ENOENT, message, str(path)) from None
        fields = read_fields(content, damaged)
        checksum = fields.values.pop("checksum", None)  # older builds wrote none
        if checksum is not None and checksum != _checksum(fields.values):
            raise damaged(
                "its checksum is not that of its fields (after a change by hand leave the field "
                "checksum out)"
            )
        return fields

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        """Replace a file of the directory, which survives a crash of the system."""
        value = {**value, "checksum": _checksum(value)}
        self.write(name, json.dumps(value, indent=1).encode())

    @named
    def write(self, name: str, content: bytes) -> None:
        """Replace a file of the directory by ``content``, which only this user can read."""
        fresh = self.path / f"{name}.new"
        fresh.unlink(missing_ok=True)  # whatever it is
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self.path / name)
        self.sync()

    @named
    def sync(self) -> None:
        """Wait until the names of the files are on disk."""
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @named
    def info(self) -> dict[str, Any]:
        """Describe the directory without opening the graph: numbers are those of its base."""
        description, current = self.description(), self.current()
        base = current["base"]
        logs = [path for path in self.path.glob("wal-*.log") if _SEGMENT.fullmatch(path.name)]
        sizes, bases = sizes_of(logs), [] if base is None else [self.path / base]
        return {
            "path": str(self.path),
            "num_nodes": current.get("nodes", description["num_nodes"]),
            "edge_types": [{"name": name, **form} for name, form in description["edge_types"]],
            NODE_TIME: description.get(NODE_TIME, {}),
            "base": base,
            "base_lsn": current["lsn"],
            "base_bytes": sum(size.st_size for size in sizes_of(bases)),
            "log_files": len(sizes),
            "log_bytes": sum(size.st_blocks * 512 for size in sizes),
            "commit_bytes": sum(map(bytes_before_zeros, logs)),
            "writer": self.writer(),
        }

    def check_end(self, current: Mapping[str, Any], last: int) -> None:
        """Raise unless the log reaches as far as it did when the graph was closed.

        Args:
            current: what ``CURRENT`` says.
            last: number of the last commit in the log.

        Raises:
            CorruptFileError: commits are missing; names them, and the way out.
        """
        closed = int(current.get("closed", 0))
        if last < closed:
            raise CorruptFileError(
                f"{self.path}: commits up to {closed} were on disk when the graph was closed, but "
                f"the log ends at {last}: it is damaged, or files of it are missing. Put them "
                f"back, or give up {commits(last + 1, closed)}: aethergraph verify --truncate "
                f"{shlex.quote(str(self.path))}"
            )

    # ---- readers ---------------------------------------------------------------------------

    def publish(self, address: dict[str, Any]) -> None:
        """Write down where readers of other processes find the memory of the graph."""
        self.write_json("LIVE", address)

    @named
    def address(self) -> dict[str, Any]:
        """Return what :meth:`publish` wrote.

        Raises:
            ClosedError: nobody has the graph open.
            UnsupportedError: it is somebody else's.
        """
        path = self.path / "LIVE"
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            if self.exists:
                raise self.no_writer("no process has it open") from None
            raise ClosedError(f"{self.path}: there is no live graph") from None
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise UnsupportedError(
                f"{path} belongs to another user, or others may write to it: a live graph is "
                "attached by its own user"
            )
        return self._read("LIVE").values

    def closed(self) -> tuple[int, int] | None:
        """Return what differs after each process that has closed the graph, or merged it."""
        return version_of(self._current)

    def while_published(self, call: Callable[[], T]) -> T:
        """Return what ``call`` does with :meth:`address`; again if another one came meanwhile.

        Raises:
            ClosedError: nobody has the graph open.
        """
        while True:
            before = self.published()
            try:
                return call()
            except (ClosedError, MissingFileError):  # memory or a base that a merge has replaced
                if self.published() in (before, None):
                    raise

    @named
    def withdraw(self) -> None:
        """Undo :meth:`publish`, unless another process may have published since."""
        if self._lock is not None:
            (self.path / "LIVE").unlink(missing_ok=True)

    # ---- base and rows ---------------------------------------------------------------------

    def part(self, name: str) -> str:
        """Return what a base, keys or rows say of themselves, so that nothing else is deleted."""
        return f"{self.uuid.hex()}/{name}"

    def tables(self, base: str | None) -> list[str]:
        """Return the names of the places of a base, and of all rows but those of somebody else.

        Raises:
            AetherError: a file that may be of rows cannot be read.
        """
        names = []
        for name in sorted(os.listdir(self.path)):
            places = _PLACES.fullmatch(name)
            if places and places[1] == base and name.endswith(".aef"):
                names.append(name)
            elif _ROWS.fullmatch(name):
                part = sections_of(str(self.path / name)).meta.part_of
                if part in (None, self.part(name)):  # older builds wrote none
                    names.append(name)
        return names

    def next_base(self) -> str:
        """Return a name for the next base."""
        return _BASE.format(self._next_number("gen"))

    def next_rows(self) -> str:
        """Return a name for a file of rows."""
        return f"rows-{self._next_number('rows'):06}.aef"

    def _next_number(self, kind: str) -> int:
        """Return the number after those of all files of a kind, whosesoever they are."""
        names = (re.match(rf"\.?{kind}-([0-9]+)\.", name) for name in os.listdir(self.path))
        return 1 + max((int(name[1]) for name in names if name), default=0)

    def remove_base(self, name: str) -> None:
        """Remove a base, its keys and places; leave what cannot be removed for the next open."""
        with suppress(OSError):
            self._remove_parts(glob=f"{name.partition('.')[0]}.*", kept=set())

    @named
    def remove_others(self, names: set[str]) -> None:
        """Remove parts of the directory that are not among ``names``, and what a writer left."""
        self._remove_parts(glob="*", kept=names)
        for path in self.path.iterdir():
            places = _PLACES.fullmatch(path.name)
            is_old = places and places[1] in names and path.suffix == ".npy"  # of older builds
            is_work = _WORK_FOLDER.fullmatch(path.name) and path.is_dir()
            if (is_old or _TEMPORARY.fullmatch(path.name)) and path.is_file():
                path.unlink(missing_ok=True)
            elif is_work and holds_work_files(str(path)):
                shutil.rmtree(path, ignore_errors=True)

    def _remove_parts(self, glob: str, kept: set[str]) -> None:
        """Remove bases, keys and rows of this graph, places before the base that they are of."""
        paths = sorted(self.path.glob(glob))
        for path in paths:
            if not _OURS.fullmatch(path.name) or path.name in kept or not self._is_part(path):
                continue
            for candidate in paths:
                places = _PLACES.fullmatch(candidate.name)
                if places and places[1] == path.name and candidate.is_file():
                    candidate.unlink(missing_ok=True)
            path.unlink(missing_ok=True)

    def _is_part(self, path: Path) -> bool:
        """Return whether a file is known to be a part of the directory."""
        try:
            return sections_of(str(path)).meta.part_of == self.part(path.name)
        except AetherError:
            return False

    @property
    def uuid(self) -> bytes:
        """Identity of the graph, 16 bytes."""
        return uuid.UUID(self.description()["uuid"]).bytes
