"""Pictures of profiles; matplotlib is imported when one is drawn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from aethergraph._checks.optional import require
from aethergraph._checks.options import shown
from aethergraph.errors import InvalidArgumentError, StorageError

__all__ = ["plot_parts"]

_KINDS = (".png", ".pdf", ".svg")


def plot_parts(
    path: str | os.PathLike[str],
    bars: Sequence[tuple[str, Sequence[tuple[str, float]]]],
    title: str,
) -> None:
    """Draw stacked bars of milliseconds per batch.

    Args:
        path: the file, ``.png``, ``.pdf`` or ``.svg``.
        bars: each with its label, and (label, milliseconds) of its pieces.
        title: title of the picture.
    """
    try:
        is_known = Path(path).suffix.lower() in _KINDS
    except Exception:  # whatever an object of somebody else raises
        is_known = False
    if not is_known:
        raise InvalidArgumentError(f"path = {shown(path)} does not end in {', '.join(_KINDS)}")
    drawing = require("matplotlib.figure", "plot() needs", "plot")
    figure = drawing.Figure(figsize=(10, 1.6 + 1.4 * len(bars)), layout="constrained")
    axes = figure.subplots(len(bars), 1, squeeze=False)
    for (label, pieces), axis in zip(bars, axes[:, 0], strict=True):
        left = 0.0
        for name, size in pieces:
            width = max(0.0, size)
            axis.barh([label], [width], left=left, label=f"{name}: {size:.2f} ms")
            left += width
        axis.set_xlabel("ms per batch")
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small", frameon=False)
        axis.set_yticks([])
        axis.set_title(label, fontsize="small", loc="left")
    figure.suptitle(title)
    try:
        figure.savefig(path)
    except OSError as error:
        raise StorageError(error.errno, f"{os.fspath(path)}: {error.strerror}") from None
    except ValueError as error:  # no name that a file can have
        raise InvalidArgumentError(f"path = {shown(path)}: {error}") from None
