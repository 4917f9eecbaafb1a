# shellcheck shell=bash
# Shared by demo.sh, test.sh and release.sh: system packages, a Python, a virtual environment.
#
# Environment:
#   PYTHON              the Python to start from (default: a python3 of version 3.10 or newer)
#   AETHERGRAPH_VENV    folder of the virtual environment (default: .venv in the repository)
#   AETHERGRAPH_TORCH   what to ask pip for (default: torch==2.13.0); not used when torch is there
#   PIP_*               pip's own settings, for example another package index

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=${AETHERGRAPH_VENV:-$ROOT/.venv}
TORCH=${AETHERGRAPH_TORCH:-torch==2.13.0}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1
# A failure of the network is no failure of a test.
export PIP_RETRIES=10 PIP_RESUME_RETRIES=10
unset PYTHONPATH PYTHONHOME

heading() { printf '\n==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Print a command (to stderr, so that its output can be redirected), then run it.
run() {
    printf '    $ %s\n' "${*//"$ROOT/"/}" >&2
    "$@"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then run "$@"; else run sudo "$@"; fi
}

has() { command -v "$1" >/dev/null 2>&1; }

# has_header NAME: the C compiler finds #include <NAME>.
has_header() { has cc && printf '#include <%s>\n' "$1" | cc -E - >/dev/null 2>&1; }

# python_version PYTHON: 3.14 for example, and 3.14t for the one without the lock.
python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2] + sys.abiflags.replace("d", ""))'; }
# A usable Python is at least 3.10, can make environments, and has its C headers.
python_is_new() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }
python_has_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }
python_has_headers() {
    "$1" -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(os.path.join(s.get_path("include"), "Python.h")))' \
        >/dev/null 2>&1
}

# Set PYTHON to the first usable interpreter.
choose_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.10; do
        if python_is_new "$candidate"; then
            PYTHON=$(command -v "$candidate")
            return 0
        fi
        [ -z "${PYTHON:-}" ] || die "PYTHON=$PYTHON is not a working Python 3.10 or newer"
    done
    return 1
}

apt_updated=
# A mirror that does not answer is told within seconds.
APT_WAITS=(-o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
apt_install() {
    has apt-get || die "missing: $* (this script installs packages with apt only; use your system's package manager and run it again)"
    if [ -z "$apt_updated" ]; then
        as_root apt-get update -qq "${APT_WAITS[@]}" || note "apt-get update failed; trying with the package lists at hand"
        apt_updated=1
    fi
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${APT_WAITS[@]}" "$@" ||
        die "apt could not install $*: see above"
}

# What building and running needs: a compiler, xxhash.h, liburing.h, Python with venv and headers.
system_packages() {
    local missing=()
    if ! has cc || ! has_header stdio.h; then missing+=(build-essential); fi
    has_header xxhash.h || missing+=(libxxhash-dev)
    # Optional: without it reads go through pread.
    if has apt-get && ! has_header liburing.h; then missing+=(liburing-dev); fi
    if ! choose_python; then
        missing+=(python3 python3-venv python3-dev)
    else
        # Only the distribution's own Python comes in parts.
        python_has_venv "$PYTHON" || missing+=("$(python_package venv)")
        python_has_headers "$PYTHON" || missing+=("$(python_package dev)")
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        note "installing: ${missing[*]}"
        apt_install "${missing[@]}"
    fi
    choose_python || die "no Python 3.10 or newer found: install one and name it in PYTHON"
    python_has_venv "$PYTHON" || die "$PYTHON cannot make virtual environments (its venv or ensurepip is missing)"
    python_has_headers "$PYTHON" || die "$PYTHON has no C headers (Python.h)"
    note "compiler: $(cc --version | head -n 1)"
    note "python:   $PYTHON ($("$PYTHON" -V 2>&1))"
}

# python_package venv|dev: the package of $PYTHON's own version, else the default one.
python_package() {
    local own
    own=python$(python_version "$PYTHON")-$1
    if apt-cache show "$own" >/dev/null 2>&1; then echo "$own"; else echo "python3-$1"; fi
}

# Fail within seconds where pip reaches no index, rather than after its retries. The package is one that is nowhere but there.
reach_index() {
    "$VENV/bin/python" -m pip install -q --dry-run --no-deps --ignore-installed --no-cache-dir --retries 0 --timeout 10 confluent-kafka >/dev/null 2>&1 ||
        die "pip reaches no package index: connect this machine to one, or name a mirror in PIP_INDEX_URL"
}

# Make the virtual environment; torch of the starting Python, if it has one, is used as it is.
make_venv() {
    if [ -x "$VENV/bin/python" ] && "$VENV/bin/python" -c 'import pip' >/dev/null 2>&1; then
        note "using the virtual environment $VENV"
        return
    fi
    local options=()
    if "$PYTHON" -c 'import sys, torch; sys.exit(sys.prefix != sys.base_prefix)' >/dev/null 2>&1; then
        note "$PYTHON has torch already: the environment will share its packages"
        options+=(--system-site-packages)
    fi
    run "$PYTHON" -m venv "${options[@]}" "$VENV"
    reach_index
    run "$VENV/bin/python" -m pip install -q --upgrade pip
}

pip_install() { run "$VENV/bin/python" -m pip install -q "$@"; }

# torch comes first and alone, so that nothing else chooses its version.
install_torch() {
    if "$VENV/bin/python" -c 'import torch' >/dev/null 2>&1; then
        note "torch $("$VENV/bin/python" -c 'import torch; print(torch.__version__)') is there already"
        return
    fi
    pip_install "$TORCH" || { note "no $TORCH for this Python; taking any torch from 2.2 on"; pip_install 'torch>=2.2'; }
}

# copy_sources DIR: a copy, so that a developer's build/ and .so files neither leak in nor get lost.
copy_sources() {
    rm -rf "$1"
    mkdir -p "$1"
    tar -C "$ROOT" --exclude=.git --exclude='.venv*' --exclude=./build --exclude=./dist --exclude=./data --exclude=./site \
        --exclude='*.so' --exclude='*.egg-info' --exclude=__pycache__ -cf - . | tar -C "$1" -xf -
}

# find_python VERSION: on PATH or under pyenv, working and with headers.
find_python() {
    local candidate
    for candidate in "$PYTHON" "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        [ -x "$candidate" ] || continue
        [ "$(python_version "$candidate" 2>/dev/null)" = "$1" ] || continue
        python_has_venv "$candidate" && python_has_headers "$candidate" && echo "$candidate" && return 0
    done
    return 1
}
