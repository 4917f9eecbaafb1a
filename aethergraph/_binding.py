"""The one module that talks to the compiled core (``aethergraph._native``, cffi API mode).

Rules kept here, so that nothing above has to think about them:

* numpy memory is lent with ``ffi.from_buffer`` for the time of a call; handles that go on
  borrowing (topologies, samplers) hold a reference to the arrays.
* A handle is freed when its last user is gone: ``close()`` drops one reference, arrays that view
  mapped memory hold another. ``ffi.gc`` runs the C destructor.
* A negative code becomes the class of ``errors.py`` that stands for it.
* Long calls go through :func:`run_task`, so that Ctrl-C and progress work.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from aethergraph import errors
from aethergraph._arrays import empty

try:
    from aethergraph._native import ffi, lib
except ImportError as error:  # pragma: no cover - a broken installation
    raise ImportError(
        "the compiled core aethergraph._native cannot be loaded "
        f"({error}); install the package again: pip install aethergraph, or pip install -e . in "
        "a checkout"
    ) from error

T = TypeVar("T")
Progress = Callable[[int, int], None]
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Ids = NDArray[np.int64]

# ---- errors ----------------------------------------------------------------------------------

ERROR_CLASSES: Final[dict[int, type[errors.AetherError]]] = {
    lib.AETHER_E_INVALID: errors.InvalidArgumentError,
    lib.AETHER_E_RANGE: errors.OutOfRangeError,
    lib.AETHER_E_NO_MEMORY: errors.OutOfMemoryError,
    lib.AETHER_E_IO: errors.StorageError,
    lib.AETHER_E_NOT_FOUND: errors.MissingFileError,
    lib.AETHER_E_FORMAT: errors.FormatError,
    lib.AETHER_E_VERSION: errors.VersionError,
    lib.AETHER_E_TRUNCATED: errors.TruncatedFileError,
    lib.AETHER_E_CORRUPT: errors.CorruptFileError,
    lib.AETHER_E_FILE_CHANGED: errors.FileChangedError,
    lib.AETHER_E_UNSUPPORTED: errors.UnsupportedError,
    lib.AETHER_E_CANCELLED: errors.CancelledError,
    lib.AETHER_E_LIMIT: errors.LimitError,
}


def error_table() -> list[tuple[int, str, str]]:
    """The native error table: (code, name, text)."""
    rows: list[tuple[int, str, str]] = []
    while (row := lib.aether_error_table(len(rows))) != ffi.NULL:
        rows.append((row.code, _text(row.name), _text(row.text)))
    return rows


def _text(chars: Any) -> str:
    return bytes(ffi.string(chars)).decode("utf-8", "replace")


def new_error() -> Any:
    """A caller-owned ``aether_error``, to be filled by one call at a time."""
    return ffi.new("aether_error *")


def raise_error(code: int, err: Any, path: str | None = None) -> NoReturn:
    """Raise the class of ``code`` with what the native call wrote into ``err``."""
    cls = ERROR_CLASSES.get(code, errors.AetherError)
    message = _text(err.message) or f"native error {code}"
    position = err.position if err.position >= 0 else None
    value = err.value if position is not None else None
    if issubclass(cls, errors.StorageError):
        number = err.os_errno or _DEFAULT_ERRNO.get(code, errno.EIO)
        raise cls(number, message, path, position=position, value=value)
    raise cls(message, position=position, value=value)


_DEFAULT_ERRNO = {
    lib.AETHER_E_NOT_FOUND: errno.ENOENT,
    lib.AETHER_E_FILE_CHANGED: errno.ESTALE,
}


# ---- library ---------------------------------------------------------------------------------


def native_version() -> str:
    """Version of the native core."""
    return _text(lib.aether_version())


def build_info() -> str:
    """Compiler, sanitizers and CPU dispatch of the native core."""
    return _text(lib.aether_build_info())


def get_num_threads() -> int:
    """Threads the native pool uses."""
    return int(lib.aether_get_num_threads())


def set_num_threads(num_threads: int) -> None:
    """Set the threads of the native pool: 1..256, or 0 for the default.

    The default is ``AETHERGRAPH_NUM_THREADS``, else the cores this process may use.

    Raises:
        InvalidArgumentError: the number is outside 0..256.
    """
    if isinstance(num_threads, bool) or not isinstance(num_threads, (int, np.integer)):
        raise errors.InvalidArgumentError(
            f"num_threads must be an integer, got {type(num_threads).__name__}"
        )
    if not 0 <= num_threads <= 256:
        raise errors.InvalidArgumentError(f"num_threads = {num_threads} is not in 0..256")
    err = new_error()
    code = lib.aether_set_num_threads(int(num_threads), err)
    if code:
        raise_error(code, err)


# ---- element types ---------------------------------------------------------------------------

BFLOAT16: Final[int] = lib.AETHER_BF16

#: dtype name -> native code; ``bfloat16`` has no numpy dtype, its arrays are uint16.
DTYPE_CODES: Final[dict[str, int]] = {
    "uint8": lib.AETHER_U8,
    "bool": lib.AETHER_BOOL,
    "int8": lib.AETHER_I8,
    "int16": lib.AETHER_I16,
    "int32": lib.AETHER_I32,
    "int64": lib.AETHER_I64,
    "uint32": lib.AETHER_U32,
    "uint64": lib.AETHER_U64,
    "float16": lib.AETHER_F16,
    "bfloat16": lib.AETHER_BF16,
    "float32": lib.AETHER_F32,
    "float64": lib.AETHER_F64,
}
DTYPE_NAMES: Final[dict[int, str]] = {code: name for name, code in DTYPE_CODES.items()}
#: native code -> numpy dtype of its arrays.
ARRAY_DTYPES: Final[dict[int, np.dtype[Any]]] = {
    code: np.dtype(np.uint16 if name == "bfloat16" else name) for name, code in DTYPE_CODES.items()
}


def dtype_code(dtype: DTypeLike | str, name: str = "dtype") -> int:
    """Native code of a numpy dtype or dtype name (``"bfloat16"`` included).

    Raises:
        InvalidArgumentError: the dtype is not one that can be stored.
    """
    if isinstance(dtype, str) and dtype == "bfloat16":
        return BFLOAT16
    try:
        key = np.dtype(dtype).name
    except TypeError:
        key = str(dtype)
    code = DTYPE_CODES.get(key)
    if code is None:
        known = ", ".join(DTYPE_CODES)
        raise errors.InvalidArgumentError(f"{name}: {key} is not one of {known}")
    return code


# ---- long calls ------------------------------------------------------------------------------


class Task:
    """The shared state of a long call: cancel, and progress summed over its native calls.

    Each native call counts its own items from 0; here it stands for the ``size`` bytes that it
    was lent the task for, so that one operation made of many calls has one measure.
    """

    __slots__ = ("_base", "_handle", "_size", "total")

    def __init__(self, total: int) -> None:
        self.total = total
        self._handle = ffi.new("aether_task *")
        self._base = 0
        self._size = 0

    def lend(self, size: int) -> Any:
        """The ``aether_task *`` for a native call that stands for ``size`` bytes."""
        self._base += self._size
        self._size = 0
        self._handle.done = 0
        self._handle.total = 0
        self._size = size
        return self._handle

    @property
    def done(self) -> int:
        """Bytes done so far, of ``total``."""
        part, whole = self._handle.done, self._handle.total
        inside = self._size * min(part, whole) // whole if whole else 0
        return int(min(self._base + inside, self.total))

    def cancel(self) -> None:
        """Ask the running native call, and those that follow, to stop."""
        self._handle.cancel = 1

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return bool(self._handle.cancel)

    def check(self) -> None:
        """Raise CancelledError if the task is to stop: for loops between native calls."""
        if self._handle.cancel:
            raise errors.CancelledError("cancelled")


def lend(task: Task | None, size: int) -> Any:
    """``task.lend(size)``, or NULL for no task."""
    return ffi.NULL if task is None else task.lend(size)


def run_task(
    call: Callable[[Task], T],
    progress: Progress | None = None,
    total: int = 0,
    *,
    interval: float = 0.1,
) -> T:
    """Run ``call(task)`` in a worker thread and wait for it.

    ``call`` hands ``task`` to the native functions it uses. Meanwhile this thread stays
    responsive: Ctrl-C (or an exception out of ``progress``) asks the call to stop, waits until it
    has let go of the memory lent to it, and is raised again.

    Args:
        call: the work; runs once, in another thread.
        progress: called with (done, total) about every ``interval`` seconds and at the end.
        total: bytes that the work moves in all.
        interval: seconds between two progress calls.
    """
    task = Task(total)
    result: list[T] = []
    failure: list[BaseException] = []
    finished = threading.Event()

    def work() -> None:
        try:
            result.append(call(task))
        except BaseException as error:
            failure.append(error)
        finally:
            finished.set()

    interrupt: BaseException | None = None
    shown = 0
    threading.Thread(target=work, name="aethergraph-task", daemon=True).start()
    while not finished.is_set():
        try:
            if not finished.wait(interval) and progress is not None and interrupt is None:
                shown = max(shown, task.done)
                progress(shown, total)
        except BaseException as error:
            task.cancel()
            interrupt = interrupt or error
    if interrupt is not None:
        raise interrupt
    if failure:
        raise failure[0]
    if progress is not None:
        progress(total, total)
    return result[0]


def run_long(call: Callable[[Task | None], T], progress: Progress | None, size: int) -> T:
    """:func:`run_task` when ``size`` bytes are many or progress is asked for; else just call."""
    if progress is None and size < LONG_CALL_BYTES:
        return call(None)
    return run_task(call, progress, size)


#: Calls that move fewer bytes go straight: they end before a person notices.
LONG_CALL_BYTES = 64 << 20


# ---- memory ----------------------------------------------------------------------------------


class MemoryView:
    """Memory of a native owner, as numpy's array interface: becomes the ``base`` of arrays."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(
        self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object, *,
        writable: bool = False,
    ) -> None:  # fmt: skip
        self._owner = owner
        self.__array_interface__ = {
            "data": (address, not writable),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }


