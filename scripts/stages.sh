# shellcheck shell=bash disable=SC2153,SC2164
# What each stage of test.sh does: stage_NAME, run in a subshell with `set -e` in the repository's root. Sourced;
# test.sh has the table of stages, and BASE, LOGS, ROOT, VENV.

SOAK_SECONDS=${SOAK_SECONDS:-600}
SOAK_KILLS=${SOAK_KILLS:-1000}
PYTEST_JOBS_GIVEN=${PYTEST_JOBS:-}
PYTEST_JOBS=${PYTEST_JOBS:-2}
PART=${PART:-1/1}
DIST=$BASE/dist
NATIVE=$BASE/native
PY=$VENV/bin/python
TESTS=$ROOT/tests
# Tests of the package itself: no framework, no conversion, no command line.
CORE=("$TESTS"/{columns,dynamic,features,graph,ids,loading,native,observe,remote,sampling,storage,streaming} "$TESTS"/test_*.py)
# The same work for every developer: no user's settings. Tests that pytest has rewritten are kept, beside them, for
# the stages that run them again.
unset PYTHONDONTWRITEBYTECODE
export RUFF_CACHE_DIR=$BASE/ruff MYPY_CACHE_DIR=$BASE/mypy
# Many wheels are made of the same C sources. ccache, if it is there, compiles them once, by content, wherever pip
# unpacks them. Pythons ask for some flags that others do not; to these sources they make no difference.
export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=$BASE/ccache CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1
export CCACHE_IGNOREOPTIONS='-Wno-unused-result -fwrapv -fno-strict-overflow'
# Nine environments hold more modules than are ever imported: Python compiles those that are.
export PIP_COMPILE=0

# ---- by default --------------------------------------------------------------

