"""Command line: ``aethergraph convert | embed | ingest | serve | top | info | stats | verify ...``.

Exit codes: 0 success; 1 an error, as one line on stderr that names the file and the remedy (with
``--debug`` also a traceback); 2 a command that was not understood; 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from aethergraph._checks.optional import how_to_get

__all__ = ["main"]


def main() -> None:
    """Run the ``aethergraph`` command; the entry point of the package."""
    try:
        from aethergraph.cli.app import app

        app(prog_name="aethergraph")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("typer", "rich"):
            raise
        _fail(f"the command line needs {error.name}: {how_to_get('cli')}", 1)
    except KeyboardInterrupt:  # while the program still starts; commands answer for themselves
        _fail("interrupted", 130)


def _fail(text: str, code: int) -> NoReturn:
    print(f"aethergraph: error: {text}", file=sys.stderr)
    sys.exit(code)
