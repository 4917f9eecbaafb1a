"""PyTorch Frame's TensorFrame of gathered columns, and the statistics that its encoders take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aethergraph._checks.optional import how_to_get
from aethergraph._checks.options import shown
from aethergraph.columns.layout import Column
from aethergraph.errors import CorruptFileError, InvalidArgumentError, UnsupportedError

if TYPE_CHECKING:
    from aethergraph.columns.batch import ColumnBatch

__all__ = ["make_frame", "make_statistics"]


# Both are imported by name: mypyc would follow an import through all of torch in every build.
def _torch_frame() -> Any:
    try:
        import_module("torch_frame.data")
    except ImportError as error:
        raise UnsupportedError(
            f"a TensorFrame needs PyTorch Frame, which cannot be imported ({error}): "
            f"{how_to_get('frame')}"
        ) from None
    return import_module("torch_frame")


def make_frame(batch: ColumnBatch, encoders: Mapping[str, Callable[[list[str]], Any]]) -> Any:
    """Return the TensorFrame of a batch, see :meth:`ColumnBatch.tensor_frame`."""
    frame = _torch_frame()
    torch: Any = import_module("torch")

    names: dict[Any, list[str]] = {}
    parts: dict[Any, list[Any]] = {}
    for name, column in batch.columns.items():
        null = batch.nulls.get(name)
        if column.kind == "text":
            if name not in encoders:
                continue
            kind = frame.embedding
            value = _encoded(batch, name, encoders[name])
        elif column.kind == "number":
            kind = frame.numerical
            # Beyond float32 is infinite, as in PyTorch Frame.
            with np.errstate(over="ignore"):
                numbers = batch[name].astype(np.float32)
            value = torch.from_numpy(numbers if null is None else np.where(null, np.nan, numbers))
            value = value.to(torch.float32)
        elif column.kind == "time":
            kind = frame.timestamp
            value = torch.from_numpy(time_parts(batch[name]))
        else:
            kind = frame.categorical
            order = _by_count(column)
            codes = np.empty_like(order)
            codes[order] = np.arange(len(order))
            file_codes = batch[name].astype(np.int64)
            if len(file_codes) and (code := int(file_codes.max())) >= len(order) > 0:
                raise CorruptFileError(
                    f"a row of the column {name!r} has category {code} of {len(order)}: its file "
                    "is damaged"
                )
            codes = codes[np.maximum(file_codes, 0)] if len(order) else file_codes
            value = torch.from_numpy(codes if null is None else np.where(null, -1, codes))
        names.setdefault(kind, []).append(name)
        parts.setdefault(kind, []).append(value)
    features = {
        kind: frame.data.MultiEmbeddingTensor.from_tensor_list(values)
        if kind == frame.embedding
        else torch.stack(values, dim=1)
        for kind, values in parts.items()
    }
    return frame.data.TensorFrame(features, names, num_rows=batch.num_rows)


def _encoded(batch: ColumnBatch, name: str, encoder: Callable[[list[str]], Any]) -> Any:
    torch: Any = import_module("torch")

    value = encoder([text or "" for text in batch[name].to_list()])
    if not isinstance(value, torch.Tensor) or value.shape[:1] != (batch.num_rows,):
        raise InvalidArgumentError(
            f"the encoder of {name!r} returns a tensor with a row for each of {batch.num_rows} "
            f"texts, got {shown(value)}"
        )
    if value.ndim != 2:
        raise InvalidArgumentError(
            f"the encoder of {name!r} returns a tensor [n, dimension], got {tuple(value.shape)}"
        )
    return value


def time_parts(times: NDArray[Any]) -> NDArray[np.int64]:
    """Return year, month - 1, day - 1, day of the week (Monday: 0), hour, minute and second.

    int64 [n, 7], as ``torch_frame.data.mapper.TimestampTensorMapper`` has them; -1 for NaT.
    """
    missing = np.isnat(times)
    times = np.where(missing, np.datetime64(0, "s"), times)
    years, months = times.astype("datetime64[Y]"), times.astype("datetime64[M]")
    days, seconds = times.astype("datetime64[D]"), times.astype("datetime64[s]")
    second = (seconds - days.astype("datetime64[s]")).astype(np.int64)
    parts = np.stack(
        [
            years.astype(np.int64) + 1970,
            months.astype(np.int64) % 12,
            (days - months.astype("datetime64[D]")).astype(np.int64),
            (days.astype(np.int64) + 3) % 7,  # 1970 began on a Thursday
            second // 3600,
            second // 60 % 60,
            second % 60,
        ],
        axis=1,
    )
    parts[missing] = -1
    return parts


def _by_count(column: Column) -> NDArray[np.int64]:
    """Return the codes of a column by falling count.

    PyTorch Frame takes the first category for the most frequent one, such as where one is missing.
    """
    counts = np.asarray(column.statistics["counts"], np.int64)
    return np.argsort(-counts, kind="stable").astype(np.int64)


def make_statistics(
    columns: Iterable[Column], dimensions: Mapping[str, int]
) -> dict[str, dict[Any, Any]]:
    """Return ``col_stats`` of PyTorch Frame's encoders; of texts those with a dimension."""
    frame = _torch_frame()
    torch: Any = import_module("torch")

    kind = frame.data.stats.StatType
    statistics: dict[str, dict[Any, Any]] = {}
    for column in columns:
        known = column.statistics
        if column.kind == "number":
            nothing = [np.nan] * 5
            statistics[column.name] = {
                kind.MEAN: np.nan if known["mean"] is None else known["mean"],
                kind.STD: np.nan if known["std"] is None else known["std"],
                kind.QUANTILES: known["quantiles"] or nothing,
            }
        elif column.kind in ("bool", "category"):
            categories = [False, True] if column.kind == "bool" else list(column.categories)
            order = _by_count(column).tolist()
            counts = [known["counts"][at] for at in order]
            statistics[column.name] = {kind.COUNT: ([categories[at] for at in order], counts)}
        elif column.name in dimensions:
            statistics[column.name] = {kind.EMB_DIM: dimensions[column.name]}
        elif column.kind == "time":
            quantiles = known["quantiles"] or [np.iinfo(np.int64).min] * 5
            parts = time_parts(np.array(quantiles, np.int64).view(f"datetime64[{column.unit}]"))
            oldest, median, newest = (torch.from_numpy(parts[at]) for at in (0, 2, 4))
            statistics[column.name] = {
                kind.YEAR_RANGE: [int(oldest[0]), int(newest[0])],
                kind.OLDEST_TIME: oldest, kind.MEDIAN_TIME: median, kind.NEWEST_TIME: newest,
            }  # fmt: skip
    return statistics
