"""Datagrams as fast as one core sends them, or so many per second: runs at the far end of a cable.

    python udp_sender.py HOST PORT SECONDS RATE

Prints how many it sent. The datagrams are packed before the time begins, many more than any reader
keeps, and numbered on: what comes twice in a run is the content alone.
"""

from __future__ import annotations

import ctypes
import socket
import sys
import time

import numpy as np

from aethergraph.streaming import pack_datagram

DTYPE = np.dtype([("src", "<u4"), ("dst", "<u4"), ("time", "<i8"), ("weight", "<f8")])
ROWS, AT_ONCE = 21, 64  # 528 bytes
#: More per second than a core sends.
MOST = 800_000


PIECE = np.dtype([("base", "<u8"), ("size", "<u8")])
#: ``struct mmsghdr`` of Linux.
MESSAGE = np.dtype({
    "names": ["pieces", "num_pieces"], "formats": ["<u8", "<u8"], "offsets": [16, 24],
    "itemsize": 64,
})  # fmt: skip


def main(host: str, port: int, seconds: float, rate: int) -> None:
    count = int((rate or MOST) * seconds)
    rows = np.zeros(ROWS, DTYPE)
    rows["src"], rows["dst"] = np.arange(ROWS), np.arange(ROWS) + 1
    packed = b"".join(pack_datagram(0, number, rows) for number in range(count))
    datagrams = np.frombuffer(packed, np.uint8)
    size = len(packed) // count
    pieces = np.zeros(count, PIECE)
    pieces["base"] = datagrams.ctypes.data + size * np.arange(count, dtype=np.uint64)
    pieces["size"] = size
    messages = np.zeros(count, MESSAGE)
    messages["pieces"] = pieces.ctypes.data + PIECE.itemsize * np.arange(count, dtype=np.uint64)
    messages["num_pieces"] = 1
    send = ctypes.CDLL(None, use_errno=True).sendmmsg
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect((host, port))
        print("ready", flush=True)
        sys.stdin.readline()
        sent, begin = 0, time.perf_counter()
        while sent < count and time.perf_counter() - begin < seconds:
            if rate and sent > (time.perf_counter() - begin) * rate:
                time.sleep(0.0005)
                continue
            at = ctypes.c_void_p(messages.ctypes.data + sent * MESSAGE.itemsize)
            sent += max(0, send(out.fileno(), at, min(AT_ONCE, count - sent), 0))
    print(sent, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
