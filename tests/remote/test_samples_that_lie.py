"""A server may send any numbers: none of them may reach a model as a place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aethergraph import Graph, HeteroGraph, HeteroNeighborSampler, NeighborSampler, errors
from aethergraph.remote.samples.form import Form, structure

PLAIN = Form(
    False, ("node",), (("node", "to", "node"),),
    (*structure(0, False, False, True), *structure(0, True, False, True)),
)  # fmt: skip
TYPED = Form(
    True, ("a", "b"), (("a", "to", "b"),),
    (*structure(0, False, False, True), *structure(1, False, False, True),
     *structure(0, True, False, True)),
)  # fmt: skip


def reply(form: Form) -> np.ndarray:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, 20, (2, 80))
    if form.typed:
        graph = HeteroGraph.from_edges({("a", "to", "b"): (src, dst)}, {"a": 20, "b": 20})
        sample = HeteroNeighborSampler(graph, [3, 2]).sample({"b": np.arange(4)}, key=5)
    else:
        sample = NeighborSampler(Graph.from_edges(20, src, dst), [3, 2]).sample(np.arange(4), key=5)
    return form.pack(5, 0, sample, lambda *_: None, lambda size: np.empty(size, np.uint8)).copy()


def find(content: np.ndarray, array: np.ndarray) -> int:
    """Return where in the bytes of a reply an array stands."""
    return int(array.__array_interface__["data"][0] - content.__array_interface__["data"][0])


@pytest.mark.parametrize("form", [PLAIN, TYPED], ids=["plain", "typed"])
@pytest.mark.parametrize(
    ("name", "value"),
    [("row", 10**12), ("row", -1), ("col", -5), ("col", 2**62), ("node", 2**62), ("node", -1),
     ("edge", -7)],
)  # fmt: skip
def test_places_that_the_sample_has_not(form: Form, name: str, value: int) -> None:
    content = reply(form)
    sample: Any = form.unpack(content).subgraph
    values = getattr(sample, name)
    if form.typed:
        values = values["b" if name == "node" else ("a", "to", "b")]
    at = find(content, values) + 8
    content[at : at + 8] = np.frombuffer(np.int64(value).tobytes(), np.uint8)
    with pytest.raises(errors.FormatError, match=rf"{name}\[1\] = {value} is not in 0\.\."):
        form.unpack(content)


def test_forms_without_the_arrays_of_a_sample() -> None:
    for form in (PLAIN, TYPED):
        assert Form.of(form.told()) == form
        for number, one in enumerate(form.fields):
            fields = form.fields[:number] + form.fields[number + 1 :]
            wrong = [
                (*form.fields, one), (*fields, one._replace(name="other")),
                (*fields, one._replace(dtype="float32")), (*fields, one._replace(shape=(2,))),
            ]  # fmt: skip
            if not one.name.startswith("num_"):
                wrong.append(fields)
            for some in wrong:
                with pytest.raises(ValueError, match="a form"):
                    Form.of(replace(form, fields=some).told())


def test_counts_by_hop_that_are_none() -> None:
    content = reply(PLAIN)
    sample: Any = PLAIN.unpack(content).subgraph
    counts = (
        np.frombuffer(content, np.uint8)
        .tobytes()
        .rfind(np.array(sample.num_sampled_edges, np.int64).tobytes())
    )
    content[counts : counts + 8] = np.frombuffer(np.int64(-3).tobytes(), np.uint8)
    with pytest.raises(errors.FormatError, match="that counts"):
        PLAIN.unpack(content)
