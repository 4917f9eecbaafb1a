"""Reads that fail while a graph is sampled or rows are gathered out of core: a named error."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aethergraph import FeatureTable, Graph
from aethergraph.packing import pack

pytestmark = pytest.mark.any_python

# While FAIL_READS is set, pread of a file whose name ends in ".broken" fails.
PRELOAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static ssize_t fail_or_read(const char *name, int fd, void *data, size_t size, off_t at) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (getenv("FAIL_READS") && length > 7 && memcmp(path + length - 7, ".broken", 7) == 0) {
        errno = EIO;
        return -1;
    }
    ssize_t (*next)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, name);
    return next(fd, data, size, at);
}
ssize_t pread(int fd, void *data, size_t size, off_t at) {
    return fail_or_read("pread", fd, data, size, at);
}
ssize_t pread64(int fd, void *data, size_t size, off_t at) {
    return fail_or_read("pread64", fd, data, size, at);
}
"""


def make_files(folder: Path) -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(20_000, *rng.integers(0, 20_000, (2, 400_000)))
    graph.save(folder / "graph.broken")
    features = FeatureTable.from_array(rng.random((20_000, 32), np.float32))
    features.save(folder / "features.broken")
    pack([np.arange(0, 20_000, 7)], features, folder / "packed.broken")


SCRIPT = """
import errno, os, sys
import numpy as np
from aethergraph import FeatureTable, Graph, NeighborSampler, errors
from aethergraph.packing import PackedFeatures
folder, failures = sys.argv[1], sys.argv[2:]
options = {"storage": "uring", "memory_budget": "64M"}
seeds = np.arange(0, 20_000, 7)

def opened(path, what):
    if what == "graph":
        sampler = NeighborSampler(Graph.load(path, **options), [5, 5])
        return lambda keys: list(sampler.sample_many([seeds] * len(keys), keys))
    rows = FeatureTable.load(path, **options) if what == "features" else PackedFeatures.load(path)
    return lambda keys: [rows.gather(seeds) for _ in keys]

for what in ("graph", "features", "packed"):
    path = os.path.join(folder, what + ".broken")
    use = opened(path, what)
    for failure in failures:
        if failure == "truncated":
            os.truncate(path, 8192)
        else:
            os.environ["FAIL_READS"] = "1"
        for keys in ([1], [1, 2, 3]):
            try:
                use(keys)
            except errors.StorageError as error:
                assert path in str(error), error
                if failure == "failing":
                    assert error.errno == errno.EIO, error
                else:
                    assert isinstance(error, errors.FileChangedError), error
            else:
                raise AssertionError(f"nobody noticed: {what}, {failure}")
        if failure == "failing":
            del os.environ["FAIL_READS"]
            use([1])
print("alive")
"""


@pytest.mark.parametrize("tier", ["uring", "pread"])
def test_truncated_files(tmp_path: Path, run_python: Callable[..., Any], tier: str) -> None:
    make_files(tmp_path)
    done = run_python(SCRIPT, str(tmp_path), "truncated", AETHERGRAPH_IO=tier)
    assert done.stdout == "alive\n"


def test_failing_reads(tmp_path: Path, run_python: Callable[..., Any]) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    make_files(tmp_path)
    source, library = tmp_path / "fail.c", tmp_path / "fail.so"
    source.write_text(PRELOAD)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    # After what is there: a sanitizer's runtime has to come first.
    preload = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)]))
    done = run_python(SCRIPT, str(tmp_path), "failing", AETHERGRAPH_IO="pread", LD_PRELOAD=preload)
    assert done.stdout == "alive\n"
