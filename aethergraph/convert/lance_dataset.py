"""Batches of Arrow as a dataset of Lance, which is a folder: whole, or a new version of one."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from aethergraph.convert.outputs import check_outputs
from aethergraph.errors import StorageError, UnsupportedError
from aethergraph.storage.scratch import storage_error

__all__ = ["check_lance", "write_lance"]


def check_lance(path: str, inputs: list[str], force: bool) -> None:
    """Raise if Lance is not installed, or there is something else at a path."""
    try:
        import_module("lance")
    except ImportError as error:
        raise UnsupportedError(
            f"{path} needs Lance: pip install pylance ({error}), or a name that ends in .parquet"
        ) from None
    if _is_dataset(path):
        if not force:
            raise StorageError(
                errno.EEXIST, f"{path}: exists already; force=True makes a new version of it", path
            )
    elif os.path.lexists(path):
        raise StorageError(
            errno.EEXIST, f"{path}: is no dataset of Lance: delete it, or give another name", path
        )
    else:
        check_outputs([path], inputs, False)


def _is_dataset(path: str) -> bool:
    return os.path.isdir(os.path.join(path, "_versions"))


def write_lance(path: str, schema: Any, batches: Iterator[Any]) -> None:
    """Write a dataset, which appears when it is complete; or a new version of one that is there.

    Raises:
        StorageError: it cannot be written.
    """
    import pyarrow as pa

    failures = list[BaseException]()

    def watched() -> Iterator[Any]:
        try:
            yield from batches
        except BaseException as error:  # Lance makes a text of it
            failures.append(error)
            raise

    lance, is_new = import_module("lance"), not _is_dataset(path)
    target = f"{path}.partial" if is_new else path
    try:
        if is_new:
            shutil.rmtree(target, ignore_errors=True)  # of a process that was killed
        reader = pa.RecordBatchReader.from_batches(schema, watched())
        lance.write_dataset(reader, target, mode="create" if is_new else "overwrite")
        if is_new:
            os.rename(target, path)
    except BaseException as error:
        if is_new:
            shutil.rmtree(target, ignore_errors=True)
        if failures:
            raise failures[0] from None
        if isinstance(error, OSError):
            raise _named(error, path) from None
        raise


def _named(error: OSError, path: str) -> StorageError:
    """Return the error for what Lance says, which has the number of an error in its text."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    if number is not None:
        return storage_error(OSError(int(number[1]), ""), path)
    return StorageError(error.errno or errno.EIO, f"cannot write {path}: {error}", path)
