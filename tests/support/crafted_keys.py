"""Keys that were made to have the same hash."""

from __future__ import annotations

__all__ = ["same_hash"]

#: Where a key has the first bytes of XXH3's secret, the eight bytes behind are multiplied by zero.
_SECRET = bytes.fromhex("b8fe6c3923a44bbe")


def same_hash(count: int) -> list[bytes]:
    """Return different keys of one XXH3-64; fewer are the first ones of more."""
    return [_SECRET + number.to_bytes(8, "little") + bytes(16) for number in range(count)]
