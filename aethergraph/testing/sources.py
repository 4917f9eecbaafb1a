"""Contract of sources of streams."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from aethergraph.streaming.records import Records, Source
from aethergraph.testing.rules import Contract, given, require

__all__ = ["SourceContract"]

_COUNTS = ((5,), (0,), (40, 7, 0, 23), (3000, 3000))
#: Seconds that records may take to come.
_PATIENCE = 60.0


class SourceContract(Contract):
    """Rules of :class:`aethergraph.streaming.Source`.

    ::

        class TestMySource(SourceContract):
            def make(self, counts):
                for number, count in enumerate(counts):
                    for record in range(count):
                        self.send(number, record)            # the edge (number, record)
                return MySource(...)
    """

    @abstractmethod
    def make(self, counts: Sequence[int]) -> Source:
        """Return a source of ``len(counts)`` partitions.

        Record r of the i-th partition is the edge from node i to node r; there are ``counts[i]``.
        """

    def read(
        self,
        source: Source,
        most: int,
        offsets: dict[int, int],
        *,
        polls: int | None = None,
        empty: int | None = None,
    ) -> list[Records]:
        """Return what a source gives until ``most`` records are there; note the offsets.

        Args:
            source: the source.
            most: records to wait for.
            offsets: gets where to go on.
            polls: polls that give something, at most.
            empty: polls that give nothing, at most.
        """
        batches: list[Records] = []
        until = time.monotonic() + _PATIENCE
        while most > 0 and time.monotonic() < until and polls != 0 and empty != 0:
            some = source.poll(0.1)
            if some is None:
                break
            for batch in some:
                batches.append(batch)
                most -= batch.count
                offsets[batch.partition] = batch.following
            if some:
                polls = None if polls is None else polls - 1
            else:
                empty = None if empty is None else empty - 1
        return batches

    def edges(self, found: Sequence[Records]) -> dict[int, list[int]]:
        """Return the records by the node that they start at."""
        edges: dict[int, list[int]] = {}
        for batch in found:
            src, dst = batch.columns["src"].tolist(), batch.columns["dst"].tolist()
            for u, v in zip(src, dst, strict=True):
                edges.setdefault(u, []).append(v)
        return edges

    def _expected(self, counts: Sequence[int]) -> dict[int, list[int]]:
        return {i: list(range(count)) for i, count in enumerate(counts) if count}

    def test_each_record_comes_once_and_in_order(self) -> None:
        """All records come, those of a partition in order, and nothing else."""
        for counts in _COUNTS:
            source = self.make(counts)
            source.open({})
            try:
                with given("partitions", counts=counts):
                    batches = self.read(source, sum(counts), {})
                    batches += self.read(source, 1, {}, empty=2)
                    require(not any(batch.bad for batch in batches), "no record is bad")
                    edges = self.edges(batches)
                    expected = self._expected(counts)
                    require(edges == expected, f"expected {expected}, found {edges}")
            finally:
                source.close()

    def test_offsets_ascend(self) -> None:
        """The offsets of a partition ascend, up to below ``following``."""
        counts = (40, 7, 23)
        source = self.make(counts)
        source.open({})
        last: dict[int, int] = {}
        try:
            for batch in self.read(source, sum(counts), {}):
                assert batch.offsets is not None
                places = np.asarray(batch.offsets)
                require(len(places) == batch.count, "there is an offset for each record")
                require((np.diff(places) > 0).all(), f"offsets must ascend: {places}")
                if len(places):
                    require(
                        places[-1] < batch.following, "following must be behind the last offset"
                    )
                    require(
                        places[0] >= last.get(batch.partition, 0),
                        "offsets must not be below the following of the records before",
                    )
                last[batch.partition] = batch.following
        finally:
            source.close()

    def test_it_goes_on_at_the_offsets(self) -> None:
        """Opened again at the offsets of what was read, it gives the rest."""
        counts = (3000, 40, 3000)
        for polls in (1, 2):
            source = self.make(counts)
            offsets: dict[int, int] = {}
            batches: list[Records] = []
            with given("a source that is opened again and again", counts=counts):
                while left := sum(counts) - sum(batch.count for batch in batches):
                    source.open(dict(offsets))
                    some = self.read(source, left, offsets, polls=polls)
                    source.close()
                    require(some, "records are left, but none came")
                    batches += some
                require(self.edges(batches) == self._expected(counts), "each record comes once")

    def test_it_goes_on_amid_what_a_poll_gave(self) -> None:
        """Opened at the offset of any record, it gives that one and those after it."""
        counts = (100,)
        source = self.make(counts)
        source.open({})
        batches = self.read(source, 100, {})
        source.close()
        places = {
            int(offset): (batch.partition, int(record))
            for batch in batches
            for offset, record in zip(batch.offsets, batch.columns["dst"], strict=True)  # type: ignore[arg-type]
        }
        for offset in list(places)[1::17]:
            partition, record = places[offset]
            source.open({partition: offset})
            edges = self.edges(self.read(source, 100 - record, {}))
            source.close()
            with given("an offset", offset=offset):
                require(edges == {0: list(range(record, 100))}, f"found {edges}")

    def test_at_the_end_there_is_nothing(self) -> None:
        """Opened behind the last record, it gives none."""
        source = self.make((5, 3))
        offsets: dict[int, int] = {}
        source.open({})
        self.read(source, 8, offsets)
        source.close()
        source.open(offsets)
        try:
            require(not self.read(source, 1, {}, empty=2), "no record is left")
        finally:
            source.close()

    def test_a_paused_partition_gives_nothing(self) -> None:
        """After ``pause`` nothing comes of the partitions; after ``pause(())`` all of it."""
        counts = (50, 50)
        source = self.make(counts)
        source.open({})
        numbers: dict[int, int] = {}
        for batch in self.read(source, 100, {}):
            numbers[int(batch.columns["src"][0])] = batch.partition
        source.close()
        source.open({})
        try:
            source.pause([numbers[0]])
            first = self.edges(self.read(source, 50, {}))
            require(first == {1: list(range(50))}, f"partition 0 is paused, found {first}")
            source.pause(())
            second = self.edges(self.read(source, 50, {}))
            require(second == {0: list(range(50))}, f"it goes on where it was, found {second}")
        finally:
            source.close()

    def test_lag_is_what_is_left(self) -> None:
        """If there is ``lag``, it is above 0 while records are left, and 0 afterwards."""
        source = self.make((30, 0))
        lag = getattr(source, "lag", None)
        source.open({})
        try:
            if lag is None:
                return
            before: Mapping[int, int] = lag()
            require(sum(before.values()) > 0, f"records are left, but lag is {before}")
            self.read(source, 30, {})
            until = time.monotonic() + _PATIENCE  # a source may learn so by asking once more
            while any(after := lag().values()) and time.monotonic() < until:
                source.poll(0.1)
            require(not any(after), f"no record is left, but lag is {lag()}")
        finally:
            source.close()

    def test_it_is_a_source_with_a_name(self) -> None:
        """It has all members, its name is a text, and may be closed twice."""
        source = self.make((1,))
        require(isinstance(source, Source), "a member of Source is missing")
        require(isinstance(source.name, str) and source.name, "name must be a text")
        source.open({})
        source.close()
        source.close()
