"""Processes show their metrics to their own user, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.threads import running

from aethergraph import CachedRows, observe
from aethergraph.errors import FormatError, InvalidArgumentError, MissingFileError, StorageError
from aethergraph.observe import registry
from aethergraph.observe.asking import ask, list_processes

SHOWS = """
import sys, numpy as np
from aethergraph import CachedRows, observe
observe.enable()
rows = CachedRows(np.ones((10, 4), np.float32), "1M")
rows.gather([1, 2, 3])
print("ready", flush=True)
sys.stdin.readline()
"""


@contextmanager
def process(script: str = SHOWS) -> Iterator[subprocess.Popen[str]]:
    """A process that shows its metrics until it is given a line."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as made:  # fmt: skip
        assert made.stdout is not None
        try:
            assert made.stdout.readline() == "ready\n"
            yield made
        finally:
            made.kill()


def requested(snapshot: dict[str, Any]) -> float:
    value = snapshot["metrics"]["aethergraph_cache_requested_total"]["samples"][0]["value"]
    return float(value)


def sockets(runtime: Path) -> list[str]:
    folder = runtime / "aethergraph"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_another_process_is_asked(runtime: Path) -> None:
    assert list_processes() == []
    with process() as other:
        assert list_processes() == [other.pid]
        found = ask(other.pid)
        assert requested(found) == 3 and found["pid"] == other.pid
        for path, mode in ((f"{other.pid}.sock", 0o600), ("", 0o700)):
            assert stat.S_IMODE((runtime / "aethergraph" / path).stat().st_mode) == mode
        other.communicate("\n")
        assert other.returncode == 0
    assert sockets(runtime) == []  # it went with the process


def test_what_killed_processes_leave_behind_is_removed(runtime: Path) -> None:
    with process() as first, process() as second:
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert sockets(runtime) == sorted(f"{one.pid}.sock" for one in (first, second))
        with pytest.raises(MissingFileError, match=f"process {first.pid} shows no metrics"):
            ask(first.pid)
        observe.enable()  # of a third process: it cleans up as well
        assert sockets(runtime) == sorted(f"{pid}.sock" for pid in (second.pid, os.getpid()))
        second.kill()
        second.wait()
        assert list_processes() == [os.getpid()]
        assert sockets(runtime) == [f"{os.getpid()}.sock"]


def test_this_process() -> None:
    with pytest.raises(MissingFileError, match=r"observe.enable\(\)"):
        ask(os.getpid())
    observe.enable()
    observe.enable()
    rows = CachedRows(np.ones((10, 4), np.float32), "1M")
    rows.gather([1, 2])
    assert requested(ask(os.getpid())) == 2
    assert len([one for one in threading.enumerate() if one.name == "aethergraph-observe"]) == 1
    observe.enable(publish=False)
    assert list_processes() == [] and registry.is_enabled()
    observe.enable()
    assert list_processes() == [os.getpid()]
    observe.disable()
    assert list_processes() == []
    assert not [one for one in threading.enumerate() if one.name == "aethergraph-observe"]


@pytest.mark.forks
def test_a_forked_child_leaves_the_socket_to_its_parent(run_python: Callable[..., Any]) -> None:
    run_python(
        """
        import os, signal
        from aethergraph import observe
        from aethergraph.observe.asking import ask, list_processes
        observe.enable()
        child = os.fork()
        if not child:
            observe.disable()
            assert list_processes() == [os.getppid()]
            observe.enable()  # shows its own
            assert list_processes() == sorted([os.getppid(), os.getpid()])
            observe.disable()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert list_processes() == [os.getpid()]
        assert ask(os.getpid())["pid"] == os.getpid()
        child = os.fork()
        if not child:
            raise SystemExit  # with what atexit does
        os.waitpid(child, 0)
        assert list_processes() == [os.getpid()]
        """
    )


def test_folders_that_others_may_use_are_refused(runtime: Path) -> None:
    folder = runtime / "aethergraph"
    folder.mkdir(mode=0o700)
    folder.chmod(0o770)
    for call in (observe.enable, list_processes, lambda: ask(1)):
        with pytest.raises(StorageError, match="mode 0700"):
            call()
    observe.disable()
    folder.rmdir()
    (runtime / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(runtime / "elsewhere")
    with pytest.raises(StorageError, match="cannot be shown there"):
        observe.enable()
    observe.disable()
    folder.unlink()
    folder.write_text("")
    with pytest.raises(StorageError, match="cannot be shown there"):
        list_processes()


def test_other_users_get_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.getuid():
        pytest.skip("only root can become another user")
    # Not below tmp_path: each pytest that starts closes the folder of all of them to other users.
    runtime = Path(tempfile.mkdtemp())
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    observe.enable()
    path = runtime / "aethergraph" / f"{os.getpid()}.sock"
    script = (
        "import os, socket, sys; os.setuid(65534); link = socket.socket(socket.AF_UNIX);"
        "link.connect(sys.argv[1]); print(len(link.recv(1 << 16)))"
    )

    def answer() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-c", script, str(path)], capture_output=True, text=True
        )

    runtime.chmod(0o711)
    assert "PermissionError" in answer().stderr
    path.parent.chmod(0o711)  # even if somebody has opened the doors
    path.chmod(0o666)
    done = answer()
    assert done.stdout == "0\n", done.stderr
    path.parent.chmod(0o700)
    observe.disable()
    shutil.rmtree(runtime)


def test_long_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    observe.enable()
    assert ask(os.getpid())["pid"] == os.getpid()


def test_without_a_folder_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    observe.enable()
    assert sockets(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir() if path.name != "run"] == [
        f"aethergraph-{os.getuid()}"
    ]
    assert list_processes() == [os.getpid()]


def test_answers_that_are_no_snapshots(runtime: Path) -> None:
    folder = runtime / "aethergraph"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / "77.sock"))
        other.listen()
        for answer in (b"", b"[]", b'{"metrics": 3}', b"\xff"):

            def give(answer: bytes = answer) -> None:
                link, _ = other.accept()
                link.sendall(answer)
                link.close()

            words = "process 77: its answer is no snapshot"
            with running(give), pytest.raises(FormatError, match=words):
                ask(77)


def test_one_that_does_not_listen_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aethergraph.observe.publishing._PATIENCE", 1.0)
    monkeypatch.setattr("aethergraph.observe.place._PATIENCE", 60.0)
    big = {"metrics": {"x": "y" * (8 << 20)}}
    monkeypatch.setattr("aethergraph.observe.snapshot", lambda: big)
    observe.enable()
    from aethergraph.observe.place import folder

    with socket.socket(socket.AF_UNIX) as idle:
        idle.connect(str(folder() / f"{os.getpid()}.sock"))
        began = time.monotonic()
        assert ask(os.getpid()) == big  # in its turn
        assert time.monotonic() - began < 45  # both have a minute


def test_processes_that_cannot_be(runtime: Path) -> None:
    (runtime / "aethergraph").mkdir(mode=0o700)
    with pytest.raises(MissingFileError):
        ask(2**40)
    for pid in (-3, "7", None, 2.5, "../x"):
        with pytest.raises(InvalidArgumentError, match="pid"):
            ask(pid)  # type: ignore[arg-type]
