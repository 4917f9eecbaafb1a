"""Plant the faults of the tables beside this file, one at a time, and say which tests catch them.

    .venv-test/main/bin/python tests/faults/run.py [NAME...]

Each fault is an entry of a ``*.toml`` beside this file::

    [[fault]]
    name = "snapshot-sees-later-edges"      # unique
    file = "aethergraph/sampling/times.py"  # from the root of the repository
    old = "..."                             # occurs once in the file
    new = "..."
    breaks = "What a user would see, in one sentence."
    tests = ["sampling/test_temporal.py", "native:sample"]

``tests`` are those of the default run that should catch it: paths below ``tests/``, with
``::NAME`` if wanted, ``native:NAME`` for ``make -C native test T=NAME``, or ``tsan:NAME`` for
``make -C native tsan T=NAME``. Faults are planted in a copy of the checkout, whose package is
compiled in place. The tests see ``PYTEST_ARGS`` and ``AETHERGRAPH_*`` of the environment: what they
select is the default run. ``--deep`` runs all tests of that selection where those of the table
catch nothing, and ``--all`` those of the table without the selection.
"""

from __future__ import annotations

import argparse
import json
import queue
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where the tests import from

from faults.checkout import BASE, ROOT, SURVIVED, WHOLE_LIMIT, Copy, Programs, Verdict
from faults.table import NATIVE_STAGES, STAGES, Fault, TableError, read_tables, stage_of

NEEDED_SHARE = 0.9  # of the faults, caught by the default run


def try_fault(copy: Copy, fault: Fault, deep: bool, every: bool) -> dict[str, Any]:
    """Plant one fault and return what came of it, as it is noted."""
    start = time.monotonic()
    stages = {stage_of(test) for test in fault.tests}
    run, verdict = "", Verdict("not run")
    if stages != {"dgl"} or copy.pythons["dgl"] is not None:
        with copy.planted(fault):
            run, verdict = "default", copy.judge(fault, fault.tests)
            if deep and verdict == SURVIVED:
                whole = ["native:*", "."] if fault.is_native else ["."]
                verdict = copy.judge(fault, whole, limit=WHOLE_LIMIT)
            if every and verdict == SURVIVED:
                run = "all"
                verdict = copy.judge(fault, fault.tests, everything=True, limit=WHOLE_LIMIT)
    stage = next(stage for stage in STAGES if stage in stages)
    if verdict.outcome == "caught":
        stage = stage_of(verdict.by.removeprefix("tests/"))
    return {
        "name": fault.name, "digest": fault.digest, "run": run, "stage": stage,
        **asdict(verdict), "seconds": round(time.monotonic() - start, 1),
    }  # fmt: skip