stage_system() {
    system_packages
    local missing=()
    has make || missing+=(make)
    has pkg-config || missing+=(pkg-config)
    has ip || missing+=(iproute2)
    # For RDMA; the build and its tests do without where there is none.
    has_header ucp/api/ucp.h || { has apt-get && missing+=(libucx-dev); }
    [ ${#missing[@]} -eq 0 ] || { note "installing: ${missing[*]}"; apt_install "${missing[@]}"; }
    # It only saves time.
    has ccache || { has apt-get && apt_install ccache; } || note "ccache is not there: builds take longer"
}

# environment_key: changes with what the environment is made of.
environment_key() { cat "$ROOT/pyproject.toml" "$HERE/common.sh" "$HERE/stages.sh" 2>/dev/null | sha256sum | cut -c -32; }

stage_environment() {
    if is_done environment; then
        note "using the environment $VENV, made of the same requirements"
        return
    fi
    make_venv
    install_torch
    # The tools of the extras; the package itself comes from the build stage.
    "$PY" scripts/print_requirements.py cli plot test lint >"$BASE/requirements.txt"
    pip_install 'torch_geometric>=2.5' 'setuptools>=77' 'cffi>=1.16' wheel build -r "$BASE/requirements.txt"
    "$PY" -c '
import importlib.metadata as m
for name in ("torch", "torch_geometric", "numpy", "cffi", "mypy", "ruff", "pytest"):
    print(f"    {name} {m.version(name)}")'
    environment_key >"$BASE/environment.done"
}

stage_build() {
    rm -rf "$DIST"
    mkdir -p "$DIST"
    copy_sources "$BASE/src"
    (cd "$BASE/src" && run "$PY" -m build --sdist --no-isolation --outdir "$DIST" . >"$LOGS/sdist.log" 2>&1) ||
        { tail -n 40 "$LOGS/sdist.log"; return 1; }
    build_wheel "$PY" compiled
}

# build_wheel PYTHON NAME: from the source archive into $DIST/NAME.
build_wheel() {
    rm -rf "${DIST:?}/$2"
    run "$1" -m pip wheel -q --no-build-isolation --no-deps --no-cache-dir -w "$DIST/$2" "$DIST"/aethergraph-*.tar.gz
    note "$(basename "$DIST/$2"/*.whl) ($2)"
}

# install_wheel PYTHON NAME: install that wheel, without touching what it depends on.
install_wheel() {
    run "$1" -m pip install -q --force-reinstall --no-deps "$DIST/$2"/*.whl
}

stage_c_tests() { native_make test && native_make examples; }

native_make() { run make -C native BUILD="$NATIVE" -j "$(nproc)" "$@"; }

# Every tool runs, so that one run shows all complaints.
stage_lint() {
    local bad=0 sources
    run "$VENV/bin/ruff" check . || bad=1
    run "$VENV/bin/ruff" format --check . || bad=1
    mapfile -t sources < <(find native \( -name '*.c' -o -name '*.h' \) -print | sort)
    note "clang-format on ${#sources[@]} files"
    # From the environment: every release of it formats a little differently.
    "$VENV/bin/clang-format" --dry-run --Werror "${sources[@]}" || bad=1
    run "$VENV/bin/shellcheck" -x scripts/*.sh .ci/run || bad=1
    note "mypy --strict"
    scripts/typecheck.sh "$PY" || bad=1
    return "$bad"
}

# run_pytest VENV compiled|interpreted ARGS...: the tests on the installed package. `pytest` and not
# `python -m pytest`, from a folder that is not the repository: both would put the source tree first.
run_pytest() {
    local venv=$1 build=$2 rc=0 stop=-x
    [ -z "$keep_going" ] || stop=
    shift 2
    mkdir -p "$BASE/empty"
    cd "$BASE/empty"
    # One OpenMP thread: torch's others would spin for the cores of the tests beside.
    # shellcheck disable=SC2086
    AETHERGRAPH_EXPECT_BUILD=$build AETHERGRAPH_DIST=$DIST PYTHONSAFEPATH=1 OMP_NUM_THREADS=1 \
        run "$venv/bin/pytest" -c "$ROOT/pyproject.toml" --rootdir "$ROOT" -q $stop -p no:cacheprovider \
        -n "$PYTEST_JOBS" --dist worksteal ${PYTEST_ARGS:-} "$@" || rc=$?
    cd "$ROOT"
    return "$rc"
}

# The share of the tests that conftest.py leaves when nothing asks for all. They wait for servers, brokers and disks:
# one process more than there are cores keeps these busy.
stage_python() {
    install_wheel "$PY" compiled
    PYTEST_JOBS=${PYTEST_JOBS_GIVEN:-$(($(nproc) + 1))} run_pytest "$VENV" compiled "$TESTS"
}

stage_smoke() {
    local fresh=$BASE/smoke
    rm -rf "$fresh"
    run "$PYTHON" -m venv "$fresh"
    run "$fresh/bin/python" -m pip install -q "$DIST"/compiled/*.whl
    run "$fresh/bin/python" -m pip check
    run "$fresh/bin/python" examples/numpy_only.py --quick
}

# ---- deeper ------------------------------------------------------------------

stage_clang() {
    local missing=() major package
    has clang || missing+=(clang)
    has clang-tidy || missing+=(clang-tidy)
    has setarch || missing+=(util-linux)
    [ ${#missing[@]} -eq 0 ] || { note "installing: ${missing[*]}"; apt_install "${missing[@]}"; }
    if ! clang_can_fuzz; then
        # Debian has the runtime in libclang-rt-N-dev, older Ubuntu in libclang-common-N-dev.
        major=$(clang -dumpversion | cut -d. -f1)
        package=libclang-rt-$major-dev
        apt-cache show "$package" >/dev/null 2>&1 || package=libclang-common-$major-dev
        note "installing: $package"
        apt_install "$package"
        clang_can_fuzz || die "clang cannot link with -fsanitize=fuzzer,address"
    fi
    note "clang:    $(clang --version | head -n 1)"
}

clang_can_fuzz() {
    printf '#include <stddef.h>\nint LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) { (void)d; (void)n; return 0; }\n' |
        clang -x c -fsanitize=fuzzer,address - -o /dev/null >/dev/null 2>&1
}

stage_extras() {
    "$PY" scripts/print_requirements.py frame ray lightning >"$BASE/requirements-extras.txt"
    pip_install -r "$BASE/requirements-extras.txt"
    touch "$BASE/extras.done"
}

# Every test with every variant and every example.
stage_python_whole() {
    install_wheel "$PY" compiled
    AETHERGRAPH_ALL=1 run_pytest "$VENV" compiled "$TESTS"
}

stage_interpreted() {
    AETHERGRAPH_NO_MYPYC=1 build_wheel "$PY" interpreted
    install_wheel "$PY" interpreted
    AETHERGRAPH_ALL=1 run_pytest "$VENV" interpreted "$TESTS"/{test_interpreted,loading/test_loading,features/test_feature_reading}.py \
        "$TESTS"/pyg/test_{loaders,stock_loaders,out_of_core}.py "$TESTS/packaging/test_install.py"
    install_wheel "$PY" compiled
}

# What a killed process leaves is opened by c-asan (test_durable_kill.c) and by the tests of cut logs and files.
stage_python_asan() {
    # Nor are draws counted: what they touch, tests that compare a few of them with an oracle touch.
    AETHERGRAPH_VARIANTS=2 AETHERGRAPH_EXAMPLES=0.3 sanitized_pytest "${CORE[@]}" "$TESTS/fuzz" \
        --ignore="$TESTS"/{observe,remote,streaming} -m "not pyg and not slow and not shares"
}

# sanitized_pytest ARGS...: run_pytest with the extension under AddressSanitizer and UndefinedBehaviorSanitizer.
sanitized_pytest() {
    local target=$BASE/asan
    rm -rf "$target"
    AETHERGRAPH_NO_MYPYC=1 AETHERGRAPH_SANITIZE=address,undefined build_wheel "$PY" sanitized
    run "$PY" -m pip install -q --no-deps --target "$target" "$DIST"/sanitized/*.whl
    # PYTHONPATH puts the sanitized package before the installed one.
    LD_PRELOAD="$(cc -print-file-name=libasan.so):$(cc -print-file-name=libubsan.so)" \
        ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
        PYTHONMALLOC=malloc PYTHONPATH="$target" AETHERGRAPH_EXPECT_SANITIZER=address \
        run_pytest "$VENV" interpreted -m "not pyg and not slow" -k "not kill" "$@"
}

stage_docs() {
    local fresh=$BASE/docs
    install_wheel "$PY" compiled
    [ -x "$fresh/bin/python" ] || run "$PYTHON" -m venv "$fresh"
    "$PY" scripts/print_requirements.py docs >"$BASE/requirements-docs.txt"
    run "$fresh/bin/python" -m pip install -q -r "$BASE/requirements-docs.txt"
    run scripts/docs.sh "$BASE/site" "$fresh/bin/python"
    AETHERGRAPH_SITE=$BASE/site PYTEST_JOBS=0 run_pytest "$VENV" compiled "$TESTS"/docs/test_{reference,site}.py
}

# A third of the states that clang's analyzer would go through, in half the time; the soak has all.
stage_tidy() { tidy 75000; }

# tidy NODES: clang-tidy on the C core; its analyzer goes through so many states of each function.
tidy() {
    local sources optional
    mapfile -t sources < <(find native/src -name '*.c' -print | sort)
    note "clang-tidy on ${#sources[@]} files"
    # What it has passed is not looked at again: names of files are hashes of what it sees, comments included.
    mkdir -p "$BASE/tidy"
    optional="$(has_header liburing.h && echo -DAE_HAVE_URING=1) $(has_header ucp/api/ucp.h && echo -DAE_HAVE_UCX=1)"
    # shellcheck disable=SC2016
    printf '%s\0' "${sources[@]}" | PASSED=$BASE/tidy OPTIONAL=$optional NODES=$1 xargs -0 -n 1 -P "$(nproc)" sh -c '
        case $1 in */core/error.c) model= ;; *) model="-include native/analyzer.h" ;; esac
        flags="-std=gnu11 -D_GNU_SOURCE $OPTIONAL -Inative/include -Inative/src $model"
        hash=$({ clang --version; cat .clang-tidy; echo "$NODES"; clang -E -CC $flags "$1"; } | sha256sum | cut -c -64)
        [ -e "$PASSED/$hash" ] ||
            { clang-tidy --quiet "$1" -- $flags -Xclang -analyzer-config -Xclang max-nodes="$NODES" 2>/dev/null &&
                touch "$PASSED/$hash"; }' sh
}

