"""A live directory whose files are anybody's: other ones, none, parts of them, wrong descriptions.

Whatever is there, opening, reading and verifying the directory ends soon: with what the graph had,
or with one of our errors. Never with a raw error, nor with less than there was.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest
from support.share import ALL

from aethergraph import DynamicGraph, DynamicHeteroGraph, Graph, errors
from aethergraph.dynamic.directory import LiveDirectory
from aethergraph.dynamic.history import History
from aethergraph.dynamic.repair import verify_directory

T = TypeVar("T")

NODES = 6
TYPED = {("user", "buys", "item"): {}, ("item", "sees", "user"): {"order": "time"}}


class Stored(NamedTuple):
    """A file, without the zeros at its end."""

    content: bytes
    size: int

    @classmethod
    def of(cls, path: Path) -> Stored:
        content = path.read_bytes()
        return cls(content.rstrip(b"\0"), len(content))

    def put(self, path: Path, size: int | None = None) -> None:
        """Write the file, or its beginning."""
        size = self.size if size is None else size
        path.write_bytes(self.content[:size])
        os.truncate(path, size)


class Laid(NamedTuple):
    """Live directory of a test: its files, and what is read from it."""

    path: Path
    files: dict[str, Stored]
    typed: bool
    content: Any

    def lay(self) -> None:
        """Put all files there as they were, and no others."""
        for path in self.path.iterdir():
            remove(path)
        for name, stored in self.files.items():
            stored.put(self.path / name)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


def shown(graph: Any, *, typed: bool) -> Any:
    """Everything that a graph shows, as plain lists."""
    if not typed:
        nodes = np.arange(graph.num_nodes)
        lists = [(graph.in_neighbors(v).tolist(), graph.in_edges(v).tolist()) for v in nodes]
        edges = np.sort(np.concatenate([graph.in_edges(v) for v in nodes]))
        values = {**graph.edge_values, **graph.edge_attrs}
        rows = {name: table.gather(nodes).tolist() for name, table in graph.node_attrs.items()}
        return lists, rows, {name: table.gather(edges).tolist() for name, table in values.items()}
    lists = {
        kind: [graph[kind].in_neighbors(v).tolist() for v in range(graph.num_nodes[kind[2]])]
        for kind in TYPED
    }
    ids = np.arange(graph.num_nodes["user"])
    rows = {name: table.gather(ids).tolist() for name, table in graph["user"].attrs.items()}
    return lists, rows, graph.ids["user"].keys(ids)


def make_one(path: Path) -> Any:
    with DynamicGraph.open(
        path, NODES, 1, huge_pages=False, order="time", edge_time="int64", edge_weight="float32",
        edge_attrs={"m": ((2,), "float32")},
    ) as graph:  # fmt: skip
        graph.features = np.arange(2.0 * NODES).reshape(NODES, 2)
        graph.insert_edges(
            [0, 1, 2, 3], [1, 2, 3, 4], time=[1, 2, 3, 4], weight=[1, 2, 3, 4],
            edge_attrs={"m": np.arange(8.0).reshape(4, 2)},
        )  # fmt: skip
        graph.delete_edges([1], [2])
        graph.set_offset("clicks", 0, 7)
        graph.merge()
        graph.node_attrs["y"] = np.zeros(NODES)
        graph.update_nodes([1], y=[3])
        graph.insert_edge(5, 1, time=5, weight=5, edge_attrs={"m": [9, 9]})
        return shown(graph.pinned(), typed=False)


def make_typed(path: Path) -> Any:
    with DynamicHeteroGraph.open(
        path, {"user": 0, "item": 4}, TYPED, arena_mb=2, huge_pages=False, ids={"user": "str"}
    ) as graph:
        graph.ids["user"].add(["ann", "bob", "cid"])
        graph["user"].attrs["x"] = np.arange(3.0)
        graph["user", "buys", "item"].insert([0, 1, 2], [1, 1, 3])
        graph.merge()
        graph.ids["user"].add(["dan"], x=[7])
        graph["item", "sees", "user"].insert([0, 1], [3, 2])
        return shown(graph.pinned(), typed=True)


@pytest.fixture(scope="module", params=["one", "typed"])
def laid(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Laid:
    path = tmp_path_factory.mktemp("foreign") / "g.aegd"
    typed = request.param == "typed"
    content = (make_typed if typed else make_one)(path)
    for read in READERS.values():  # makes all the files there can be, such as places of edges
        read(Laid(path, {}, typed, content))
    return Laid(path, {p.name: Stored.of(p) for p in path.iterdir()}, typed, content)


# ---- what reads a directory --------------------------------------------------------------------


def opened(laid: Laid) -> None:
    if laid.typed:
        graph: Any = DynamicHeteroGraph.open(laid.path, arena_mb=2, huge_pages=False)
    else:
        graph = DynamicGraph.open(laid.path, arena_mb=1, huge_pages=False)
    with graph:
        assert shown(graph.pinned(), typed=laid.typed) == laid.content


def replayed(laid: Laid) -> None:
    with History(laid.path, 2) as history:
        assert shown(history.last(), typed=laid.typed) == laid.content


def verified(laid: Laid) -> None:
    assert verify_directory(laid.path)


def described(laid: Laid) -> None:
    found = LiveDirectory(laid.path).info()
    assert (found["base"], found["writer"]) == ("gen-000001.aeg", None)


READERS: dict[str, Callable[[Laid], None]] = {
    "open": opened,
    "history": replayed,
    "verify": verified,
    "info": described,
}


@contextmanager
def ends_soon() -> Iterator[None]:
    """Fail a block that waits for something that never comes."""

    def stop(*_: object) -> None:
        pytest.fail("it waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def some(items: Iterable[T], count: int, rng: random.Random) -> list[T]:
    """Return a few items, or all where all tests run."""
    chosen = list(items)
    return chosen if ALL else rng.sample(chosen, min(count, len(chosen)))


def read_all(laid: Laid, attack: Callable[[], None], what: str) -> set[str]:
    """Attack the directory before each way to read it; return those that were refused."""
    refused = set()
    for name, read in READERS.items():
        laid.lay()
        attack()
        try:
            with ends_soon():
                read(laid)
        except errors.AetherError:
            refused.add(name)
        except BaseException as error:
            raise AssertionError(f"{name} of {what}") from error
    return refused


# ---- files -------------------------------------------------------------------------------------


def to_zero(path: Path) -> None:
    path.symlink_to("/dev/zero")


def to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


def empty(path: Path) -> None:
    path.touch()


REPLACEMENTS: list[Callable[[Path], None]] = [
    os.mkfifo, Path.mkdir, to_zero, to_nowhere, to_itself, huge, empty
]  # fmt: skip
#: Files without which a graph is what it was: locks, and what is made again.
SPARE = ("LOCK", "wal.lock", ".places-")


def is_spare(name: str) -> bool:
    return any(part in name for part in SPARE)


def test_the_graph_is_what_it_was(laid: Laid) -> None:
    names = " ".join(laid.files)
    assert all(part in names for part in ("CURRENT", "graph.json", "wal-", "gen-000001.aeg"))
    assert not read_all(laid, lambda: None, "what it was")


def test_missing_files(laid: Laid) -> None:
    for name in laid.files:
        refused = read_all(laid, (laid.path / name).unlink, f"no {name}")
        needed = not is_spare(name) and name != "NEWEST"
        assert ("open" in refused) == needed, (name, refused)


@pytest.mark.slow
def test_other_things_in_the_place_of_files(laid: Laid) -> None:
    rng = random.Random(1)
    for name in laid.files:
        path = laid.path / name
        for replace in some(REPLACEMENTS, 3, rng):

            def attack(path: Path = path, replace: Callable[[Path], None] = replace) -> None:
                path.unlink()
                replace(path)

            refused = read_all(laid, attack, f"{replace.__name__} in the place of {name}")
            if not is_spare(name):
                assert "open" in refused, (name, replace.__name__)


def test_a_pipe_in_the_place_of_the_description_is_named(laid: Laid) -> None:
    laid.lay()
    (laid.path / "graph.json").unlink()
    os.mkfifo(laid.path / "graph.json")
    with ends_soon(), pytest.raises(errors.StorageError, match=r"graph\.json: is a pipe"):
        opened(laid)
    for path in laid.path.iterdir():
        if path.name != "graph.json":
            path.unlink()
    with ends_soon(), pytest.raises(errors.StorageError, match="is the directory of a live graph"):
        Graph.load(laid.path)


def test_a_link_is_not_written_through(laid: Laid, tmp_path: Path) -> None:
    """Links in the place of locks, and of files that are being written, stay as they are."""
    victim = tmp_path / "mine.txt"
    for name in ("LOCK", "wal.lock", "CURRENT.new", "LIVE.new", "wal.new"):
        laid.lay()
        victim.write_text("mine")
        path = laid.path / name
        path.unlink(missing_ok=True)
        path.symlink_to(victim)
        with ends_soon():
            try:
                opened(laid)
            except errors.StorageError as error:
                assert name.endswith(("LOCK", "lock", "wal.new"))
                assert "it is a symbolic link: put the file itself there" in str(error)
        assert victim.read_text() == "mine", name


def test_files_in_each_others_places(laid: Laid) -> None:
    rng = random.Random(2)
    for name in laid.files:
        path = laid.path / name
        others = () if is_spare(name) else [item for item in laid.files.items() if item[0] != name]
        for other, stored in some(others, 3, rng):
            refused = read_all(
                laid, lambda path=path, stored=stored: stored.put(path), f"{other} as {name}"
            )
            assert "open" in refused, (name, other)


def test_files_that_are_cut(laid: Laid) -> None:
    rng = random.Random(3)
    for name, stored in laid.files.items():
        ends = range(len(stored.content))
        step = 1 if ALL and len(ends) < 2000 else max(1, len(ends) // (200 if ALL else 4))
        for size in ends[rng.randrange(step) :: step]:
            path = laid.path / name
            refused = read_all(
                laid, lambda path=path, stored=stored, size=size: stored.put(path, size),
                f"{size} bytes of {name}",
            )  # fmt: skip
            assert is_spare(name) or "open" in refused, (name, size)


def test_unknown_files_are_left_alone(laid: Laid) -> None:
    def attack() -> None:
        (laid.path / "gen-000001-backup.aeg").write_text("mine")
        (laid.path / "rows-old.aef").write_text("mine")
        os.mkfifo(laid.path / "notes.txt")

    assert read_all(laid, attack, "unknown files") <= {"verify"}
    assert (laid.path / "rows-old.aef").read_text() == "mine"


# ---- descriptions ------------------------------------------------------------------------------

WRONG: list[Any] = [
    None, True, -1, 0, 3, 1 << 70, 0.5, float("nan"), "", "x", "\0", "../x", [], [[]], [None], {},
    {"x": []}, [1, 2, 3], {"node": 1 << 40}, {"user": -1, "item": "x"},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the way to each value within a description."""
    if path:
        yield path
    children: Any = ()
    if isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list):
        children = enumerate(value)
    for key, child in children:
        yield from places(child, (*path, key))


