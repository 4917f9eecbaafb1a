"""Sources by their addresses, for the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from aethergraph._checks.options import as_flag, as_items, as_number, shown
from aethergraph.errors import InvalidArgumentError
from aethergraph.streaming.files import FileSource
from aethergraph.streaming.flight import FlightSource
from aethergraph.streaming.kafka import KafkaSource
from aethergraph.streaming.records import Source
from aethergraph.streaming.schema import Schema
from aethergraph.streaming.sockets import SocketSource
from aethergraph.streaming.udp import UdpSource

__all__ = ["open_source"]

#: What listens, by the scheme of its address.
_LISTENERS: dict[str, type[SocketSource] | type[FlightSource]] = {
    "tcp": SocketSource,
    "grpc": FlightSource,
    "grpc+tls": FlightSource,
}


def open_source(
    address: str,
    schema: Schema,
    *,
    name: str | None = None,
    until_end: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Source:
    """Return the source at an address.

    Args:
        address: ``"kafka://host:port,host:port/topic"``; ``"tcp://host:port"``,
            ``"grpc://host:port"``, ``"grpc+tls://host:port"`` or ``"udp://host:port"`` to listen
            at; or the path of a file or folder.
        schema: fields of the records.
        name: name under which the graph keeps the offsets; None: that of the topic or file.
        until_end: end behind what is there now.
        options: options of librdkafka, and ``start``, ``on_gap``, ``partitions="0,3"`` and
            ``timeout`` of :class:`KafkaSource`; ``token_file``, ``cert``, ``key`` and
            ``max_message`` of what is connected to; ``af_xdp`` and ``trust_network="yes"`` of
            datagrams; or ``pattern`` of a folder.

    Raises:
        InvalidArgumentError: it is no address of a source.
    """
    if not isinstance(address, str):
        raise InvalidArgumentError(f"address = {shown(address)} is no text")
    settings = {} if options is None else dict(as_items(options, "options"))
    until_end = as_flag(until_end, "until_end")
    if address.startswith("kafka://"):
        parts = urlsplit(address)
        topic = unquote(parts.path.strip("/"))
        if not parts.netloc or not topic or "/" in topic or parts.query:
            raise InvalidArgumentError(
                f"{shown(address)} is not kafka://HOST:PORT/TOPIC; options are given by --option"
            )
        names = ("start", "on_gap", "timeout", "partitions")
        arguments: dict[str, Any] = {key: settings.pop(key) for key in names if key in settings}
        if isinstance(arguments.get("partitions"), str):
            numbers = [text.strip() for text in arguments["partitions"].split(",")]
            arguments["partitions"] = [int(text) if text.isdecimal() else text for text in numbers]
        if isinstance(arguments.get("timeout"), str):
            arguments["timeout"] = as_number(arguments["timeout"], "timeout")
        return KafkaSource(
            topic,
            parts.netloc,
            schema,
            name=name,
            stop_at_end=until_end,
            options=settings,
            **arguments,
        )
    if until_end and address.startswith(tuple(f"{scheme}://" for scheme in (*_LISTENERS, "udp"))):
        raise InvalidArgumentError(
            f"{shown(address)}: until_end (--until-end) is for files and Kafka: what is connected "
            "to has no end"
        )
    for scheme, listener in _LISTENERS.items():
        if address.startswith(f"{scheme}://"):
            return _listen(listener, scheme, address, schema, name, settings)
    if address.startswith("udp://"):
        return _open_datagrams(address, schema, name, settings)
    scheme = address.split("://", 1)[0] if "://" in address else "file"
    if scheme != "file":
        raise InvalidArgumentError(
            f"{shown(address)}: there are kafka://HOST:PORT/TOPIC, tcp://HOST:PORT, "
            "grpc://HOST:PORT, grpc+tls://HOST:PORT, udp://HOST:PORT, and paths of files and "
            "folders"
        )
    _check_known(settings, "files", ("pattern",))
    path = Path(address.removeprefix("file://"))
    return FileSource(path, schema, name=name, follow=not until_end, **settings)


def _listen(
    listener: type[SocketSource] | type[FlightSource],
    scheme: str,
    address: str,
    schema: Schema,
    name: str | None,
    options: Mapping[str, Any],
) -> Source:
    _check_known(options, f"{scheme}://", ("token_file", "cert", "key", "max_message"))
    host, port, name = _parse_listener(address, name)
    if ("cert" in options) != ("key" in options):
        raise InvalidArgumentError("give cert= and key=, the files of both")
    if scheme.startswith("grpc") and ("cert" in options) != (scheme == "grpc+tls"):
        raise InvalidArgumentError(
            f"{shown(address)}: grpc+tls:// needs cert= and key=, and grpc:// takes none"
        )
    token = None
    if "token_file" in options:
        try:
            token = Path(options["token_file"]).read_text().strip()
        except (OSError, UnicodeError) as error:
            raise InvalidArgumentError(f"token_file: {error}") from None
        if not token:
            raise InvalidArgumentError(f"token_file: {options['token_file']} is empty")
    tls = (options["cert"], options["key"]) if "cert" in options else None
    limits = {"max_message": options["max_message"]} if "max_message" in options else {}
    return listener(name, schema, host=host, port=port, token=token, tls=tls, **limits)


def _open_datagrams(
    address: str, schema: Schema, name: str | None, options: Mapping[str, Any]
) -> UdpSource:
    _check_known(options, "datagrams", ("af_xdp", "trust_network"))
    host, port, name = _parse_listener(address, name)
    trust = options.get("trust_network", "no")
    if trust not in ("yes", "no"):
        raise InvalidArgumentError(f"trust_network = {shown(trust)} is neither yes nor no")
    return UdpSource(
        name, schema, host=host, port=port, trust_network=trust == "yes",
        af_xdp=options.get("af_xdp"),
    )  # fmt: skip


def _parse_listener(address: str, name: str | None) -> tuple[str, int, str]:
    """Return host, port and name of what listens at an address."""
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        port = None
    if not parts.hostname or port is None or parts.path.strip("/"):
        raise InvalidArgumentError(f"{shown(address)} is not {parts.scheme}://HOST:PORT")
    if name is None:
        raise InvalidArgumentError(
            "give --name: the graph keeps the numbers of what has come under it"
        )
    return parts.hostname, port, name


def _check_known(options: Mapping[str, Any], subject: str, known: tuple[str, ...]) -> None:
    for option in options:
        if option not in known:
            raise InvalidArgumentError(
                f"{subject} have no option {option!r}, but {', '.join(known)}"
            )
