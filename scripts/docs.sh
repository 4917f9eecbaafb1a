#!/usr/bin/env bash
# Build the documentation, with the reference made from docstrings; every warning is an error.
#
#   ./scripts/docs.sh [FOLDER] [PYTHON]     PYTHON has what the extra "docs" names; default: ./site
#   ./scripts/docs.sh --deploy VERSION...   with mike, onto the branch gh-pages, beside other versions
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source-path=SCRIPTDIR
. "$ROOT/scripts/layout.sh"
layout=$(mktemp -d)
trap 'rm -rf "$layout"' EXIT
lay_out "$layout"
export AETHERGRAPH_LAYOUT=$layout NO_MKDOCS_2_WARNING=1
if [ "${1:-}" = --deploy ]; then
    cd "$ROOT"
    mike deploy --update-aliases "${@:2}"
    exit
fi
FOLDER=$(realpath -m "${1:-$ROOT/site}")
PYTHON=${2:-python3}
cd "$ROOT"
# Not --quiet: what it leaves out --strict does not count.
"$PYTHON" -m mkdocs build --strict --site-dir "$FOLDER" 2>&1 | { grep -v '^INFO' || true; }
