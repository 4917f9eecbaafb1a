"""Run the own tests of PyG and DGL over our objects.

    python tests/peers/run.py --pyg-tests DIR      in an environment with torch_geometric
    python tests/peers/run.py --dgl-tests DIR      in an environment with dgl

DIR is a checkout of theirs. A plugin of pytest puts our loaders, samplers, graphs and stores in the
place of theirs. Tests that do not use ours are not counted. Failures that are differences by intent
are in ``expected.py``. It prints a line per suite, and ends with 1 if a test fails that is not
listed, if one that is listed passes or is gone, or if a selected file never used ours; with 2 if
the tests cannot be run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))  # Python leaves out a script's own folder if it is to be safe

from peers.suites import FRAMEWORKS, Framework, Suite  # noqa: E402

#: Seconds after which a test of theirs is taken to hang.
TIMEOUT = 600


@dataclass
class Verdict:
    """Outcomes of the tests of a suite, by id."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    expected: list[str] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    skipped: int = 0
    without: Counter[str] = field(default_factory=Counter)
    uses: Counter[str] = field(default_factory=Counter)

    @property
    def is_red(self) -> bool:
        """True if anything is not as it should be."""
        return bool(self.failed or self.mended or self.gone or self.unused or self.broken)


class UnusableError(Exception):
    """The tests cannot be run; the message is one line."""


def check(framework: Framework, checkout: Path) -> None:
    """Raise if there is no such checkout, or nothing to run its tests with."""
    tests = checkout / framework.folder
    if not checkout.is_dir():
        raise UnusableError(f"{framework.option}: there is no folder {checkout}")
    if not tests.is_dir():
        raise UnusableError(
            f"{framework.option}: {checkout} has no {framework.folder}/: it is to be a checkout, "
            "with the framework's tests"
        )
    files = {test.partition("::")[0] for suite in framework.suites for test in suite.tests}
    lacking = sorted(name for name in files if not (tests / name).is_file())
    if lacking:
        raise UnusableError(
            f"{framework.option}: {tests} has no {lacking[0]}: is it another version?"
        )
    for module in framework.modules:
        try:
            is_there = importlib.util.find_spec(module) is not None
        except ImportError:  # the package that it is in is not there, or raises
            is_there = False
        if not is_there:
            raise UnusableError(f"{framework.option}: {sys.executable} has no {module}")
    imported = subprocess.run(
        [sys.executable, "-c", f"import {', '.join(framework.modules)}"],
        capture_output=True, text=True, cwd=os.sep,
        env={**os.environ, **framework.environment},
    )  # fmt: skip
    if imported.returncode:
        lines = imported.stderr.strip().splitlines() or [f"exit status {imported.returncode}"]
        raise UnusableError(
            f"{framework.option}: {' and '.join(framework.modules)} cannot be imported: {lines[-1]}"
        )


def run(framework: Framework, suite: Suite, checkout: Path) -> tuple[list[Any], str]:
    """Run the tests of a suite, and return the records of its log and what pytest printed."""
    tests = checkout.resolve() / framework.folder
    paths = [str(TESTS), *(str(checkout.resolve() / path) for path in framework.paths)]
    if "PYTHONPATH" in os.environ:
        paths.append(os.environ["PYTHONPATH"])
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        log.touch()
        environment = {
            **os.environ,
            **framework.environment,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",  # nothing is written into the checkout
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "AETHERGRAPH_PEER_LOG": str(log),
        }
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tests),
                "-p", "no:cacheprovider", "-p", "pytest_timeout",
                "-p", "peers.counting", "-p", suite.plugin,
                "--timeout", str(TIMEOUT), "--continue-on-collection-errors",
                "--basetemp", str(Path(folder, "tmp")),
                *(str(tests / test) for test in suite.tests),
            ],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
            env=environment,
        )  # fmt: skip
        records = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return records, done.stdout


