"""SampleDesk: the services of a server, by name and number, and the log of what they answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aethergraph import _native as native
from aethergraph._checks.options import as_items, is_name, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.remote import wire
from aethergraph.remote.samples.log import AnswerLog
from aethergraph.remote.samples.request import Request
from aethergraph.remote.samples.service import SampleService

__all__ = ["SampleDesk"]


class SampleDesk:
    """Services of a server.

    Args:
        services: by name; None: there are none.
        log: file of the answers, or None.

    Raises:
        InvalidArgumentError: a name or a service is none; a log of several services, or of none.
    """

    def __init__(
        self, services: Mapping[str, SampleService] | None, log: native.Path | None = None
    ) -> None:
        self._services: dict[str, SampleService] = {}
        for name, service in () if services is None else as_items(services, "samples", "services"):
            if not is_name(name) or len(name.encode()) > 1000:
                raise InvalidArgumentError(f"samples: {shown(name)} is no name of a graph")
            if not isinstance(service, SampleService):
                raise InvalidArgumentError(
                    f"samples[{name!r}] is a {type(service).__name__}: give a SampleService"
                )
            self._services[name] = service
        self._numbered = list(self._services.values())
        self._path = log
        self._log: AnswerLog | None = None
        if log is not None and len(self._numbered) != 1:
            raise InvalidArgumentError(
                f"log= is for a server that samples from one graph, not {len(self._numbered)}"
            )
        self.open()

    def open(self) -> None:
        """Open the log, if there is to be one and it is not open.

        Raises:
            FormatError, StorageError, UnsupportedError: as :class:`AnswerLog`.
        """
        if self._path is not None and self._log is None:
            self._log = AnswerLog(self._path, self._numbered[0].told())

    def close(self) -> None:
        """Let go of the log, which is closed when the last answer that is being made is in it."""
        self._log = None

    @property
    def names(self) -> list[str]:
        """Names of the services."""
        return list(self._services)

    def describe(self, name: str) -> bytes:
        """Return what a client is told about a service; about the only one without a name.

        Raises:
            InvalidArgumentError: there is none.
        """
        if not name and len(self._services) == 1:
            name = next(iter(self._services))
        if name not in self._services:
            known = ", ".join(self._services) or "none; start it with --sample"
            raise InvalidArgumentError(
                f"no samples are drawn from a graph {shown(name)}; there are: {known}"
            )
        service = self._services[name]
        return json.dumps({"service": self._numbered.index(service), **service.told()}).encode()

    def answer(self, body: memoryview, room: Callable[[int], NDArray[np.uint8]]) -> NDArray[Any]:
        """Return the answer to a request.

        Raises:
            WireError: it is none.
            AetherError: as :meth:`SampleService.answer`.
        """
        number, content = wire.unpack_number(body)
        if number >= len(self._numbered):
            raise wire.WireError(f"there is no service {number}")
        service = self._numbered[number]
        request = Request.unpack(content, service.form)
        log = self._log
        answer = service.answer(request, room)
        if log is not None:
            log.add(request, int(answer[8:16].view("<u8")[0]), answer)
        return answer