def changed(value: Any, path: tuple[Any, ...], wrong: Any, *, missing: bool) -> Any:
    """Return a description with another value in one place, or none."""
    copy = json.loads(json.dumps(value))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    if missing:
        del inner[path[-1]]
    else:
        inner[path[-1]] = wrong
    return copy


@pytest.mark.parametrize("name", ["graph.json", "CURRENT"])
def test_wrong_descriptions(laid: Laid, name: str) -> None:
    """Each field with a right checksum: what reads it says so, or takes it for what it is."""
    found = json.loads(laid.files[name].content)
    del found["checksum"]
    rng = random.Random(5)
    directory = LiveDirectory(laid.path)
    for path in places(found):
        if path[0] == "edge_types" and path[2:] == (0, 1):
            continue  # the name of a relation, which nothing else has
        values = some(WRONG, 2, rng)
        for missing, wrong in [(True, None), *((False, value) for value in values)]:
            content = changed(found, path, wrong, missing=missing)

            def attack(content: Any = content) -> None:
                directory.write_json(name, content)

            what = f"{path} of {name}: {'missing' if missing else wrong!r}"
            for reader, read in READERS.items():
                laid.lay()
                attack()
                try:
                    with ends_soon():
                        read(laid)
                except errors.AetherError:
                    pass
                except AssertionError:
                    # Numbers that nothing contradicts, and attributes by another name.
                    assert reader == "info" or may_differ(path), what
                except BaseException as error:
                    raise AssertionError(f"{reader}: {what}") from error


