"""A server and clients on two machines: namespaces, with delay, loss, and a cable that is cut."""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.network import FAR, NEAR, Cable, make_certificate, plugged, run_ip
from support.serving import served
from support.threads import comes

from aethergraph.errors import ServerTimeoutError
from aethergraph.remote import FeatureServer, listening, open_source
from aethergraph.remote.rows import RemoteRows

pytestmark = pytest.mark.any_python


@pytest.fixture(scope="module")
def cable() -> Iterator[Cable]:
    with plugged(Cable) as made:
        run_ip("-n", made.space, "link", "set", "lo", "up")
        yield made


@pytest.fixture(scope="module")
def far(cable: Cable, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """URL of a server at the far end, with a token and TLS, and its rows."""
    folder = tmp_path_factory.mktemp("far")
    x = np.random.default_rng(0).random((20_000, 64), dtype=np.float32)
    np.save(folder / "x.npy", x)
    certificate, key = make_certificate(folder, FAR)
    (folder / "token").write_text("a secret")
    with served(
        folder / "x.npy", "--tcp", f"{FAR}:9999", "--token-file", folder / "token",
        "--tls", certificate, key, space=cable.space,
    ) as (_, line):  # fmt: skip
        assert line == f"serving x at tcp://{FAR}:9999\n"
        yield f"tcp://{FAR}:9999?token_file={folder}/token&ca={certificate}", x


def worsen(cable: Cable, *words: str) -> None:
    """Have ``tc netem`` spoil what goes out at the near end; without words: nothing."""
    tc = ["tc", "qdisc"]
    subprocess.run([*tc, "del", "dev", cable.near, "root"], check=False, capture_output=True)
    if not words:
        return
    if shutil.which("tc") is None:
        pytest.skip("no program tc: apt install iproute2")
    done = subprocess.run(
        [*tc, "add", "dev", cable.near, "root", "netem", *words],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"no netem here ({done.stderr.strip()}): a machine of its own has")


def test_another_machine(far: tuple[str, Any]) -> None:
    url, x = far
    source = open_source(url)
    ids = np.random.default_rng(1).integers(0, len(x), 30_000)
    assert (source.gather(ids) == x[ids]).all()


@pytest.mark.parametrize(
    "words", [("delay", "2ms", "1ms"), ("loss", "3%"), ("corrupt", "2%"),
              ("reorder", "20%", "delay", "1ms")]
)  # fmt: skip
def test_bad_networks(cable: Cable, far: tuple[str, Any], words: tuple[str, ...]) -> None:
    url, x = far
    worsen(cable, *words)
    try:
        source = open_source(url)
        rng = np.random.default_rng(2)
        for count in (1, 100, 8000):
            ids = rng.integers(0, len(x), count)
            assert (source.gather(ids) == x[ids]).all()
    finally:
        worsen(cable)


def test_a_cable_that_is_cut(cable: Cable, far: tuple[str, Any]) -> None:
    """Nothing says that the other side is gone: the time-out does, and gathers go on after it."""
    url, x = far
    source = RemoteRows(f"{url}&timeout=3")
    source.gather([1])
    run_ip("link", "set", cable.near, "down")
    try:
        began = time.monotonic()
        with pytest.raises(ServerTimeoutError, match=f"tcp://{FAR}:9999"):
            source.gather([1])
        assert time.monotonic() - began < 20
    finally:
        run_ip("link", "set", cable.near, "up")
    patient = RemoteRows(f"{url}&timeout=30")
    run_ip("link", "set", cable.near, "down")
    mend = threading.Timer(0.5, run_ip, ("link", "set", cable.near, "up"))
    mend.start()
    ids = np.arange(len(x))
    assert (patient.gather(ids) == x).all()
    mend.join()


def test_strangers_are_not_reached(cable: Cable) -> None:
    """A server on loopback cannot be connected to over the cable."""
    with FeatureServer(np.arange(3), port=0) as server:
        script = f"import socket; socket.create_connection(('{NEAR}', {server.port}), 2)"
        done = subprocess.run(
            ["ip", "netns", "exec", cable.space, "python3", "-c", script],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert "ConnectionRefusedError" in done.stderr


def test_a_client_that_vanishes_gives_its_place_up(
    cable: Cable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A half-open connection is found by keep-alives, and its thread ends."""
    soon = (("KEEPIDLE", 1), ("KEEPINTVL", 1), ("KEEPCNT", 1))
    monkeypatch.setattr(listening, "_KEEPALIVE", soon)
    certificate = make_certificate(tmp_path, NEAR)
    with FeatureServer(np.arange(3), host=NEAR, port=0, token="t", tls=certificate) as server:
        script = (
            "import socket, sys, time\n"
            f"sock = socket.create_connection(('{NEAR}', {server.port}))\n"
            "print('here', flush=True)\ntime.sleep(100)"
        )
        client = subprocess.Popen(
            ["ip", "netns", "exec", cable.space, "python3", "-c", script], stdout=subprocess.PIPE
        )
        try:
            assert client.stdout is not None and client.stdout.readline() == b"here\n"
            assert comes(lambda: server.stats().connections == 1)
            run_ip("link", "set", cable.near, "down")
            assert comes(lambda: server.stats().connections == 0)
        finally:
            run_ip("link", "set", cable.near, "up")
            client.kill()
            client.communicate()
