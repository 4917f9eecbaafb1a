"""GraphBolt's features over rows in memory or in files.

Sources followed: ``feature_store.py``, ``impl/basic_feature_store.py`` and ``feature_fetcher.py``
of ``dgl/graphbolt``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

import dgl.graphbolt as gb
from aethergraph import _native as native
from aethergraph._checks.arrays import allocate, to_array
from aethergraph._checks.options import is_hashable, shown
from aethergraph._torch.feature_columns import Column
from aethergraph._torch.tensors import seed_ids
from aethergraph._tracepoints import stage
from aethergraph.dgl._arguments import check_cpu, warn_of_pinning
from aethergraph.dgl._schema import EdgeNumbers, Schema
from aethergraph.dgl.features import BUFFERS, Fetch
from aethergraph.dgl.graphbolt._forms import is_typed, type_name
from aethergraph.errors import InvalidArgumentError, OutOfRangeError, UnsupportedError
from aethergraph.features.adapters import as_row_source
from aethergraph.features.rows import as_tensor
from aethergraph.protocols import AnyGraph, FeatureSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EdgeFeature", "Feature", "FeatureStore", "NodeFeature"]

Ids: TypeAlias = "NDArray[np.int64]"


class _OnCpu:
    """Device methods of GraphBolt's features in memory, as far as they apply here."""

    def pin_memory_(self) -> Any:
        """Return the feature unchanged, with a warning: the CPU reads its rows."""
        warn_of_pinning(
            "rows are read by the CPU, and batches move with copy_to; rows that fit in memory can "
            "be a gb.TorchBasedFeature(feature.read()), which has it"
        )
        return self

    def to(self, device: Any) -> Any:
        """Return the feature for the CPU, where it is.

        Raises:
            UnsupportedError: another device, or "pinned".
        """
        check_cpu(
            device,
            "rows are read by the CPU, batches move with copy_to; rows that fit there can be a "
            "gb.TorchBasedFeature(feature.read()), which has to()",
        )
        return self


