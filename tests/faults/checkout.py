"""A copy of the checkout in which faults are planted, built and tested."""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults.table import NATIVE_STAGES, STAGES, Fault, TableError, stage_of

ROOT = Path(__file__).resolve().parents[2]
BASE = Path(os.environ.get("AETHERGRAPH_TEST_DIR") or ROOT / ".venv-test")
LIMIT = 300  # seconds of a run of tests: beyond it, they hang
BUILD_LIMIT = 1800
WHOLE_LIMIT = 7200  # of a run of all tests
#: Variables of the environment that make the default run smaller than all tests.
SELECTION = ("PYTEST_ARGS", "AETHERGRAPH_VARIANTS", "AETHERGRAPH_EXAMPLES")
LEFT_OUT = (".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "*.so", "*.egg-info")
LEFT_OUT_OF_THE_TOP = ("build", "dist", "data", "site")


class Programs:
    """Programs that run in groups of their own, so that what they start ends with them."""

    def __init__(self) -> None:
        self.running: set[int] = set()
        self.stopped = False

    def stop(self) -> None:
        """Kill what runs, and start no more: Ctrl-C does not reach these groups."""
        self.stopped = True
        for group in list(self.running):
            kill_group(group)

    def run(
        self, command: Sequence[str | Path], folder: Path, env: dict[str, str], limit: float
    ) -> tuple[int | None, str]:
        """Run a program to its end; no exit status is one that took too long."""
        # A file: a pipe stays open for as long as a server that a test has left behind.
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            self.running.add(process.pid)
            try:
                status: int | None = None if self.stopped else process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                kill_group(process.pid)
                process.wait()
                self.running.discard(process.pid)
            if self.stopped:
                raise KeyboardInterrupt
            output.seek(0)
            return status, output.read().decode(errors="replace")


def kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def build_environment() -> dict[str, str]:
    """Return the environment of compilers: ccache where it is, as in scripts/test.sh."""
    env = {**os.environ, "AETHERGRAPH_NO_MYPYC": "1"}
    env["PATH"] = f"/usr/lib/ccache:{env['PATH']}"
    env.setdefault("CCACHE_DIR", str(BASE / "ccache"))
    env.setdefault("CCACHE_BASEDIR", "/")
    env.setdefault("CCACHE_NOHASHDIR", "1")
    env.setdefault("CCACHE_IGNOREOPTIONS", "-Wno-unused-result -fwrapv -fno-strict-overflow")
    return env


@dataclass(frozen=True)
class Verdict:
    """Result of a run of tests: survived, or which test failed and how."""

    outcome: str  # caught, survived, broken
    by: str = ""
    message: str = ""


SURVIVED = Verdict("survived")


def list_files(root: Path) -> Iterator[Path]:
    """Yield the paths of the files of a checkout, without what is built there."""
    for folder, folders, files in os.walk(root):
        ignored = LEFT_OUT + (LEFT_OUT_OF_THE_TOP if Path(folder) == root else ())
        for names in (folders, files):
            names[:] = [
                name
                for name in names
                if not any(fnmatch.fnmatch(name, pattern) for pattern in ignored)
            ]
        for name in files:
            yield (Path(folder) / name).relative_to(root)


def write_text(path: Path, text: str) -> None:
    """Write a file with a newer whole second than it had: Python and make compare those."""
    before = path.stat().st_mtime if path.exists() else 0
    path.write_text(text)
    stamp = max(int(time.time()), int(before) + 1)
    os.utime(path, (stamp, stamp))


class Copy:
    """A copy of the checkout with the package compiled in place."""

    def __init__(
        self, root: Path, folder: Path, programs: Programs, dgl_python: Path | None = None
    ) -> None:
        self.programs = programs
        self.source, self.root = root, folder / "repository"
        self.site, self.empty = folder / "site", folder / "empty"
        self.pythons = {"python": Path(sys.executable), "dgl": dgl_python}
        #: Tests that fail without any fault.
        self.failing: set[str] = set()
        self.refresh()
        self.link_packages()

    def refresh(self) -> None:
        """Make the copy equal to the checkout; an interrupted run may have left a fault there."""
        self.empty.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(exist_ok=True)
        wanted = set(list_files(self.source))
        for path in set(list_files(self.root)) - wanted:
            (self.root / path).unlink()
        for path in sorted(wanted):
            source, target = self.source / path, self.root / path
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(source.stat().st_mode)

    def link_packages(self) -> None:
        """Lay the packages out as they are installed, as scripts/layout.sh does."""
        package = self.site / "aethergraph"
        shutil.rmtree(package, ignore_errors=True)
        package.mkdir(parents=True)
        for path in (self.root / "aethergraph").iterdir():
            if path.name != "__pycache__":
                (package / path.name).symlink_to(path)
        for name in ("_torch", "pyg", "dgl"):
            (package / name).symlink_to(self.root / "backends" / name)

    def native_digest(self) -> str:
        digest = hashlib.sha256()
        for path in sorted(list_files(self.root / "native")):
            if path.parts[0] in ("src", "include") or path.name == "build_cffi.py":
                digest.update(f"{path}\0".encode() + (self.root / "native" / path).read_bytes())
        return digest.hexdigest()

    def build_extension(self) -> str | None:
        """Compile the C core if it has changed; return what the compiler says if it fails."""
        if not (self.root / "native").is_dir():
            return None
        digest, stamp = self.native_digest(), self.site / "native_digest"
        if stamp.exists() and stamp.read_text() == digest:
            return None
        stamp.unlink(missing_ok=True)
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
        status, output = self.programs.run(command, self.root, build_environment(), BUILD_LIMIT)
        if status != 0:
            return output
        stamp.write_text(digest)
        return None

    def require_extension(self) -> None:
        """Compile the C core without any fault in it."""
        if (complaint := self.build_extension()) is not None:
            raise TableError(f"the checkout does not build:\n{complaint[-4000:]}")

    @contextlib.contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """Have the fault in the copy for as long as the block runs."""
        path = self.root / fault.file
        text = path.read_text()
        try:
            write_text(path, fault.change(text))
            yield
        finally:
            write_text(path, text)

    def test_environment(self, everything: bool) -> dict[str, str]:
        env = {**os.environ, "PYTHONPATH": str(self.site), "PYTHONSAFEPATH": "1"}
        env |= {"AETHERGRAPH_EXPECT_BUILD": "interpreted", "OMP_NUM_THREADS": "1"}
        env["AETHERGRAPH_FAULTS"] = "1"
        env["AETHERGRAPH_ALL"] = "1"
        left_out = SELECTION if everything else ("AETHERGRAPH_ALL",)
        for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME", *left_out):
            env.pop(name, None)
        return env

    def run_pytest(
        self,
        stage: str,
        tests: Sequence[str],
        *arguments: str,
        limit: float,
        everything: bool = False,
    ) -> tuple[int | None, str]:
        env = self.test_environment(everything)
        if stage == "dgl":
            env["DGLBACKEND"] = "pytorch"
        python = self.pythons[stage]
        assert python is not None
        command: list[str | Path] = [
            python, "-m", "pytest", "-c", self.root / "pyproject.toml", "--rootdir", self.root,
            "-q", "-p", "no:cacheprovider", "--tb=line", *arguments,
            *shlex.split(env.get("PYTEST_ARGS", "")),
            *(f"--deselect={test}" for test in sorted(self.failing)),
            *(self.root / "tests" / test for test in tests),
        ]  # fmt: skip
        return self.programs.run(command, self.empty, env, limit)

    def make(self, target: str, variant: str, name: str, limit: float) -> tuple[int | None, str]:
        command = ["make", "-C", "native", target, f"VARIANT={variant}", f"T={name}"]
        command.append(f"BUILD={self.root}/build/native")
        return self.programs.run(command, self.root, build_environment(), limit)

    def find_failing(self, tests: Iterable[str]) -> None:
        """Note the tests that fail without any fault: they catch none."""
        for stage in STAGES:
            named = sorted({test for test in tests if stage_of(test) == stage})
            if stage in NATIVE_STAGES.values():
                verdicts = {test: self.judge_native(test, LIMIT) for test in named}
                for test, verdict in verdicts.items():
                    if verdict != SURVIVED:
                        self.failing.add(test)
                        print(f"without any fault, {test} fails:\n{verdict.message}", flush=True)
            elif named:
                files = {test for test in named if "::" not in test}
                named = [test for test in named if not files & {test.split("::")[0]} - {test}]
                status, output = self.run_pytest(stage, named, limit=LIMIT * len(named))
                if status not in (0, 1, 5):
                    raise TableError(f"without any fault, the tests end so:\n{output[-4000:]}")
                self.failing |= {test for test, _ in failed_tests(output)}

    def judge(
        self,
        fault: Fault,
        tests: Sequence[str],
        everything: bool = False,
        limit: float = LIMIT,
    ) -> Verdict:
        """Return what the tests say while the fault is planted."""
        for stage in STAGES:
            named = [test for test in tests if stage_of(test) == stage]
            verdict = SURVIVED
            if stage in NATIVE_STAGES.values():
                for test in named:
                    if verdict == SURVIVED and test not in self.failing:
                        verdict = self.judge_native(test, limit)
            elif named and self.pythons[stage] is not None:
                verdict = self.judge_python(fault, stage, named, everything, limit)
            if verdict != SURVIVED:
                return verdict
        return SURVIVED

    def judge_native(self, test: str, limit: float) -> Verdict:
        word, _, name = test.partition(":")
        target, variant = ("tsan", "tsan") if word == "tsan" else ("test", "release")
        status, output = self.make("programs", variant, name, BUILD_LIMIT)
        if status != 0:
            return Verdict("broken", message=output[-2000:])
        status, output = self.make(target, variant, name, limit)
        if status is None:
            return Verdict("caught", test, "it hangs")
        return SURVIVED if status == 0 else Verdict("caught", test, last_words(output))

    def judge_python(
        self, fault: Fault, stage: str, tests: Sequence[str], everything: bool, limit: float
    ) -> Verdict:
        if fault.is_native and (complaint := self.build_extension()) is not None:
            return Verdict("broken", message=complaint[-2000:])
        status, output = self.run_pytest(stage, tests, "-x", everything=everything, limit=limit)
        if status in (0, 5):  # 5: the selection leaves all of them out
            return SURVIVED
        if status is None:
            return Verdict("caught", " ".join(tests), "it hangs")
        failed = failed_tests(output)
        if status == 1 and failed:
            return Verdict("caught", *failed[0])
        if status < 0:
            return Verdict("caught", " ".join(tests), f"signal {-status}: {last_words(output)}")
        if complaint := self.import_complaint(fault, stage):
            return Verdict("broken", message=complaint)
        if status == 2 and failed:  # the test's own module fails when it is imported
            return Verdict("caught", *failed[0])
        raise TableError(f"{fault.name}: pytest ends with {status}:\n{output[-4000:]}")

    def import_complaint(self, fault: Fault, stage: str) -> str:
        """Return what Python says if the module with the fault cannot be imported."""
        if not fault.file.endswith(".py"):
            return ""
        path = re.sub(r"^backends/", "aethergraph/", fault.file.removesuffix(".py"))
        module = path.removesuffix("/__init__").replace("/", ".")
        command = [str(self.pythons[stage]), "-c", f"import {module}"]
        status, output = self.programs.run(command, self.empty, self.test_environment(False), LIMIT)
        return "" if status == 0 else output[-2000:]


def failed_tests(output: str) -> list[tuple[str, str]]:
    """Return the tests that pytest's summary says have failed, each with its message."""
    # They are named from the folder in which pytest runs, which is beside the copy.
    line = r"^(?:FAILED|ERROR) \.\./repository/(tests/.+?)(?: - (.*))?$"
    lines = re.findall(line, output, re.MULTILINE)
    return [(test, message) for test, message in lines]


def last_words(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[:500]
