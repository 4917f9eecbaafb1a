"""The messages that docs/troubleshooting.md explains are messages of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
#: Words of a heading that no message begins or ends with: values of an example.
VALUE = re.compile(r"\d[\d.]*[A-Z]?(?: MiB)?|'[^']*'|\.\.\.|\([^)]*\)|layout=")


def headings() -> list[str]:
    return re.findall(r"^\*\*`([^`]+)`\.\*\*", PAGE.read_text(), flags=re.M)


def sources() -> str:
    files = [
        path
        for folder, suffix in (("aethergraph", "*.py"), ("backends", "*.py"), ("native/src", "*.c"))
        for path in (ROOT / folder).rglob(suffix)
    ]
    # A message may go on in the next literal.
    return re.sub(r'"\s*\n\s*f?"', "", "".join(path.read_text() for path in files))


def test_the_page_explains_messages() -> None:
    assert len(headings()) >= 12


@pytest.mark.parametrize("message", headings())
def test_the_message_is_one_of_ours(message: str) -> None:
    text = sources()
    parts = [part.strip(" :,") for part in VALUE.split(message)]
    parts = [part for part in parts if len(part) > 3 and " " in part]
    assert parts
    assert any(part in text for part in parts), parts
