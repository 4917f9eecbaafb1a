"""Call the public API with bad values, in child processes with a watchdog.

    python tests/hostile/attack.py [--seed N] [--share 0.1] [--only 'TARGET' 'ARGUMENT' 'VALUE']

A call may succeed, or raise an AetherError or a builtin that its target names and that others than
the package raise. Anything else is reported with the words that repeat the call alone: another
exception, the end of the process, more than 10 seconds, or that an object without any meaning was
taken.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import random
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from target import Target

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # PYTHONSAFEPATH keeps it away
SECONDS = 10.0  # one call
#: The start of a child, with its imports, and its end, which unloads them.
SECONDS_BESIDE_CALLS = 120.0
#: Private memory of a child, far more than any call is meant to take. Not its address space: a live
#: graph maps some 32 GiB for each attribute of its edges, of which it uses little.
MEMORY = 8 << 30


#: Values that mean nothing to any argument: who takes one has not looked at it.
SENSELESS = ("no index", "no truth")


class Case(NamedTuple):
    """One call: which argument of which target has which value."""

    target: str
    argument: str
    value: str

    def __str__(self) -> str:
        words = " ".join("'" + part.replace("'", "'\\''") + "'" for part in self)
        return f"python tests/hostile/attack.py --only {words}"


class Failure(NamedTuple):
    """A call that ended as none may."""

    case: Case
    problem: str

    def __str__(self) -> str:
        return f"{self.problem}\n    {self.case}"


# ---- in the child --------------------------------------------------------------------------


def _all_cases(folder: Path) -> list[Case]:
    from bad_values import bad_values
    from targets import targets

    names = list(bad_values())
    return [
        Case(target.name, argument, name)
        for target in targets()
        for argument in target.arguments(folder)
        for name in names
    ]


def _problem(
    target: Target, case: Case, make: Callable[[Path], object], folder: Path
) -> str | None:
    import aethergraph

    call, arguments = target.make(folder)
    arguments[case.argument] = make(folder)
    try:
        call(**arguments)
    except aethergraph.errors.AetherError:
        return None
    except MemoryError:  # memory is the system's to refuse
        return None
    except BaseException as error:
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        outside = [one for one in frames if Path(one.f_code.co_filename).parent != HERE]
        if outside and not _is_ours(outside[0]):  # it went into a library of its target
            return None
        # What is missing in a mapping of ours is a LookupError; functions in C have no frames.
        is_of_others = not _is_ours(frames[-1]) or isinstance(error, LookupError)
        is_of_others = is_of_others or case.value in ("type", "function")
        if is_of_others and isinstance(error, target.builtins):
            return None
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        return f"{type(error).__name__}: {str(error)[:150]!r} at {place}"
    if case.value in SENSELESS and case.argument not in target.takes_all:
        return "takes an object without any meaning"
    return None


def _is_ours(frame: FrameType) -> bool:
    """Return whether a frame is the package's, and not its answer about a missing attribute."""
    name = str(frame.f_globals.get("__name__"))
    return name.startswith("aethergraph") and frame.f_code.co_name != "__getattr__"


def _child(cases: Sequence[str]) -> None:
    """Read cases from stdin, tell on fd 3 what has begun and what is wrong."""
    from bad_values import bad_values
    from targets import targets

    all_targets, values = {target.name: target for target in targets()}, bad_values()
    report = os.fdopen(3, "w", buffering=1)
    folder = Path(cases[0])
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    os.chdir(folder)
    originals = _Originals(folder)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
    for line in sys.stdin:
        number, _, rest = line.rstrip("\n").partition("\t")
        case = Case(*rest.split("\t"))
        report.write(f"begin {number}\n")
        problem = _problem(all_targets[case.target], case, values[case.value], folder)
        originals.restore()
        text = "ok" if problem is None else problem.encode("ascii", "replace").decode()
        report.write(f"end {number} {text}\n".replace("\r", " "))


class _Originals:
    """The prepared files, put back after a call that wrote to one of them."""

    def __init__(self, folder: Path) -> None:
        self._copies = tempfile.mkdtemp(dir=folder.parent, prefix=folder.name)
        atexit.register(shutil.rmtree, self._copies, ignore_errors=True)
        self._marks: dict[Path, tuple[int, int]] = {}
        for path in folder.iterdir():
            if path.is_file():
                shutil.copy(path, self._copies)
                self._marks[path] = self._mark(path)

    @staticmethod
    def _mark(path: Path) -> tuple[int, int]:
        found = path.stat()
        return found.st_ino, found.st_mtime_ns

    def restore(self) -> None:
        """Replace what was changed or removed."""
        for path, mark in self._marks.items():
            if not path.exists() or self._mark(path) != mark:
                path.unlink(missing_ok=True)
                shutil.copy(Path(self._copies, path.name), path)
                self._marks[path] = self._mark(path)