def plant_all(
    faults: Sequence[Fault], copies: Sequence[Copy], notes: Path, deep: bool, every: bool
) -> list[dict[str, Any]]:
    """Try the faults, as many at a time as there are copies; each result is noted at once."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def try_in_a_copy(fault: Fault) -> dict[str, Any]:
        copy = free.get()
        try:
            if not fault.is_native:
                copy.require_extension()
            return try_fault(copy, fault, deep, every)
        finally:
            free.put(copy)

    results = []
    with ThreadPoolExecutor(len(copies)) as pool:
        try:
            for future in as_completed([pool.submit(try_in_a_copy, fault) for fault in faults]):
                result = future.result()
                results.append(result)
                with notes.open("a") as file:
                    file.write(json.dumps(result) + "\n")
                print(describe(result), flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            copies[0].programs.stop()
            raise
    return results


def describe(result: dict[str, Any]) -> str:
    words = [f"{result['outcome']:9}", f"{result['seconds']:6.1f} s ", result["name"]]
    if result["by"]:
        words.append(f"by {result['by']}")
    if result["message"]:
        words.append(f"- {result['message']}")
    return " ".join(words)


def read_notes(notes: Path, faults: Sequence[Fault]) -> list[dict[str, Any]]:
    """Return the last result of each fault that is noted for its entry as it is now."""
    digests = {fault.name: fault.digest for fault in faults}
    noted = {}
    if notes.exists():
        for line in notes.read_text().splitlines():
            result = json.loads(line)
            if digests.get(result["name"]) == result["digest"] and result["outcome"] != "not run":
                noted[result["name"]] = result
    return list(noted.values())


def summarize(results: Sequence[dict[str, Any]], faults: Sequence[Fault]) -> bool:
    """Print what came of all faults and return whether enough of them were caught."""
    breaks = {fault.name: fault.breaks for fault in faults}
    print(f"\n{'stage':10}{'planted':>9}{'caught':>9}{'survived':>10}{'broken':>8}{'not run':>9}")
    for stage in STAGES:
        outcomes = Counter(result["outcome"] for result in results if result["stage"] == stage)
        planted = outcomes.total() - outcomes["not run"]
        print(
            f"{stage:10}{planted:9}{outcomes['caught']:9}{outcomes['survived']:10}"
            f"{outcomes['broken']:8}{outcomes['not run']:9}"
        )
    for result in results:
        if result["outcome"] in ("survived", "broken"):
            print(f"{result['outcome']}: {result['name']}: {breaks[result['name']]}")
    planted = sum(result["outcome"] != "not run" for result in results)
    caught = Counter(result["run"] for result in results if result["outcome"] == "caught")
    survived = sum(result["outcome"] == "survived" for result in results)
    broken = sum(result["outcome"] == "broken" for result in results)
    print(
        f"{planted} planted, {caught['default']} caught by the default run, "
        f"{caught.total()} by all, {survived} survived"
    )
    return caught["default"] >= NEEDED_SHARE * planted and not survived and not broken


def choose_faults(faults: list[Fault], names: Sequence[str], part: str | None) -> list[Fault]:
    """Return the faults that are asked for: by name, of these the I-th of N parts."""
    unknown = set(names) - {fault.name for fault in faults}
    if unknown:
        raise TableError(f"there is no fault {', '.join(sorted(unknown))}")
    if names:
        faults = [fault for fault in faults if fault.name in names]
    if part:
        number, count = map(int, part.split("/"))
        faults = faults[number - 1 :: count]
    return faults


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="these faults only")
    parser.add_argument("--part", metavar="I/N", help="the I-th of N parts of them")
    parser.add_argument("--list", action="store_true", help="print them, and plant none")
    parser.add_argument("--deep", action="store_true", help="survivors: the whole default run")
    parser.add_argument("--all", action="store_true", help="survivors: without the selection")
    parser.add_argument("--jobs", type=int, default=1, help="copies to work in at a time")
    parser.add_argument("--work", type=Path, default=BASE / "faults", help="folder of the copies")
    parser.add_argument("--resume", action="store_true", help="keep results that are noted there")
    parser.add_argument("--dgl-python", type=Path, help="the Python of an environment with DGL")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    root = options.root.resolve()
    tables = sorted((root / "tests/faults").glob("*.toml"))
    faults = choose_faults(read_tables(tables), options.names, options.part)
    if options.list:
        for fault in faults:
            print(f"{fault.name}: {fault.breaks}\n    {fault.file}: {' '.join(fault.tests)}")
        return 0
    for fault in faults:
        fault.check(root)
    work = options.work.resolve()
    notes = work / "results.jsonl"
    results = read_notes(notes, faults) if options.resume else []
    done = {result["name"] for result in results}
    pending = [fault for fault in faults if fault.name not in done]
    failing: set[str] = set()
    if pending:
        count, programs = min(options.jobs, len(pending)), Programs()
        copies = [
            Copy(root, work / f"copy{number}", programs, options.dgl_python)
            for number in range(count)
        ]
        tests = {test for fault in pending for test in fault.tests}
        if options.dgl_python is None:
            tests = {test for test in tests if stage_of(test) != "dgl"}
        if {stage_of(test) for test in tests} - set(NATIVE_STAGES.values()):
            copies[0].require_extension()
        print(f"{len(pending)} faults; their tests without any of them ...", flush=True)
        copies[0].find_failing(tests)
        failing = copies[0].failing
        for copy in copies:
            copy.failing = failing
        results += plant_all(pending, copies, notes, options.deep, options.all)
    enough = summarize(results, faults)
    if failing:
        print("these fail without any fault, and catch none: " + ", ".join(sorted(failing)))
    return 0 if enough and not failing else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TableError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted; --resume goes on")
