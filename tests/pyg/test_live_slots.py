"""Rows out of raw slots by torch operations; live tables in loaders of PyG."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from aethergraph import Graph, LiveFeatureTable, errors
from aethergraph.pytorch import NeighborLoader, gather_to_device, validate_slots

DTYPES = ["float32", "float16", "bfloat16", "int8", "int64"]


def filled(dtype: str, items: int, scale: Any = None) -> LiveFeatureTable:
    table = LiveFeatureTable.create(None, 50, items, dtype, scale=scale, missing="zero")
    rng = np.random.default_rng(items)
    kind = "float32" if dtype == "bfloat16" else dtype
    for _ in range(2):
        table.put_many(np.arange(1, 50), rng.integers(-50, 50, (49, items)).astype(kind))
    return table


def as_torch(table: LiveFeatureTable, ids: Any) -> torch.Tensor:
    rows = table.gather(ids)
    if table.dtype_name == "bfloat16":
        return torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(rows)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("items", [1, 7, 64, 131, 1300])
def test_rows_are_those_of_a_gather(dtype: str, items: int) -> None:
    table = filled(dtype, items)
    ids = torch.randperm(50)
    found = validate_slots(torch.from_numpy(table.slots[ids.numpy()]), ids, table.layout)
    assert torch.equal(found.ok, ids != 0)
    assert torch.equal(found.missing, ids == 0)
    good = ids[found.ok]
    torch.testing.assert_close(found.rows[found.ok], as_torch(table, good.numpy()), rtol=0, atol=0)
    assert found.versions[found.ok].tolist() == table.versions(good.numpy()).tolist()


def test_scaled_rows() -> None:
    table = filled("int8", 33, "row")
    ids = np.arange(1, 50)
    found = validate_slots(table.slots[ids], ids, table.layout)
    assert found.ok.all()
    assert found.rows.tolist() == table.gather(ids).tolist()


def test_any_wrong_bit_is_found() -> None:
    table = filled("float32", 5)
    slot = table.slots[7]
    ids = torch.full((36 * 8,), 7)
    wrong = np.repeat(slot[None], len(ids), 0)
    for bit in range(len(ids)):
        wrong[bit, bit // 8] ^= 1 << bit % 8
    assert not validate_slots(wrong, ids, table.layout).ok.any()
    assert validate_slots(slot[None], ids[:1], table.layout).ok.all()
    # Read from a wrong place; changed between two looks; odd.
    assert not validate_slots(slot[None], ids[:1] + 1, table.layout).ok.any()
    seq = torch.from_numpy(slot[:4].copy()).view(torch.int32)
    for after, ok in ((seq, True), (seq + 2, False)):
        found = validate_slots(slot[None], ids[:1], table.layout, check=False, seq_after=after)
        assert found.ok.tolist() == [ok]
    odd = slot.copy()
    odd[0] |= 1
    assert not validate_slots(odd[None], ids[:1], table.layout, check=False).ok.any()


def test_slots_come_and_rows_go_by_dlpack() -> None:
    table = filled("float32", 5)

    class Foreign:
        def __init__(self, tensor: torch.Tensor) -> None:
            self.tensor = tensor

        def __dlpack__(self, **options: Any) -> Any:
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    raw = torch.from_numpy(table.slots[[3, 4]].copy())
    found = validate_slots(Foreign(raw), Foreign(torch.tensor([3, 4])), table.layout)
    assert found.ok.all()
    assert np.from_dlpack(found.rows).tolist() == table.gather([3, 4]).tolist()


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"slots": torch.zeros(3, 30, dtype=torch.uint8)}, "slots must be uint8"),
        ({"slots": torch.zeros(3, 64)}, "slots must be uint8"),
        ({"slots": "x"}, "slots must be a tensor"),
        ({"ids": torch.zeros(2, dtype=torch.int64)}, r"ids must be int64 \[3\]"),
        ({"ids": torch.zeros(3)}, r"ids must be int64 \[3\]"),
        ({"seq_after": torch.zeros(3)}, r"seq_after must be int32 \[3\]"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], wrong: str) -> None:
    table = filled("float32", 5)
    given = {
        "slots": torch.zeros(3, 64, dtype=torch.uint8),
        "ids": torch.zeros(3, dtype=torch.int64),
    }
    with pytest.raises(errors.InvalidArgumentError, match=wrong):
        validate_slots(**{**given, **change}, layout=table.layout)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_go_to_a_device(dtype: str) -> None:
    table = filled(dtype, 6)
    found = gather_to_device(table, [3, 9, 3], "cpu")
    assert torch.equal(found, as_torch(table, [3, 9, 3]))
    with pytest.raises(errors.InvalidArgumentError, match="device = 'nowhere'"):
        gather_to_device(table, [3], "nowhere")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_a_gpu_does_the_same() -> None:
    table = filled("float32", 131)
    ids = torch.arange(50)
    raw = torch.from_numpy(table.slots.copy())
    found = validate_slots(raw.cuda(), ids, table.layout)
    assert found.rows.is_cuda
    assert found.ok.tolist() == validate_slots(raw, ids, table.layout).ok.tolist()
    assert torch.equal(gather_to_device(table, ids[1:], "cuda").cpu(), found.rows[1:].cpu())


def test_a_loader_takes_a_live_table() -> None:
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(50, *rng.integers(0, 50, (2, 300)))
    table = filled("float32", 8)
    graph.node_attrs["x"] = table
    loader = NeighborLoader(graph, [3, 2], batch_size=10)
    for number in range(3):
        for batch in loader:
            assert torch.equal(batch.x, as_torch(table, batch.n_id.numpy()))
        table.put_many(np.arange(50), np.full((50, 8), number))
