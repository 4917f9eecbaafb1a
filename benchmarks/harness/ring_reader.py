"""Compiling, checking and calling ring_reader.c, the baseline in the manner of RingSampler."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness import common
from harness.common import GraphFiles
from harness.device import PAGE

RING_DEPTH = 512


def ring_command(
    program: Path | None, files: GraphFiles, seeds: Path, shape: tuple[int, int],
    fanouts: Sequence[int], seconds: float, size: int, *, read_ahead: bool = False,
) -> list[str]:  # fmt: skip
    """See ring_reader.c; ``seeds`` is an .npy file of int64 ``shape``."""
    from aethergraph import _native as native

    at = {section.kind: section.offset for section in native.NativeFile(files.graph).sections()}
    seeds_at = seeds.stat().st_size - 8 * shape[0] * shape[1]
    values = [
        files.graph, at[native.SECTION_CSC_INDPTR], at[native.SECTION_CSC_INDICES],
        files.num_nodes, seeds, seeds_at, *shape, size, int(read_ahead), RING_DEPTH,
        len(os.sched_getaffinity(0)), seconds, *fanouts,
    ]  # fmt: skip
    return [str(program), *map(str, values)]


def check_ring(program: Path, files: GraphFiles, seeds: Path) -> None:
    """Where nothing is left to chance the ring reader has to find what is in the file.

    Of seeds with up to 256 neighbours it takes all, and then one of each different neighbour.
    """
    from aethergraph import Graph

    with Graph.load(files.graph) as graph:
        lists = [graph.in_neighbors(int(v)) for v in np.load(seeds, mmap_mode="r")[0]]
        few = [(i, ids) for i, ids in enumerate(lists) if len(ids) <= 256]
        neighbors = np.concatenate([ids for _, ids in few])
        again = sum(len(graph.in_neighbors(int(v))) > 0 for v in np.unique(neighbors))
    chosen = seeds.with_name("ring-check.npy")
    np.save(chosen, np.load(seeds, mmap_mode="r")[0][[i for i, _ in few]])
    for size in (PAGE, 4):
        command = ring_command(program, files, chosen, (1, len(few)), [256, 1], 600, size)
        done = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = json.loads(done.splitlines()[-1])["edges"]
        if found != len(neighbors) + again:
            raise SystemExit(f"the ring reader read {found}, not {len(neighbors) + again}")
    chosen.unlink()


def compile_ring(folder: Path) -> Path | None:
    """The ring reader, or None if gcc or liburing is missing."""
    program = folder / "ring_reader"
    command = [
        "gcc",
        "-std=gnu11",
        "-O2",
        str(Path(__file__).with_suffix(".c")),
        "-o",
        str(program),
    ]
    for library in ("-l:liburing.a", "-luring"):
        done = subprocess.run(
            [*command, "-pthread", library], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return program
    common.say(f"the ring reader does not compile: {done.stderr.strip().splitlines()[-1]}")
    return None
