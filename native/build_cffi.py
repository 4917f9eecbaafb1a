"""Build ``aethergraph._native._core``: the C core, bound by cffi in API mode.

The headers in ``native/include`` are the only description of the interface: the text between their
``CFFI BEGIN`` and ``CFFI END`` markers, without comments, is the cdef. All of
``native/src/**/*.c`` is compiled into the one extension module.

Environment:

``AETHERGRAPH_SANITIZE``
    A comma-separated list for ``-fsanitize=``, for example ``address,undefined``.
``AETHERGRAPH_NO_URING=1``
    Leave io_uring out. Otherwise it comes in where liburing (header and static library) is found.
``AETHERGRAPH_NO_UCX=1``
    Leave RDMA out. Otherwise it comes in where the headers of UCX are found.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import struct
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from cffi import FFI

# setuptools wants paths relative to setup.py's folder, where this file is run from.
INCLUDE = Path("native/include")
SOURCES = Path("native/src")
URING_LINK_ARGS = ["-l:liburing.a"]

_INSTALL_HINT = """\
aethergraph is compiled from C and this machine lacks {what}. Install it with one of
  Debian, Ubuntu:  apt-get install build-essential python3-dev libxxhash-dev
  Fedora, RHEL:    dnf install gcc python3-devel xxhash-devel
  Arch:            pacman -S base-devel xxhash
  conda:           conda install -c conda-forge gcc_linux-64 xxhash
and run the installation again."""


def list_headers() -> list[Path]:
    """Return the public headers: ``aether.h``, then the tiers, each of which includes it alone."""
    return [INCLUDE / "aether.h", *sorted(INCLUDE.glob("aether/*.h"))]


def read_cdef(header: str, name: str = "aether.h") -> str:
    """Return the declarations between the two CFFI markers, in the subset that cffi parses."""
    begin = re.search(r"/\*\s*CFFI BEGIN\s*\*/", header)
    end = re.search(r"/\*\s*CFFI END\s*\*/", header)
    if begin is None or end is None or end.start() < begin.end():
        raise ValueError(f"{name}: the CFFI BEGIN and CFFI END markers are missing or out of order")
    text = header[begin.end() : end.start()]
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", "", text)
    # cffi knows `#define NAME -1` but not `#define NAME (-1)`.
    text = re.sub(r"^(#define\s+\w+)\s+\((-?\w+)\)\s*$", r"\1 \2", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) + "\n"


def list_sources() -> list[str]:
    """Return every C source of the core, in a fixed order so that builds are reproducible."""
    return sorted(path.as_posix() for path in SOURCES.rglob("*.c"))


def compiler_command() -> list[str]:
    """Return the compiler and the flags that the environment adds."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    for name in ("CFLAGS", "CPPFLAGS"):
        command += shlex.split(os.environ.get(name, ""))
    return command


