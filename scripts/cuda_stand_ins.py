"""Let PyPI's torch 2.2 be imported without the CUDA packages that it names (2 GB to download).

    PYTHON -m pip install --no-deps torch==2.2.1
    PYTHON scripts/cuda_stand_ins.py
    PYTHON -m pip install ...        # takes the packages for installed

For tests on machines without a GPU. That torch is linked with CUDA's libraries, which must be there
to be loaded, though without a GPU it calls none of the large ones. Libraries of the same names
and functions are compiled here; each function ends the process, so that nothing is computed
wrongly. The small packages (CUDA runtime, CUPTI, NVTX) stay: importing torch calls them.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sysconfig
from pathlib import Path

#: Package -> its libraries, each with what the names of its functions start with.
LIBRARIES = {
    "nvidia-cublas-cu12": {
        "cublas/lib/libcublas.so.12": "cublas(?!Lt)",
        "cublas/lib/libcublasLt.so.12": "cublasLt",
    },
    "nvidia-cudnn-cu12": {"cudnn/lib/libcudnn.so.8": "cudnn"},
    "nvidia-cufft-cu12": {"cufft/lib/libcufft.so.11": "cufft"},
    "nvidia-curand-cu12": {"curand/lib/libcurand.so.10": "curand"},
    "nvidia-cusparse-cu12": {"cusparse/lib/libcusparse.so.12": "cusparse(?!Lt)"},
    "nvidia-nccl-cu12": {"nccl/lib/libnccl.so.2": "nccl"},
    # Loaded at the first use only.
    "nvidia-cuda-nvrtc-cu12": {},
    "nvidia-cusolver-cu12": {},
    "triton": {},
}


def undefined_functions(library: Path) -> list[str]:
    command = ["nm", "-D", "--undefined-only", "--without-symbol-versions", str(library)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [line.split()[-1] for line in output.splitlines()]


def compile_library(path: Path, functions: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = "".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in functions)
    # torch asks for the functions in a version that is called like the library.
    versions = path.with_suffix(".map")
    versions.write_text(f"{path.name} {{ *; }};\n")
    command = ["cc", "-w", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    command += [f"-Wl,-soname,{path.name}", f"-Wl,--version-script,{versions}"]
    subprocess.run(command, input=source, text=True, check=True)


def register(folder: Path, name: str, version: str) -> None:
    """What makes pip take the package for installed."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: stand-in\n"
    (info / "METADATA").write_text(metadata)
    (info / "INSTALLER").write_text("cuda_stand_ins.py\n")
    (info / "RECORD").write_text("")


def main() -> None:
    folder = Path(sysconfig.get_path("purelib"))
    torch_libraries = folder / "torch" / "lib"
    if not (torch_libraries / "libtorch_cuda.so").exists():
        return  # a build for the CPU alone
    libraries = torch_libraries.glob("libtorch*.so")
    functions = sorted({name for library in libraries for name in undefined_functions(library)})
    for requirement in importlib.metadata.requires("torch") or []:
        found = re.match(r"([\w-]+) ?\(?==([\w.]+)", requirement)
        if found is None or found[1] not in LIBRARIES:
            continue
        for path, prefix in LIBRARIES[found[1]].items():
            names = [name for name in functions if re.match(prefix, name)]
            compile_library(folder / "nvidia" / path, names)
        register(folder, found[1], found[2])


if __name__ == "__main__":
    main()
