#!/usr/bin/env bash
# mypy --strict on the packages, laid out as they are installed (backends/pyg is aethergraph.pyg).
#
#   ./scripts/typecheck.sh [PYTHON]     PYTHON has mypy, torch and torch_geometric
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/layout.sh"
PYTHON=${1:-python3}
layout=$(mktemp -d)
trap 'rm -rf "$layout"' EXIT
lay_out "$layout"
cd "$layout"
"$PYTHON" -m mypy --config-file "$ROOT/pyproject.toml" --strict -p aethergraph 2>&1 |
    sed -e 's#^aethergraph/\(_torch\|pyg\|dgl\)/#backends/\1/#'
