"""RemoteSampler: subgraphs with their rows, from a server."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aethergraph import _native as native
from aethergraph._checks.options import shown
from aethergraph.errors import ClosedError, InvalidArgumentError
from aethergraph.remote import wire
from aethergraph.remote.address import parse_address
from aethergraph.remote.endpoint import Connection, Endpoint
from aethergraph.remote.samples.form import AnySubgraph, Form
from aethergraph.remote.samples.log import AnswerLog
from aethergraph.remote.samples.plan import SamplePlan
from aethergraph.remote.samples.request import Request, make_request

__all__ = ["RemoteSampler", "ServedSample", "open_sampler"]

#: Most bytes of a description.
_DESCRIPTION = 4 << 20


@dataclass(frozen=True, eq=False)
class ServedSample:
    """Sample with its rows, as a server answered it.

    Attributes:
        subgraph: a :class:`~aethergraph.sampling.subgraph.Subgraph`; of typed graphs a
            :class:`~aethergraph.sampling.hetero.HeteroSubgraph`.
        seeds: the seeds, int64 [n]; of typed graphs by node type.
        key: the key that was drawn with.
        commit: number of the commit that was drawn from: that in the log of a live graph in a
            directory (``Snapshot.lsn``), 0 before the first one; 0, too, if
            the graph does not change.
        node_attrs: rows by name, one for each of ``subgraph.node``; of typed graphs by node type.
        edge_attrs: rows by name, one for each of ``subgraph.edge``; of typed graphs by edge type.
        content: bytes of the answer, which the arrays are views of.
    """

    subgraph: AnySubgraph
    seeds: Any
    key: int
    commit: int
    node_attrs: dict[Any, Any]
    edge_attrs: dict[Any, Any]
    content: Any = field(repr=False)

    @classmethod
    def of(cls, form: Form, request: Request, content: Any) -> ServedSample:
        """Return the sample of the bytes of an answer.

        Raises:
            FormatError: they are not of this form.
        """
        reply = form.unpack(content)
        seeds = request.arguments(form)[0]
        return cls(
            reply.subgraph, seeds, reply.key, reply.commit, reply.node_attrs, reply.edge_attrs,
            content,
        )  # fmt: skip

    @property
    def batch_size(self) -> int:
        """Number of seeds, of all types."""
        if isinstance(self.seeds, Mapping):
            return sum(map(len, self.seeds.values()))
        return len(self.seeds)

    @property
    def x(self) -> Any:
        """Rows of the attribute ``"x"`` of nodes, or None; of typed graphs a dict by node type."""
        if isinstance(self.seeds, Mapping):
            return {kind: rows["x"] for kind, rows in self.node_attrs.items() if "x" in rows}
        return self.node_attrs.get("x")

    @property
    def edge_index(self) -> NDArray[np.int64]:
        """Local ids of the edges' ends, int64 [2, E], of a graph of one type."""
        return np.stack((self.subgraph.row, self.subgraph.col))  # type: ignore[arg-type]


class _Service(NamedTuple):
    """Service as a server describes it."""

    number: int
    facts: dict[str, Any]
    form: Form
    generation: str

    @property
    def called(self) -> str:
        """Name of what is opened, in messages."""
        return "samples"

    def is_as(self, before: _Service) -> bool:
        """Return whether it answers as ``before`` did."""
        return self.generation == before.generation

    def difference(self, before: _Service) -> str:
        """Say how it differs."""
        differences = []
        if self.facts["graph"] != before.facts["graph"]:
            differences.append("it samples from another graph")
        mine, its = self.facts["plan"], before.facts["plan"]
        for name in dict.fromkeys([*mine, *its]):
            now, then = mine.get(name), its.get(name)
            if now != then:
                differences.append(f"{name} = {shown(now)}, before {shown(then)}")
        if not differences and self.form != before.form:
            differences.append("the graph has other attributes, or other types")
        return "; ".join(differences) or f"generation {self.generation}, before {before.generation}"


def _describe(connection: Connection, name: str) -> _Service:
    body = connection.ask(wire.PLAN, name.encode(), max_bytes=_DESCRIPTION)
    try:
        facts = json.loads(body)
        form = Form.of(facts["form"])
        SamplePlan.of(facts["plan"])
        return _Service(int(facts["service"]), facts, form, str(facts["generation"]))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        raise wire.WireError("a description that cannot be read") from None


