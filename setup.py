"""Build script: the C core (cffi) and the modules that mypyc compiles. Metadata: pyproject.toml.

Environment:

``AETHERGRAPH_NO_MYPYC=1``
    Leave every Python module interpreted (debugging, tracebacks, platforms without mypyc).
``AETHERGRAPH_SANITIZE``, ``AETHERGRAPH_NO_URING``
    See native/build_cffi.py.
"""

from __future__ import annotations

import os
import runpy
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import find_packages, setup
from setuptools.command.build_ext import build_ext

# Modules that mypyc compiles, each with the reason. Measured by benchmarks/mypyc_modules.py, as
# processor time, interpreted / compiled (CPython 3.11, mypy 2.4, two shared cores):
#
#   _parallel/prefetch.py  1.5x per item without threads, 1.2x with one: slots and queues only
#   loading/buffers.py     1.5x per recycled array: small objects and integer arithmetic
#
# Measured and left interpreted:
#
#   sampling/keys.py      0.7x: 64-bit unsigned arithmetic overflows mypyc's short integers
#   storage/meta.py  0.75x: dictionaries and JSON
#   sampling/neighbor.py, loading/loader.py   1.0x: calls into cffi and numpy
#   _checks/arrays.py     1.2-1.4x of 0.3 us, but it judges users' values, and a compiled function
#                         refuses a numpy integer where it says int
#
# Never compiled: protocols.py and every class that users subclass, _native (cffi calls get
# slower), and the adapters in backends/ (they subclass the framework's classes).
MYPYC_MODULES: dict[str, str] = {
    "aethergraph/_parallel/prefetch.py": "runs once per batch: slots, queues, small methods",
    "aethergraph/loading/buffers.py": "runs once per array of a batch: small objects, integers",
}

ROOT = Path(__file__).resolve().parent
os.chdir(ROOT)

# backends/<name> is installed as aethergraph.<name>; _torch is what the others share.
BACKENDS = ("_torch", "pyg", "dgl")


def packages() -> tuple[list[str], dict[str, str]]:
    names = find_packages(include=["aethergraph", "aethergraph.*"])
    folders = {}
    for backend in BACKENDS:
        name, folder = f"aethergraph.{backend}", f"backends/{backend}"
        folders[name] = folder
        names.append(name)
        names += [f"{name}.{child}" for child in find_packages(folder)]
    return names, folders


#: Commands that build nothing; pip runs one of them before each build.
METADATA_COMMANDS = {"dist_info", "egg_info", "sdist"}


def mypyc_extensions() -> list:  # type: ignore[type-arg]
    if os.environ.get("AETHERGRAPH_NO_MYPYC", "0") not in ("", "0") or not MYPYC_MODULES:
        return []
    if METADATA_COMMANDS.intersection(sys.argv):
        return []
    from mypyc.build import mypycify

    return mypycify(
        # Types are judged by scripts/typecheck.sh. Here those of other modules are not looked at:
        # that takes four times as long, and a build must not fail because of another numpy's stubs.
        ["--config-file=", "--ignore-missing-imports", "--follow-imports=skip", *MYPYC_MODULES],
        opt_level="3",
        group_name="aethergraph",
    )


class BuildExt(build_ext):
    """Checks for the compiler and the headers before it starts."""

    def run(self) -> None:
        checks = runpy.run_path("native/build_cffi.py", run_name="check")
        checks["check_platform"]()
        checks["check_toolchain"]()
        if self.inplace:
            self.remove_stale()
        if self.parallel is None:
            self.parallel = True  # the extensions beside each other
        super().run()

    def build_extensions(self) -> None:
        """Build the extensions, their sources beside each other: setuptools takes turns."""
        compile_serially = self.compiler.compile

        def compile(sources: list[str], *args: Any, **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = pool.map(lambda one: compile_serially([one], *args, **options), sources)
                return [name for objects in found for name in objects]

        self.compiler.compile = compile
        super().build_extensions()

    def remove_stale(self) -> None:
        """Remove what an earlier in-place build compiled: Python would prefer it to the source."""
        for module in ROOT.glob("aethergraph/**/*.so"):
            if module.with_name(module.name.split(".")[0] + ".py").exists():
                module.unlink()


names, folders = packages()
extensions = mypyc_extensions()
# Without compiled modules the one extension is cffi's, which keeps to the stable ABI: one wheel for
# every Python from the oldest on. A Python without the lock has none.
stable_abi = not extensions and not sysconfig.get_config_var("Py_GIL_DISABLED")
setup(
    packages=names,
    package_dir=folders,
    package_data={"": ["py.typed", "*.pyi"]},
    include_package_data=False,
    cffi_modules=["native/build_cffi.py:ffibuilder"],
    ext_modules=extensions,
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if stable_abi else {},
    cmdclass={"build_ext": BuildExt},
    zip_safe=False,
)
