"""Streams into live graphs: each record once, while others read.

::

    Source ──poll()──> Records ──check──> Changes ──one transaction──> live graph
      │                                      │          │
      │  MemorySource   FileSource           │          └─ set_offset(): where to go on
      │  KafkaSource    SocketSource         └─ bad or late: dead letter file
      │
      └─ Schema: bytes to columns

records.py has the protocol, decode.py and schema.py what reads bytes, changes.py what is checked
against the graph, column by column (columns.py), and written, event_time.py the watermark,
ingestor.py the loop, arguments.py its options. kafka.py, files.py, sockets.py, udp.py and memory.py
have a source each; address.py finds one by its address.
"""

from aethergraph.streaming.files import FileSource
from aethergraph.streaming.ingestor import Ingestor, IngestStats
from aethergraph.streaming.kafka import KafkaSource
from aethergraph.streaming.memory import MemorySource
from aethergraph.streaming.records import BadRecord, IdMap, Records, Source
from aethergraph.streaming.schema import Schema
from aethergraph.streaming.sockets import SocketSource
from aethergraph.streaming.udp import UdpSource, pack_datagram

__all__ = [
    "BadRecord",
    "FileSource",
    "IdMap",
    "IngestStats",
    "Ingestor",
    "KafkaSource",
    "MemorySource",
    "Records",
    "Schema",
    "SocketSource",
    "Source",
    "UdpSource",
    "pack_datagram",
]
