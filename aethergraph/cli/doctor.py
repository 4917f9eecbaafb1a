"""``aethergraph doctor``: reports installed parts, the machine, and why a part is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import aethergraph
from aethergraph import _native as native
from aethergraph._checks.optional import how_to_get
from aethergraph._native import rdma
from aethergraph._parallel.threads import ThreadPool
from aethergraph.cli.terminal import command, print_json, print_table, size
from aethergraph.storage.memory import available_memory

__all__ = ["doctor_command"]

#: (module, distribution, purpose, remedy)
PARTS = (
    ("numpy", "numpy", "arrays", "pip install numpy"),
    ("cffi", "cffi", "the binding to the compiled core", "pip install cffi"),
    ("pyarrow", "pyarrow", "convert: CSV and Parquet", how_to_get("cli")),
    ("typer", "typer", "the command line", how_to_get("cli")),
    ("rich", "rich", "tables and progress bars", how_to_get("cli")),
    ("matplotlib", "matplotlib", "stats --plot, demo", how_to_get("plot")),
    (
        "prometheus_client",
        "prometheus-client",
        "observe.prometheus",
        how_to_get("observe"),
    ),
    (
        "opentelemetry",
        "opentelemetry-api",
        "observe.opentelemetry",
        how_to_get("observe"),
    ),
    ("torch", "torch", "aethergraph.pyg", how_to_get("pyg")),
    ("torch_geometric", "torch_geometric", "aethergraph.pyg", how_to_get("pyg")),
    ("pyg_lib", "pyg-lib", "PyG's own sampler, for comparisons", "see PyG's installation page"),
    ("torch_sparse", "torch-sparse", "PyG's own sampler, for comparisons", "pip install it"),
    (
        "dgl",
        "dgl",
        "aethergraph.dgl",
        f"{how_to_get('dgl,cli')} in an environment of its own: docs/dgl.md",
    ),
)
_IMPORT_SECONDS = 60
_CAP_IPC_LOCK = 1 << 14  # whoever has it may lock any amount
_SHMEM = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"


@command
def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Show versions, the compiled core, the machine, and which optional parts work."""
    report = collect()
    if as_json:
        print_json(report)
        return
    for title, section in report.items():
        print_table([(k.replace("_", " "), _text(k, v)) for k, v in section.items()], title=title)
        typer.echo()


def collect() -> dict[str, dict[str, Any]]:
    """Collect all facts, by section."""
    return {
        "aethergraph": _package(),
        "machine": _machine(),
        "memory": _memory(),
        "live_graphs": _live_graphs(),
        "packages": _packages(),
    }


