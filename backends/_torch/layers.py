"""Layers of torch modules for :func:`aethergraph.inference.embed`: lists of convolutions.

::

    [linear, conv1, relu, conv2]  ──>  [linear] conv1 [relu]     a layer: what stands before its
                                       conv2                     convolution, and behind it
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.parameter import is_lazy

from aethergraph._checks.options import shown
from aethergraph._torch.tensors import as_device
from aethergraph.errors import InvalidArgumentError, UnsupportedError
from aethergraph.graph.schema import EDGE, NODE
from aethergraph.inference.fingerprints import describe_attributes, describe_function
from aethergraph.loading.batch import Batch, HeteroBatch
from aethergraph.loading.state import describe
from aethergraph.sampling.hetero import HeteroSubgraph
from aethergraph.sampling.keys import hash_name
from aethergraph.sampling.subgraph import Subgraph

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "INSTEAD", "Call", "Steps", "TorchLayer", "apply_by_type", "arguments_of", "check_values",
    "dtype_of", "evaluating", "items_of",
    "on_device", "place_modules", "split_steps",
]  # fmt: skip

#: What to give for a model whose layers cannot be told apart.
INSTEAD = (
    "give the list of its convolutions with what stands between them, or functions of batches to "
    "aethergraph.inference.embed"
)

#: Nodes and edges of a batch at least. Products of matrices of few rows (1 to 3, where this was
#: looked at) are summed up in another order than those of more, which all give the same bits.
_FEWEST = 16

#: Computes a layer: rows, the batch, values of edges by name.
Call = Callable[[Tensor, "Batch", dict[str, Tensor]], Tensor]


class TorchLayer:
    """Layer of :func:`aethergraph.inference.embed` that computes with tensors.

    Args:
        name: its name in messages.
        steps: what it is made of, for the fingerprint; texts stand for themselves.
        call: computes it, of rows, the batch, and values of edges by name; for typed batches rows
            and values are by type, and None is a type without rows.
        values: attributes of edges by the argument that they are given as.
        device: where it computes.
        aggregate: what it needs of the rows of neighbours, as :class:`Layer` says; None: all.
    """

    def __init__(
        self, name: str, steps: Sequence[Any], call: Callable[[Any, Any, Any], Tensor | None],
        values: Mapping[str, str], device: torch.device, aggregate: Any = None,
    ) -> None:  # fmt: skip
        self.__qualname__ = name
        self.fingerprint = "; ".join(map(_describe_step, steps))
        self._call, self._values, self._device = call, values, device
        self.aggregate = aggregate

    def __call__(self, batch: Batch | HeteroBatch) -> NDArray[Any] | None:
        """Return the rows of the first nodes of a batch."""
        count, is_typed = batch.batch_size, isinstance(batch, HeteroBatch)
        typed = batch if isinstance(batch, HeteroBatch) else _as_typed(batch)
        if _is_small(typed):
            typed = _pad(typed)
            batch = typed if is_typed else _as_untyped(typed)

        def on(attrs: Any, name: str) -> Any:
            if is_typed:
                with_name = {kind: rows[name] for kind, rows in attrs.items() if name in rows}
                return {kind: on_device(rows, self._device) for kind, rows in with_name.items()}
            return on_device(attrs[name], self._device)

        values = {option: on(batch.edge_attrs, name) for option, name in self._values.items()}
        rows = self._call(on(batch.node_attrs, "x"), batch, values)
        return None if rows is None else rows[:count].cpu().numpy()


def _as_typed(batch: Batch) -> HeteroBatch:
    """Return a batch of a graph of one type as that of a typed one."""
    sample = batch.subgraph
    subgraph = HeteroSubgraph(
        {NODE: sample.node}, {EDGE: sample.row}, {EDGE: sample.col}, {EDGE: sample.edge}
    )
    nodes, edges = {NODE: batch.node_attrs}, {EDGE: batch.edge_attrs}
    return HeteroBatch(subgraph, {NODE: batch.seeds}, {NODE: batch.index}, nodes, edges)


def _as_untyped(batch: HeteroBatch) -> Batch:
    """Return what :func:`_as_typed` was given."""
    sample = batch.subgraph
    subgraph = Subgraph(sample.node[NODE], sample.row[EDGE], sample.col[EDGE], sample.edge[EDGE])
    nodes, edges = batch.node_attrs[NODE], batch.edge_attrs[EDGE]
    return Batch(subgraph, batch.seeds[NODE], batch.index[NODE], nodes, edges)


def _is_small(batch: HeteroBatch) -> bool:
    """Return whether something that a layer makes products of has few rows."""
    row, node = batch.subgraph.row, batch.subgraph.node
    kinds = [kind for kind in row if kind[2] in batch.seeds]
    counts = (len(ids) for kind in kinds for ids in (row[kind], node[kind[0]]))
    return min((batch.batch_size, *counts)) < _FEWEST


def _pad(batch: HeteroBatch) -> HeteroBatch:
    """Return a batch with a few nodes more of each type, behind those whose rows are wanted.

    They have rows of zeros, and from each there is an edge of each type, with values of zeros, to
    one that is of the type of the wanted ones.
    """
    count, sample, some = batch.batch_size, batch.subgraph, np.arange(_FEWEST)
    ends = {kind: len(ids) for kind, ids in sample.edge.items() if kind[2] in batch.seeds}
    places: dict[Any, int] = {
        **{name: count if name in batch.seeds else len(ids) for name, ids in sample.node.items()},
        **ends,
    }  # of what is put in

    def pad(array: NDArray[Any], place: int) -> NDArray[Any]:
        zeros = np.zeros((_FEWEST, *array.shape[1:]), array.dtype)
        return np.concatenate((array[:place], zeros, array[place:]))

    def pad_all(arrays: Mapping[Any, NDArray[Any]]) -> dict[Any, NDArray[Any]]:
        return {kind: pad(array, places[kind]) if kind in places else array
                for kind, array in arrays.items()}  # fmt: skip

    def pad_attrs(attrs: Mapping[Any, Mapping[str, NDArray[Any]]]) -> dict[Any, Any]:
        return {kind: {name: pad(rows, places[kind]) for name, rows in of_kind.items()}
                if kind in places else of_kind for kind, of_kind in attrs.items()}  # fmt: skip

    row, col = dict(sample.row), dict(sample.col)
    for kind in ends:
        place, ids = places[kind[0]], row[kind]
        row[kind] = np.append(np.where(ids < place, ids, ids + _FEWEST), place + some)
        col[kind] = np.append(col[kind], count + some)
    subgraph = HeteroSubgraph(pad_all(sample.node), row, col, pad_all(sample.edge))
    return HeteroBatch(
        subgraph, pad_all(batch.seeds), pad_all(batch.index), pad_attrs(batch.node_attrs),
        pad_attrs(batch.edge_attrs),
    )  # fmt: skip


def on_device(array: NDArray[Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on a device."""
    tensor = torch.from_numpy(array)
    # Without a need for it to() waits for Python, which the thread that reads ahead may have.
    return tensor if device.type == "cpu" else tensor.to(device)


