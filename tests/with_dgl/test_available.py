"""Whether the tests of this folder run at all."""

from __future__ import annotations

import pytest

HOW = "DGL is not installed here: ./scripts/test.sh dgl makes an environment that has it"


def test_dgl_is_there() -> None:
    dgl = pytest.importorskip("dgl", reason=HOW)
    import aethergraph.dgl

    assert dgl.__version__.startswith("2.")
    assert set(aethergraph.dgl.__all__) <= set(vars(aethergraph.dgl))
