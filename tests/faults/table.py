"""The tables of faults beside this file: what an entry holds, and whether it fits the checkout."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[import-not-found, no-redef]

#: Stages of scripts/test.sh that run tests, in the order in which a fault meets them.
STAGES = ("c-tests", "c-tsan", "python", "dgl")
#: Of these, those that run the tests of the C core, by the word before their names.
NATIVE_STAGES = {"native": "c-tests", "tsan": "c-tsan"}


class TableError(Exception):
    """An entry of a table does not fit the checkout."""


@dataclass(frozen=True)
class Fault:
    """One entry of a table."""

    name: str
    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]

    @property
    def digest(self) -> str:
        """A name for the entry as it is now, so that results of an earlier one do not count."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:16]

    @property
    def is_native(self) -> bool:
        return self.file.startswith("native/")

    def change(self, text: str) -> str:
        """Return the file's text with the fault in it."""
        count = text.count(self.old)
        if count != 1 or self.old == self.new:
            raise TableError(
                f"{self.name}: `old` occurs {count} times in {self.file}: "
                "the code has moved on: mend the table"
            )
        return text.replace(self.old, self.new)

    def check(self, root: Path) -> None:
        """Refuse an entry whose text or whose tests are not there."""
        if not (root / self.file).is_file():
            raise TableError(f"{self.name}: {self.file} is not there: mend the table")
        self.change((root / self.file).read_text())
        for test in self.tests:
            if stage_of(test) in NATIVE_STAGES.values():
                known = (root / f"native/tests/test_{test.partition(':')[2]}.c").is_file()
            else:
                path, *names = test.split("::")
                file = root / "tests" / path
                known = file.is_dir() and not names
                if file.is_file():
                    text = file.read_text()
                    known = all(re.search(rf"(def|class) {name}\b", text) for name in names)
            if not known:
                raise TableError(f"{self.name}: there is no test {test}: mend the table")


def stage_of(test: str) -> str:
    """Return the stage of scripts/test.sh that runs the test."""
    word, colon, name = test.partition(":")
    if colon and not name.startswith(":"):
        if word not in NATIVE_STAGES:
            raise TableError(f"{test}: {word} is none of {', '.join(NATIVE_STAGES)}")
        return NATIVE_STAGES[word]
    return "dgl" if test.startswith("with_dgl") else "python"


def read_tables(paths: Iterable[Path]) -> list[Fault]:
    """Return the faults of all tables, each name once."""
    faults: dict[str, Fault] = {}
    for path in paths:
        for entry in tomllib.loads(path.read_text())["fault"]:
            try:
                fault = Fault(**{**entry, "tests": tuple(entry["tests"])})
            except (TypeError, KeyError) as error:
                raise TableError(f"{path.name}: {entry.get('name')}: {error}") from error
            if not fault.tests:
                raise TableError(f"{fault.name}: it names no tests")
            if fault.name in faults:
                raise TableError(f"{fault.name} is planted twice")
            faults[fault.name] = fault
    return list(faults.values())
