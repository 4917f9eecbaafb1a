"""What may allocate, of all headers, is in a sweep of native/tests/test_no_memory*.c."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NATIVE = ROOT / "native/src"
#: What native/tests/refused_memory.h refuses.
ALLOCATES = re.compile(r"\b(?:malloc|calloc|realloc|strdup|mmap)\(")

COMMENT_OR_TEXT = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
# As clang-format leaves them: functions begin at the left margin, as does the brace that ends them.
FUNCTION = re.compile(
    r"^(?![#{}/ \t])[^;{}=#]*?\b(\w+)\([^;{}]*\)\s*\{\n(.*?)^\}", re.MULTILINE | re.DOTALL
)
MACRO = re.compile(r"^#define (\w+)\b((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
TABLE = re.compile(r"^[a-z][^;{}()]*? = \{(.*?)^\};", re.MULTILINE | re.DOTALL)
EXPORTED = re.compile(r"^\w[\w \*]*?\b(aether_\w+)\(", re.MULTILINE)

Function = tuple[str, str]  # file, name


class Calls:
    """Which function of the C core names which, read from the text.

    A member of a table of functions stands for all functions that a table has there.
    """

    def __init__(self) -> None:
        self.bodies: dict[Function, str] = {}
        self.files: dict[str, list[str]] = {}
        self.members: dict[str, list[Function]] = {}
        for path in sorted(NATIVE.rglob("*.[ch]")):
            text, file = COMMENT_OR_TEXT.sub(" ", path.read_text()), str(path)
            for name, body in [*MACRO.findall(text), *FUNCTION.findall(text)]:
                self.bodies[file, name] = body
                self.files.setdefault(name, []).append(file)
            for table in TABLE.findall(text):
                for member, name in re.findall(r"\.(\w+) = &?(\w+)", table):
                    self.members.setdefault(member, []).append((file, name))

    def find(self, file: str, name: str) -> list[Function]:
        """Return what a name means in a file: its own function, or one that crosses files."""
        if (file, name) in self.bodies:
            return [(file, name)]
        crosses = name.startswith(("ae_", "aether_", "AE_"))
        return [(other, name) for other in self.files.get(name, ())] if crosses else []

    def called(self, caller: Function) -> list[Function]:
        body = self.bodies[caller]
        found = [
            one for name in set(re.findall(r"\w+", body)) for one in self.find(caller[0], name)
        ]
        for member in set(re.findall(r"(?:->|\.)(\w+)\(", body)):
            for file, name in self.members.get(member, ()):
                found += self.find(file, name)
        return found

    def may_allocate(self, name: str) -> bool:
        waiting = [(file, name) for file in self.files[name]]
        seen = set(waiting)
        while waiting:
            one = waiting.pop()
            if ALLOCATES.search(self.bodies[one]):
                return True
            new = set(self.called(one)) - seen
            seen |= new
            waiting += new
        return False


def test_what_may_allocate_is_swept() -> None:
    headers = "".join(path.read_text() for path in (ROOT / "native/include").rglob("*.h"))
    exported, calls = EXPORTED.findall(COMMENT_OR_TEXT.sub(" ", headers)), Calls()
    allocating = {name for name in exported if calls.may_allocate(name)}
    # The patterns still fit the sources: what surely does, what surely does not.
    assert len(exported) > 150 and len(allocating) > 70
    assert {"aether_buffer_alloc", "aether_sample", "aether_topology_read"} <= allocating
    assert not {"aether_version", "aether_dtype_size", "aether_row_count"} & allocating
    sweeps = "".join(path.read_text() for path in ROOT.glob("native/tests/test_no_memory*.c"))
    assert allocating - set(re.findall(r"aether_\w+", sweeps)) == set()
