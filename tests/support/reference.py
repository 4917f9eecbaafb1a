"""Implementations in plain numpy: they keep the contracts, and mutants of them break one rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from aethergraph import errors
from aethergraph._checks.arrays import as_ids, as_node
from aethergraph.features.bfloat16 import bfloat16_to_float32
from aethergraph.protocols import RowSource
from aethergraph.sampling.values import Values, seed_bounds
from aethergraph.testing import oracle


def check_ids(ids: Any, count: int, name: str) -> Any:
    found = as_ids(ids, name)
    bad = np.flatnonzero((found < 0) | (found >= count))
    if len(bad):
        at = int(bad[0])
        raise errors.OutOfRangeError(
            f"{name}[{at}] = {found[at]} is not below {count}", position=at, value=int(found[at])
        )
    return found


class Lists:
    """A topology: a list of (source, edge id) per node."""

    def __init__(self, num_nodes: int, src: Any, dst: Any) -> None:
        self.num_nodes, self.num_edges = num_nodes, len(src)
        self.indptr, self.indices, self.order = oracle.compressed_lists(num_nodes, dst, src)

    def _span(self, node: int) -> slice:
        node = as_node(node, self.num_nodes, "node")
        return slice(self.indptr[node], self.indptr[node + 1])

    def in_neighbors(self, node: int) -> Any:
        return self.indices[self._span(node)].copy()

    def in_edges(self, node: int) -> Any:
        return self.order[self._span(node)].copy()

    def in_degrees(self, nodes: Any = None) -> Any:
        degrees = np.diff(self.indptr)
        return degrees if nodes is None else degrees[check_ids(nodes, self.num_nodes, "nodes")]


class Rows(RowSource):
    """Rows of an array with a gather of their own, which checks and widens by numpy."""

    shape: Any = None
    dtype_name: Any = None

    def __init__(self, rows: Any, dtype: str) -> None:
        self.rows, self.dtype_name, self.shape = rows, dtype, rows.shape

    def gather_into(self, ids: Any, out: Any) -> None:
        self.gather(ids, out)

    def gather(self, ids: Any, out: Any = None, dtype: Any = None) -> Any:
        chosen = self.rows[check_ids(ids, self.num_rows, "ids")]
        if out is not None and not isinstance(out, np.ndarray):
            raise errors.InvalidArgumentError("out must be an array")
        target = np.dtype(dtype or (self.rows.dtype if out is None else out.dtype))
        if target != chosen.dtype:
            if self.dtype_name == "bfloat16":
                chosen = bfloat16_to_float32(chosen)
            if not np.can_cast(chosen.dtype, target, "safe"):
                raise errors.UnsupportedError(f"{self.dtype_name} as {target} loses values")
            chosen = chosen.astype(target)
        if out is None:
            return chosen
        self.check_out(out, chosen)
        out[...] = chosen
        return out

    def check_out(self, out: Any, chosen: Any) -> None:
        if out.shape != chosen.shape:
            raise errors.InvalidArgumentError("out has another shape")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise errors.InvalidArgumentError("out must be C-contiguous and writable")


class Oracle:
    """A sampler: what the oracle says."""

    def __init__(self, graph: Any, fanouts: Any, **options: Any) -> None:
        self.graph, self.fanouts, self.options = graph, list(fanouts), options

    def sample(
        self, seeds: Any, key: int = 0, seed_time: Any = None, exclude: Any = None
    ) -> Any:  # fmt: skip
        ids = check_ids(seeds, self.graph.num_nodes, "seeds")
        arguments = self.arguments(ids, seed_time)
        if exclude is not None:
            arguments["exclude"] = check_ids(exclude, self.graph.num_edges, "exclude")
        return self.draw(ids, key, **arguments)

    def arguments(self, ids: Any, seed_time: Any) -> dict[str, Any]:
        """The options as the oracle takes them."""
        given = dict(self.options)
        name, weight = given.pop("time_attr", None), given.pop("weight_attr", None)
        strict, window = given.pop("strict", False), given.pop("window", None)
        found: dict[str, Any] = {"latest": given.pop("temporal_strategy", "uniform") == "last"}
        if weight is not None:
            found["weight"] = self.graph.edge_weight
        if name is not None:
            times = getattr(self.graph, name)
            values = Values(times, None, name == "node_time")
            at = times[ids] if seed_time is None else np.asarray(seed_time)
            seed_bounds(values, ids, seed_time, strict=False, window=window)  # checks them
            found.update(self.bounds(at, strict, window), disjoint=True)
            found["time" if name == "edge_time" else "node_time"] = times
        return {**given, **found}

    def bounds(self, at: Any, strict: bool, window: Any) -> dict[str, Any]:
        until = at
        if strict:
            until = np.nextafter(at, -np.inf) if at.dtype.kind == "f" else at - 1
        return {"until": until, "since": None if window is None else at - window}

    def draw(self, ids: Any, key: int, **arguments: Any) -> Any:
        return oracle.sample(*self.graph.csc(), ids, self.fanouts, key, **arguments)
