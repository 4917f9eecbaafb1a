#!/usr/bin/env bash
# Build the documentation, with the reference made from docstrings; every warning is an error.
#
#   ./scripts/docs.sh [FOLDER] [PYTHON]     PYTHON has what the extra "docs" names; default: ./site
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/layout.sh"
FOLDER=$(realpath -m "${1:-$ROOT/site}")
PYTHON=${2:-python3}
layout=$(mktemp -d)
trap 'rm -rf "$layout"' EXIT
lay_out "$layout"
cd "$ROOT"
AETHERGRAPH_LAYOUT=$layout NO_MKDOCS_2_WARNING=1 "$PYTHON" -m mkdocs build --strict --quiet --site-dir "$FOLDER"
