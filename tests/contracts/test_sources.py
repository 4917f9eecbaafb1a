"""The contract of sources: ours keep it, and mutants break the rule that they are made to break."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from aethergraph.streaming import FileSource, MemorySource, Schema
from aethergraph.testing import SourceContract, broken_rules


class TestMemorySource(SourceContract):
    most = 1000

    def make(self, counts: Sequence[int]) -> Any:
        source = MemorySource("edges", most=self.most)
        for number, count in enumerate(counts):
            for some in np.array_split(np.arange(count), 3):
                source.append(number, src=np.full(len(some), number), dst=some)
        return source


class TestMemorySourceByTwos(TestMemorySource):
    most = 17


class FilesContract(SourceContract):
    """Each partition is a file."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path

    def make(self, counts: Sequence[int]) -> Any:
        folder = Path(tempfile.mkdtemp(dir=self.path)) / "edges"
        folder.mkdir()
        for number, count in enumerate(counts):
            self.write(folder, number, count)
        return FileSource(folder, self.schema(), interval=0.001)

    def schema(self) -> Schema:
        raise NotImplementedError

    def write(self, folder: Path, number: int, count: int) -> None:
        raise NotImplementedError


class TestJsonLines(FilesContract):
    def schema(self) -> Schema:
        return Schema.json(src="u", dst="v")

    def write(self, folder: Path, number: int, count: int) -> None:
        lines = [json.dumps({"u": number, "v": v}) + "\n" for v in range(count)]
        (folder / f"{number}.jsonl").write_text("".join(lines))


class TestCsv(FilesContract):
    def schema(self) -> Schema:
        return Schema.csv(src="u", dst="v")

    def write(self, folder: Path, number: int, count: int) -> None:
        lines = [f"{number},{v}\r\n" for v in range(count)]
        (folder / f"{number}.csv").write_text("u,v\r\n" + "".join(lines), newline="")


class TestStructs(FilesContract):
    dtype: ClassVar[Any] = [("u", ">i4"), ("v", "<u8")]

    def schema(self) -> Schema:
        return Schema.struct(self.dtype, src="u", dst="v")

    def write(self, folder: Path, number: int, count: int) -> None:
        records = np.zeros(count, self.dtype)
        records["u"], records["v"] = number, np.arange(count)
        records.tofile(folder / f"{number}.bin")


class TestParquet(FilesContract):
    def schema(self) -> Schema:
        pytest.importorskip("pyarrow")
        return Schema.arrow(src="u", dst="v")

    def table(self, number: int, count: int) -> Any:
        pa = pytest.importorskip("pyarrow")
        return pa.table({"u": np.full(count, number), "v": np.arange(count)})

    def write(self, folder: Path, number: int, count: int) -> None:
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(self.table(number, count), folder / f"{number}.parquet", row_group_size=700)


class TestArrow(TestParquet):
    def write(self, folder: Path, number: int, count: int) -> None:
        pa = pytest.importorskip("pyarrow")
        table = self.table(number, count)
        make = pa.ipc.new_file if number % 2 else pa.ipc.new_stream
        with make(str(folder / f"{number}.arrow"), table.schema) as writer:
            writer.write_table(table, 900)


# ---- mutants -------------------------------------------------------------------------------------


class Forgets(MemorySource):
    def open(self, offsets: Any) -> None:
        super().open({})


class Skips(MemorySource):
    def poll(self, timeout: float) -> Any:
        found = super().poll(timeout)
        for one in found or ():
            if one.count > 2:
                one.columns = {name: values[1:] for name, values in one.columns.items()}
                one.offsets = one.offsets[1:]
        return found


class NeverPauses(MemorySource):
    def pause(self, partitions: Any) -> None:
        return None


class LosesWhatIsPaused(MemorySource):
    def pause(self, partitions: Any) -> None:
        gone = set(partitions)
        self._places.update({p: self._parts[p].count for p in gone})
        super().pause(gone)


class Reverses(MemorySource):
    def poll(self, timeout: float) -> Any:
        found = super().poll(timeout)
        for one in found or ():
            one.columns = {name: values[::-1] for name, values in one.columns.items()}
        return found


class WrongOffsets(MemorySource):
    def poll(self, timeout: float) -> Any:
        found = super().poll(timeout)
        for one in found or ():
            one.offsets = one.offsets + 1
        return found


class NoLag(MemorySource):
    def lag(self) -> dict[int, int]:
        return {}


@pytest.mark.parametrize(
    ("mutant", "rule"),
    [
        (Forgets, "test_it_goes_on_at_the_offsets"),
        (Forgets, "test_at_the_end_there_is_nothing"),
        (Forgets, "test_it_goes_on_amid_what_a_poll_gave"),
        (Skips, "test_each_record_comes_once_and_in_order"),
        (Reverses, "test_each_record_comes_once_and_in_order"),
        (NeverPauses, "test_a_paused_partition_gives_nothing"),
        (LosesWhatIsPaused, "test_a_paused_partition_gives_nothing"),
        (WrongOffsets, "test_offsets_ascend"),
        (NoLag, "test_lag_is_what_is_left"),
    ],
)
def test_mutants_are_found(
    mutant: type[MemorySource], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aethergraph.testing.sources._PATIENCE", 0.5)

    class Broken(SourceContract):
        def make(self, counts: Sequence[int]) -> Any:
            source = mutant("edges", most=50)
            for number, count in enumerate(counts):
                source.append(number, src=np.full(count, number), dst=np.arange(count))
            source.end()
            return source

    for name in dir(Broken):
        if name.startswith("test_") and name != rule:
            setattr(Broken, name, None)
    assert set(broken_rules(Broken)) == {rule}