stage_c_asan() { native_make asan; }
stage_c_tsan() { native_make tsan; }
stage_c_no_uring() { native_make test URING=0 BUILD="$NATIVE-no-uring" T='io*'; }
stage_c_fuzz() { native_make fuzz; } # its Makefile has the default of FUZZ_SECONDS

stage_wheel() {
    local fresh=$BASE/fresh
    AETHERGRAPH_NO_MYPYC=1 build_wheel "$PY" interpreted
    rm -rf "$fresh"
    run "$PYTHON" -m venv "$fresh"
    run "$fresh/bin/python" -m pip install -q "$(echo "$DIST"/compiled/*.whl)[cli,plot]" pytest pytest-timeout pytest-xdist
    PYTEST_JOBS=0 run_pytest "$fresh" compiled "$TESTS/packaging"
    # An editable installation, compiled in place, instead of the wheel.
    run "$fresh/bin/python" -m pip install -q 'setuptools>=77' wheel 'mypy>=1.18'
    run "$fresh/bin/python" -m pip install -q --no-build-isolation --no-deps -e "$BASE/src"
    editable_module "$fresh" .so
    AETHERGRAPH_NO_MYPYC=1 run "$fresh/bin/python" -m pip install -q --no-build-isolation --no-deps -e "$BASE/src"
    editable_module "$fresh" .py
}

