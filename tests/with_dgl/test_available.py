"""Whether the tests of this folder run at all."""

from __future__ import annotations

import pytest

HOW = "DGL is not installed here: ./scripts/test.sh dgl makes an environment that has it"


def test_dgl_is_there() -> None:
    dgl = pytest.importorskip("dgl", reason=HOW)
    import aethergraph.dgl

    assert dgl.__version__.startswith("2.")
    assert set(aethergraph.dgl.__all__) <= set(vars(aethergraph.dgl))


def test_all_names_leave_the_loader_of_dgl_where_it_is() -> None:
    pytest.importorskip("dgl", reason=HOW)
    names: dict[str, object] = {}
    exec("from dgl.dataloading import DataLoader\nfrom aethergraph.dgl import *", names)
    import dgl

    assert names["DataLoader"] is dgl.dataloading.DataLoader and "GraphStorage" in names
