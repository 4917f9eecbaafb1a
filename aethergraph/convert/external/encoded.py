"""Column of ids that becomes two sections of the graph file: compressed blocks and their index."""

from __future__ import annotations

import os

import numpy as np

from aethergraph import _native as native
from aethergraph._native.blocks import BLOCK, GROUP
from aethergraph.convert.external.array_files import ColumnFiles
from aethergraph.convert.external.damage import WorkFileError
from aethergraph.convert.external.runs import append_bytes
from aethergraph.storage.scratch import storage_error

__all__ = ["EncodedColumn"]

_MOST_IDS = 1 << 22
_COPY_WORDS = 1 << 19
_U64 = np.dtype(np.uint64)


class EncodedColumn:
    """Encoder of a column of ids, piece by piece.

    Args:
        files: the column files.
        name: name of the column.
        scratch: path of a file for the index until the blocks are written: 20 bytes for 1024 ids,
            which memory need not hold.
        memory: bytes for buffers.
    """

    def __init__(self, files: ColumnFiles, name: str, scratch: str, memory: int) -> None:
        self._files = files
        self._name = name
        self._scratch = scratch
        # A piece is read, encoded to at most a little more, and written.
        fitting = memory // (4 * files.dtype(name).itemsize)
        self._ids = max(min(fitting, _MOST_IDS) // (BLOCK * GROUP), 1) * BLOCK * GROUP

    def write(
        self,
        writer: native.NativeWriter,
        kinds: tuple[int, int],
        owner: int,
        task: native.Task | None,
    ) -> None:
        """Write both sections, of ``kinds`` (blocks, index)."""
        try:
            file = os.open(self._scratch, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise storage_error(error, self._scratch) from None
        try:
            encoder = native.BlockEncoder()
            words = self._write_blocks(writer, kinds[0], owner, encoder, file, task)
            writer.begin(kinds[1], owner, native.dtype_code(_U64))
            for begin in range(0, words, _COPY_WORDS):
                writer.append(self._read_back(file, begin, min(_COPY_WORDS, words - begin)))
            writer.append(encoder.index())
            writer.end()
        finally:
            os.close(file)
            os.unlink(self._scratch)

    def _write_blocks(
        self,
        writer: native.NativeWriter,
        kind: int,
        owner: int,
        encoder: native.BlockEncoder,
        file: int,
        task: native.Task | None,
    ) -> int:
        """Write the section of blocks; return the number of index words in ``file``."""
        words = 0
        writer.begin(kind, owner, native.dtype_code(np.dtype(np.uint8)))
        for ids in self._files.pieces(self._name, self._ids):
            writer.append(encoder.encode(ids, task))
            index = encoder.take_index()
            append_bytes(file, self._scratch, index, 8 * words)
            words += len(index)
        writer.end()
        return words

    def _read_back(self, file: int, begin: int, words: int) -> native.Ids:
        data = os.pread(file, 8 * words, 8 * begin)
        if len(data) != 8 * words:
            raise WorkFileError(self._scratch, "ends too early")
        return np.frombuffer(data, np.uint64)
