"""PyG's ``FeatureStore`` over the core's feature rows, or over tensors that were put in.

One tensor is a *column*: rows of one dtype and shape under a key ``(group_name, attr_name)``.

==================  ====================================================================
``group_name``      holds
==================  ====================================================================
``None``            node tensors of a homogeneous graph
``(None, None)``    its edge tensors, one row per edge id (PyG's name for that group)
``"paper"``         node tensors of one type
``("a", "to", "b")``  edge tensors of one type
==================  ====================================================================

Source followed: ``torch_geometric/data/feature_store.py`` and the calls that
``torch_geometric/loader/utils.py`` makes (``filter_custom_store``, ``index_select``).
"""

from __future__ import annotations

from collections.abc import Mapping
from multiprocessing.context import get_spawning_popen
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import FeatureStore as _PyGFeatureStore
from torch_geometric.data import TensorAttr
from torch_geometric.sampler import HeteroSamplerOutput, SamplerOutput
from torch_geometric.typing import TensorFrame

from aethergraph._checks.options import as_flag
from aethergraph._torch.feature_columns import Column, as_ids, as_row
from aethergraph._torch.tensors import is_shared, shared_empty
from aethergraph._tracepoints import stage
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.foreign import graph_hint
from aethergraph.loading.buffers import BufferPool, pool_of
from aethergraph.protocols import AnyGraph
from aethergraph.pyg._graph_tensors import graph_counts, graph_tables, graph_tensor, graph_values
from aethergraph.pyg._learnable import LearnableColumn
from aethergraph.pyg._put_rows import as_tensor, in_row_order, rows_to_write
from aethergraph.pyg._selected import SelectedColumn
from aethergraph.pyg._tensor_attr import EDGE_GROUP, Attr, check_name, key_of, shown_name
from aethergraph.pyg._tensor_rows import Fetched, Key, Names, TensorSource, TypedFetched

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from aethergraph.protocols import RowSource
    from aethergraph.pyg._source_data import SourceData

__all__ = ["EDGE_GROUP", "FeatureStore"]

Ids: TypeAlias = "NDArray[np.int64]"


