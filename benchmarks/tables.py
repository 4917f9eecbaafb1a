"""Tables with string keys into a typed graph, beside DuckDB joining the same keys.

    [sudo] python benchmarks/tables.py [--quick] [--rows 100M] [--memory 4G] [--kills 10]

Four Parquet tables, of users, products, orders (with a user, a time and a price) and items (pairs
of order and product, with a quantity), all keys strings in no order. `convert.tables` makes the
graph of them: keys to ids, lists sorted by time, both directions, features. DuckDB numbers the
keys, joins them to the tables, and writes both ends of every edge to Parquet; it makes no lists.
Each is a process of its own on one core; as root inside a cgroup with the limit, page cache
included, of which DuckDB gets three quarters for itself. They take turns.

What was built is checked: each relation has the edges that DuckDB found, by a sum of hashes over
both ends. With ``--kills`` the build is killed that often at random moments, started again, and the
files have to be the same, byte for byte.
"""

from __future__ import annotations

import filecmp
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from build_bounded import count, hash_sum
from harness import common
from harness.cgroups import AnonymousPeak, cgroup, parse_size
from harness.common import Cell, Ids, Ratio, Report
from harness.disk import DiskPeak

OURS, PEER = "aethergraph, tables", "DuckDB, joins alone"
ROWS = 1 << 20
#: Shares of the rows.
SHARES = {"users": 0.04, "products": 0.01, "orders": 0.45, "items": 0.5}
EDGES = {"buyer": ("order", "user"), "items": ("order", "product")}

# ---- inputs ------------------------------------------------------------------------------------


def keys_of(letter: str, numbers: Ids) -> Any:
    """Return keys that are unique, of up to 16 characters, in no order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    texts = pc.cast(pa.array(mixed >> np.uint64(14)), pa.string())
    return pc.binary_join_element_wise(letter, texts, "")


def columns_of(table: str, sizes: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the columns of a table, some rows at a time."""
    rng = np.random.Generator(np.random.PCG64(list(sizes).index(table)))
    for begin in range(0, sizes[table], ROWS):
        end = min(begin + ROWS, sizes[table])
        own, n = np.arange(begin, end), end - begin
        if table == "users":
            yield {"key": keys_of("u", own), "age": rng.integers(18, 90, n)}
        elif table == "products":
            yield {"key": keys_of("p", own), "price": rng.random(n)}
        elif table == "orders":
            buyers = common.power_law_ids(rng, sizes["users"], n)
            yield {
                "key": keys_of("o", own), "user": keys_of("u", buyers),
                "placed": rng.integers(1_600_000_000, 1_700_000_000, n), "sum": rng.random(n),
            }  # fmt: skip
        else:
            orders = rng.integers(0, sizes["orders"], n)
            products = common.power_law_ids(rng, sizes["products"], n)
            yield {
                "order": keys_of("o", orders), "product": keys_of("p", products),
                "quantity": rng.integers(1, 9, n).astype(np.int32),
            }  # fmt: skip