def find_liburing() -> bool:
    """Return whether a program can be linked with liburing.a.

    The shared library would be one more thing to have at run time, and version 2.3 of it lacks
    functions that its header declares.
    """
    if os.environ.get("AETHERGRAPH_NO_URING", "0") not in ("", "0"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <liburing.h>\nint main(void) { return io_uring_submit(0); }\n")
        link = [*shlex.split(os.environ.get("LDFLAGS", "")), *URING_LINK_ARGS]
        command = [*compiler_command(), str(source), *link, "-o", f"{folder}/probe"]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


def find_ucx() -> bool:
    """Return whether the headers of UCX 1.13 or later are there; it is loaded at run time."""
    if os.environ.get("AETHERGRAPH_NO_UCX", "0") not in ("", "0"):
        return False
    text = (
        "#include <ucp/api/ucp.h>\n"
        "int main(void) { return UCP_MEM_MAP_PARAM_FIELD_PROT + UCP_OP_ATTR_FIELD_MEMH; }\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(text)
        command = [*compiler_command(), "-c", str(source), "-o", f"{folder}/probe.o"]
        try:
            return subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:
            return False


def check_platform() -> None:
    """Fail where the core cannot run: it maps files of little-endian words and calls Linux."""
    system = f"{sys.platform}, {platform.machine()}, {8 * struct.calcsize('P')} bits"
    if sys.platform != "linux" or sys.byteorder != "little" or struct.calcsize("P") != 8:
        raise SystemExit(
            f"error: aethergraph runs on 64-bit little-endian Linux, and this is {system}. "
            "A container or a virtual machine with Linux will do (on Windows: WSL 2)."
        )


def check_toolchain() -> None:
    """Fail with the package to install when a compiler or a header is missing."""
    flags = ["-I" + sysconfig.get_path("include"), "-I" + sysconfig.get_path("platinclude")]
    needs = [
        ("", "a C compiler"),
        ("#include <Python.h>\n", "the Python headers (Python.h)"),
        ("#include <xxhash.h>\n", "the xxHash headers (xxhash.h)"),
    ]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        for text, what in needs:
            source.write_text(text)
            command = [*compiler_command(), *flags, "-E", str(source), "-o", os.devnull]
            try:
                ok = subprocess.run(command, capture_output=True, check=False).returncode == 0
            except OSError:
                ok = False
            if not ok:
                raise SystemExit("error: " + _INSTALL_HINT.format(what=what))


def make_ffi() -> FFI:
    """Return the configured cffi builder of ``aethergraph._native._core``."""
    compile_args = ["-std=gnu11", "-O3", "-D_GNU_SOURCE", "-fvisibility=hidden"]
    compile_args += ["-ffp-contract=off"]  # the same sums, hence samples, on every processor
    compile_args += ["-fno-semantic-interposition", "-pthread"]
    compile_args += ["-fstack-protector", "-U_FORTIFY_SOURCE"]  # as in the Makefile
    link_args = ["-pthread", "-Wl,--version-script=native/extension.map", "-Wl,-z,relro,-z,now"]
    if find_liburing():
        compile_args += ["-DAE_HAVE_URING=1"]
        link_args += URING_LINK_ARGS
    if find_ucx():
        compile_args += ["-DAE_HAVE_UCX=1"]
        link_args += ["-ldl"]
    sanitizers = os.environ.get("AETHERGRAPH_SANITIZE")
    if sanitizers:
        compile_args += [
            f"-fsanitize={sanitizers}",
            "-fno-sanitize-recover=all",
            "-DAE_SANITIZED=1",
        ]
        compile_args += ["-fno-omit-frame-pointer", "-g", "-O1"]
        link_args += [f"-fsanitize={sanitizers}"]
    else:  # sanitizers know the sizes of arrays themselves
        compile_args += ["-D_FORTIFY_SOURCE=3"]
    ffi = FFI()
    for header in list_headers():
        ffi.cdef(read_cdef(header.read_text(encoding="utf-8"), header.name))
    # aether_task.poll of the binding (aethergraph/_native/signals.py).
    ffi.cdef('extern "Python" int32_t aether_python_poll(void);')
    # aether_note_fn of the binding (aethergraph/_native/live_journal.py).
    ffi.cdef(
        'extern "Python" int aether_python_note(void *user, uint64_t lsn, uint32_t kind, '
        "const void *bytes, uint64_t size);"
    )
    # aether_ask_fn of the binding (aethergraph/_native/asked.py).
    ffi.cdef(
        'extern "Python" int aether_python_ask(void *user, uint32_t what, const uint64_t *in, '
        "uint64_t n, uint64_t *out, aether_error *err);"
    )
    ffi.set_source(
        "aethergraph._native._core",
        "#define AETHER_EXPERIMENTAL\n"
        + "".join(f'#include "{path.relative_to(INCLUDE)}"\n' for path in list_headers()),
        sources=list_sources(),
        include_dirs=["native/include", "native/src"],
        depends=sorted(p.as_posix() for p in Path("native").glob("*/**/*.[h]")),
        extra_compile_args=compile_args,
        extra_link_args=link_args,
    )
    return ffi


if __name__ in ("__cffi__", "__main__"):
    ffibuilder = make_ffi()

if __name__ == "__main__":
    check_platform()
    check_toolchain()
    ffibuilder.compile(tmpdir="build/cffi", verbose=True)