class FeatureStore(_PyGFeatureStore, TensorSource):  # type: ignore[misc]
    """Node and edge tensors for PyG's loaders: rows on disk or in memory, gathered natively.

    A new store is empty, and filled through PyG's own calls::

        store = FeatureStore()
        store["paper", "x", None] = x                 # or store.put_tensor(x, "paper", "x", None)
        store["paper", "x", torch.tensor([4, 1])]     # rows 4 and 1

    :meth:`from_graph` makes a store over the attributes of a graph.

    Reading (``get_tensor``, ``multi_get_tensor``, ``store[...]``, views) takes as index None
    (everything), a slice, an int (drops the dimension), a tensor, array or list of ids (any
    integer dtype but uint8, any order, duplicates kept) or a mask of one bool per row. The result
    is a new CPU tensor of shape ``(number of ids, *row shape)`` and the stored dtype; inside a
    ``DataLoader`` worker it lies in shared memory. With index None a tensor that was put in is
    returned itself, as PyG's ``Data`` does, while rows of a file are read into memory as a whole.
    Single ints and slices count from the end if negative; ids in tensors must not be negative.

    Writing a whole tensor keeps a reference to it and copies only what is not contiguous.
    Writing with an index replaces those rows; the first such write copies the tensor, so that the
    one that was put in stays unchanged. Rows that belong to a graph or a file are read-only. A
    tensor that does not exist yet is created if the index names each of its rows once. All torch
    dtypes are kept (bfloat16, complex, float8, ...).

    A tensor that requires grad is gathered by torch, so that gradients of a batch reach it. This
    works in the training process only: ``num_workers=0`` or ``filter_per_worker=False``.

    Edge tensors of a homogeneous graph (group ``(None, None)``) are served by ``get_tensor`` but
    not listed by ``get_all_tensor_attrs``: PyG's loaders index all listed tensors with node ids
    (PyG issue #9566). :class:`aethergraph.pyg.NeighborLoader` adds them to its batches.

    Args:
        recycle: gather large results in the main process into memory that is reused once no tensor
            and no view refers to it any more. Saves the page faults of fresh memory, which cost
            more than the gather; keeps for later what was in use at once, 2 GiB at most. Stores
            over one graph share the memory, which goes with the graph.

    Raises (on use):
        KeyError: the tensor is not in the store.
        OutOfRangeError: an id is outside the rows; names the id and its position.
        InvalidArgumentError: an index of the wrong type, dtype or shape.
        UnsupportedError: a row update of read-only rows.
    """

    def __init__(self, *data: Any, recycle: bool = True) -> None:
        if data:
            raise InvalidArgumentError(
                f"FeatureStore() begins empty, got {type(data[0]).__name__}: over a graph it is "
                "FeatureStore.from_graph(graph), and a file of rows is attached to a graph, "
                "graph.load_features(path)"
            )
        super().__init__(tensor_attr_cls=Attr)
        self._graph: AnyGraph | None = None
        self._columns: dict[Key, Column] = {}
        #: Keys of tensors whose memory is the store's own, so that rows can be written.
        self._own: set[Key] = set()
        self._from_graph: dict[Key, Column] = {}
        self._values: dict[Key, RowSource] = {}
        #: Rows from elsewhere, in place of the graph's.
        self._given: dict[Key, RowSource] = {}
        self._hidden: set[Key] = set()
        self._recycle = as_flag(recycle, "recycle")
        self._pool = self._choose_pool()
        #: Values that belong to the graph as a whole (see :func:`aethergraph.pyg.from_data`).
        self.graph_attrs: dict[str, Any] = {}
        #: Values of a ``HeteroData``, by type, that are not one row per node or edge.
        self.type_attrs: dict[Any, dict[str, Any]] = {}
        #: The ``Data`` whose changes loaders over this store follow, in this process.
        self.source_data: SourceData | None = None

    @classmethod
    def load(cls, *_: Any, **__: Any) -> NoReturn:
        """Refuse: files of rows are opened by the core's ``FeatureTable``.

        Raises:
            UnsupportedError: always; names the function to call.
        """
        raise UnsupportedError(
            "this is aethergraph.pyg.FeatureStore, which serves the tensors of a graph. A file of "
            "rows is opened by aethergraph.FeatureTable.load(path), or attached at once by "
            "graph.load_features(path)"
        )

    from_array = load

    def _choose_pool(self) -> BufferPool | None:
        if not self._recycle:
            return None
        return BufferPool() if self._graph is None else pool_of(self._graph)

    @property
    def pool(self) -> BufferPool | None:
        """Pool that results are gathered into; None: fresh memory."""
        return self._pool

    @classmethod
    def from_graph(cls, graph: AnyGraph, *, recycle: bool = True) -> FeatureStore:
        """Make a store over ``graph.node_attrs`` (group None) and ``graph.edge_attrs``.

        For a typed graph the groups are its node types and edge types.

        The store is a live view: attributes that the graph gains or loses later appear and vanish.
        The graph's own ``edge_weight``, ``edge_time`` and ``node_time`` are served under these
        names, unless an attribute has the name. Tensors put into the store stay in the store;
        they shadow the graph's.

        Args:
            graph: the graph whose attributes are served, never changed.
            recycle: see the class.
        """
        if not isinstance(graph, AnyGraph):
            raise InvalidArgumentError(
                f"graph must be a Graph or a HeteroGraph, got {type(graph).__name__}"
                f"{graph_hint(graph)}"
            )
        store = cls(recycle=recycle)
        store._graph = graph
        store._pool = store._choose_pool()
        store._values = graph_values(graph)
        return store

    def with_rows(self, rows: Mapping[Key, RowSource]) -> FeatureStore:
        """Return a store of the same tensors, but with these rows in place of those of their names.

        Args:
            rows: sources of rows by group and name; they are read-only.
        """
        store = type(self).__new__(type(self))
        store.__dict__.update(self.__dict__)
        store._given = {**self._given, **rows}
        store._columns = {key: column for key, column in self._columns.items() if key not in rows}
        store._own, store._hidden = set(), self._hidden - rows.keys()
        store._from_graph = {}
        return store

    # ---- columns ---------------------------------------------------------------------------

    def columns(self) -> list[tuple[Key, Column]]:
        """Return every tensor in the store with its key, edge tensors included."""
        columns = []
        for key, rows in self._graph_rows().items():
            if key not in self._columns and key not in self._hidden:
                columns.append((key, self._graph_column(key, rows)))
        for key in list(self._columns):
            columns.append((key, self._put_column(key)))
        return columns

    def batch_columns(self) -> tuple[list[tuple[str, Column]], list[tuple[str, Column]]]:
        """Return the named tensors of a homogeneous batch: those by node, and those by edge.

        PyG's loaders fetch the tensors by node, and leave out the tensors by edge.

        Raises:
            InvalidArgumentError: one name for a node and an edge tensor, or in several groups.
        """
        nodes: list[tuple[str, Column]] = []
        edges: list[tuple[str, Column]] = []
        for (group, name), column in self.columns():
            if group == EDGE_GROUP:
                edges.append((name, column))
            elif not isinstance(group, tuple):
                nodes.append((name, column))
        columns = nodes + edges
        if len(dict(columns)) < len(columns):
            self._refuse_shared_name(nodes, edges)
        return nodes, edges

    def _refuse_shared_name(
        self, nodes: list[tuple[str, Column]], edges: list[tuple[str, Column]]
    ) -> None:
        """Raise for the first name that two tensors of a homogeneous batch have."""
        of_edges = {name for name, _ in edges}
        for name, _ in nodes:
            if name in of_edges:
                raise InvalidArgumentError(
                    f"{name!r} is both a node and an edge attribute, and a homogeneous batch has "
                    "one place for it: give one of them another name"
                )
            self.find_node_column(name)  # raises if several groups have the name

    def find_node_column(self, name: str) -> Column | None:
        """Find the node tensor of a homogeneous graph, whatever its group is called.

        Raises:
            InvalidArgumentError: several groups have a tensor of that name.
        """
        columns = {
            group: column
            for (group, tensor_name), column in self.columns()
            if tensor_name == name and not isinstance(group, tuple)
        }
        if len(columns) > 1:
            groups = " and ".join(map(repr, columns))
            raise InvalidArgumentError(
                f"{name!r} is in the groups {groups}, and a homogeneous batch has one place for "
                "it: give one of them another name"
            )
        return next(iter(columns.values()), None)

    def refresh(self, drawn_by: set[str]) -> list[str]:
        """Take over what has changed in the ``Data`` that the store was made of."""
        if self.source_data is None:
            return []
        fixed = self.source_data.refresh(self, drawn_by)
        for key in self._given:  # rows from elsewhere stay in place of the data's
            self._columns.pop(key, None)
            self._hidden.discard(key)
        return fixed

    @property
    def can_fetch_ahead(self) -> bool:
        """False if a tensor requires grad, so that batches must be gathered when they are used."""
        return not any(isinstance(column, LearnableColumn) for column in self._columns.values())

    def tensor_keys(self) -> list[Key]:
        """Return group and name of every tensor, those of edges included."""
        return [key for key, _ in self.columns()]

    def fetch(self, out: SamplerOutput, names: Names) -> Fetched:
        """Gather the node and edge tensors called ``names`` for a sample."""
        node_columns, edge_columns = self.batch_columns()
        node = out.node.numpy()
        nodes = [
            (name, self._gather(column, node, name))
            for name, column in node_columns
            if names.take(None, name)
        ]
        edges = []
        if edge_columns and out.edge is not None:
            edge = out.edge.numpy()
            edges = [
                (name, self._gather(column, edge, name))
                for name, column in edge_columns
                if names.take(EDGE_GROUP, name)
            ]
        return Fetched(nodes, edges)

    def fetch_typed(self, out: HeteroSamplerOutput, names: Names) -> TypedFetched:
        """Gather the node and edge tensors called ``names`` for a typed sample."""
        tensors = []
        for (group, name), column in self.columns():
            ids = (out.edge or {}).get(group) if isinstance(group, tuple) else out.node.get(group)
            if ids is not None and names.take(group, name):
                tensor = self._gather(column, ids.numpy(), shown_name(group, name))
                tensors.append((group, name, tensor))
        return TypedFetched(tensors)

    def find_values(self, group: Any, name: str) -> RowSource | Tensor | None:
        """Return the weights or times called ``name``; None as group: those of nodes."""
        column = self.find_column(group, name)
        if column is None:
            return None
        return column.rows if column.tensor is None else column.tensor

    def find_column(self, group: Any, name: str) -> Column | None:
        """Return the column of a tensor, if there is one; None as group: that of nodes."""
        if group is None:
            return self.find_node_column(name)
        return dict(self.columns()).get((group, name))

    def _listed(self) -> list[tuple[Key, Column]]:
        items = list(self.columns())
        homogeneous = any(key[0] is None for key, _ in items)
        return [
            item for item in items
            if not isinstance(item[0][0], tuple) or not (homogeneous or None in item[0][0])
        ]  # fmt: skip

    def _find(self, attr: TensorAttr) -> Column | None:
        key = key_of(attr)
        if key in self._columns:
            return self._put_column(key)
        rows = None if key in self._hidden else self._graph_row(key)
        return None if rows is None else self._graph_column(key, rows)

    def _graph_rows(self) -> dict[Key, RowSource]:
        rows = dict(self._values)
        if self._graph is not None:
            for group, attrs in graph_tables(self._graph):
                for name in attrs:
                    rows[group, name] = attrs[name]
        rows.update(self._given)
        return rows

    def _graph_row(self, key: Key) -> RowSource | None:
        rows = self._given.get(key)
        if rows is None and self._graph is not None:
            rows = graph_tensor(self._graph, key)
        return self._values.get(key) if rows is None else rows

    def _require(self, attr: TensorAttr) -> Column:
        column = self._find(attr)
        if column is None:
            group, name = key_of(attr)
            known = ", ".join(sorted(f"{key!r}" for key, _ in self.columns())) or "nothing"
            raise KeyError(f"no tensor {name!r} in group {group!r}; the store holds {known}")
        return column

    def _graph_column(self, key: Key, rows: RowSource) -> Column:
        column = self._from_graph.get(key)
        if column is not None and column.rows is not rows:
            # A live graph makes an object for each request, of the same rows.
            is_live = self._graph is not None and self._graph.is_live
            column = column if is_live and column.rows.is_same_rows(rows) else None
        if column is None:
            check_name(key)
            column = self._from_graph[key] = Column(rows, None)
        return column

    def _put_column(self, key: Key) -> Column:
        column = self._columns[key]
        live = column.live()
        if live is not column:
            self._columns[key] = live
        return live

    # ---- PyG's calls -----------------------------------------------------------------------

    def put_tensor(self, tensor: Any, *args: Any, **kwargs: Any) -> bool:
        """Put a tensor, or with an index replace only those rows.

        Args:
            tensor: a CPU tensor or numpy array [N, ...], or a whole ``TensorFrame`` of PyTorch
                Frame, whose rows are a ``TensorFrame`` again.
            *args: PyG's ``TensorAttr``, or its fields ``group_name``, ``attr_name``, ``index``.
            **kwargs: the same fields by name.

        Raises:
            InvalidArgumentError: a tensor that cannot be stored, or of a wrong number of rows.
            UnsupportedError: an index into rows that are read-only or require grad.
        """
        return bool(super().put_tensor(tensor, self._cast(*args, **kwargs)))

    def get_tensor(self, *args: Any, convert_type: bool = False, **kwargs: Any) -> Any:
        """Return a tensor, or the rows of an index; see the class for indices and errors."""
        return super().get_tensor(self._cast(*args, **kwargs), convert_type=convert_type)

    def multi_get_tensor(self, attrs: list[Any], convert_type: bool = False) -> list[Any]:
        """Return the tensors or rows of several ``attrs``, as :meth:`get_tensor` does."""
        attrs = [self._cast(attr) for attr in attrs]
        return list(super().multi_get_tensor(attrs, convert_type=convert_type))

    def update_tensor(self, tensor: Any, *args: Any, **kwargs: Any) -> bool:
        """Replace a tensor in place, or with an index only those rows."""
        return self.put_tensor(tensor, *args, **kwargs)

    def get_tensor_size(self, *args: Any, **kwargs: Any) -> tuple[int, ...] | None:
        """Return the shape of what :meth:`get_tensor` returns; None if there is no such tensor."""
        size: tuple[int, ...] | None = super().get_tensor_size(self._cast(*args, **kwargs))
        return size

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put_tensor(value, self._cast(key))

    def __getitem__(self, key: Any) -> Any:
        attr = self._cast(key)
        return self.get_tensor(attr) if attr.is_fully_specified() else self.view(attr)

    def _cast(self, *args: Any, **kwargs: Any) -> TensorAttr:
        attr = self._tensor_attr_cls.cast(*args, **kwargs)
        if isinstance(getattr(attr, "index", None), np.ndarray) and type(attr) is TensorAttr:
            return Attr(attr.group_name, attr.attr_name, attr.index)
        return attr

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        key = key_of(attr)
        if attr.index is None or (isinstance(attr.index, slice) and attr.index == slice(None)):
            self.put_rows(key, tensor)
            return True
        tensor = as_tensor(tensor)
        column = self._find(attr)
        if column is None:
            self.put_rows(key, in_row_order(key, tensor, attr.index))
            return True
        if column.tensor is None:
            raise UnsupportedError(
                f"{key!r} is read-only (it belongs to a graph or a file, or is no array of rows), "
                "so its rows cannot be replaced; put a whole tensor to shadow it"
            )
        if isinstance(column, LearnableColumn):
            raise UnsupportedError(
                f"{key!r} requires grad, so its rows are the optimizer's: change them in the "
                "tensor itself, under torch.no_grad()"
            )
        ids, rows = rows_to_write(column.tensor, tensor, attr.index)
        if key not in self._own:
            column = self._columns[key] = Column.of_tensor(column.tensor.clone())
            self._own.add(key)
        assert column.tensor is not None
        column.tensor[ids] = rows
        return True

    def put_rows(self, key: Key, value: Any, dim: int = 0) -> None:
        """Put a whole tensor, array or ``TensorFrame`` under ``(group, name)``.

        Args:
            key: group and name.
            value: as in :meth:`put_tensor`.
            dim: the dimension of the rows; batches have their rows there, too.

        Raises:
            InvalidArgumentError: as :meth:`put_tensor`.
        """
        check_name(key)
        if not isinstance(value, TensorFrame):
            try:
                value = as_tensor(value)
            except InvalidArgumentError as error:
                raise InvalidArgumentError(f"{key!r}: {error}") from error
            if value.ndim == 0:
                raise InvalidArgumentError(
                    f"{key!r}: a scalar has no rows; give at least 1 dimension"
                )
        column = SelectedColumn(value, dim) if dim else _make_column(value)
        self._check_rows(key, column.shape[0])
        self._columns[key] = column
        self._own.discard(key)
        self._hidden.discard(key)

    def _check_rows(self, key: Key, num_rows: int) -> None:
        if self._graph is None:
            return
        counts = graph_counts(self._graph)
        if key[0] not in counts:
            return
        label, count = counts[key[0]]
        if num_rows != count:
            raise InvalidArgumentError(
                f"{key!r} has {num_rows} rows, but the graph has {label} = {count}"
            )

    def _get_tensor(self, attr: TensorAttr) -> Tensor:
        return self._require(attr).get(attr.index, self._pool)

    def _multi_get_tensor(self, attrs: list[TensorAttr]) -> list[Tensor]:
        # The loaders pass one index object with every attr: convert it to ids once.
        seen: Any = None
        ids: Ids | None = None
        tensors = []
        for attr in attrs:
            column = self._require(attr)
            index = attr.index
            if not isinstance(index, Tensor) or index.ndim != 1 or index.dtype == torch.bool:
                tensors.append(column.get(index, self._pool))
                continue
            if ids is None or index is not seen:
                seen, ids = index, as_ids(index, column.shape[0])
            tensors.append(self._gather(column, ids, shown_name(*key_of(attr))))
        return tensors

    def _gather(self, column: Column, ids: Ids, name: str) -> Tensor:
        with stage("gather", name, column.rows):
            return column.gather(ids, self._pool)

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        """Remove a tensor; a tensor of the graph is hidden here and stays in the graph."""
        if self._find(attr) is None:
            return False
        key = key_of(attr)
        self._columns.pop(key, None)
        self._own.discard(key)
        self._hidden.add(key)
        return True

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        column = self._find(attr)
        if column is None:
            return None
        if attr.index is None:
            return column.shape
        if isinstance(attr.index, slice):
            return (len(range(*attr.index.indices(column.shape[0]))), *column.shape[1:])
        if as_row(attr.index) is not None:
            return column.shape[1:]
        return (*as_ids(attr.index, column.shape[0]).shape, *column.shape[1:])

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """List the tensors that PyG's loaders fetch per batch, as new objects without an index."""
        return [TensorAttr(*key) for key, _ in self._listed()]

    # ---- the rest --------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(1 for _ in self.columns())

    def __bool__(self) -> bool:
        return True  # an empty store is not a missing one

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{key!r}: {list(column.shape)} {str(column.dtype).removeprefix('torch.')}"
            for key, column in self.columns()
        )
        return f"{type(self).__name__}({parts})"

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is not None:
            self._share_tensors()
        state = self.__dict__.copy()
        state["_columns"] = {
            key: column if column.tensor is None else column.tensor
            for key, column in self._columns.items()
        }
        state["_from_graph"] = {}
        state["_values"] = {}
        state["_pool"] = state["source_data"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._columns = {
            key: column if isinstance(column, Column) else _make_column(column)
            for key, column in state["_columns"].items()
        }
        self._own = set()  # torch may share the memory with the process that the tensors came from
        if self._graph is not None:
            self._values = graph_values(self._graph)
        self._pool = self._choose_pool()

    def _share_tensors(self) -> None:
        """Move tensors to copies in shared memory before a worker process gets them.

        Torch would move the memory of the tensor itself, under arrays that still point to it.
        """
        for key, column in list(self._columns.items()):
            tensor = column.tensor
            if isinstance(column, LearnableColumn):  # the optimizer holds this very tensor
                continue
            if tensor is not None and tensor.numel() and not is_shared(tensor):
                self._columns[key] = Column.of_tensor(
                    shared_empty(tuple(tensor.shape), tensor.dtype).copy_(tensor)
                )
                self._own.add(key)


def _make_column(value: Any) -> Column:
    if isinstance(value, TensorFrame):
        return SelectedColumn(value)
    return LearnableColumn(value) if value.requires_grad else Column.of_tensor(value)