def view_memory(
    address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object, *,
    writable: bool = False,
) -> NDArray[Any]:  # fmt: skip
    """An array over native memory that keeps ``owner`` alive, and through it the memory."""
    return np.asarray(MemoryView(address, shape, dtype, owner, writable=writable))


def address_of(array: NDArray[Any]) -> int:
    """Address of the array's first element."""
    return int(array.__array_interface__["data"][0])


_free_buffer = lib.aether_buffer_free


def buffer_alloc(size: int) -> NDArray[np.uint8]:
    """Zeroed anonymous memory (huge pages where the system grants them) as a uint8 array.

    The memory is given back when the last array that views it is gone.

    Raises:
        OutOfMemoryError: the system refuses.
    """
    if size == 0:
        return np.empty(0, np.uint8)
    err = new_error()
    data = lib.aether_buffer_alloc(size, err)
    if data == ffi.NULL:
        raise_error(err.code or lib.AETHER_E_NO_MEMORY, err)
    owner = ffi.gc(data, lambda p, free=_free_buffer: free(p, size), size)
    address = int(ffi.cast("uintptr_t", data))
    return view_memory(address, (size,), np.dtype(np.uint8), owner, writable=True)


def copy(dst: NDArray[Any], src: NDArray[Any], task: Task | None = None) -> None:
    """Copy ``src`` over ``dst`` (equal byte sizes, both contiguous) with all threads."""
    if dst.nbytes != src.nbytes:
        raise errors.InvalidArgumentError(f"cannot copy {src.nbytes} bytes over {dst.nbytes}")
    err = new_error()
    code = lib.aether_copy(
        ffi.from_buffer(dst, require_writable=True),
        ffi.from_buffer(src),
        src.nbytes,
        lend(task, src.nbytes),
        err,
    )
    if code:
        raise_error(code, err)