def write_tables(folder: Path, rows: int) -> dict[str, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sizes = {name: max(10, int(share * rows)) for name, share in SHARES.items()}
    for name in sizes:
        path = folder / f"{name}.parquet"
        writer = None
        for columns in columns_of(name, sizes):
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
        assert writer is not None
        writer.close()
    (folder / "shop.toml").write_text(SCHEMA)
    return sizes


SCHEMA = """
[nodes.user]
from = "users.parquet"
key = "key"
features = ["age"]

[nodes.product]
from = "products.parquet"
key = "key"
features = ["price"]

[nodes.order]
from = "orders.parquet"
key = "key"
time = "placed"
features = ["sum"]
foreign.buyer = {to = "user", columns = "user"}

[links.items]
from = "items.parquet"
source = "order"
destination = "product"
source_key = "order"
destination_key = "product"
attrs = ["quantity"]
"""

# ---- the contenders (child) ----------------------------------------------------------------------


def join(folder: Path, output: Path, memory: str) -> None:
    import duckdb

    work = output.with_suffix(".work")
    work.mkdir()
    with duckdb.connect(str(work / "ids.duckdb")) as db:
        db.execute("SET threads = 1")
        db.execute(f"SET memory_limit = '{parse_size(memory) * 3 // 4 >> 20}MiB'")
        db.execute(f"SET temp_directory = '{work / 'spilled'}'")
        db.execute("SET preserve_insertion_order = false")
        for table in ("users", "products", "orders"):
            db.execute(
                f"CREATE TABLE {table} AS SELECT key, file_row_number AS id "
                f"FROM read_parquet('{folder / table}.parquet', file_row_number = true)"
            )
        output.mkdir()
        db.execute(
            "COPY (SELECT o.file_row_number AS src, u.id AS dst, o.placed "
            f"FROM read_parquet('{folder}/orders.parquet', file_row_number = true) o "
            f"JOIN users u ON o.user = u.key) TO '{output}/buyer.parquet'"
        )
        db.execute(
            "COPY (SELECT o.id AS src, p.id AS dst, i.quantity "
            f"FROM read_parquet('{folder}/items.parquet') i JOIN orders o ON i.order = o.key "
            f"JOIN products p ON i.product = p.key) TO '{output}/items.parquet'"
        )
    shutil.rmtree(work)


def child(name: str, folder: Path, output: Path, memory: str) -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    start, seconds = time.perf_counter(), {}
    if name == OURS:
        from aethergraph.convert import tables

        result = tables(folder / "shop.toml", output, memory_budget=memory, threads=1, force=True)
        seconds = result.seconds
    else:
        join(folder, output, memory)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "seconds": time.perf_counter() - start,
        "cpu": usage.ru_utime + usage.ru_stime,
        "stages": seconds,
    }
    print(json.dumps(found))


# ---- the parent --------------------------------------------------------------------------------


def remove(output: Path) -> None:
    for path in [*output.parent.glob(f"{output.stem}.*"), *output.parent.glob(f".{output.stem}*")]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def start(name: str, folder: Path, output: Path, memory: str, enter: Any) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", name, str(folder), str(output), memory]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=enter)


def run(name: str, folder: Path, output: Path, memory: str) -> dict[str, Any] | None:
    """Return what the child measured; None if it was killed for lack of memory."""
    remove(output)
    for path in folder.glob("*.parquet"):
        common.drop_from_cache(path)
    patterns = (f"{output.stem}.*", f"{output.stem}.*/**/*", f".{output.stem}*")
    charged: dict[str, Any] = {}
    with DiskPeak(output.parent, patterns) as disk, ExitStack() as stack:
        enter: Callable[[], None] | None = None
        if os.geteuid() == 0:
            group = stack.enter_context(cgroup(parse_size(memory)))
            anonymous = stack.enter_context(AnonymousPeak(group))
            enter = group.enter
        process = start(name, folder, output, memory, enter)
        told, _ = process.communicate()
        if enter is not None:
            charged = {"cgroup_peak": group.peak, "anonymous_peak": anonymous.bytes}
    if process.returncode < 0:
        return None
    if process.returncode:
        raise SystemExit(f"{name} failed")
    return {**json.loads(told.splitlines()[-1]), **charged, "disk": disk.bytes}


def check(graph_file: Path, joined: Path) -> None:
    """The graph has the edges that DuckDB found, in every relation."""
    import pyarrow.parquet as pq

    from aethergraph import HeteroGraph

    with HeteroGraph.load(graph_file, storage="mmap") as graph:
        for relation, (source, target) in EDGES.items():
            adjacency = graph[source, relation, target]
            expected = number = 0
            for batch in pq.ParquetFile(joined / f"{relation}.parquet").iter_batches(ROWS):
                src, dst = (batch.column(at).to_numpy() for at in (0, 1))
                expected, number = expected + hash_sum(src, dst), number + len(src)
            indptr, indices = adjacency.csc()
            found = 0
            for first in range(0, len(indptr) - 1, 1 << 16):
                ends = np.asarray(indptr[first : first + (1 << 16) + 1], np.int64)
                dst = np.repeat(np.arange(first, first + len(ends) - 1), np.diff(ends))
                found += hash_sum(np.asarray(indices[ends[0] : ends[-1]]), dst)
            if adjacency.num_edges != number or (found - expected) % 2**64:
                raise SystemExit(f"{graph_file}: {relation} has other edges than DuckDB found")


