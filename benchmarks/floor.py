"""The machine's floor: nanoseconds per random cache line, by working set (floor.c, one thread).

    python benchmarks/floor.py [--quick]

Every other number is judged against it: a sampler that keeps independent accesses in flight pays
``read`` per line and no less; one that waits for each access pays ``dependent``. ``write`` is
sequential: what writing a result costs.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import common

KINDS = ("read", "update", "dependent", "write")


@dataclass(frozen=True)
class Floor:
    """Medians of ns per line by kind, at rising working sets."""

    sizes: list[int]
    medians: dict[str, list[float]]
    huge_share: float

    def cost(self, kind: str, num_bytes: float) -> float:
        """ns per line at a working set, between the measured ones by its logarithm."""
        values, sizes = self.medians[kind], self.sizes
        if num_bytes <= sizes[0]:
            return values[0]
        for i in range(1, len(sizes)):
            if num_bytes <= sizes[i]:
                part = math.log(num_bytes / sizes[i - 1]) / math.log(sizes[i] / sizes[i - 1])
                return values[i - 1] + part * (values[i] - values[i - 1])
        return values[-1]

    def to_json(self) -> dict[str, Any]:
        return {"bytes": self.sizes, **self.medians, "huge_share": self.huge_share}


def working_sets(quick: bool) -> list[int]:
    """64 KiB to 4 GiB, or to a third of the memory that is free."""
    largest = min(2**25 if quick else 2**32, common.available_memory() // 3)
    return [2**k for k in range(16, 33, 1 if not quick else 3) if 2**k <= largest]


def measure(sizes: Sequence[int], repeats: int, core: int, pages: str = "huge") -> Floor:
    """Compile and run floor.c; raises CalledProcessError if gcc or the run fails."""
    source = common.HERE / "floor.c"
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "floor"
        subprocess.run(["gcc", "-std=c11", "-O2", str(source), "-o", str(program)], check=True)
        pin = ["taskset", "-c", str(core)] if common.have("taskset") else []
        text = subprocess.run(
            [*pin, str(program), pages, str(repeats), *map(str, sizes)],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    rows = [json.loads(line) for line in text.splitlines()]
    pages_used = rows.pop()
    medians = {
        kind: [
            statistics.median(row[kind] for row in rows if row["bytes"] == num_bytes)
            for num_bytes in sizes
        ]
        for kind in KINDS
    }
    return Floor(list(sizes), medians, pages_used["huge_bytes"] / pages_used["allocated"])


def main(argv: Sequence[str] | None = None) -> None:
    args = common.parse(common.parser(__doc__), argv)
    report = common.Report("floor", "The machine's floor: random cache lines, one thread", args)
    sizes, repeats = working_sets(args.quick), 3 if args.quick else 9
    report.parameters = {"repeats": repeats, "accesses_per_repeat": 2**20, "core": args.core}
    floors = {pages: measure(sizes, repeats, args.core, pages) for pages in ("huge", "small")}
    report.data = {pages: floor.to_json() for pages, floor in floors.items()}
    huge, small = floors["huge"], floors["small"]
    report.table(
        "ns per line, median",
        ["working set", *(f"{kind}, huge pages" for kind in KINDS),
         *(f"{kind}, 4 KiB pages" for kind in KINDS)],
        [
            [common.size(num_bytes), *(floor.medians[kind][i] for floor in (huge, small)
                                       for kind in KINDS)]
            for i, num_bytes in enumerate(sizes)
        ],
    )  # fmt: skip
    report.note(f"{huge.huge_share:.0%} of the working set lay in huge pages where asked for.")
    series = {
        f"{kind}, {pages} pages": list(
            zip(map(float, sizes), floors[pages].medians[kind], strict=True)
        )
        for pages in floors
        for kind in KINDS
    }
    common.plot(
        report,
        1,
        lambda axes: common.lines(axes[0], series, "working set, bytes", "ns per line"),
    )
    report.finish()


if __name__ == "__main__":
    main()