ADVICE_RANDOM: Final = 1
ADVICE_SEQUENTIAL: Final = 2
ADVICE_WILL_NEED: Final = 3
ADVICE_DROP: Final = 4


def advise(array: NDArray[Any], advice: int) -> None:
    """Tell the system how the mapped memory under ``array`` will be used. Never fails."""
    if array.nbytes:
        lib.aether_advise(ffi.from_buffer(array), array.nbytes, advice)


# ---- files -----------------------------------------------------------------------------------

CONTENT_GRAPH: Final[int] = lib.AETHER_CONTENT_GRAPH
CONTENT_FEATURES: Final[int] = lib.AETHER_CONTENT_FEATURES

SECTION_META: Final[int] = lib.AETHER_SECTION_META
SECTION_CSC_INDPTR: Final[int] = lib.AETHER_SECTION_CSC_INDPTR
SECTION_CSC_INDICES: Final[int] = lib.AETHER_SECTION_CSC_INDICES
SECTION_CSR_INDPTR: Final[int] = lib.AETHER_SECTION_CSR_INDPTR
SECTION_CSR_INDICES: Final[int] = lib.AETHER_SECTION_CSR_INDICES
SECTION_CSR_EDGE_IDS: Final[int] = lib.AETHER_SECTION_CSR_EDGE_IDS
SECTION_EDGE_ORDER: Final[int] = lib.AETHER_SECTION_EDGE_ORDER
SECTION_EDGE_WEIGHT: Final[int] = lib.AETHER_SECTION_EDGE_WEIGHT
SECTION_EDGE_TIME: Final[int] = lib.AETHER_SECTION_EDGE_TIME
SECTION_NODE_TIME: Final[int] = lib.AETHER_SECTION_NODE_TIME
SECTION_ARRAY: Final[int] = lib.AETHER_SECTION_ARRAY


