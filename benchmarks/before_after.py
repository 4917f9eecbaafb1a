"""This version beside another one: what a change costs samplers and loaders.

    python benchmarks/before_after.py --before PYTHON [--quick] [--rounds 5] [--pairs 3]
        [--limit 512M] [--dgl-python PATH --dgl-before PATH]

``--before`` is the interpreter of an environment in which the other version is installed, as
``pip install .`` in a checkout of it makes one; ``--dgl-before`` has that version with DGL. Each
workload runs in two processes that differ in nothing else and take turns; where their memory lies
makes some of the difference, so other pairs of processes follow:

    sampling      NeighborSampler in memory and mapped, processor time
    end to end    our NeighborLoader and PyG's stock NodeLoader with 128 float32 features
    DGL           DGL's stock DataLoader and GraphBolt's over our stores
    out of core   storage="uring", batch by batch and grouped, under a memory limit (root)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any

import outofcore
from contenders import outofcore_samplers
from contenders.dgl_contenders import OURS_AT_ONCE, OURS_IN_DGL
from contenders.loaders import OURS, STOCK
from harness import common
from harness.cgroups import parse_size
from harness.common import GraphFiles, Ratio, Report
from harness.worker import ONE_THREAD, Worker, take_turns

FANOUTS, BATCH, WIDTH = [15, 10], 128, 128
#: Contender -> (file in contenders/, runs under DGL's interpreter).
IN_MEMORY = {
    "aethergraph memory": ("samplers", False),
    "aethergraph mmap": ("samplers", False),
    f"{OURS} memory": ("loaders", False),
    f"{STOCK} memory": ("loaders", False),
    f"{OURS_IN_DGL} memory": ("dgl_contenders", True),
    f"{OURS_AT_ONCE} memory": ("dgl_contenders", True),
}
TOLERANCE = 0.03  # of the edges of a batch
WORK = {"samplers": "sampling", "loaders": "with features", "dgl_contenders": "with features"}


@dataclass(frozen=True)
class Turn:
    """Wall and processor seconds per batch (out of core: per million edges), and its edges."""

    seconds: float
    cpu: float
    edges: float


Turns = dict[str, list[Turn]]  # "before" and "after": one turn per round


def ask_for(script: str, files: GraphFiles, count: int, rounds: int) -> Callable[..., Turn]:
    """Return the function that gives a contender its turn of ``count`` batches."""
    seeds = str(files.seeds((rounds + 1) * count, BATCH))

    def ask(worker: Worker, number: int) -> Turn:
        first = (number + 1) * count
        own: dict[str, Any] = {"seeds": seeds, "first": first}
        if script == "samplers":
            found = worker.ask("run", fanouts=FANOUTS, count=count, **own)
            seconds = median(found["seconds"])
            return Turn(seconds, seconds, sum(found["edges"]) / count)
        own |= {"features": True}
        if script == "loaders":
            own = {"seed": number + 1, "model": False}
        found = worker.ask("epoch", fanouts=FANOUTS, batch=BATCH, count=count, **own)
        return Turn(found["seconds"] / count, found["cpu"] / count, found["edges"])

    return ask


def compare_in_memory(name: str, files: GraphFiles, pythons: Mapping[str, str], args: Any) -> Turns:
    """Let both versions of one contender take turns.

    Raises:
        SystemExit: the two versions do not draw as many edges.
    """
    script, _ = IN_MEMORY[name]
    config = {
        **files.config(), "core": None if script == "loaders" else args.core, "cpu_time": True,
        "features": f"x{WIDTH}.npy", "seeds_of": None, "width": WIDTH,
    }  # fmt: skip
    environment = {} if script == "loaders" else ONE_THREAD
    count = 5 if args.quick else 200
    ask = ask_for(script, files, count, args.rounds)
    found: Turns = {which: [] for which in pythons}
    for _ in range(args.pairs):
        with ExitStack() as stack:
            workers = []
            for which, python in pythons.items():
                worker = Worker(name, script, config, python=python, env=environment)
                worker.name = which  # both answer to the contender's name
                workers.append(stack.enter_context(worker))
            for which, turns in take_turns(workers, args.rounds, ask).items():
                found[which] += turns
    before, after = (median(turn.edges for turn in found[which]) for which in pythons)
    if abs(after - before) > TOLERANCE * before:
        raise SystemExit(f"{name}: {before:,.0f} edges per batch before, {after:,.0f} after")
    return found


def compare_out_of_core(
    name: str, files: GraphFiles, pythons: Mapping[str, str], args: Any
) -> Turns:
    """Run both versions in turn, each time in a fresh process and group."""
    batch = min(outofcore.BATCH, files.num_nodes // 4)
    most, seconds = (200, 0.5) if args.quick else (4000, 5.0)
    seeds = files.seeds(most, batch)
    found: Turns = {which: [] for which in pythons}
    for number in range(args.rounds * args.pairs):
        for which in sorted(pythons, reverse=number % 2 == 0):
            setting = outofcore.Setting(
                files, seeds, most, batch, seconds, 0.0, None, pythons[which]
            )
            done = outofcore.run(name, setting, args.limit)
            if isinstance(done, str):
                raise SystemExit(f"{name}, {which}: {done}")
            edges = done["edges"] / 1e6
            found[which].append(
                Turn(done["seconds"] / edges, done["cpu_seconds"] / edges, done["edges_per_batch"])
            )
    return found


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--before", required=True, help="interpreter that has the other version")
    made.add_argument("--dgl-python", help="interpreter that has this version and DGL")
    made.add_argument("--dgl-before", help="interpreter that has the other version and DGL")
    made.add_argument("--limit", type=parse_size, default=512 << 20, help="memory out of core")
    made.add_argument("--rounds", type=int, default=5, help="turns of a pair of processes")
    made.add_argument("--pairs", type=int, default=3, help="pairs of processes, one after another")
    made.add_argument("--no-disk", action="store_true", help="not out of core")
    args = common.parse(made, argv)
    if args.quick:
        args.rounds, args.pairs = 2, 1
    files = common.power_law_graph(args.dir, 10_000 if args.quick else 1_000_000)
    files.csc()
    files.features(WIDTH)
    large = common.power_law_graph(args.dir, 100_000 if args.quick else 20_000_000)
    report = Report("before_after", "This version beside another one", args)
    pythons = {"before": args.before, "after": sys.executable}
    dgl = {"before": args.dgl_before, "after": args.dgl_python}
    rows: list[list[common.Cell]] = []

    def add(workload: str, unit: str, found: Turns) -> None:
        row: list[common.Cell] = [workload, unit]
        for clock in ("seconds", "cpu"):
            before, after = (
                [1e3 * getattr(turn, clock) for turn in found[which]] for which in pythons
            )
            row += [median(before), median(after), str(Ratio.paired(after, before))]
        rows.append(row)
        report.data[workload] = {which: [vars(t) for t in own] for which, own in found.items()}
        common.say(f"{workload}: {row[4]} by the clock, {row[7]} by processor time")

    for name, (script, needs_dgl) in IN_MEMORY.items():
        chosen = dgl if needs_dgl else pythons
        if None in chosen.values():
            report.note(f"{name} is missing: give --dgl-python and --dgl-before.")
            continue
        add(f"{name}, {WORK[script]}", "batch", compare_in_memory(name, files, chosen, args))
    for name in () if args.no_disk else (outofcore_samplers.URING, outofcore_samplers.GROUPED):
        add(
            f"{name}, {common.size(args.limit)}",
            "million edges",
            compare_out_of_core(name, large, pythons, args),
        )
    report.parameters = {
        "fanouts": FANOUTS, "batch": BATCH, "rounds": args.rounds, "pairs": args.pairs,
        "limit": args.limit, "before": args.before,
    }  # fmt: skip
    clocks = [f"{name}{clock}" for clock in ("", ", processor")
              for name in ("before", "after", "after / before")]  # fmt: skip
    report.table(
        "ms, medians; time after over time before: median (range over rounds)",
        ["workload", "ms per", *clocks],
        rows,
    )
    report.finish()


if __name__ == "__main__":
    main()
