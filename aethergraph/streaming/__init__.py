"""Streams into live graphs: each record once, while others read.

::

    Source ──poll()──> Records ──check──> Changes ──one transaction──> live graph
      │                                      │          │
      │  MemorySource   FileSource           │          └─ set_offset(): where to go on
      │  KafkaSource    SocketSource         └─ bad or late: dead letter file
      │  UdpSource      FlightSource
      │
      └─ Schema: bytes to columns

records.py has the protocol, decode.py and schema.py what reads bytes, changes.py what is checked
against the graph, column by column (columns.py), and written, event_time.py the watermark,
keyed.py has ids for keys of nodes, ingestor.py what users call, arguments.py its options, loop.py
what it does while it runs, stats.py its numbers. kafka.py, files.py, sockets.py, flight.py, udp.py
and memory.py have a source each, pushed.py what those have in common that are sent to; address.py
finds one by its address.
"""

from aethergraph.streaming.files import FileSource
from aethergraph.streaming.flight import FlightSource
from aethergraph.streaming.ingestor import Ingestor
from aethergraph.streaming.kafka import KafkaSource
from aethergraph.streaming.memory import MemorySource
from aethergraph.streaming.records import Records, Source
from aethergraph.streaming.schema import Schema
from aethergraph.streaming.sockets import SocketSource
from aethergraph.streaming.udp import UdpSource, pack_datagram

__all__ = [
    "Ingestor",
    "Schema",
    "KafkaSource",
    "FileSource",
    "MemorySource",
    "SocketSource",
    "FlightSource",
    "UdpSource",
    "Records",
    "Source",
    "pack_datagram",
]
