"""Layers of models of many types: lists of typed convolutions, and what ``to_hetero`` makes.

::

    [HeteroConv, relu, HeteroConv]       to_hetero(model, metadata), a graph of calls
     x_dict, edge_index_dict              x__paper ──┬─> convs_0__paper1 ──add──> relu ──┬─> ...
                                          x__author ─┴─> convs_0__paper2 ──┘             │
                                          what the convolutions of layer n read  <───────┘
                                          is the rows of layer n - 1

A batch is of nodes of one type: its convolutions are those of relations that end there.

Source followed: ``torch_geometric/nn/to_hetero_transformer.py``, whose graph is read by the public
members of ``torch.fx``; ``torch_geometric/nn/conv/hetero_conv.py``, ``hgt_conv.py``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.fx import GraphModule, Node, map_arg
from torch.nn import Module
from torch_geometric.nn import HeteroConv, MessagePassing

from aethergraph._torch.layers import (
    INSTEAD,
    Steps,
    apply_by_type,
    arguments_of,
    on_device,
    split_steps,
)
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.pyg._convolutions import ends_of

if TYPE_CHECKING:
    from aethergraph.loading.batch import HeteroBatch
    from aethergraph.protocols import EdgeType

__all__ = ["TypedPart", "graph_parts", "list_parts"]

#: Rows by node type, and values of edges by the argument that takes them and edge type.
Rows = dict[str, Tensor]
Values = Mapping[str, Mapping["EdgeType", Tensor]]
#: Computes the rows of a batch; None: its type has none.
TypedCall = Callable[[Rows, "HeteroBatch", Values], Tensor | None]
#: Name, steps and call of a layer.
TypedPart = tuple[str, list[Any], TypedCall]


# ---- lists -----------------------------------------------------------------------------------


def list_parts(
    items: Sequence[Any], values: Mapping[str, str], device: torch.device
) -> Iterator[TypedPart]:
    """Yield the layers of a list of typed convolutions and what stands between them.

    Args:
        items: the list.
        values: attributes of edges by the argument that they are given as.
        device: where the layers run.

    Raises:
        InvalidArgumentError: no convolution; one that takes no such values of edges.
        UnsupportedError: a convolution of one type, or a module around convolutions.
    """
    for number, item in enumerate(items):
        if isinstance(item, MessagePassing) and not _is_conv(item):
            raise UnsupportedError(
                f"model[{number}] is a {type(item).__name__}, of one type, and the graph has many: "
                "HeteroConv({edge type: convolution}) is one for them"
            )
        if isinstance(item, Module) and not _is_conv(item) and any(map(_has_edges, item.modules())):
            raise UnsupportedError(
                f"model[{number}] is a {type(item).__name__} around convolutions: {INSTEAD}"
            )
    for steps in split_steps(items, _is_conv, "HeteroConv, HGTConv"):
        _check_values(steps.conv, values)
        yield type(steps.conv).__name__, steps.all, _list_call(steps, device)


def _is_conv(item: Any) -> bool:
    """Return whether it is a convolution of rows and edges by type."""
    if isinstance(item, HeteroConv):
        return True
    return isinstance(item, MessagePassing) and arguments_of(item)[:2] == [
        "x_dict",
        "edge_index_dict",
    ]


def _has_edges(module: Module) -> bool:
    return isinstance(module, (HeteroConv, MessagePassing))


def _check_values(conv: Module, values: Mapping[str, str]) -> None:
    """Raise unless a convolution takes values of edges under these names of arguments."""
    for option in values:
        takes_it = f"{option}_dict" in arguments_of(conv)
        if isinstance(conv, HeteroConv):
            takes_it = any(option in arguments_of(of_kind) for of_kind in conv.convs.values())
        if not takes_it:
            raise InvalidArgumentError(f"{type(conv).__name__} takes no {option}")


def _list_call(steps: Steps, device: torch.device) -> TypedCall:
    def call(x: Rows, batch: HeteroBatch, values: Values) -> Tensor | None:
        (name,) = batch.seeds
        kinds = [kind for kind in batch.subgraph.row if kind[2] == name]
        if isinstance(steps.conv, HeteroConv):
            kinds = [kind for kind in kinds if kind in steps.conv.convs]
        for step in steps.before:
            x = apply_by_type(step, x)
        for kind in kinds:
            if kind[0] not in x:
                raise InvalidArgumentError(f"edges {kind} start at {kind[0]!r}, which has no rows")
        x = _convolve(steps.conv, x, name, batch, values, kinds, device) if kinds else {}
        for step in steps.after:
            x = apply_by_type(step, x)
        return x.get(name)

    return call


def _convolve(
    conv: Any, x: Rows, node_type: str, batch: HeteroBatch, values: Values,
    kinds: Sequence[EdgeType], device: torch.device,
) -> Rows:  # fmt: skip
    """Return the rows that a convolution makes of the seeds of a batch, by their type."""
    edges = {kind: _edge_index(batch, kind, device) for kind in kinds}
    by_option = {
        f"{option}_dict": {kind: of_kind[kind] for kind in kinds if kind in of_kind}
        for option, of_kind in values.items()
    }
    with _of_seeds(conv, kinds, batch.batch_size):
        rows = conv(x, edges, **by_option).get(node_type)
    return {} if rows is None else {node_type: rows[: batch.batch_size]}


@contextmanager
def _of_seeds(conv: Any, kinds: Sequence[EdgeType], count: int) -> Iterator[None]:
    """Let the convolutions of relations make rows of the seeds alone, for a ``with`` block.

    Where edges join nodes of a type, HeteroConv gives them rows of all nodes of the batch.
    """

    def before(module: Any, args: Any) -> Any:
        x, *more = args
        if isinstance(x, tuple):
            return (x[0], None if x[1] is None else x[1][:count]), *more
        return ends_of(module)(x, count), *more

    with ExitStack() as stack:
        for kind in kinds if isinstance(conv, HeteroConv) else ():
            of_kind = conv.convs[kind]
            stack.callback(of_kind.register_forward_pre_hook(before).remove)
            stack.callback(of_kind.register_forward_hook(lambda _, args, rows: rows[:count]).remove)
        yield


def _edge_index(batch: HeteroBatch, kind: EdgeType, device: torch.device) -> Tensor:
    """Return the edges of a type in a batch."""
    sample = batch.subgraph
    if kind not in sample.row:
        raise InvalidArgumentError(f"the graph has no edges {kind}, which model has a layer of")
    return on_device(np.stack((sample.row[kind], sample.col[kind])), device)


# ---- what to_hetero makes --------------------------------------------------------------------


def graph_parts(
    model: GraphModule, values: Mapping[str, str], device: torch.device
) -> Iterator[TypedPart]:
    """Yield the layers of a model that ``to_hetero`` made.

    Args:
        model: the model.
        values: attributes of edges by the argument of the model that they are given as.
        device: where the layers run.

    Raises:
        UnsupportedError: rows that a layer needs beside those of the layer before it; a graph of
            calls that is not of ``to_hetero``.
        InvalidArgumentError: the model takes no such values of edges.
    """
    calls = _Calls(model)
    for option in values:
        if option not in calls.options:
            raise InvalidArgumentError(f"model takes no {option}")
    for number in range(len(calls.reads)):
        # The code tells models that have the same modules and call them in another order.
        yield calls.name(number), [model, model.code], _graph_call(calls, number, device)


class _Conv(NamedTuple):
    """Call of a convolution: its edge type, and the calls that make the rows at both ends."""

    kind: EdgeType
    module: Module
    source: Node
    target: Node


class _Calls:
    """Graph of calls that ``to_hetero`` made, cut into layers.

    Attributes:
        reads: by layer, the calls whose results are the rows that it reads, by node type.
        returns: by layer, the calls whose results are the rows that it returns, by node type.
        options: arguments of the model that layers use, beside rows and edges.
    """

    def __init__(self, model: GraphModule) -> None:
        self.model = model
        self.options: set[str] = set()
        self._checked: set[tuple[Node, int, bool]] = set()
        *nodes, output = model.graph.nodes
        results = output.args[0]
        if not isinstance(results, dict):
            raise _unknown_graph("it does not return rows by node type")
        self._placeholders = [node for node in nodes if node.op == "placeholder"]
        if len(self._placeholders) < 2:
            raise _unknown_graph("it does not take rows and edges")
        self.convs = {node: self._read_conv(node) for node in nodes if self._is_conv(node)}
        self._depths: dict[Node, int] = {}
        for node in nodes:
            inputs = [self._depths[before] for before in self.inputs(node)]
            self._depths[node] = max(inputs, default=0) + (node in self.convs)
        returned = {name: node for name, node in results.items() if isinstance(node, Node)}
        count = max((self._depths[node] for node in returned.values()), default=0)
        if not count:
            raise InvalidArgumentError(
                "model has no convolution (torch_geometric.nn.MessagePassing)"
            )
        rows = {}
        for node in nodes:
            if (place := self.place(node)) is not None and place[0] is self._placeholders[0]:
                rows[place[1]] = node
        between = [self._rows_before(number) for number in range(1, count)]
        self.reads: list[dict[str, Node]] = [rows, *between]
        self.returns: list[dict[str, Node]] = [*between, returned]
        for number, by_type in enumerate(self.returns):
            for name, node in by_type.items():
                self._check(node, number, name, is_source=False)

    # ---- calls -----------------------------------------------------------------------------

    def name(self, number: int) -> str:
        """Return the class of the convolutions of a layer."""
        return next(
            type(conv.module).__name__
            for node, conv in self.convs.items()
            if self._depths[node] == number + 1
        )

    def module(self, node: Node) -> Module | None:
        """Return the module that is called; None: something else is."""
        return self.model.get_submodule(str(node.target)) if node.op == "call_module" else None

    def _is_conv(self, node: Node) -> bool:
        return isinstance(self.module(node), MessagePassing)

    def resolve(self, value: Any) -> Any:
        """Return what a value of a call is behind the trimming of BasicGNN, which nothing asks for.

        It returns its rows, edges and values of edges as they are, in this order.
        """
        while isinstance(value, Node) and value.target is operator.getitem:
            trimming, number = value.args
            if not isinstance(trimming, Node) or not isinstance(number, int):
                break
            if type(self.module(trimming)).__name__ != "TrimToLayer":
                break
            value = trimming.args[3 + number]
        return value

    def inputs(self, node: Node) -> list[Node]:
        """Return the calls whose results a call takes."""
        inputs: list[Node] = []

        def add(before: Node) -> Node:
            resolved = self.resolve(before)
            map_arg(resolved, lambda of_pair: inputs.append(self.resolve(of_pair)))
            return before

        map_arg((node.args, node.kwargs), add)
        return inputs

    def place(self, node: Any) -> tuple[Node, Any] | None:
        """Return argument of the model, and type, of a call that looks up what was given for it."""
        if not isinstance(node, Node) or node.op != "call_method" or node.target != "get":
            return None
        table, key, *_ = node.args
        if not isinstance(table, Node) or table.op != "call_function" or len(table.args) != 1:
            return None
        argument = table.args[0]
        if not isinstance(argument, Node) or argument.op != "placeholder":
            return None
        return argument, key

    def _read_conv(self, node: Node) -> _Conv:
        module = self.module(node)
        assert module is not None
        if len(node.args) < 2:
            raise _unknown_graph(f"{node.target} is called without rows and edges")
        rows, place = self.resolve(node.args[0]), self.place(self.resolve(node.args[1]))
        if place is None or place[0] is not self._placeholders[1] or len(place[1]) != 3:
            raise _unknown_graph(
                f"the edges of {node.target} are not those that the model is given"
            )
        ends = rows if isinstance(rows, tuple) else (rows, rows)
        source, target = (self.resolve(end) for end in ends)
        for end, name in ((source, place[1][0]), (target, place[1][2])):
            if not isinstance(end, Node):
                raise UnsupportedError(
                    f"{node.target} of model reads rows of {name!r}, at which no edges end in the "
                    "layer before it"
                )
        return _Conv(place[1], module, source, target)

    def _rows_before(self, number: int) -> dict[str, Node]:
        """Return the calls that make the rows which the convolutions of a layer read, by type."""
        rows: dict[str, Node] = {}
        for node, conv in self.convs.items():
            if self._depths[node] == number + 1:
                for name, end in ((conv.kind[0], conv.source), (conv.kind[2], conv.target)):
                    if rows.setdefault(name, end) is not end:
                        raise UnsupportedError(
                            f"convolutions of layer {number} of model read {rows[name]} and {end}: "
                            f"a layer has the rows of one result of the layer before it"
                        )
        return rows

    def _check(self, node: Node, number: int, node_type: str, is_source: bool) -> None:
        """Raise for a call that needs more than the rows that a layer reads.

        Args:
            node: the call.
            number: the layer.
            node_type: type of the rows that it makes.
            is_source: True for rows of neighbours, False for those of nodes that edges end at.
        """
        if (node, number, is_source) in self._checked:
            return
        self._checked.add((node, number, is_source))
        for name, before in self.reads[number].items():
            if node is before:
                if name != node_type:
                    raise _unknown_graph(f"rows of {name!r} and of {node_type!r} are put together")
                return
        if (place := self.place(node)) is not None:
            argument = place[0]
            if argument is self._placeholders[0]:
                raise _skipping(node, "the input", number)
            if argument is self._placeholders[1]:
                raise _unknown_graph("it uses edges outside of convolutions")
            if argument.target not in _OPTIONS and not argument.args:
                raise UnsupportedError(
                    f"the forward of model takes {argument.target}, which embed does not give it"
                )
            self.options.add(str(argument.target))
            return
        if node in self.convs:
            conv = self.convs[node]
            if is_source or self._depths[node] != number + 1:
                raise _skipping(node, f"layer {self._depths[node] - 1}", number)
            self._check(conv.source, number, conv.kind[0], is_source=True)
            self._check(conv.target, number, conv.kind[2], is_source=False)
            values = map_arg((node.args[2:], node.kwargs), self.resolve)
            map_arg(values, lambda value: self._check(value, number, node_type, False))
            return
        if node.op not in ("call_module", "call_function", "call_method"):
            raise _unknown_graph(f"it has a {node.op}")
        if node.kwargs.get("training") is True:
            raise UnsupportedError(
                f"{node} of model was traced with training=True: call eval() before to_hetero, or "
                "make it a module"
            )
        for before in self.inputs(node):
            self._check(before, number, node_type, is_source)


#: Arguments of models that values of edges are given as.
_OPTIONS = ("edge_weight", "edge_attr")


def _unknown_graph(reason: str) -> UnsupportedError:
    return UnsupportedError(
        f"model is a GraphModule, but not as to_hetero makes it: {reason}. Its layers cannot be "
        f"told apart: {INSTEAD}"
    )


def _skipping(node: Node, origin: str, number: int) -> UnsupportedError:
    return UnsupportedError(
        f"layer {number} of model reads {node}, rows of {origin}, and has those of the layer "
        "before it alone: functions for aethergraph.inference.embed may return both side by side"
    )


def _graph_call(calls: _Calls, number: int, device: torch.device) -> TypedCall:
    returned = calls.returns[number]

    def call(x: Rows, batch: HeteroBatch, values: Values) -> Tensor | None:
        (name,) = batch.seeds
        if name not in returned:
            return None
        rows: Tensor = _Results(calls, number, x, batch, values, device).of(returned[name], False)
        return rows

    return call


class _Results:
    """Results of the calls of a layer for a batch, each computed once.

    Args:
        calls: the model.
        number: the layer.
        x: rows that it reads by node type.
        batch: the batch.
        values: values of edges.
        device: where it computes.
    """

    def __init__(
        self, calls: _Calls, number: int, x: Rows, batch: HeteroBatch, values: Values,
        device: torch.device,
    ) -> None:  # fmt: skip
        self._calls, self._batch, self._values, self._device = calls, batch, values, device
        self._count = batch.batch_size
        self._known: dict[tuple[Node, bool], Any] = {}
        for name, node in calls.reads[number].items():
            if name in x:
                self._known[node, True] = x[name]
                if name in batch.seeds:  # a copy: some functions write to what they are given
                    self._known[node, False] = x[name][: self._count].clone()

    def of(self, node: Node, is_source: bool) -> Any:
        """Return the result of a call.

        Args:
            node: the call.
            is_source: True for rows of all nodes of the batch, False for those of its seeds.
        """
        key = node, is_source
        if key not in self._known:
            self._known[key] = self._compute(node, is_source)
        return self._known[key]

    def _compute(self, node: Node, is_source: bool) -> Any:
        calls = self._calls
        place = calls.place(node)
        if place is not None:
            return self._values.get(str(place[0].target), {}).get(place[1])

        def of(value: Any) -> Any:
            return map_arg(calls.resolve(value), lambda before: self.of(before, is_source))

        if (conv := calls.convs.get(node)) is not None:
            args, kwargs = map_arg((node.args[2:], dict(node.kwargs)), of)
            ends = self._ends(conv)
            edge_index = _edge_index(self._batch, conv.kind, self._device)
            return conv.module(ends, edge_index, *args, **kwargs)[: self._count]
        args, kwargs = map_arg((node.args, dict(node.kwargs)), of)
        if (module := calls.module(node)) is not None:
            return module(*args, **kwargs)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        assert callable(node.target)
        return node.target(*args, **kwargs)

    def _ends(self, conv: _Conv) -> Any:
        if conv.kind[0] == conv.kind[2]:
            return ends_of(conv.module)(self.of(conv.source, True), self._count)
        return self.of(conv.source, True), self.of(conv.target, False)
