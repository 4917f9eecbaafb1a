"""Every benchmark, one after the other; each is a command of its own as well.

    python benchmarks/run_all.py --quick                          does everything run? minutes
    python benchmarks/run_all.py --full [--dgl-python PATH]       the numbers; more than an hour
    python benchmarks/run_all.py --full --only sampling gather

Goes on when one fails, and says at the end which did.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
# In the order of what they build upon: the graphs of the earlier ones are used again.
# Those named dgl_ run with --dgl-python only.
BENCHMARKS = (
    "floor", "io", "sampling", "typed", "typed_temporal", "modes", "gather", "live", "live_base",
    "live_peers", "live_reads", "live_features", "streaming", "streaming_training", "udp", "remote",
    "served_samples", "keys", "order", "order_misses", "walks", "context", "compressed", "build",
    "build_bounded", "tables", "end_to_end", "links", "inference", "inference_refresh",
    "inference_out_of_core", "growth", "load_time", "observe", "threads", "memory_limit",
    "outofcore", "outofcore_modes", "outofcore_gather", "values_out_of_core", "planning",
    "storages", "train_beyond_memory", "accuracy", "dgl_loaders", "dgl_disk", "dgl_grouped",
    "dgl_accuracy", "ray_data", "scale_model", "sharded",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    size = made.add_mutually_exclusive_group(required=True)
    size.add_argument("--quick", action="store_true", help="tiny sizes")
    size.add_argument("--full", action="store_true", help="the sizes of the claims")
    made.add_argument("--only", nargs="+", choices=BENCHMARKS, default=BENCHMARKS)
    made.add_argument("--dir", type=Path, help="see any benchmark's --help")
    made.add_argument("--out", type=Path, help="see any benchmark's --help")
    made.add_argument("--dgl-python", type=Path, help="interpreter that has DGL (of samplers)")
    args = made.parse_args(argv)
    common = ["--quick"] if args.quick else []
    for name in ("dir", "out"):
        if getattr(args, name) is not None:
            common += [f"--{name}", str(getattr(args, name))]
    ended: dict[str, str] = {}
    for name in args.only:
        extra = []
        if name == "sampling" and args.full:
            extra += ["--profile"]
        if name.startswith("dgl_") and args.dgl_python is None:
            ended[name] = "left out: no --dgl-python"
            continue
        with_dgl = name in ("sampling", "typed", "modes") or name.startswith("dgl_")
        if with_dgl and args.dgl_python is not None:
            extra += ["--dgl-python", str(args.dgl_python)]
        start = time.monotonic()
        done = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *common, *extra])
        state = "ok" if done.returncode == 0 else f"FAILED with status {done.returncode}"
        ended[name] = f"{state}, {time.monotonic() - start:.0f} s"
    print("\n".join(f"{name:20}{state}" for name, state in ended.items()))
    return int(any("FAILED" in state for state in ended.values()))


if __name__ == "__main__":
    raise SystemExit(main())
