"""Command line: ``aethergraph convert | ingest | top | info | stats | verify | doctor | demo``.

Exit codes: 0 success; 1 an error, as one line on stderr that names the file and the remedy (with
``--debug`` also a traceback); 2 a command that was not understood; 130 interrupted.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the ``aethergraph`` command; the entry point of the package."""
    try:
        from aethergraph.cli.app import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich"):
            raise
        text = f"the command line needs {error.name}: pip install 'aethergraph[cli]'"
        print(f"aethergraph: error: {text}", file=sys.stderr)
        sys.exit(1)
    app(prog_name="aethergraph")