class RemoteSampler:
    """Sampler of a server; made by :func:`open_sampler`. Threads may share it.

    Attributes:
        url: address of the server.
        plan: what the server draws, and which rows it sends.
    """

    def __init__(self, url: str, log: native.Path | None = None) -> None:
        address = parse_address(url)
        if address.scheme not in ("tcp", "unix") or len(address.locations) != 1:
            raise InvalidArgumentError(
                f"url = {shown(url)}: samples come from one server, tcp://HOST:PORT or unix:///PATH"
            )
        self.url = url
        self._endpoint = Endpoint(address, address.locations[0], _describe)
        facts = self._endpoint.table.facts
        self._form: Form = self._endpoint.table.form
        self.plan = SamplePlan.of(facts["plan"])
        self._path = log
        self._log = None if log is None else AnswerLog(log, facts)
        self._closed = False

    @property
    def time_unit(self) -> str | None:
        """Unit of times, if the graph's are datetimes; else None."""
        return self._form.time_unit

    def sample(
        self,
        seeds: ArrayLike | Mapping[str, ArrayLike],
        time: ArrayLike | Mapping[str, ArrayLike] | None = None,
        key: int | None = None,
    ) -> ServedSample:
        """Return the sample around seeds, with its rows, drawn from the last commit.

        Args:
            seeds: integers [n], 1024 at most; of typed graphs by node type.
            time: [n], where the plan has ``time_attr``: the latest time that each seed's tree may
                see, numbers or datetime64; of typed graphs by node type. None: the time of the
                seed, if nodes have times.
            key: decides all draws (taken modulo 2^64). None: a random one, which the sample has.

        Raises:
            OutOfRangeError: a seed does not exist; names it and its position.
            InvalidArgumentError: seeds or times are of a wrong kind or length.
            LimitError: too many seeds, or a sample that no answer holds.
            ServerTimeoutError: the server is not reached in time; names it.
            FileChangedError: the server has another graph, or another plan, than it had.
            ClosedError: :meth:`close` was called.
        """
        log = self._log  # before the check: close() lets go of it after
        if self._closed:
            raise ClosedError(f"the sampler of {self.url} was closed: open_sampler() anew")
        draw_key = secrets.randbits(63) if key is None else key
        request = make_request(self._form, seeds, time, draw_key)
        body = request.pack()

        def ask(connection: Connection) -> bytearray:
            head = wire.pack_number(connection.table.number)
            return connection.ask(wire.SAMPLE, head, body, max_bytes=wire.MAX_BODY)

        content = self._endpoint.run(ask)
        sample = ServedSample.of(self._form, request, content)
        if log is not None:
            log.add(request, sample.commit, content)
        return sample

    def close(self) -> None:
        """Close the connections, and the log; requests that are under way end before."""
        self._closed = True
        self._endpoint.close()
        self._log = None  # the last answer that is under way is still in it

    def __enter__(self) -> RemoteSampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteSampler({self.url!r}, fanouts={self.plan.fanouts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteSampler, (self.url, self._path)


def open_sampler(url: str, *, log: native.Path | None = None) -> RemoteSampler:
    """Connect to a server that samples (``aethergraph serve g.aegd --sample plan.toml``).

    ::

        sampler = open_sampler("tcp://10.0.0.1:9999?token_file=token&ca=cert.pem")
        found = sampler.sample([17, 4], time=[now, now])
        score = model(found.x, found.edge_index)[: found.batch_size]

    Args:
        url: as in :func:`open_source`, with the name of the graph if the server has several.
        log: file to which a line is appended for each sample, for :func:`replay`. The server can
            keep such a log, too (``--log``).

    Raises:
        InvalidArgumentError: the URL is none, or the server does not sample from such a graph.
        ServerTimeoutError: the server is not reached in time; names it.
        AccessDeniedError: the server refuses the token, or does not know it.
        FormatError: what answers is no server of this protocol, or TLS fails.
    """
    return RemoteSampler(url, log)
