#!/usr/bin/env bash
# Set up AetherGraph on a fresh Debian or Ubuntu machine and run its main job:
# train GraphSAGE on a graph that stays on disk, through PyG's stock loader.
#
#   ./scripts/demo.sh                 the demonstration (a few minutes on two cores)
#   ./scripts/demo.sh --help          its options; all arguments go to `aethergraph demo`
#
# What it does: system packages by apt if missing, a virtual environment in .venv, torch,
# torch_geometric and aethergraph in it, then `aethergraph demo`. See common.sh for settings.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

heading "1/4 System packages"
system_packages

heading "2/4 Virtual environment"
make_venv

heading "3/4 Python packages"
install_torch
pip_install 'torch_geometric>=2.5' numpy
# Compiles the C core (and, with mypyc, a few Python modules): a minute or so.
# Editable, so that Python started in this folder finds the compiled core as well.
pip_install -e "$ROOT[pyg,cli,plot]"

heading "4/4 aethergraph demo"
cd "$ROOT"
run "$VENV/bin/aethergraph" demo "$@"
