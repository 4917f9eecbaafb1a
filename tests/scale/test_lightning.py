"""Lightning keeps the place of our loaders in its checkpoints, also within an epoch."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")
lightning = pytest.importorskip("pytorch_lightning", reason="Lightning is not installed")

from support.pyg import make_graph  # noqa: E402

from aethergraph.loading import Order  # noqa: E402
from aethergraph.pyg import NeighborLoader  # noqa: E402

pytestmark = pytest.mark.pyg


class Recorder(lightning.LightningModule):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
        self.seen: list[list[int]] = []

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        self.seen.append(batch.n_id.tolist())
        return self.layer(batch.x).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(folder: Path, steps: int, checkpoint: Path | None = None) -> tuple[Any, Recorder]:
    torch.manual_seed(0 if checkpoint is None else 9)
    loader = NeighborLoader(
        make_graph(), [4, 3], batch_size=20, shuffle=True, seed=5, order=Order(world_size=1)
    )  # 8 batches
    trainer = lightning.Trainer(
        max_steps=steps, max_epochs=-1, accelerator="cpu", devices=1, default_root_dir=folder,
        logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False,
    )  # fmt: skip
    model = Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.fit(model, loader, ckpt_path=checkpoint)
    return trainer, model


@pytest.mark.parametrize("steps", [3, 11])
def test_a_run_goes_on_within_an_epoch(tmp_path: Path, steps: int) -> None:
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    _, whole = fit(tmp_path, 19)
    trainer, first = fit(tmp_path, steps)
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    _, rest = fit(tmp_path, 19, tmp_path / "last.ckpt")
    assert len(whole.seen) == 19 and whole.seen[:8] != whole.seen[8:16]
    assert first.seen + rest.seen == whole.seen
