"""Files of sections, written or damaged for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from aethergraph import _native as native


def write_container(
    path: Path, sections: Iterable[tuple[int, int, Any]], content: int = native.CONTENT_GRAPH
) -> None:
    """Write ``(kind, owner, array)`` after each other, with checksums that are right."""
    with native.NativeWriter(path, content) as writer:
        for kind, owner, array in sections:
            writer.begin(kind, owner, native.dtype_code(array.dtype))
            writer.append(np.ascontiguousarray(array))
            writer.end()


def section_of(path: Path, *kinds: int) -> native.Section:
    """Return the first section of one of the kinds."""
    return next(s for s in native.NativeFile(path).sections() if s.kind in kinds)


def damage_section(
    path: Path, kinds: tuple[int, ...], data: bytes | None = None, at: int = 0
) -> None:
    """Write ``data``, or ones everywhere, into a section; its checksum stays that of before."""
    section = section_of(path, *kinds)
    with open(path, "r+b") as raw:
        raw.seek(section.offset + at)
        raw.write(b"\xff" * section.size if data is None else data)
