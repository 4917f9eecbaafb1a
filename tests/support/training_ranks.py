"""Processes of a training that share an epoch: what each of them found comes back in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import torch


def work_as_rank(rank: int, world_size: int, folder: str, work: Callable[[], Any]) -> NoReturn:
    """Join the ranks of ``folder``, save what ``work`` returns there, and end this process."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size
    )
    torch.save(work(), Path(folder) / f"{rank}.pt")
    # destroy_process_group() of torch 2.2 now and then waits without end for a peer that has gone.
    torch.distributed.barrier()
    os._exit(0)


def found_by_ranks(world_size: int, folder: Path) -> list[Any]:
    """Return what each rank saved, in their order."""
    return [torch.load(folder / f"{rank}.pt") for rank in range(world_size)]
