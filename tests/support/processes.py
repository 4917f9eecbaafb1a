"""Ctrl-C in the main thread of a test, forks, and scripts in interpreters of their own."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def interrupted(after: float = 0.2) -> Iterator[None]:
    """Expect that KeyboardInterrupt ends the block, after so many seconds, from another thread.

    It has a handler of its own, since what a shell starts in the background ignores SIGINT. The
    signal comes again while nothing has noticed it: Python's wait for a lock goes on if it came
    between the last look for signals and the wait.
    """
    noticed = threading.Event()

    def notice(*_: Any) -> None:
        if not noticed.is_set():
            noticed.set()
            raise KeyboardInterrupt

    def send() -> None:
        while not noticed.wait(after):
            os.kill(os.getpid(), signal.SIGINT)

    former = signal.signal(signal.SIGINT, notice)
    sending = threading.Thread(target=send)
    try:
        with pytest.raises(KeyboardInterrupt):
            sending.start()
            yield
    finally:
        noticed.set()
        sending.join()
        signal.signal(signal.SIGINT, former)


def in_fork(call: Callable[[], Any]) -> Any:
    """Return what ``call`` returns in a forked child; an error as its class and message."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def work() -> None:
        try:
            there.send(call())
        except BaseException as error:
            there.send((type(error).__name__, str(error)))

    child = context.Process(target=work)
    child.start()
    there.close()
    try:
        assert here.poll(60), "the child hangs"
        return here.recv()
    finally:
        child.kill()
        child.join()


@contextmanager
def talking(script: str, *args: object) -> Iterator[Callable[[], str]]:
    """Run a script in an interpreter of its own, to its end behind the block.

    Yields:
        What sends it an empty line and returns the line that it answers with.
    """
    with subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask() -> str:
            print(file=stdin, flush=True)
            return stdout.readline()

        try:
            yield ask
        except BaseException:
            process.kill()
            raise
        stdin.close()
    assert process.returncode == 0


SERVER = """
import importlib, json, os, runpy, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        break
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()
for number, path in enumerate((job["in"], job["out"], job["err"])):
    file = os.open(path, os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY, 0o600)
    os.dup2(file, number)
    os.close(file)
os.chdir(job["cwd"])
sys.argv = job["argv"]
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


class WarmPython:
    """Runs scripts, one at a time, in forks of an interpreter that has imported modules.

    Importing PyG or DGL takes longer than most scripts of tests do. A script has what it would have
    of a fresh interpreter: ``__main__``, its arguments and folder, and the interpreter's ordinary
    end.

    Args:
        modules: imported beforehand.
        env: environment of the scripts.
    """

    def __init__(self, modules: Sequence[str], env: Mapping[str, str] = os.environ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, *modules],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(env),
        )  # fmt: skip

    def __enter__(self) -> WarmPython:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def start(
        self, argv: Sequence[Any], folder: Path, out: Path, read: str | Path = os.devnull
    ) -> int:
        """Start a script in ``folder`` and return its pid.

        It reads from ``read``, then writes to ``out``, either of which may be a pipe, and to
        ``out``.err.
        """
        job = {"argv": [str(one) for one in argv], "cwd": str(folder), "out": str(out)}
        job["in"] = str(read)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**job, "err": f"{out}.err"}) + "\n")
        self._process.stdin.flush()
        return self._line()

    def wait(self) -> int:
        """Wait for the script; return its exit status, or minus the signal that killed it."""
        return self._line()

    def run(self, argv: Sequence[Any], folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a script in ``folder`` to its end."""
        out = folder / "warm-python.out"
        self.start(argv, folder, out)
        status = self.wait()
        error = Path(f"{out}.err")
        done = subprocess.CompletedProcess(argv, status, out.read_text(), error.read_text())
        out.unlink()
        error.unlink()
        return done

    def _line(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())
