"""FileSource on the files of Flink's own file sink, whose job is killed and goes on meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.ingesting import edges

from aethergraph import DynamicGraph
from aethergraph.streaming import FileSource, Ingestor, Schema

JOB = Path(__file__).parent / "flink_job" / "WriteEdges.java"
JARS = os.environ.get("AETHERGRAPH_FLINK")
EDGES, RATE, KILLS, WAIT = 150_000, 10_000, int(os.environ.get("AETHERGRAPH_KILLS", "4")), 300

pytestmark = [
    pytest.mark.skipif(JARS is None, reason="no jars of Flink: run ./scripts/test.sh flink"),
    pytest.mark.timeout(1200),
]


def newest_checkpoint(folder: Path) -> list[str]:
    """Return the path of the newest complete checkpoint, if there is one."""
    found = [one.parent for one in folder.glob("*/chk-*/_metadata")]
    return [str(max(found, key=lambda one: one.stat().st_mtime_ns))] if found else []


class Job:
    """A job of Flink with its one process, which writes EDGES edges at RATE a second."""

    def __init__(self, folder: Path) -> None:
        assert JARS is not None
        self.out, self._checkpoints, self._log = folder / "out", folder / "chk", folder / "log"
        self.out.mkdir()
        classes = folder / "classes"
        path = os.pathsep.join(map(str, sorted(Path(JARS).glob("*.jar"))))
        subprocess.run(["javac", "-cp", path, "-d", str(classes), str(JOB)], check=True)
        self._command = [
            "java", "-Xmx1g", "--add-opens=java.base/java.util=ALL-UNNAMED",
            "-cp", f"{path}{os.pathsep}{classes}", "WriteEdges", str(self.out),
            str(self._checkpoints), str(EDGES), str(RATE),
        ]  # fmt: skip

    def start(self) -> subprocess.Popen[bytes]:
        with open(self._log, "ab") as log:
            command = [*self._command, *newest_checkpoint(self._checkpoints)]
            return subprocess.Popen(command, stdout=log, stderr=log)

    def log(self) -> str:
        return self._log.read_text()[-3000:]

    def wrote_since(self, begun: float) -> bool:
        """Return whether it has begun a file after a time."""
        return any(one.stat().st_mtime > begun for one in self.out.glob("*/.*"))

    def unfinished(self) -> int:
        """Return the rows in files that have no name for others yet."""
        return sum(one.read_bytes().count(b"\n") for one in self.out.glob("*/.*"))


def run_with_kills(job: Job, rng: np.random.Generator) -> Iterator[int]:
    """Run a job to its end, killed KILLS times; yield the rows that it left unfinished."""
    for _ in range(KILLS):
        with job.start() as process:
            until, begun = time.monotonic() + WAIT, time.time()
            while not job.wrote_since(begun):
                assert time.monotonic() < until and process.poll() is None, job.log()
                time.sleep(0.02)
            # From before its first checkpoint to after several, but not after all edges.
            time.sleep(float(rng.uniform(0, 0.8 * EDGES / RATE / KILLS)))
            process.kill()
        yield job.unfinished()
    with job.start() as process:
        assert process.wait(WAIT) == 0, job.log()


@pytest.mark.slow
def test_a_killed_job_whose_rows_are_there_once(tmp_path: Path) -> None:
    job = Job(tmp_path)
    graph = DynamicGraph.open(tmp_path / "g", 1000, 64, order="time", huge_pages=False)
    schema = Schema.json(src="src", dst="dst")
    unfinished, had = [], []
    with Ingestor(graph, FileSource(job.out, schema, interval=0.05)) as ingestor:
        for rows in run_with_kills(job, np.random.default_rng(3)):
            unfinished.append(rows)
            had.append(graph.num_edges)
        until = time.monotonic() + WAIT
        while graph.num_edges < EDGES and time.monotonic() < until:
            ingestor.check()
            time.sleep(0.02)
    files = [one for one in job.out.glob("*/part-*") if one.stat().st_size]
    print(f"{len(had)} kills, when {had} edges were there and {unfinished} rows were unfinished, "
          f"{len(files)} files", file=sys.stderr)  # fmt: skip
    assert len(had) == KILLS and sum(unfinished) and 0 < had[-1] < EDGES
    assert edges(graph) == [(number // 1000, number % 1000) for number in range(EDGES)]
    assert len(graph.offsets("out")) == len(files)
    graph.close()
