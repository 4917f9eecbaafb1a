"""``tables``: a typed graph from tables of nodes, foreign keys and links; ``check_tables``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Literal

from aethergraph import _native as native
from aethergraph._checks.options import as_choice, as_flag, shown
from aethergraph.convert.arguments import as_file, as_threads
from aethergraph.convert.external.budget import working_memory
from aethergraph.convert.readers.base import PathLike, require_pyarrow
from aethergraph.convert.result import Stages, silent
from aethergraph.convert.typed.build import TablesResult, TypedBuild
from aethergraph.convert.typed.check import TablesCheck
from aethergraph.convert.typed.problems import TablesReport
from aethergraph.convert.typed.schema import TableSchema
from aethergraph.errors import InvalidArgumentError
from aethergraph.storage.budget import Budget

__all__ = ["check_tables", "tables"]


def tables(
    schema: TableSchema | PathLike,
    output: PathLike,
    *,
    layout: Literal["csc", "csr", "both"] = "csc",
    compress: bool = False,
    memory_budget: int | str | None = None,
    restart: bool = False,
    force: bool = False,
    threads: int | None = None,
    stages: Stages | None = None,
    remark: Callable[[str], None] | None = None,
) -> TablesResult:
    """Build a typed graph from tables.

    Writes the graph file, with node times, features (``x``) and labels (``y``), and beside it a map
    of ids (:class:`aethergraph.ids.IdMap`) for each node type that has a key: ``shop.user.ids``
    beside ``shop.aeg``. ``shop.v2`` would have the same names beside it: it is refused, also with
    ``force``, while another graph needs them.

    Args:
        schema: the tables, or a TOML file that names them.
        output: the graph file to write.
        layout: as in :meth:`aethergraph.HeteroGraph.from_edges`, for all edge types.
        compress: store the neighbours in compressed blocks, see :meth:`aethergraph.Graph.save`.
        memory_budget: bytes, or a text such as "1G", that the process may take in all; default:
            4 GiB, or half of the memory if that is less. Work files are in a folder beside
            ``output``. The file does not depend on it. After a kill, the same call goes on where
            it was, unless tables are in memory.
        restart: begin anew instead of going on.
        force: overwrite outputs.
        threads: sorting threads; None or 0: as many as the native core uses.
        stages: called with name and unit of a stage; returns the stage's progress function.
        remark: called at once with remarks, such as where a build goes on.

    Raises:
        InputError: a bad table, with file, row and column: a column that is missing or of another
            type, a key that is null, comes twice or refers to nothing.
        InvalidArgumentError: a part of the schema is wrong, or the budget too small.
        StorageError: a file cannot be written. Nothing is left behind but the work folder.
    """
    schema = _as_schema(schema)
    layout = as_choice(layout, ("csc", "csr", "both"), "layout")
    threads = as_threads(threads) or native.get_num_threads()
    budget = Budget.optional(memory_budget, "memory_budget (--memory)")
    memory = working_memory(budget, {"parquet", "csv"}, threads)
    build = TypedBuild(
        schema, as_file(output), layout, as_flag(compress, "compress"), memory, threads,
        as_flag(restart, "restart"), stages or silent, remark or (lambda text: None),
    )  # fmt: skip
    return build.run(as_flag(force, "force"))


def check_tables(
    schema: TableSchema | PathLike,
    *,
    memory_budget: int | str | None = None,
    stages: Stages | None = None,
) -> TablesReport:
    """Read tables as :func:`tables` does, and report all that it would refuse; write no graph.

    A problem that many rows have is one, with their number and the place of the first. Work files
    are in a temporary folder (``TMPDIR``), as large as those of a build.

    Args:
        schema: as for :func:`tables`.
        memory_budget: as for :func:`tables`.
        stages: as for :func:`tables`.

    Raises:
        InvalidArgumentError: the schema itself is wrong, or the budget too small.
        StorageError: work files cannot be written.
    """
    schema = _as_schema(schema)
    budget = Budget.optional(memory_budget, "memory_budget (--memory)")
    memory = working_memory(budget, {"parquet", "csv"}, 1)
    with tempfile.TemporaryDirectory(prefix="aethergraph-") as folder:
        return TablesCheck(schema, folder, memory, stages or silent).check()


def _as_schema(schema: TableSchema | PathLike) -> TableSchema:
    require_pyarrow()
    if isinstance(schema, (str, os.PathLike)):
        schema = TableSchema.load(schema)
    if not isinstance(schema, TableSchema):
        raise InvalidArgumentError(f"schema is a TableSchema or a TOML file, got {shown(schema)}")
    return schema
