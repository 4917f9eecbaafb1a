r"""FlightSource: rows that programs send by Arrow Flight's DoPut.

A stream of DoPut, whose descriptor is a path of one part, the number of the partition::

    server   {"next": 1200, "on_disk": 1000}   row to send next; those before 1000 are on disk
    client   record batch  {"first": 1200}     rows 1200 ...; the metadata may be left out
    server   {"next": 1700}                    rows before 1700 are on disk
             {"error": "..."}                  no more are taken, as the ingestor has failed
    ...                                        the stream ends once all of its rows are on disk

Messages of the server, and those beside batches, are JSON in the metadata of the application. A
batch that says where it begins may bring rows again that are here already: they are left out.

Flight's own server waits for its clients before it ends, and has no way to break off. So whoever
has to go is cut off from below: this process knows the sockets of its port.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aethergraph._checks.optional import require
from aethergraph._checks.options import shown
from aethergraph.errors import AetherError, InvalidArgumentError, SourceError
from aethergraph.streaming.decode import arrow_columns
from aethergraph.streaming.pushed import PushedSource, Sender
from aethergraph.streaming.schema import Schema

__all__ = ["FlightSource"]

#: Seconds between two looks for clients to cut off, while the server ends.
_LOOK = 0.02
#: Address and port of one end of a connection.
_Place = tuple[str, int]


@dataclass(eq=False)
class _Stream(Sender):
    """Stream of DoPut that sends the rows of a partition."""

    writer: Any = field(kw_only=True)
    peer: _Place | None = field(kw_only=True)
    source: FlightSource = field(kw_only=True, repr=False)

    def say(self, **line: Any) -> None:
        """Send a message; nothing if it is gone."""
        import pyarrow as pa

        with suppress(pa.ArrowException, OSError):
            self.writer.write(pa.py_buffer(json.dumps(line).encode()))

    def leave(self) -> None:
        """Cut it off, unless another stream came by the same connection: then it is alive."""
        if self.peer is not None and not self.source.has_stream_of(self.peer):
            _cut_off(self.source.port, self.peer)


class FlightSource(PushedSource):
    """Stream of rows that other programs send by Arrow Flight (DoPut).

    ::

        source = FlightSource("events", Schema.arrow(src="user", dst="post"), port=8815)
        with Ingestor(graph, source): ...

        # elsewhere
        client = pyarrow.flight.connect("grpc://localhost:8815")
        partition = pyarrow.flight.FlightDescriptor.for_path("0")
        writer, answers = client.do_put(partition, table.schema)
        begin = json.loads(answers.read().to_pybytes())
        writer.write_table(table.slice(begin["next"]))                # the row to begin with
        writer.done_writing()
        on_disk = begin["on_disk"]
        while on_disk < len(table):
            on_disk = json.loads(answers.read().to_pybytes())["next"]     # on disk up to here

    A client keeps rows until it hears that they are on disk, and goes on after a broken connection
    with the row ``"next"`` that it is told. Rows before it may not be on disk yet: those before
    ``"on_disk"`` are, and of the others it hears. If the ingestor fails, it hears
    ``{"error": why}``.
    One stream sends a partition; a newer one takes its place.

    Args:
        name: name under which the graph keeps the offsets.
        schema: fields of the rows, made by :meth:`Schema.arrow`.
        host: address to listen at. Others than loopback need ``token`` and ``tls``.
        port: port to listen at; 0: any that is free, see :attr:`port`.
        token: text that clients must give, in the header ``authorization: Bearer TOKEN``.
        tls: files of certificate and key in PEM; clients connect to ``grpc+tls://`` then.
        max_message: most bytes of a batch, a number or a text such as ``"1G"``.

    Attributes:
        port: port that it listens at.
    """

    def __init__(
        self,
        name: str,
        schema: Schema,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        tls: tuple[str | Path, str | Path] | None = None,
        max_message: int | str = "256M",
    ) -> None:
        require("pyarrow.flight", "Flight streams need", "stream")
        super().__init__(name, schema, host, port, token, tls, max_message)
        self._tls: list[tuple[bytes, bytes]] | None = None
        if tls is not None:
            try:
                certificate, key = (Path(path).read_bytes() for path in tls)
            except (OSError, TypeError, ValueError) as error:
                raise InvalidArgumentError(f"tls = {shown(tls)}: {error}") from None
            self._tls = [(certificate, key)]
        self._server: Any = None

    # ---- Source --------------------------------------------------------------------------------

    def open(self, offsets: Mapping[int, int]) -> None:
        """Listen; clients are told to begin at these numbers."""
        import pyarrow as pa
        from pyarrow import flight

        self.close()
        self._bound().close()  # says why nobody can listen there, which the server would not
        at = flight.Location.for_grpc_tcp if self._tls is None else flight.Location.for_grpc_tls
        self._begin_at(offsets)
        host = f"[{self._host}]" if ":" in self._host else self._host  # of IPv6, as in an address
        try:
            server = _server_class()(
                at(host, self.port),
                tls_certificates=self._tls,
                middleware={"token": _door(self._token)},
            )
        except (pa.ArrowException, OSError) as error:
            self._end()
            raise SourceError(None, f"{self._host}:{self.port}: {error}") from None
        server.serve_stream = self._serve
        self._server, self.port = server, server.port

    def close(self) -> None:
        """End all streams."""
        self._end()
        server, self._server = self._server, None
        if server is None:
            return
        ending = threading.Thread(target=server.shutdown, daemon=True, name=f"end {self.name}")
        ending.start()
        ending.join(_LOOK)
        while ending.is_alive():  # somebody may have come just now
            _cut_off(self.port)
            ending.join(_LOOK)

    # ---- streams -----------------------------------------------------------------------------

    def has_stream_of(self, peer: _Place) -> bool:
        """Return whether a stream that sends rows now came by a connection from there."""
        with self._changed:
            return any(
                isinstance(sender, _Stream) and sender.peer == peer for sender in self._senders
            )

    def _serve(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Take the rows of a stream, in a thread of the server."""
        from pyarrow import flight

        stream = _Stream(writer=writer, peer=_place_of(context.peer()), source=self)
        try:
            partition = _partition_of(descriptor)
            arrow_columns(reader.schema.empty_table(), self.schema.fields)
            refusal = self._begin_sending(stream, partition)
            if refusal is not None:
                raise ValueError(refusal)
            for chunk in _chunks(reader):
                if chunk.data is None or not chunk.data.num_rows:
                    continue
                if not self._put(stream, chunk.data, _first_row(chunk.app_metadata)):
                    why = f"another stream sends partition {partition}, or this ended"
                    raise ValueError(self._failure or why)
            self._wait_until_told(stream)
        except (AetherError, ValueError) as error:
            raise flight.FlightServerError(str(error)) from None
        finally:
            self._end_sending(stream)
            if stream.telling is not None:  # it writes to what goes with this call
                stream.telling.join()