# editable_module VENV SUFFIX: the module that is imported lies in the source copy, with that suffix.
editable_module() {
    local file
    file=$(cd "$1" && bin/python -c 'import aethergraph._parallel.prefetch as p; print(p.__file__)')
    note "imports $file"
    case $file in "$BASE/src/"*"$2") ;; *) die "expected a $2 file in $BASE/src" ;; esac
}

# The extras choose their own versions; nothing else is named, as nobody who installs them does.
stage_install() {
    local wheel
    wheel=$(echo "$DIST"/compiled/*.whl)
    fresh_install bare "$(echo "$DIST"/*.tar.gz)" # compiled in isolation, as `pip install .` does
    run "$BASE/install-bare/bin/python" examples/numpy_only.py --quick
    fresh_install fsspec "${wheel}[fsspec]"
    # From its own folder: Python would take the package from the present one.
    (cd "$BASE/install-fsspec" && bin/python - url.bin) <<'END'
import sys
import fsspec, numpy as np
from aethergraph import Graph
from aethergraph.convert import convert
with fsspec.open("memory://edges.npy", "wb") as file:
    np.save(file, np.array([[0, 1], [1, 2]]))
convert("memory://edges.npy", sys.argv[1])
assert Graph.load(sys.argv[1]).num_edges == 2
END
    fresh_install pyg "${wheel}[pyg,cli,plot]" "$TORCH"
    quickstart "$BASE/install-pyg" compiled "$TESTS/docs" -k README
}

# fresh_install NAME WHAT [TORCH]: as a user installs it; torch first, to have the one without CUDA.
fresh_install() {
    local fresh=$BASE/install-$1
    rm -rf "$fresh"
    run "$PYTHON" -m venv "$fresh"
    if [ $# -gt 2 ] && ! run "$fresh/bin/python" -m pip install -q "$3"; then
        note "no $3 for this Python; taking any torch from 2.2 on"
    fi
    run "$fresh/bin/python" -m pip install -q "$2"
    run "$fresh/bin/python" -m pip check
}

# quickstart VENV compiled|interpreted ARGS...: snippets, in an environment with pytest and no other tools.
quickstart() {
    run "$1/bin/python" -m pip install -q pytest pytest-timeout pytest-xdist
    PYTEST_JOBS=0 run_pytest "$@"
}

# other_versions: the CPython versions that are tested beside the environment's own.
other_versions() {
    local version
    for version in 3.10 3.11 3.12 3.13; do
        [ "$version" != "$(python_version "$PY")" ] || continue
        if find_python "$version" >/dev/null; then
            echo "$version"
        else
            note "Python $version: not found here, skipped" >&2
        fi
    done
}

# What works on the oldest and on the newest works between, if it builds and can be imported.
is_tested_whole() { [[ $1 =~ ^3\.1[03]$ ]]; }

stage_versions_install() {
    local i version python found=() started=()
    "$PY" scripts/print_requirements.py cli test >"$BASE/requirements-core.txt"
    mapfile -t found < <(other_versions)
    [ ${#found[@]} != 0 ] || note "no other CPython version on this machine"
    for version in "${found[@]}"; do
        python=$(find_python "$version")
        note "Python $version: $python"
        prepare_version "$version" "$python" >"$LOGS/py$version.log" 2>&1 &
        started+=("$!")
    done
    for i in "${!found[@]}"; do
        version=${found[i]}
        wait "${started[i]}" || { tail -n 40 "$LOGS/py$version.log"; die "Python $version: no installation"; }
    done
}

# prepare_version VERSION PYTHON: the package and what its tests need, installed in $BASE/pyVERSION.
prepare_version() {
    local fresh=$BASE/py$1 needs=(pytest pytest-timeout pytest-xdist hypothesis)
    if is_tested_whole "$1"; then needs=(-r "$BASE/requirements-core.txt"); fi
    [ -x "$fresh/bin/python" ] || run "$2" -m venv "$fresh"
    run "$fresh/bin/python" -m pip install -q numpy 'cffi>=1.16' 'setuptools>=77' wheel mypy "${needs[@]}"
    build_wheel "$fresh/bin/python" "py$1"
    install_wheel "$fresh/bin/python" "py$1"
}

stage_versions() {
    local version tests
    for version in $(other_versions); do
        tests=("$TESTS/test_imports.py" "$TESTS/packaging")
        if is_tested_whole "$version"; then tests=("${CORE[@]}" "$TESTS/cli" "$TESTS/packaging"); fi
        # What varies data or damages files is the same work on every version, and so are most variants of a test.
        AETHERGRAPH_VARIANTS=1 run_pytest "$BASE/py$version" compiled "${tests[@]}" \
            -m "not pyg and not slow and not hypothesis and not any_python"
    done
}

# DGL's newest release on PyPI is for CPython 3.10 to 3.12, torch 2.2 and numpy 1.
dgl_python() {
    find_python 3.11 || find_python 3.12 || find_python 3.10 || {
        note "DGL 2.1 is there for CPython 3.10 to 3.12, of which none was found: skipped" >&2
        return 1
    }
}

stage_dgl_install() {
    local fresh=$BASE/dgl python
    python=$(dgl_python) || return 0
    [ -x "$fresh/bin/python" ] || run "$python" -m venv "$fresh"
    run "$fresh/bin/python" -m pip install -q --upgrade pip
    if ! "$fresh/bin/python" -c 'import torch' >/dev/null 2>&1; then
        run "$fresh/bin/python" -m pip install -q --no-deps torch==2.2.1
        has nvidia-smi || run "$fresh/bin/python" scripts/cuda_stand_ins.py
    fi
    # Isolated: building needs a newer setuptools than DGL can do with.
    rm -rf "${DIST:?}/dgl"
    AETHERGRAPH_NO_MYPYC=1 run "$fresh/bin/python" -m pip wheel -q --no-deps -w "$DIST/dgl" "$DIST"/aethergraph-*.tar.gz
    # First what a user gets, by the extras alone, and what the pages show.
    run "$fresh/bin/python" -m pip install -q "$(echo "$DIST"/dgl/*.whl)[dgl,cli]"
    install_wheel "$fresh/bin/python" dgl
    export DGLBACKEND=pytorch
    quickstart "$fresh" interpreted "$TESTS/docs" -k 'dgl or commands'
}

stage_dgl() {
    local fresh=$BASE/dgl
    dgl_python >/dev/null || return 0
    export DGLBACKEND=pytorch
    "$PY" scripts/print_requirements.py test >"$BASE/requirements-dgl.txt"
    run "$fresh/bin/python" -m pip install -q -r "$BASE/requirements-dgl.txt" 'torch_geometric==2.5.*'
    run "$fresh/bin/python" -m pip check
    AETHERGRAPH_ALL=1 run_pytest "$fresh" interpreted "$TESTS/with_dgl" "$TESTS/equality" "$TESTS/docs" "$TESTS/examples" "$TESTS/benchmarks" "$TESTS/fuzz" "$TESTS/hostile" -k 'dgl or README'
    # With PyG 2.5 and torch 2.2, three variants of each test: all but what lies below them, the core's samples, files,
    # caches, counters and lists.
    local below=(test_{aligned_training,compressed,feature_reading,foreign_graphs,golden_samples,killed_training,out_of_core,packing,planned_loading,profile,remote,row_sources,served,watermarks}.py)
    AETHERGRAPH_VARIANTS=3 run_pytest "$fresh" interpreted "$TESTS/pyg" -m "not hypothesis" \
        "${below[@]/#/--ignore=$TESTS/pyg/}"
}

# ---- only when named ---------------------------------------------------------

stage_hostile() {
    export AETHERGRAPH_ALL=1
    install_wheel "$PY" compiled
    # One process: interrupts are timed.
    PYTEST_JOBS=0 AETHERGRAPH_HOSTILE=1 run_pytest "$VENV" compiled "$TESTS/hostile" --durations=6
}

stage_hostile_share() {
    install_wheel "$PY" compiled
    PYTEST_JOBS=0 AETHERGRAPH_ALL=1 AETHERGRAPH_HOSTILE=0.2 run_pytest "$VENV" compiled "$TESTS/hostile" --durations=6
}

stage_benchmarks() {
    export AETHERGRAPH_ALL=1
    install_wheel "$PY" compiled
    PYTEST_JOBS=0 AETHERGRAPH_BENCHMARKS=all run_pytest "$VENV" compiled "$TESTS/benchmarks"
}

stage_soak() {
    export AETHERGRAPH_ALL=1
    tidy 225000 # clang's own default
    AE_TEST_LONG=1 native_make test
    install_wheel "$PY" compiled
    # One process: the writer and its readers are the load.
    PYTEST_JOBS=0 AETHERGRAPH_SOAK=1 AETHERGRAPH_SOAK_SECONDS="$SOAK_SECONDS" AETHERGRAPH_KILLS="$SOAK_KILLS" \
        run_pytest "$VENV" compiled "$TESTS/dynamic/test_soak.py" -s
    # Workers of Ray are killed ten times.
    AETHERGRAPH_KILLS=10 run_pytest "$VENV" compiled "$TESTS/scale/test_ray.py" -k killed
    # Ray Train over sampling tasks; torchrun over shards; training on aligned batches of a graph as large as PubMed.
    AETHERGRAPH_SOAK=1 run_pytest "$VENV" compiled "$TESTS/examples" "$TESTS/pyg/test_aligned_training.py" \
        -k 'ray_train or torchrun or PubMed'
    # What the contract asks of samplers, with every storage and number of threads.
    AETHERGRAPH_SOAK=1 run_pytest "$VENV" compiled "$TESTS"/contracts/test_{samplers,live_graphs}.py
    # Ingestors are killed a hundred times each, brokers go away twenty times.
    AETHERGRAPH_KILLS=100 AETHERGRAPH_CUTS=20 \
        run_pytest "$VENV" compiled "$TESTS/streaming" -k 'killed_anywhere or cut_in or at_random'
    # A million frames that are right but for some bits.
    AETHERGRAPH_EXAMPLES=100 run_pytest "$VENV" compiled "$TESTS/remote/test_broken_frames.py" \
        -k ten_thousands --timeout 3600
    AETHERGRAPH_SOAK_READS=1e8 run_pytest "$VENV" compiled "$TESTS/features/test_live_table_races.py"
    # Over UCX, which without a card asks the other side: fewer.
    AETHERGRAPH_SOAK_READS=1e7 run_pytest "$VENV" compiled "$TESTS/remote/test_rdma.py" -k torn
    AETHERGRAPH_SOAK=1 run_pytest "$VENV" compiled "$TESTS/convert/test_bounded_failures.py" -k budget
    AETHERGRAPH_SOAK=1 AETHERGRAPH_EXAMPLES=10 \
        run_pytest "$VENV" compiled "$TESTS" -m hypothesis --timeout 3600
    native_make fuzz FUZZ_SECONDS="${FUZZ_SECONDS:-60}"
}

stage_faults() {
    run "$PY" tests/faults/run.py --work "$BASE/faults" --part "$PART"
}

# PyG's with PyG here, DGL's in DGL's environment.
stage_peers() {
    install_wheel "$PY" compiled
    [ -z "${PYG_TESTS:-}" ] || run "$PY" tests/peers/run.py --pyg-tests "$PYG_TESTS"
    [ -z "${DGL_TESTS:-}" ] || DGLBACKEND=pytorch run "$BASE/dgl/bin/python" tests/peers/run.py --dgl-tests "$DGL_TESTS"
}

# Brokers and connections hand C what datagrams hand it, too.
stage_asan_all() {
    AETHERGRAPH_ALL=1 AETHERGRAPH_EXAMPLES=0.3 sanitized_pytest "${CORE[@]}" "$TESTS/fuzz" --ignore="$TESTS/observe" \
        --ignore="$TESTS"/streaming/test_{flight,kafka,kafka_faults,sockets}.py
}

# The site that the stage docs has built, in a browser.
stage_site() {
    has chromium || { note "installing: chromium"; apt_install chromium; }
    note "$(chromium --version)"
    AETHERGRAPH_SITE=$BASE/site AETHERGRAPH_BROWSER=$(command -v chromium) PYTEST_JOBS=0 \
        run_pytest "$VENV" compiled "$TESTS/docs/test_site.py" -k cut
}

stage_flink() {
    export AETHERGRAPH_ALL=1
    has javac || { note "installing: default-jdk-headless"; apt_install default-jdk-headless; }
    note "$(javac -version 2>&1)"
    local wheels=$BASE/flink
    if [ ! -e "$wheels/complete" ]; then
        run "$PY" -m pip download -q --no-deps -d "$wheels" apache-flink-libraries==2.3.0
        # Of the package for Python, what runs a job.
        "$PY" - "$wheels" <<'END'
import sys, zipfile
from pathlib import Path
folder = Path(sys.argv[1])
(wheel,) = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as content:
    content.extractall(folder, [one for one in content.namelist() if one.startswith("pyflink/lib/")])
wheel.unlink()
(folder / "complete").touch()
END
    fi
    install_wheel "$PY" compiled
    PYTEST_JOBS=0 AETHERGRAPH_FLINK=$wheels/pyflink/lib run_pytest "$VENV" compiled "$TESTS/streaming/test_flink.py" -s
}
