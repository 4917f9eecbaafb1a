#!/usr/bin/env bash
# Set up AetherGraph on a fresh Debian or Ubuntu machine and run its main job:
# train GraphSAGE on a graph that stays on disk, through PyG's stock loader.
#
#   ./scripts/demo.sh                 the demonstration (a few minutes on two cores)
#   ./scripts/demo.sh --help          its options; all arguments go to `aethergraph demo`
#
# What it does: system packages by apt if missing, a virtual environment in .venv, torch,
# torch_geometric and aethergraph in it, then `aethergraph demo`. See common.sh for settings, and
# AETHERGRAPH_BUILD_TORCH_SPARSE=1 below.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# PyG's own in-memory loader, which the demonstration runs for comparison, needs pyg-lib or
# torch-sparse. Neither has binaries on the common package index; wheels that pip finds are used
# (PIP_FIND_LINKS), and building takes many minutes, so that is done on request only. Without
# them our loader over the same data in memory stands in.
compare_with_pyg() {
    if "$VENV/bin/python" -c 'import pyg_lib' 2>/dev/null || "$VENV/bin/python" -c 'import torch_sparse' 2>/dev/null; then
        return
    fi
    if [ "${AETHERGRAPH_BUILD_TORCH_SPARSE:-0}" = 1 ]; then
        pip_install setuptools wheel scipy
        pip_install --no-build-isolation torch_scatter torch_sparse && return
    elif pip_install --only-binary :all: torch_scatter torch_sparse >/dev/null 2>&1; then
        return
    fi
    note "PyG's own sampler is not there, so our loader will stand in for its in-memory run;"
    note "AETHERGRAPH_BUILD_TORCH_SPARSE=1 ./scripts/demo.sh builds it (ten minutes or more)"
}

heading "1/4 System packages"
system_packages

heading "2/4 Virtual environment"
make_venv

heading "3/4 Python packages"
install_torch
pip_install 'torch_geometric>=2.5' numpy
# Compiles the C core (and, with mypyc, a few Python modules): a minute or so.
# Editable, so that Python started in this folder finds the compiled core as well.
pip_install -e "${ROOT}[pyg,cli,plot]"
compare_with_pyg

heading "4/4 aethergraph demo"
cd "$ROOT"
run "$VENV/bin/aethergraph" demo "$@"