class Steps(NamedTuple):
    """A convolution, and the functions of rows before and behind it."""

    before: list[Any]
    conv: Any
    after: list[Any]

    @property
    def all(self) -> list[Any]:
        """Everything in order."""
        return [*self.before, self.conv, *self.after]

    def run(self, x: Tensor, convolve: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the rows that the layer makes; ``convolve`` calls the convolution."""
        for step in self.before:
            x = step(x)
        x = convolve(x)
        for step in self.after:
            x = step(x)
        return x


def items_of(model: Any) -> list[Any]:
    """Return the items of a list of convolutions and what stands between them.

    Raises:
        UnsupportedError: a model of another kind.
    """
    if isinstance(model, (list, tuple, torch.nn.Sequential, torch.nn.ModuleList)):
        return list(model)
    raise UnsupportedError(
        f"model is a {type(model).__name__}, whose layers cannot be told apart: {INSTEAD}"
    )


def split_steps(items: Sequence[Any], is_conv: Callable[[Any], bool], noun: str) -> list[Steps]:
    """Return the layers of a list.

    Args:
        items: convolutions and functions of rows.
        is_conv: tells the first from the others.
        noun: what convolutions are, for messages.

    Raises:
        InvalidArgumentError: no convolution, or an item that is no function.
        UnsupportedError: a module around convolutions.
    """
    layers: list[Steps] = []
    before: list[Any] = []
    for number, item in enumerate(items):
        if is_conv(item):
            layers.append(Steps([] if layers else before, item, []))
        elif not callable(item):
            raise InvalidArgumentError(f"model[{number}] = {shown(item)} is no function of rows")
        elif isinstance(item, Module) and any(map(is_conv, item.modules())):
            raise UnsupportedError(
                f"model[{number}] is a {type(item).__name__} around convolutions: {INSTEAD}"
            )
        else:
            (layers[-1].after if layers else before).append(item)
    if not layers:
        raise InvalidArgumentError(f"model has no convolution ({noun})")
    return layers


def arguments_of(function: Any) -> list[str]:
    """Return the names of the arguments of a module, or of a function; none if it does not say."""
    try:
        return [*inspect.signature(getattr(function, "forward", function)).parameters]
    except (TypeError, ValueError):  # of torch, such as torch.relu
        return []


def apply_by_type(step: Any, x: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return what a step makes of rows by type.

    It is a function of them if the name of its first argument ends in ``_dict``; a ``ModuleDict``
    has a module for each type, without which it has no rows; others are functions of the rows of a
    type.
    """
    if any(name.endswith("_dict") for name in arguments_of(step)[:1]):
        return dict(step(x))
    if isinstance(step, torch.nn.ModuleDict):
        return {name: step[name](rows) for name, rows in x.items() if name in step}
    return {name: step(rows) for name, rows in x.items()}


def check_values(conv: Any, values: Mapping[str, str]) -> None:
    """Raise unless a convolution takes values of edges under these names of arguments."""
    for option in values:
        if option not in arguments_of(conv):
            raise InvalidArgumentError(f"{type(conv).__name__} takes no {option}")


def place_modules(
    modules: Sequence[Module], device: torch.device | str | None,
    why_not: Callable[[Module], str | None],
) -> torch.device:  # fmt: skip
    """Check modules and move them to a device, which is returned.

    Args:
        modules: all that there are.
        device: the device; None: that of the first parameter.
        why_not: returns why a module needs more than the neighbours of a node; None: it does not.

    Raises:
        InvalidArgumentError: lazy parameters; no device.
        UnsupportedError: a module needs more.
    """
    _check_modules(modules, why_not)
    place = _device_of(modules) if device is None else as_device(device, "device")
    for module in modules:
        module.to(place)
    return place


def _check_modules(modules: Sequence[Module], why_not: Callable[[Module], str | None]) -> None:
    """Raise for what needs more than the neighbours of a node, and for lazy parameters."""
    for root in modules:
        if any(map(is_lazy, root.parameters())):
            raise InvalidArgumentError(
                f"{type(root).__name__} has lazy parameters: call the model once, or load its state"
            )
        for module in root.modules():
            reason = why_not(module)
            if getattr(module, "track_running_stats", True) is False:
                reason = "normalizes over the nodes of the batch (track_running_stats=False)"
            if reason is not None:
                raise UnsupportedError(
                    f"{type(module).__name__} {reason}: a layer sees the neighbours of a node alone"
                )


def _device_of(modules: Sequence[Module]) -> torch.device:
    """Return the device of the first parameter."""
    for module in modules:
        for parameter in module.parameters():
            return parameter.device
    return torch.device("cpu")


def dtype_of(value: Any) -> Any:
    """Return the name of a dtype of torch; other values as they are."""
    return str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else value


@contextmanager
def evaluating(modules: Sequence[Module]) -> Iterator[None]:
    """Put modules into ``eval`` mode, without gradients, for a ``with`` block."""
    trained = [module for root in modules for module in root.modules() if module.training]
    for root in modules:
        root.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in trained:
            module.training = True


def _describe_step(step: Any) -> str:
    if isinstance(step, str):
        return f"text of hash {hash_name(step):016x}"
    if not isinstance(step, Module):
        return describe_function(step)
    options = " ".join(
        f"{name} {type(module).__qualname__} {describe_attributes(module)}"
        for name, module in step.named_modules()
    )
    text = f"{step!r} {options} {describe(dict(step.state_dict()))}"
    return f"{type(step).__qualname__} of hash {hash_name(text):016x}"