# ---- in the parent -------------------------------------------------------------------------


class _Runner:
    """Children that work off the cases, one after the other."""

    def __init__(self, folder: Path, cases: Sequence[Case]) -> None:
        self._folder = folder
        self._cases = cases
        self.failures: list[Failure] = []
        self._retried = -1  # the case that the last child began with

    def run(self) -> None:
        begin = 0
        while begin < len(self._cases):
            begin = self._run_child(begin)

    def _run_child(self, begin: int) -> int:
        """Run the cases from ``begin`` on; return where the next child goes on."""
        out, write = os.pipe()
        with tempfile.TemporaryFile("w+") as work, tempfile.TemporaryFile("w+") as errors:
            for number, case in enumerate(self._cases[begin:], begin):
                work.write("\t".join((str(number), *case)) + "\n")
            work.seek(0)
            child = subprocess.Popen(
                ["bash", "-c", 'exec "$0" "$@" 3>&"$REPORT"', sys.executable,
                 str(HERE / "attack.py"), "--child", str(self._folder)],
                stdin=work, stderr=errors, pass_fds=(write,),
                env={**os.environ, "REPORT": str(write), "PYTHONFAULTHANDLER": "1"},
            )  # fmt: skip
            os.close(write)
            try:
                return self._watch(child, out, begin, errors)
            finally:
                child.kill()
                child.wait()
                os.close(out)

    def _watch(self, child: subprocess.Popen[bytes], out: int, begin: int, errors: object) -> int:
        at, text, working = begin, "", False
        patience = 6 * SECONDS if begin == self._retried else SECONDS
        self._retried = begin
        deadline = time.monotonic() + SECONDS_BESIDE_CALLS
        look = select.poll()  # and not select(), which knows 1024 descriptors
        look.register(out, select.POLLIN)
        while True:
            ready = look.poll(1000 * max(0.0, deadline - time.monotonic()))
            if not ready:
                if not working:
                    self._fail(at, f"hangs beside calls for more than {SECONDS_BESIDE_CALLS:g} s")
                    return at + 1
                if begin == at and patience > SECONDS:
                    self._fail(at, f"hangs for more than {patience:g} s")
                    return at + 1
                return at  # once more, alone and with more patience: the machine may be busy
            data = os.read(out, 1 << 16)
            if not data:
                code = child.wait()
                if not working and code == 0:
                    return len(self._cases)
                errors.seek(0)  # type: ignore[attr-defined]
                tail = errors.read()[-2000:]  # type: ignore[attr-defined]
                self._fail(at, f"ends the process ({code}):\n{tail}")
                return at + 1
            text += data.decode()
            *lines, text = text.split("\n")
            for line in lines:
                kind, number, *rest = line.split(" ", 2)
                at, working = int(number), kind == "begin"
                if kind == "end" and rest[0] != "ok":
                    self._fail(at, rest[0])
            if at > begin:
                patience = SECONDS
            deadline = time.monotonic() + (patience if working else SECONDS_BESIDE_CALLS)

    def _fail(self, number: int, problem: str) -> None:
        self.failures.append(Failure(self._cases[number], problem))
        print(self.failures[-1], flush=True)


@contextlib.contextmanager
def prepared_folder() -> Iterator[Path]:
    """A temporary folder with the files that the calls work on."""
    from targets import prepare

    with tempfile.TemporaryDirectory(prefix="aethergraph-hostile-") as name:
        prepare(Path(name))
        yield Path(name)


def choose_cases(folder: Path, share: float, seed: int) -> list[Case]:
    """Return every case, or a random share of them; the same for the same seed."""
    cases = _all_cases(folder)
    if share >= 1:
        return cases
    chosen = random.Random(seed).sample(range(len(cases)), max(1, int(share * len(cases))))
    return [cases[i] for i in sorted(chosen)]


def run_cases(folder: Path, cases: Sequence[Case]) -> list[Failure]:
    """Call them; return what is wrong."""
    runner = _Runner(folder, cases)
    runner.run()
    return runner.failures


def main() -> int:
    """Run the attack as the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs=3, metavar=("TARGET", "ARGUMENT", "VALUE"))
    parser.add_argument("--match", default="", help="targets whose name begins so")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        _child([options.child])
        return 0
    with prepared_folder() as folder:
        if options.only:
            cases = [Case(*options.only)]
        else:
            cases = choose_cases(folder, options.share, options.seed)
            cases = [case for case in cases if case.target.startswith(options.match)]
        failures = run_cases(folder, cases)
    print(f"{len(cases)} calls, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
