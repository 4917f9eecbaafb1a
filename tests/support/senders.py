"""Clients that send Arrow to sources, by TCP and by Flight, alike for tests of both."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.threads import WAIT

pa = pytest.importorskip("pyarrow")
flight = pytest.importorskip("pyarrow.flight")

__all__ = ["FlightSender", "Sender", "TcpSender"]


class Sender:
    """Client of a source: sends the edges (number, 0), (number, 1)... of a partition.

    Attributes:
        next: number of the next row to send.
        on_disk: number of the rows that the server has said are on disk.
        refusal: what the server has said instead; empty if it takes rows.
    """

    number: int
    next = on_disk = 0
    refusal = ""

    def table(self, begin: int, end: int) -> Any:
        v = np.arange(begin, end)
        return pa.table({"u": np.full(len(v), self.number), "v": v})

    def hear(self) -> dict[str, Any]:
        """Return what the server says next; nothing at its end."""
        raise NotImplementedError

    def told(self, number: int) -> int:
        """Wait until the server says that rows up to a number are on disk."""
        while self.on_disk < number:
            self.on_disk = self.hear()["next"]
        self.next = max(self.next, self.on_disk)
        return self.on_disk


class TcpSender(Sender):
    """Sender over a socket.

    Attributes:
        answer: what the server has said to the greeting.
    """

    def __init__(
        self, port: int, number: int, *, token: str | None = None, trust: Path | None = None
    ) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=WAIT)
        self.socket = plain
        if trust is not None:
            tls = ssl.create_default_context(cafile=str(trust))
            self.socket = tls.wrap_socket(plain, server_hostname="localhost")
        self.file, self.number = self.socket.makefile("rwb"), number
        greeting = {"partition": number, **({} if token is None else {"token": token})}
        self.file.write(json.dumps(greeting).encode() + b"\n")
        self.file.flush()
        self.answer = json.loads(self.file.readline())
        self.next, self.on_disk = self.answer.get("next", 0), self.answer.get("on_disk", 0)
        self.refusal = self.answer.get("error", "")

    def hear(self) -> dict[str, Any]:
        line = self.file.readline()
        return dict(json.loads(line)) if line else {}

    def send(self, end: int, size: int = 100) -> None:
        table = self.table(self.next, end)
        with pa.ipc.new_stream(self.file, table.schema) as stream:
            stream.write_table(table, size)
        self.file.flush()

    def finish(self) -> None:
        """Say that there is nothing left to send."""
        self.socket.shutdown(socket.SHUT_WR)

    def break_off(self) -> None:
        with suppress(OSError):
            self.file.close()
        self.socket.close()

    close = break_off


class FlightSender(Sender):
    """Sender by DoPut."""

    def __init__(
        self, port: int, number: int, *, token: str | None = None, trust: Path | None = None
    ) -> None:
        scheme = "grpc" if trust is None else "grpc+tls"
        roots = None if trust is None else trust.read_bytes()
        self.client = flight.connect(f"{scheme}://localhost:{port}", tls_root_certs=roots)
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self.number = number
        self.writer, self.reader = self.client.do_put(
            flight.FlightDescriptor.for_path(str(number)),
            pa.schema([("u", pa.int64()), ("v", pa.int64())]),
            flight.FlightCallOptions(headers=headers, timeout=10 * WAIT),  # of the whole stream
        )
        begin = self.hear()
        if not begin:  # the error is told at the end
            self.writer.close()
        self.next, self.on_disk = begin["next"], begin["on_disk"]

    def hear(self) -> dict[str, Any]:
        said = self.reader.read()
        return {} if said is None else dict(json.loads(said.to_pybytes()))

    def send(self, end: int, size: int = 100, begin: int | None = None) -> None:
        first = self.next if begin is None else begin
        for batch in self.table(first, end).to_batches(size):
            if begin is None:
                self.writer.write_batch(batch)
            else:
                self.writer.write_with_metadata(batch, json.dumps({"first": first}).encode())
                first += batch.num_rows

    def told(self, number: int) -> int:
        try:
            return super().told(number)
        except KeyError:  # the error is told at the end
            self.writer.close()
            raise

    def finish(self) -> None:
        self.writer.done_writing()

    def break_off(self) -> None:
        self.client.close()

    def close(self) -> None:
        with suppress(pa.ArrowException):
            self.writer.close()
        self.client.close()