def _chunks(reader: Any) -> Iterator[Any]:
    while True:
        try:
            yield reader.read_chunk()
        except StopIteration:  # also when the client has gone
            return


def _partition_of(descriptor: Any) -> int:
    path = [part.decode("utf-8", "replace") for part in descriptor.path or ()]
    if len(path) != 1 or not path[0].isdecimal() or len(path[0]) > 19:
        raise ValueError(
            f"the path of the descriptor must be the number of a partition, got {shown(path)}"
        )
    return int(path[0])


def _first_row(metadata: Any) -> int | None:
    """Return the number of the first row of a batch; None: it does not say."""
    if metadata is None or not metadata.size:
        return None
    try:
        first = json.loads(metadata.to_pybytes())["first"]
    except (ValueError, KeyError, TypeError, RecursionError):
        first = None
    if not isinstance(first, int) or isinstance(first, bool) or not 0 <= first < 2**63:
        raise ValueError('the metadata of a batch must be {"first": number of its first row}')
    return first


# ---- the server ----------------------------------------------------------------------------------


def _server_class() -> Any:
    """Return the class of the server, which is there once pyarrow is."""
    from pyarrow import flight

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        serve_stream: Callable[..., None]

        def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
            self.serve_stream(context, descriptor, reader, writer)

    return Server


def _door(token: str | None) -> Any:
    """Return what lets those in who have the token, before anything else of a call is read."""
    from pyarrow import flight

    class Door(flight.ServerMiddlewareFactory):  # type: ignore[misc]
        def start_call(self, info: Any, headers: Mapping[str, list[Any]]) -> None:
            if token is None:
                return
            credentials = [
                value
                for name, values in headers.items()
                if name.lower() == _HEADER
                for value in values
            ]
            expected = f"Bearer {token}".encode()
            if not any(
                hmac.compare_digest(_as_bytes(credential), expected) for credential in credentials
            ):
                raise flight.FlightUnauthenticatedError("the token is wrong")

    return Door()


_HEADER = "authorization"


def _as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


# ---- its connections -----------------------------------------------------------------------------


def _place_of(peer: str) -> _Place | None:
    """Return the address and port of ``"ipv4:127.0.0.1:49468"``, as gRPC writes it."""
    _, _, place = unquote(peer).partition(":")
    host, _, port = place.rpartition(":")
    try:
        return _plain(host.strip("[]")), int(port)
    except ValueError:
        return None


def _plain(host: str) -> str:
    """Return an address in one way of writing; IPv4 also where it comes within IPv6."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return str(getattr(address, "ipv4_mapped", None) or address)


def _cut_off(port: int, peer: _Place | None = None) -> None:
    """End the connections of this process that came to a port: from one place, or all."""
    for number in os.listdir("/proc/self/fd"):
        with _as_socket(number) as connection, suppress(OSError, ValueError, IndexError):
            if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
                continue
            host, from_port = connection.getpeername()[:2]
            if connection.getsockname()[1] == port and peer in (None, (_plain(host), from_port)):
                connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def _as_socket(number: str) -> Iterator[socket.socket | None]:
    """Lend a copy of the socket with a descriptor's number; None if it is none."""
    copy = None
    with suppress(OSError):
        if os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
            copy = socket.socket(fileno=os.dup(int(number)))
    try:
        yield copy
    finally:
        if copy is not None:
            copy.close()