class Feature(_OnCpu, gb.Feature):  # type: ignore[misc]
    """Rows that GraphBolt's ``fetch_feature`` reads, in memory or in a file.

    ::

        gb.BasicFeatureStore({("node", None, "x"): Feature(FeatureTable.load("x.npy"))})

    Rows of any shape will do, one number each too, and stores of ``storage="uring"``.

    Args:
        rows: an :class:`aethergraph.FeatureTable` or another source of rows, a tensor, or an
            array. A contiguous tensor or array is not copied.
        metadata: result of :meth:`metadata`.

    Raises:
        InvalidArgumentError: rows that cannot be stored.
    """

    def __init__(
        self,
        rows: FeatureSource | Tensor | NDArray[Any],
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InvalidArgumentError(f"metadata = {shown(metadata)} is no dict")
        if isinstance(rows, FeatureSource):
            self._column = Column(as_row_source(rows, "rows"), None)
        else:
            self._column = Column.of_tensor(_as_tensor(rows))
        self._metadata = metadata

    def read(self, ids: Tensor | None = None) -> Tensor:
        """Return rows [n, ...] of ``ids``, an integer vector [n], on its device; None: all.

        Raises:
            OutOfRangeError: an id that is no row, with its position.
            InvalidArgumentError: ids that are no integer vector.
        """
        if ids is None:
            return self._all(self._column.live())
        return self._gather(seed_ids(ids, "ids")).to(ids.device)

    def read_async(self, ids: Tensor) -> Iterator[Fetch]:
        """Start reading rows in the background, as GraphBolt's fetching does from 2.4 on.

        Yields:
            An object whose ``wait()`` gives the rows [n, ...] of ``ids``, or raises an error.
        """
        row_ids = seed_ids(ids, "ids")  # in this thread: a GPU may still be at them on its stream
        ahead = not self._column.rows.is_in_memory
        yield Fetch(lambda: self._gather(row_ids), ahead, ids.device)

    def read_async_num_stages(self, ids_device: Any) -> int:
        """Return the number of times that :meth:`read_async` yields, on any device."""
        return 1

    def size(self) -> torch.Size:
        """Return the shape of a row."""
        return torch.Size(self._column.shape[1:])

    def count(self) -> int:
        """Return the number of rows."""
        return int(self._column.shape[0])

    def update(self, value: Tensor, ids: Tensor | None = None) -> None:
        """Write rows, or take ``value`` in the place of all of them.

        Rows of a tensor or an array are written where they are; so are those of attributes that a
        graph was given as such. A sampler that has begun to draw by them goes on with what it has
        read. All rows at once, without ``ids``, may be of another shape or dtype, as GraphBolt's
        inference layer by layer needs: then, and for rows that are not writable, the feature is
        that of ``value`` from now on, and the file, array or graph keeps what it had.

        Args:
            value: rows [n, ...]; with ``ids`` of the same shape and dtype. Without ids a feature of
                a graph takes one for each of its nodes or edges.
            ids: numbers of the rows [n]; None: all rows.

        Raises:
            UnsupportedError: some rows of a file, of a read-only array, or of a graph's own weights
                and times, which are not written.
            InvalidArgumentError: another number of rows, shape or dtype, or no tensor of rows.
            OutOfRangeError: an id that is no row, with its position.
        """
        if not isinstance(value, Tensor) or not value.ndim:
            noun = "a number" if isinstance(value, Tensor) else type(value).__name__
            raise InvalidArgumentError(f"value must be a tensor of rows, got {noun}")
        column = self._column.live()
        rows = column.tensor
        memory = column.rows.writable_array if rows is None else None
        if memory is not None:
            rows = as_tensor(memory, native.dtype_code(column.rows.dtype_name))
        if ids is None and (rows is None or value.dtype != rows.dtype or value.shape != rows.shape):
            self._column = Column.of_tensor(self._in_own_order(value.detach().cpu()))
            return
        if rows is None:
            raise UnsupportedError(
                "update: these rows are not written, as those of files, of read-only arrays and of "
                "a graph's own weights and times; make a feature of a copy in memory, "
                "Feature(feature.read()), or give the graph one before FeatureStore(graph), as "
                "graph.node_attrs[name] = graph.node_attrs[name].tensor().clone()"
            )
        row_ids = np.arange(len(rows)) if ids is None else seed_ids(ids, "ids")
        count = len(row_ids)
        if value.dtype != rows.dtype or tuple(value.shape) != (count, *rows.shape[1:]):
            raise InvalidArgumentError(
                f"value must have shape {(count, *rows.shape[1:])} and {rows.dtype}, got "
                f"{tuple(value.shape)} of {value.dtype}"
            )
        outside = np.flatnonzero((row_ids < 0) | (row_ids >= len(rows)))
        if len(outside):
            at = int(outside[0])
            raise OutOfRangeError(
                f"ids[{at}] = {row_ids[at]} is out of range for {len(rows)} rows",
                position=at,
                value=int(row_ids[at]),
            )
        rows[torch.from_numpy(self._rows_of(row_ids))] = value.detach().to(rows.device)

    def is_pinned(self) -> bool:
        """Return whether the rows are a tensor in page-locked memory."""
        tensor = self._column.tensor
        return tensor is not None and tensor.is_pinned()

    def metadata(self) -> dict[str, Any]:
        """Return the metadata that were given, else nothing."""
        return {} if self._metadata is None else self._metadata

    def __getstate__(self) -> dict[str, Any]:
        column = self._column.live()
        return {**self.__dict__, "_column": column.rows if column.tensor is None else column.tensor}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        rows = state["_column"]
        is_tensor = isinstance(rows, Tensor)
        self._column = Column.of_tensor(rows) if is_tensor else Column(rows, None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self._column.shape}, dtype={self._column.dtype})"

    def _all(self, column: Column) -> Tensor:
        rows: Tensor = column.get(None)
        return rows

    def _gather(self, ids: Ids) -> Tensor:
        column = self._column.live()
        with stage("gather", reads=column.rows):
            return column.gather(self._rows_of(ids), BUFFERS)

    def _in_own_order(self, value: Tensor) -> Tensor:
        """Reorder rows from the order of users' ids to that in which they are kept."""
        return value

    def _check_count(self, value: Tensor, noun: str) -> None:
        if len(value) != self.count():
            raise InvalidArgumentError(
                f"value must have a row for each of the {self.count()} {noun}, got {len(value)}: "
                "give all of them, or ids of those that these are"
            )

    def _rows_of(self, ids: Ids) -> Ids:
        return ids


class NodeFeature(Feature):
    """Rows of node data: one for each node of a graph, also after :meth:`update`."""

    def _in_own_order(self, value: Tensor) -> Tensor:
        self._check_count(value, "nodes")
        return value


