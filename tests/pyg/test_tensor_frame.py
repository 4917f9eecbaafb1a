"""Columns as torch tensors and as PyTorch Frame's TensorFrame, beside what that library makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from aethergraph.columns import ColumnStore
from aethergraph.errors import InvalidArgumentError

ROWS = 50


def store(path: Path) -> tuple[ColumnStore, dict[str, Any]]:
    rng = np.random.default_rng(0)
    seconds = rng.integers(-(10**9), 2 * 10**9, ROWS)
    columns = {
        "age": rng.integers(0, 90, ROWS),
        "score": np.where(rng.random(ROWS) < 0.2, np.nan, rng.random(ROWS)),
        "count": np.ma.array(rng.integers(0, 9, ROWS), mask=rng.random(ROWS) < 0.3),
        "premium": rng.random(ROWS) < 0.5,
        "since": seconds.astype("datetime64[s]"),
        "country": [["de", "fr", None][n] for n in rng.integers(0, 3, ROWS)],
        "bio": ["word " * int(n) for n in rng.integers(0, 4, ROWS)],
    }
    return ColumnStore.build(path, columns, kinds={"country": "category"}), columns


def lengths(texts: list[str]) -> torch.Tensor:
    return torch.tensor([[float(len(one)), 1.0] for one in texts])


def test_tensors_own_their_memory(tmp_path: Path) -> None:
    columns, given = store(tmp_path / "c")
    tensors = columns.gather([3, 1]).tensors()
    assert tensors["age"].tolist() == given["age"][[3, 1]].tolist()
    assert tensors["since"].dtype == torch.int64 and tensors["premium"].dtype == torch.bool
    assert tensors["since"].tolist() == given["since"][[3, 1]].astype(np.int64).tolist()
    tensors["age"] += 1
    assert columns.gather([3])["age"][0] == given["age"][3]
    assert tensors["bio"].to_list() == [given["bio"][3], given["bio"][1]]


def test_equals_the_frame_that_pytorch_frame_makes(tmp_path: Path) -> None:
    frame = pytest.importorskip("torch_frame", reason="pip install pytorch-frame")
    pd = pytest.importorskip("pandas", reason="PyTorch Frame makes its frames of pandas")
    columns, given = store(tmp_path / "c")
    table = pd.DataFrame(
        {
            **{name: given[name] for name in ("age", "score", "premium", "since", "country")},
            "count": given["count"].astype(float).filled(np.nan),
        }
    )
    kinds = {
        "age": frame.numerical, "score": frame.numerical, "count": frame.numerical,
        "premium": frame.categorical, "since": frame.timestamp, "country": frame.categorical,
    }  # fmt: skip
    dataset = frame.data.Dataset(table, kinds).materialize()
    theirs = dataset.tensor_frame
    ids = np.random.default_rng(1).integers(0, ROWS, 30)
    ours = columns.tensor_frame(ids)
    for kind in (frame.numerical, frame.timestamp):
        for place, name in enumerate(ours.col_names_dict[kind]):
            found = ours.feat_dict[kind][:, place]
            wanted = theirs.get_col_feat(name)[ids][:, 0]
            assert torch.equal(found.nan_to_num(-9), wanted.nan_to_num(-9)), name
    for place, name in enumerate(ours.col_names_dict[frame.categorical]):
        # Both by frequency; where two are as frequent, the codes may differ.
        statistics = columns.frame_statistics()[name][frame.data.stats.StatType.COUNT]
        their_names = [*dataset.col_stats[name][frame.data.stats.StatType.COUNT][0], None]
        our_names = [*statistics[0], None]
        found = [our_names[n] for n in ours.feat_dict[frame.categorical][:, place].tolist()]
        codes = theirs.get_col_feat(name)[ids][:, 0].tolist()
        assert found == [their_names[n] for n in codes], name
        kind = frame.data.stats.StatType
        assert statistics[1] == sorted(statistics[1], reverse=True), name
        counts = dict(zip(*dataset.col_stats[name][kind.COUNT], strict=True))
        assert counts == dict(zip(*statistics, strict=True))
    for name in ("age", "score", "count"):
        mine, its = columns.frame_statistics()[name], dataset.col_stats[name]
        assert mine.keys() == its.keys()
        for one, value in mine.items():
            assert value == pytest.approx(its[one]), (name, one)


def test_encoders_of_texts_and_a_model(tmp_path: Path) -> None:
    frame = pytest.importorskip("torch_frame", reason="pip install pytorch-frame")
    encoders = pytest.importorskip("torch_frame.nn")
    columns, given = store(tmp_path / "c")
    batch = columns.tensor_frame([4, 4, 0], {"bio": lengths})
    assert batch.num_rows == 3 and batch.col_names_dict[frame.embedding] == ["bio"]
    assert batch.feat_dict[frame.embedding].values[:, 0].tolist() == [
        len(given["bio"][n]) for n in (4, 4, 0)
    ]
    assert frame.embedding not in columns.tensor_frame([0]).feat_dict
    numbers = columns.tensor_frame([4, 4, 0], columns=["age", "country"])
    encoder = encoders.StypeWiseFeatureEncoder(
        8, columns.frame_statistics(), numbers.col_names_dict,
        {
            frame.numerical: encoders.LinearEncoder(),
            frame.categorical: encoders.EmbeddingEncoder(),
        },
    )  # fmt: skip
    out, names = encoder(numbers)
    assert out.shape == (3, 2, 8) and names == ["age", "country"]
    assert torch.equal(out[0], out[1]) and not torch.equal(out[0], out[2])


def test_a_missing_category_is_the_most_frequent_one(tmp_path: Path) -> None:
    frame = pytest.importorskip("torch_frame", reason="pip install pytorch-frame")
    encoders = pytest.importorskip("torch_frame.nn")
    given = {"c": ["a", "b", "b", "b", None], "bio": ["x", "y", "", "z", "w"]}
    columns = ColumnStore.build(tmp_path / "c", given, kinds={"c": "category"})
    rows = columns.tensor_frame([0, 1, 4], {"bio": lengths})
    assert rows.feat_dict[frame.categorical][:, 0].tolist() == [1, 0, -1]
    statistics = columns.frame_statistics({"bio": 2})
    assert statistics["c"][frame.data.stats.StatType.COUNT] == (["b", "a"], [3, 1])
    encoder = encoders.StypeWiseFeatureEncoder(
        8, statistics, rows.col_names_dict,
        {
            frame.categorical: encoders.EmbeddingEncoder(
                na_strategy=frame.NAStrategy.MOST_FREQUENT
            ),
            frame.embedding: encoders.LinearEmbeddingEncoder(),
        },
    )  # fmt: skip
    out, names = encoder(rows)
    found = out[:, names.index("c")]
    assert torch.equal(found[2], found[1]) and not torch.equal(found[2], found[0])
    for wrong in ({"c": 2}, {"bio": 0}, {"none": 1}):
        with pytest.raises(InvalidArgumentError):
            columns.frame_statistics(wrong)


@pytest.mark.parametrize(
    ("encoders", "problem"),
    [
        ({"age": lengths}, "'age' is not a column of texts"),
        ({"bio": lambda texts: texts}, "returns a tensor with a row for each of 2 texts"),
        ({"bio": lambda texts: torch.ones(2)}, r"\[n, dimension\], got \(2,\)"),
    ],
)
def test_bad_encoders(tmp_path: Path, encoders: Any, problem: str) -> None:
    pytest.importorskip("torch_frame", reason="pip install pytorch-frame")
    with pytest.raises(InvalidArgumentError, match=problem):
        store(tmp_path / "c")[0].tensor_frame([0, 1], encoders)