def kill_and_go_on(
    folder: Path, whole: Path, memory: str, kills: int, seconds: float
) -> tuple[int, bool]:
    """Kill a build that often; return how often it was at work, and whether the files are equal."""
    output = whole.with_name("killed.aeg")
    remove(output)
    rng, at_work = random.Random(0), 0
    for _ in range(kills):
        process = start(OURS, folder, output, memory, None)
        time.sleep(rng.uniform(0.3, 1 + 2 * seconds / max(kills, 1)))
        at_work += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = start(OURS, folder, output, memory, None)
    process.communicate()
    if process.returncode:
        raise SystemExit("the build that was killed did not end well")
    names = [path.name.removeprefix("whole.") for path in whole.parent.glob("whole.*")]
    same = all(
        filecmp.cmp(whole.parent / f"whole.{name}", whole.parent / f"killed.{name}", shallow=False)
        for name in names
    )
    return at_work, same


def main(argv: Sequence[str] | None = None) -> None:
    made = common.parser(__doc__)
    made.add_argument("--rows", type=count, help="such as 100M or 1G (default: 20M)")
    made.add_argument("--memory", default="4G", help="budget (default: %(default)s)")
    made.add_argument("--rounds", type=int, default=None, help="turns of each (default: 3)")
    made.add_argument("--kills", type=int, default=0, help="kill the build that often (default: 0)")
    args = common.parse(made, argv)
    rows = args.rows or (100_000 if args.quick else 20_000_000)
    rounds = args.rounds or (1 if args.quick else 3)
    report = Report("tables", "Tables with string keys into a typed graph", args)
    report.parameters = {"rows": rows, "memory": args.memory, "rounds": rounds}
    folder = args.dir / "tables"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        common.say(f"making {common.short(rows)} rows")
        sizes = write_tables(folder, rows)
        given = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        outputs = {OURS: folder / "whole.aeg", PEER: folder / "joined.edges"}
        found: dict[str, list[dict[str, Any]]] = {OURS: [], PEER: []}
        for turn in range(rounds):
            for name in (OURS, PEER) if turn % 2 == 0 else (PEER, OURS):
                common.say(f"round {turn + 1}: {name}")
                one = run(name, folder, outputs[name], args.memory)
                if one is not None:
                    found[name].append(one)
        if not found[OURS]:
            raise SystemExit(f"{OURS} was killed: it needs more than {args.memory}")
        checked: Cell = "-"
        if found[PEER]:
            common.say("checking")
            check(outputs[OURS], outputs[PEER])
            checked = "the same edges"
        report.table(
            f"{common.short(sum(sizes.values()))} rows in four tables, "
            f"{common.size(given)} of Parquet, budget {args.memory}, one core",
            ["by", "seconds", "M rows/s", "CPU seconds", "anonymous memory, by the cgroup",
             "disk peak", "checked"],
            [_row(name, runs, sum(sizes.values()), checked) for name, runs in found.items()],
        )  # fmt: skip
        report.data.update(found)
        if found[PEER]:
            pairs = list(zip(found[PEER], found[OURS], strict=False))
            speed = [
                str(Ratio.paired([a[clock] for a, _ in pairs], [b[clock] for _, b in pairs]))
                for clock in ("seconds", "cpu")
            ]
            report.note(
                f"Speed of ours over DuckDB's: {speed[0]} by the clock, {speed[1]} by processor "
                "time. Ours writes the graph, DuckDB the ends of edges."
            )
        if args.kills:
            common.say(f"killing the build {args.kills} times")
            seconds = found[OURS][-1]["seconds"]
            at_work, same = kill_and_go_on(folder, outputs[OURS], args.memory, args.kills, seconds)
            files = "the same files" if same else "OTHER FILES"
            report.note(
                f"Killed {args.kills} times, {at_work} of them at work; at the end {files}."
            )
            report.data["killed"] = {"kills": args.kills, "at_work": at_work, "same": same}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if os.geteuid() != 0:
        report.note("Not root: the budget was not enforced by a cgroup.")
    report.finish()


def _row(name: str, runs: list[dict[str, Any]], rows: int, checked: Cell) -> list[Cell]:
    if not runs:
        return [name, "killed", *["-"] * 5]
    seconds = statistics.median(one["seconds"] for one in runs)
    peaks = [one["anonymous_peak"] for one in runs if "anonymous_peak" in one]
    return [
        name, seconds, rows / seconds / 1e6, statistics.median(one["cpu"] for one in runs),
        common.size(max(peaks)) if peaks else "-", common.size(max(one["disk"] for one in runs)),
        checked,
    ]  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        name, folder, output, memory = sys.argv[2:]
        child(name, Path(folder), Path(output), memory)
    else:
        main()