def may_differ(path: tuple[Any, ...]) -> bool:
    """Return whether nothing else in the directory says what a field does."""
    return path[0] in ("lsn", "closed", "offsets", "last_times", "uuid")


@pytest.mark.parametrize("name", ["graph.json", "CURRENT", "LIVE"])
@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000, b'{"a":' * 200_000, b"{}", b"3", b"\xff\xfe",
        b'{"lsn": 1' + b"0" * 5000 + b"}",
    ],
    ids=["lists", "objects", "empty", "number", "no text", "digits"],
)  # fmt: skip
def test_text_that_is_no_description(laid: Laid, name: str, content: bytes) -> None:
    def attack() -> None:
        (laid.path / name).write_bytes(content)
        (laid.path / name).chmod(0o600)

    if name == "LIVE":
        laid.lay()
        attack()
        with pytest.raises(errors.AetherError):
            (DynamicHeteroGraph if laid.typed else DynamicGraph).attach(laid.path)
    else:
        assert read_all(laid, attack, name) == set(READERS)


@pytest.mark.slow
def test_wrong_addresses_of_memory(laid: Laid) -> None:
    """Addresses in LIVE are the user's own, but may be another build's, or half written."""
    laid.lay()
    kind: Any = DynamicHeteroGraph if laid.typed else DynamicGraph
    rng = random.Random(9)
    with kind.open(laid.path, arena_mb=2, huge_pages=False):
        directory = LiveDirectory(laid.path)
        found = json.loads((laid.path / "LIVE").read_bytes())
        del found["checksum"]
        for path in places(found):
            for wrong in some(WRONG, 1, rng):
                for missing in (False, True):
                    directory.write_json("LIVE", changed(found, path, wrong, missing=missing))
                    try:
                        with ends_soon(), kind.attach(laid.path) as graph:
                            assert graph.num_nodes is not None
                    except errors.AetherError:
                        pass
                    except BaseException as error:
                        raise AssertionError(f"{path} of LIVE: {wrong!r}, {missing}") from error
        directory.write_json("LIVE", found)
        with kind.attach(laid.path) as graph:
            assert shown(graph.pinned(), typed=laid.typed) == laid.content