def _text(name: str, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and name.endswith("bytes"):
        return size(value)
    if isinstance(value, dict):
        if value.get("version"):
            return str(value["version"])
        return f"not usable: {value['problem']} (for {value['used_for']}; {value['remedy']})"
    if isinstance(value, list):
        return ", ".join(str(v) for v in value) or "none"
    return "unknown" if value is None else str(value)


def _package() -> dict[str, Any]:
    folder = Path(aethergraph.__file__).parent
    modules = {
        ".".join(p.relative_to(folder.parent).parts).split(".cpython")[0]
        for p in folder.rglob("*.cpython*.so")
    }
    return {
        "version": aethergraph.__version__,
        "folder": str(folder),
        "core": f"{native.native_version()} ({native.build_info()})",
        "core_threads": native.get_num_threads(),
        "range_reads": _range_reads(),
        "rdma": _rdma(),
        "compiled_modules": sorted(modules - {"aethergraph._native._core"}),
        "environment": [f"{k}={v}" for k, v in os.environ.items() if k.startswith("AETHERGRAPH_")],
    }


def _range_reads() -> str:
    """Describe how ranges are read, and why not by io_uring."""
    problem = native.io_problem("uring")
    forced = os.environ.get("AETHERGRAPH_IO", "")
    if forced in ("uring", "pread"):
        failed = f"; it does not work: {problem}" if forced == "uring" and problem else ""
        return f"{forced}, by AETHERGRAPH_IO{failed}"
    if forced not in ("", "auto"):
        return f"none: AETHERGRAPH_IO is {forced!r}, must be auto, uring or pread"
    return f"pread ({problem})" if problem else "uring"


def _rdma() -> str:
    """Describe whether rows come by rdma://, and what is missing if they do not."""
    version, problem = rdma.rdma_version(), rdma.rdma_problem()
    ucx = f"UCX {version >> 16}.{version & 0xFFFF}" if version else ""
    return f"no: {problem}{f' ({ucx})' if ucx else ''}" if problem else ucx


def _machine() -> dict[str, Any]:
    glibc = platform.libc_ver()
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{_os_name()}, kernel {platform.release()}, {' '.join(glibc)}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cores_allowed": len(os.sched_getaffinity(0)),
        "cpu_quota": _cpu_quota(),
        "open_files_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }


def _os_name() -> str:
    for line in _read("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip('"')
    return platform.system()


def _processor() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return f"{line.split(':', 1)[1].strip()} ({platform.machine()})"
    return platform.machine()


def _cpu_quota() -> str:
    """Describe the CPU time that the control group allows, in cores."""
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    if not period:
        quota = _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        period = _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if quota.strip().isdigit() and period.strip().isdigit() and int(period):
        return f"{int(quota) / int(period):g} cores"
    return "none"


def _memory() -> dict[str, Any]:
    lines = [line.split() for line in _read("/proc/meminfo").splitlines()]
    info = {words[0].rstrip(":"): words[1] for words in lines if len(words) > 1}
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "total_bytes": _kilobytes(info.get("MemTotal")),
        "available_bytes": available_memory(),
        "swap_bytes": _kilobytes(info.get("SwapTotal")),
        "cgroup_limit": _cgroup_limit(),
        "transparent_huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "reserved_huge_pages": int(info.get("HugePages_Total", 0)),
        "page_bytes": resource.getpagesize(),
        "locked_memory_limit": "unlimited" if soft == resource.RLIM_INFINITY else size(soft),
    }


def _live_graphs() -> dict[str, Any]:
    """Describe what live graphs get from the system: their memory is shared between processes."""
    return {
        "shared_memory": "memfd" if hasattr(os, "memfd_create") else "no memfd_create",
        "huge_pages": _shared_huge_pages(),
        "mlock": _lockable(),
        "snapshots": (
            "without a fence (membarrier)"
            if native.live_has_membarrier()
            else "a fence each: the system has no membarrier, or forbids it"
        ),
    }


def _shared_huge_pages() -> str:
    """Say whether ``huge_pages=True`` of a live graph has an effect."""
    chosen, setting = _chosen(_SHMEM), f"shmem_enabled is {_chosen(_SHMEM)}"
    if chosen in ("always", "within_size", "advise", "force"):
        return f"yes ({setting})"
    if native.live_has_huge_pages():
        return f"yes, for memory that has filled ({setting})"
    if chosen in ("never", "deny"):
        return f"no, {setting}: as root, echo advise > {_SHMEM}"
    return "no: this kernel has none for shared memory"


def _lockable() -> str:
    """Say how much memory ``mlock=True`` of a live graph can keep in RAM."""
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    rights = _read("/proc/self/status").partition("CapEff:")[2].split()
    if soft == resource.RLIM_INFINITY or (rights and int(rights[0], 16) & _CAP_IPC_LOCK):
        return "as much as there is"
    return f"up to {size(soft)} in all (ulimit -l)"


def _kilobytes(text: str | None) -> int | None:
    return int(text) * 1024 if text is not None else None


def _chosen(path: str) -> str:
    """Return the word in brackets, as in ``always [madvise] never``."""
    text = _read(path)
    return text[text.find("[") + 1 : text.find("]")] if "[" in text else "not available"


def _cgroup_limit() -> str:
    """Return the tightest memory limit of the control groups above this process."""
    limits = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, names, group = line.split(":", 2)
        if names == "":
            root, file = "/sys/fs/cgroup", "memory.max"
        elif "memory" in names.split(","):
            root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        folder = Path(root) / group.lstrip("/")
        for place in [folder, *folder.parents]:
            text = _read(str(place / file)).strip()
            if text.isdigit() and int(text) < 1 << 60:
                limits.append(int(text))
            if str(place) == root:
                break
    return size(min(limits)) if limits else "none"


def _packages() -> dict[str, dict[str, Any]]:
    """Return each part's version, or why it cannot be used; a child imports, to survive crashes."""
    with ThreadPool(4, "aethergraph-doctor") as pool:
        futures = [
            pool.submit(_probe, module, distribution) for module, distribution, _, _ in PARTS
        ]
        results = [future.result() for future in futures]
    return {
        module: {**result, "used_for": used_for, "remedy": remedy}
        for (module, _, used_for, remedy), result in zip(PARTS, results, strict=True)
    }


def _probe(module: str, distribution: str) -> dict[str, Any]:
    try:
        if importlib.util.find_spec(module) is None:
            return {"version": None, "problem": "not installed"}
    except (ImportError, ValueError) as error:
        return {"version": None, "problem": str(error)}
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        version = "of unknown version"
    if module in sys.modules:
        return {"version": version, "problem": None}
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"import {module}"],
            capture_output=True,
            text=True,
            timeout=_IMPORT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"version": None, "problem": f"importing {version} hangs"}
    if done.returncode == 0:
        return {"version": version, "problem": None}
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return {"version": None, "problem": f"importing {version} fails: {lines[-1][:300]}"}


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return ""