class EdgeFeature(Feature):
    """Rows of edge data, by the edge ids that a :class:`SamplingGraph` gives.

    Args:
        rows: in the order of the graph's own edge ids.
        numbers: numbering of the ids that users give.
    """

    def __init__(self, rows: FeatureSource | Tensor | NDArray[Any], numbers: EdgeNumbers) -> None:
        super().__init__(rows)
        self._numbers = numbers

    def update(self, value: Tensor, ids: Tensor | None = None) -> None:
        """Write rows, or take ``value`` in the place of all; see :meth:`Feature.update`.

        Raises:
            InvalidArgumentError: nobody can tell which edges the rows are of; says what to do.
        """
        self._numbers.check_clear("update")
        super().update(value, ids)

    def _all(self, column: Column) -> Tensor:
        return column.gather(self._rows_of(np.arange(self.count())))

    def _in_own_order(self, value: Tensor) -> Tensor:
        self._check_count(value, "edges")
        kept = torch.empty_like(value)
        kept[torch.from_numpy(self._rows_of(np.arange(len(value))))] = value
        return kept

    def _rows_of(self, ids: Ids) -> Ids:
        return self._numbers.own(ids, "ids")


class FeatureStore(_OnCpu, gb.BasicFeatureStore):  # type: ignore[misc]
    """Node data and edge data of a graph, by name, for ``fetch_feature``.

    ::

        pipe = pipe.fetch_feature(FeatureStore(graph), node_feature_keys=["x", "y"])

    Keys are ``("node", None, "x")`` and ``("edge", None, "w")`` for a :class:`aethergraph.Graph`,
    ``("node", "user", "x")`` and ``("edge", "user:votes:post", "w")`` for a
    :class:`aethergraph.HeteroGraph`. Rows stay where they are, in files or in memory.

    Args:
        graph: the graph.
        edge_ids: as in :class:`SamplingGraph`, and the same.

    Raises:
        InvalidArgumentError: no graph of ours; in every method: data that does not exist.
    """

    def __init__(
        self,
        graph: AnyGraph,
        *,
        edge_ids: Literal["input", "graph"] | None = None,
    ) -> None:
        schema = Schema(graph, edge_ids)
        typed = is_typed(schema)
        features: dict[tuple[str, str | None, str], Feature] = {}
        for ntype in schema.ntypes:
            for name, rows in schema.node_rows(ntype).items():
                features["node", ntype if typed else None, name] = NodeFeature(rows)
        for kind in schema.canonical_etypes:
            for name, rows in schema.edge_rows(kind).items():
                where = type_name(kind) if typed else None
                features["edge", where, name] = EdgeFeature(rows, schema.numbers[kind])
        super().__init__(features)

    def read(
        self, domain: str, type_name: str | None, feature_name: str, ids: Tensor | None = None
    ) -> Tensor:
        """Return rows of ``ids``; see :meth:`Feature.read`."""
        rows: Tensor = self._feature(domain, type_name, feature_name).read(ids)
        return rows

    def size(self, domain: str, type_name: str | None, feature_name: str) -> torch.Size:
        """Return the shape of a row."""
        return self._feature(domain, type_name, feature_name).size()

    def count(self, domain: str, type_name: str | None, feature_name: str) -> int:
        """Return the number of rows."""
        return self._feature(domain, type_name, feature_name).count()

    def metadata(self, domain: str, type_name: str | None, feature_name: str) -> dict[str, Any]:
        """Return the metadata of a feature."""
        return self._feature(domain, type_name, feature_name).metadata()

    def update(
        self,
        domain: str,
        type_name: str | None,
        feature_name: str,
        value: Tensor,
        ids: Tensor | None = None,
    ) -> None:
        """Write rows of ``ids``, or replace all; see :meth:`Feature.update`."""
        self._feature(domain, type_name, feature_name).update(value, ids)

    def is_pinned(self) -> bool:
        """Return whether all features are pinned, as GraphBolt's method does."""
        return all(feature.is_pinned() for feature in self._features.values())

    def _feature(self, *key: str | None) -> Feature:
        if not is_hashable(key) or key not in self._features:
            known = ", ".join(map(repr, self._features)) or "none"
            raise InvalidArgumentError(f"{shown(key)} is no feature; there are: {known}")
        feature: Feature = self._features[key]
        return feature


def _as_tensor(rows: Any) -> Tensor:
    if isinstance(rows, Tensor):
        return rows
    array = to_array(rows, "rows")
    if not array.flags.writeable:
        array = allocate(array.copy, "rows")
    native = array.dtype.newbyteorder("=")
    array = allocate(lambda: np.require(array, native, ["C_CONTIGUOUS", "ALIGNED"]), "rows")
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        raise InvalidArgumentError(f"rows cannot be stored: {error}") from error
