"""Draw the plots that docs/benchmarks.md shows from the tables of the results: no benchmark runs.

    python benchmarks/plots.py [NAME...]

NAME.md in benchmarks/results becomes NAME.svg, by default each that there is.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence
from pathlib import Path

from harness.common import RESULTS, Report

#: Results -> the script whose ``draw`` takes their report.
SCRIPTS = {
    **{name: name for name in ("sampling", "modes", "typed", "growth", "dgl_loaders")},
    "dgl_accuracy": "accuracy",
    "live_growth": "live_peers",
    "live_growth_large": "live_peers",
    "streaming_lag": "streaming_training",
}


def main(argv: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCRIPTS))
    options.add_argument("--out", type=Path, default=RESULTS, help="folder (default: %(default)s)")
    args = options.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    for name in args.names or [name for name in SCRIPTS if (RESULTS / f"{name}.svg").exists()]:
        if name not in SCRIPTS:
            options.error(f"no plot is called {name!r}, but {', '.join(SCRIPTS)} are")
        report = Report.read(RESULTS / f"{name}.md")
        report.args.out = args.out
        importlib.import_module(SCRIPTS[name]).draw(report)


if __name__ == "__main__":
    main()