class Section(NamedTuple):
    """One row of a container's section table."""

    number: int
    kind: int
    owner: int
    dtype: int
    offset: int
    size: int
    checksum: int


def encode_path(path: Path) -> tuple[str, bytes]:
    """``path`` as text and as the bytes that the system call takes."""
    encoded = os.fsencode(path)
    text = os.fsdecode(encoded)
    if not encoded or b"\0" in encoded:
        raise errors.InvalidArgumentError(f"{text!r} is not a file name")
    return text, encoded


class NativeFile:
    """A mapped container, or any mapped file (:meth:`map_raw`). Immutable, shared by threads."""

    __slots__ = ("_base", "_handle", "path", "raw", "size")

    def __init__(self, path: Path, *, raw: bool = False) -> None:
        self._handle: Any = None
        text, encoded = encode_path(path)
        self.path = os.path.abspath(text)
        self.raw = raw
        out = ffi.new("aether_file **")
        err = new_error()
        call = lib.aether_file_map_raw if raw else lib.aether_file_open
        code = call(encoded, out, err)
        if code:
            raise_error(code, err, text)
        self._handle = ffi.gc(out[0], lib.aether_file_close)
        self.size = int(lib.aether_file_size(self._handle))
        base = lib.aether_file_base(self._handle)
        self._base = int(ffi.cast("uintptr_t", base))

    def _live(self) -> Any:
        if self._handle is None:
            raise errors.ClosedError(f"{self.path}: the file was closed")
        return self._handle

    @property
    def content(self) -> int:
        """CONTENT_GRAPH or CONTENT_FEATURES."""
        return int(lib.aether_file_content(self._live()))

    def sections(self) -> list[Section]:
        """The section table."""
        handle = self._live()
        row = ffi.new("aether_section *")
        err = new_error()
        found = []
        for i in range(lib.aether_file_num_sections(handle)):
            code = lib.aether_file_section(handle, i, row, err)
            if code:
                raise_error(code, err, self.path)
            found.append(
                Section(i, row.kind, row.owner, row.dtype, row.offset, row.size, row.checksum)
            )
        return found

    def section_array(self, section: Section) -> NDArray[Any]:
        """A section as a read-only vector that keeps the mapping alive."""
        dtype = ARRAY_DTYPES.get(section.dtype)
        if dtype is None:
            raise errors.CorruptFileError(
                f"{self.path}: section {section.number} has the unknown dtype {section.dtype}"
            )
        if section.size % dtype.itemsize:
            raise errors.CorruptFileError(
                f"{self.path}: section {section.number} of {section.size} bytes is not a whole "
                f"number of {dtype} values"
            )
        return self.array(section.offset, (section.size // dtype.itemsize,), dtype)

    def array(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """A read-only array over ``offset ..`` of the mapping, which it keeps alive."""
        handle = self._live()
        items = 1
        for extent in shape:
            items *= extent
        if offset < 0 or offset + items * dtype.itemsize > self.size:
            raise errors.TruncatedFileError(
                f"{self.path}: {items * dtype.itemsize} bytes at {offset} are past the end of the "
                f"file ({self.size} bytes)"
            )
        if items == 0:
            array = np.empty(shape, dtype)
            array.flags.writeable = False
            return array
        return view_memory(self._base + offset, shape, dtype, handle)

    def verify(self, task: Task | None = None) -> None:
        """Compare every section with its checksum."""
        err = new_error()
        code = lib.aether_file_verify(self._live(), lend(task, self.size), err)
        if code:
            raise_error(code, err, self.path)

    def check(self) -> None:
        """Raise FileChangedError if a page of the mapping could not be read any more."""
        check_handle(self._live(), self.path)

    def guard(self) -> FileGuard:
        """Something to ask after reads, which lives on when this object is closed."""
        return FileGuard(self._live(), self.path)

    def close(self) -> None:
        """Drop this reference; arrays and guards that use the mapping keep it."""
        self._handle = None

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._handle is None


class FileGuard:
    """Reports that a mapping lost pages (its file shrank) since it was made."""

    __slots__ = ("_handle", "path")

    def __init__(self, handle: Any, path: str) -> None:
        self._handle = handle
        self.path = path

    def check(self) -> None:
        """Raise FileChangedError if a page of the mapping could not be read any more."""
        check_handle(self._handle, self.path)


def check_handle(handle: Any, path: str) -> None:
    """``aether_file_check`` with errors raised."""
    if lib.aether_file_check(handle, ffi.NULL):
        err = new_error()
        code = lib.aether_file_check(handle, err)
        raise_error(code, err, path)


class NativeWriter:
    """Writes a container beside ``path`` and renames it over ``path`` in :meth:`commit`.

    As a context manager it commits on success and leaves nothing behind on failure.
    """

    __slots__ = ("_err", "_writer", "path")

    def __init__(self, path: Path, content: int) -> None:
        self._writer: Any = None
        text, encoded = encode_path(path)
        self.path = text
        self._err = new_error()
        out = ffi.new("aether_writer **")
        self._check(lib.aether_writer_create(encoded, content, out, self._err))
        self._writer = out[0]

    def _check(self, code: int) -> None:
        if code:
            raise_error(code, self._err, self.path)

    def begin(self, kind: int, owner: int, dtype: int) -> None:
        """Start a section."""
        self._check(lib.aether_writer_begin(self._writer, kind, owner, dtype, self._err))

    def append(self, array: NDArray[Any] | bytes, task: Task | None = None) -> None:
        """Add the bytes of a contiguous array to the section."""
        data = ffi.from_buffer(array)
        size = len(array) if isinstance(array, bytes) else array.nbytes
        self._check(lib.aether_writer_append(self._writer, data, size, lend(task, size), self._err))

    def end(self) -> None:
        """End the section."""
        self._check(lib.aether_writer_end(self._writer, self._err))

    def commit(self) -> None:
        """Make the file durable and put it in place."""
        writer, self._writer = self._writer, None
        self._check(lib.aether_writer_commit(writer, self._err))

    def abort(self) -> None:
        """Remove what was written; does nothing after :meth:`commit`."""
        writer, self._writer = self._writer, None
        if writer is not None:
            lib.aether_writer_abort(writer)

    def __enter__(self) -> NativeWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.commit()
        else:
            self.abort()

    def __del__(self) -> None:
        self.abort()


# ---- building --------------------------------------------------------------------------------


def id_bytes_for(count: int) -> int:
    """Bytes of an id below ``count``: 4 up to 2^32 - 1 of them, else 8."""
    return 4 if count <= 0xFFFFFFFF else 8


def id_dtype(id_bytes: int) -> np.dtype[Any]:
    """The unsigned dtype of 4 or 8 bytes."""
    return np.dtype(np.uint32 if id_bytes == 4 else np.uint64)


def build_lists(
    major: Ids, minor: Ids, num_major: int, num_minor: int, *,
    id_bytes: int, with_order: bool, task: Task | None = None,
) -> tuple[NDArray[np.uint64], NDArray[Any], NDArray[Any] | None]:  # fmt: skip
    """Group an edge list by ``major``, keeping the input order within a list.

    Returns:
        ``indptr`` uint64 [num_major + 1], ``indices`` [E] of ``id_bytes``, and ``order`` [E] (the
        input row at each position, uint32 or uint64) or None.

    Raises:
        OutOfRangeError: an id is outside its range; ``position`` is the row.
    """
    num_edges = len(major)
    indptr = empty(num_major + 1, np.uint64, f"the offsets of {num_major} lists")
    indices = empty(num_edges, id_dtype(id_bytes), f"{num_edges} edges")
    order_bytes = id_bytes_for(num_edges)
    order = empty(num_edges, id_dtype(order_bytes), f"{num_edges} edges") if with_order else None
    err = new_error()
    code = lib.aether_build_lists(
        ffi.from_buffer("int64_t[]", major),
        ffi.from_buffer("int64_t[]", minor),
        num_edges,
        num_major,
        num_minor,
        ffi.from_buffer("uint64_t[]", indptr),
        ffi.from_buffer(indices),
        id_bytes,
        ffi.NULL if order is None else ffi.from_buffer(order),
        order_bytes,
        lend(task, 16 * num_edges),
        err,
    )
    if code:
        raise_error(code, err)
    return indptr, indices, order


def id_bounds(ids: Ids) -> tuple[int, int]:
    """Smallest and largest id; (-1, -1) for none."""
    out = ffi.new("int64_t[2]")
    err = new_error()
    code = lib.aether_id_bounds(ffi.from_buffer("int64_t[]", ids), len(ids), out, out + 1, err)
    if code:
        raise_error(code, err)
    return int(out[0]), int(out[1])


def check_lists(
    indptr: NDArray[np.uint64], indices: NDArray[Any], num_minor: int, task: Task | None = None
) -> None:
    """Check that ``indptr`` is monotone and ends at E, and that every index is < num_minor.

    Raises:
        CorruptFileError or OutOfRangeError: with the position of the first fault.
    """
    err = new_error()
    code = lib.aether_check_lists(
        ffi.from_buffer("uint64_t[]", indptr),
        len(indptr) - 1,
        ffi.from_buffer(indices),
        indices.dtype.itemsize,
        len(indices),
        num_minor,
        lend(task, indices.nbytes),
        err,
    )
    if code:
        raise_error(code, err)


# ---- gather ----------------------------------------------------------------------------------


class NativeRows:
    """Rows of an array, ready to be gathered. Keeps the array (and its mapping) alive."""

    __slots__ = ("_array", "_guard", "_rows", "code")

    def __init__(self, array: NDArray[Any], code: int, guard: FileGuard | None = None) -> None:
        items = 1
        for extent in array.shape[1:]:
            items *= extent
        self._array = array
        self._guard = guard
        self.code = code
        self._rows = ffi.new("aether_rows *")
        self._rows.data = ffi.cast("void *", address_of(array))
        self._rows.num_rows = array.shape[0]
        self._rows.row_items = items
        self._rows.stride = array.strides[0] if array.size else items * array.dtype.itemsize
        self._rows.dtype = code

    def gather(
        self, ids: NDArray[Any], out: NDArray[Any], out_code: int, task: Task | None = None
    ) -> None:
        """``out[i] = rows[ids[i]]``; ``ids`` int64 or uint32, ``out`` contiguous and writable."""
        err = new_error()
        code = lib.aether_gather(
            self._rows,
            ffi.from_buffer(ids),
            ids.itemsize,
            ids.shape[0],
            ffi.from_buffer(out),
            out_code,
            lend(task, out.nbytes),
            err,
        )
        if code:
            raise_error(code, err)
        if self._guard is not None:
            self._guard.check()


def gather(
    array: NDArray[Any], ids: NDArray[Any], out: NDArray[Any], task: Task | None = None
) -> None:
    """``out[i] = array[ids[i]]`` for plain arrays, with the dtype of ``out``."""
    rows = NativeRows(array, dtype_code(array.dtype))
    rows.gather(ids, out, dtype_code(out.dtype), task)


# ---- topology and sampling -------------------------------------------------------------------


class NativeTopology:
    """Compressed lists: borrows its arrays and keeps them alive. Immutable, shared by threads."""

    __slots__ = (
        "_edge_ids",
        "_handle",
        "edge_ids",
        "guard",
        "indices",
        "indptr",
        "num_edges",
        "num_major",
    )

    def __init__(
        self,
        indptr: NDArray[np.uint64],
        indices: NDArray[Any],
        edge_ids: NDArray[Any] | None,
        num_minor: int,
        guard: FileGuard | None = None,
    ) -> None:
        self._handle: Any = None
        self.indptr = indptr
        self.indices = indices
        self.edge_ids = edge_ids
        self.guard = guard
        self.num_major = len(indptr) - 1
        self.num_edges = len(indices)
        lists = ffi.new("aether_lists *")
        lists.num_major = self.num_major
        lists.num_minor = num_minor
        lists.num_edges = self.num_edges
        lists.indptr = ffi.cast("const uint64_t *", address_of(indptr))
        lists.indices = ffi.cast("const void *", address_of(indices))
        lists.id_bytes = indices.dtype.itemsize
        lists.edge_id_bytes = 8
        if edge_ids is not None:
            lists.edge_ids = ffi.cast("const void *", address_of(edge_ids))
            lists.edge_id_bytes = edge_ids.dtype.itemsize
        out = ffi.new("aether_topology **")
        err = new_error()
        code = lib.aether_topology_create(lists, out, err)
        if code:
            raise_error(code, err)
        self._handle = ffi.gc(out[0], lib.aether_topology_destroy)

    def degrees(self, nodes: Ids | None) -> Ids:
        """Length of the list of each node (None: of all)."""
        count = self.num_major if nodes is None else len(nodes)
        out = empty(count, np.int64, f"{count} degrees")
        lent = ffi.NULL if nodes is None else ffi.from_buffer("int64_t[]", nodes)
        err = new_error()
        code = lib.aether_topology_degrees(
            self._handle, lent, count, ffi.from_buffer("int64_t[]", out), err
        )
        if code:
            raise_error(code, err)
        if self.guard is not None:
            self.guard.check()
        return out

    def neighbors(self, nodes: Ids, *, with_edges: bool = False) -> tuple[Ids, Ids | None]:
        """The lists of ``nodes``, one after the other, and their edge ids if asked for."""
        capacity = int(self.degrees(nodes).sum())
        neighbors = empty(capacity, np.int64, f"{capacity} neighbours")
        edges = empty(capacity, np.int64, f"{capacity} edges") if with_edges else None
        err = new_error()
        code = lib.aether_topology_neighbors(
            self._handle,
            ffi.from_buffer("int64_t[]", nodes),
            len(nodes),
            ffi.from_buffer("int64_t[]", neighbors),
            ffi.NULL if edges is None else ffi.from_buffer("int64_t[]", edges),
            capacity,
            err,
        )
        if code:
            raise_error(code, err)
        if self.guard is not None:
            self.guard.check()
        return neighbors, edges


SAMPLE_REPLACE: Final[int] = lib.AETHER_SAMPLE_REPLACE
SAMPLE_DISJOINT: Final[int] = lib.AETHER_SAMPLE_DISJOINT
SAMPLE_INDUCED: Final[int] = lib.AETHER_SAMPLE_INDUCED


class NativeSample(NamedTuple):
    """The arrays of one sample (see ``sampling.Subgraph``)."""

    node: Ids
    row: Ids
    col: Ids
    edge: Ids
    batch: Ids | None
    hop_nodes: list[int]
    hop_edges: list[int]


class NativeSampler:
    """Scratch memory and options of a sampler; used by one thread at a time."""

    __slots__ = (
        "_err",
        "_fanouts",
        "_handle",
        "_hop_edges",
        "_hop_nodes",
        "_num_hops",
        "_options",
        "_totals",
        "_with_batch",
        "topology",
    )

    def __init__(
        self, topology: NativeTopology, fanouts: tuple[int, ...], flags: int, num_threads: int
    ) -> None:
        self._handle: Any = None
        self.topology = topology
        self._num_hops = len(fanouts)
        self._with_batch = bool(flags & SAMPLE_DISJOINT)
        self._fanouts = ffi.new("int64_t[]", list(fanouts))
        self._options = ffi.new("aether_sample_options *")
        self._options.fanouts = self._fanouts
        self._options.num_hops = self._num_hops
        self._options.flags = flags
        self._options.num_threads = num_threads
        self._hop_nodes = ffi.new("uint64_t[]", self._num_hops + 1)
        self._hop_edges = ffi.new("uint64_t[]", max(1, self._num_hops))
        self._totals = ffi.new("uint64_t[2]")
        self._err = new_error()
        out = ffi.new("aether_sampler **")
        code = lib.aether_sampler_create(topology._handle, out, self._err)
        if code:
            raise_error(code, self._err)
        self._handle = ffi.gc(out[0], lib.aether_sampler_destroy)

    @property
    def memory(self) -> int:
        """Bytes of scratch memory held."""
        return int(lib.aether_sampler_memory(self._handle))

    def sample(self, seeds: Ids, key: int) -> NativeSample:
        """Sample around ``seeds`` (contiguous int64) with the 64-bit ``key``."""
        self._options.key = key
        err = self._err
        code = lib.aether_sample(
            self._handle,
            ffi.from_buffer("int64_t[]", seeds),
            seeds.shape[0],
            self._options,
            self._hop_nodes,
            self._hop_edges,
            self._totals,
            err,
        )
        if code:
            raise_error(code, err)
        num_nodes, num_edges = self._totals
        node = np.empty(num_nodes, np.int64)
        links = np.empty((3, num_edges), np.int64)
        batch = np.empty(num_nodes, np.int64) if self._with_batch else None
        row, col, edge = links
        code = lib.aether_sample_export(
            self._handle,
            8,
            ffi.from_buffer(node),
            ffi.from_buffer(row),
            ffi.from_buffer(col),
            ffi.from_buffer(edge),
            ffi.NULL if batch is None else ffi.from_buffer(batch),
            err,
        )
        if code:
            raise_error(code, err)
        guard = self.topology.guard
        if guard is not None:
            guard.check()
        hop_nodes = ffi.unpack(self._hop_nodes, self._num_hops + 1)
        hop_edges = ffi.unpack(self._hop_edges, self._num_hops)
        return NativeSample(node, row, col, edge, batch, hop_nodes, hop_edges)


def rng_draws(key: int, hop: int, node: int, seed: int, count: int) -> NDArray[np.uint64]:
    """Draws of the stream (key, hop, node, seed), for oracles and tests."""
    out = np.empty(count, np.uint64)
    lib.aether_rng_draws(key, hop, node, seed, count, ffi.from_buffer("uint64_t[]", out))
    return out
