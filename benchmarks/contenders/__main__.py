"""Runs one contender as a program: ``python benchmarks/contenders samplers ...``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
del sys.argv[0]
runpy.run_module(f"contenders.{sys.argv[0]}", run_name="__main__", alter_sys=True)