def judge(suite: Suite, records: Iterable[Mapping[str, Any]]) -> Verdict:
    """Compare how tests ended with how they should."""
    verdict = Verdict()
    running: set[str] = set()
    users: set[str] = set()
    for record in records:
        if "began" in record:
            running.add(record["began"])
        elif "broken" in record:
            verdict.broken[record["broken"]] = record["error"]
        else:
            running.discard(record["test"])
            if record["outcome"] == "skipped":
                verdict.skipped += 1
            elif not record["uses"]:
                verdict.without[record["outcome"]] += 1
            else:
                users.add(record["test"])
                verdict.uses.update(record["uses"])
                _file(suite, record, verdict)
    for test in sorted(running):
        verdict.broken[test] = "the process ended in it"
    ran = {*verdict.expected, *verdict.mended}
    verdict.gone = [test for test in suite.expected if test not in ran]
    verdict.unused = [test for test in suite.tests if not any(_is_of(user, test) for user in users)]
    return verdict


def _file(suite: Suite, record: Mapping[str, Any], verdict: Verdict) -> None:
    """Put a test that used ours where it belongs."""
    test, is_listed = record["test"], record["test"] in suite.expected
    if record["outcome"] == "passed":
        (verdict.mended if is_listed else verdict.passed).append(test)
    elif is_listed:
        verdict.expected.append(test)
    else:
        verdict.failed[test] = record["error"]


def _is_of(test: str, selected: str) -> bool:
    """Return whether a test is the selected function, a variant of it, or in the selected file."""
    return test == selected or test.startswith((f"{selected}[", f"{selected}::"))


def report(suite: Suite, verdict: Verdict) -> Iterator[str]:
    """Return the lines that say what became of a suite."""
    endings = verdict.passed, verdict.mended, verdict.expected, verdict.failed
    total = sum(map(len, endings))
    names = ", ".join(f"{name} {count}" for name, count in sorted(verdict.uses.items()))
    yield (
        f"{suite.name}: {len(verdict.passed) + len(verdict.mended)} of {total} passed, "
        f"{len(verdict.expected)} failed as expected, {len(verdict.failed)} unexpectedly; "
        f"ours was used {sum(verdict.uses.values())} times ({names or 'never'}); "
        f"{verdict.skipped} skipped; not counted are {verdict.without.total()} tests without ours, "
        f"of which {verdict.without['failed']} failed"
    )
    for test, error in verdict.failed.items():
        yield f"  failed: {test}: {error}"
    for test, error in verdict.broken.items():
        yield f"  did not run to its end: {test}: {error}"
    for test in verdict.mended:
        yield f"  passed, though expected.py lists it (a failure less): {test}"
    for test in verdict.gone:
        yield f"  listed in expected.py, but no such test used ours: {test}"
    for test in verdict.unused:
        yield f"  selected, but ours was never used in it: {test}"


def main(arguments: Sequence[str], known: Sequence[Framework] = FRAMEWORKS) -> int:
    """Run the tests of the checkouts that are named, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for framework in known:
        parser.add_argument(framework.option, type=Path, metavar="DIR", help="a checkout")
    parser.add_argument("--output", action="store_true", help="show what pytest printed, too")
    options = vars(parser.parse_args(arguments))
    chosen = [
        (framework, checkout)
        for framework in known
        if (checkout := options[framework.option.strip("-").replace("-", "_")]) is not None
    ]
    if not chosen:
        parser.error(f"name a checkout: {' or '.join(one.option for one in known)}")
    try:
        for framework, checkout in chosen:
            check(framework, checkout)
    except UnusableError as error:
        print(error, file=sys.stderr)
        return 2
    is_red = False
    for framework, checkout in chosen:
        for suite in framework.suites:
            records, output = run(framework, suite, checkout)
            verdict = judge(suite, records)
            if options["output"] or verdict.is_red:
                print(output)
            print(*report(suite, verdict), sep="\n", flush=True)
            is_red |= verdict.is_red
    return int(is_red)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
