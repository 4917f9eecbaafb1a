"""Damage that fuzzing tests do to files, and how many examples they try."""

from __future__ import annotations

import struct
from collections.abc import Callable

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from support.share import examples_of

fuzz = settings(
    max_examples=examples_of(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A function that damages bytes: flips, cuts, insertions, zeroed or repeated ranges."""
    edits = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["flip", "cut", "insert", "zero", "word", "drop"]),
                st.floats(0, 1, exclude_max=True),
                # Most of what can be misread stands in the first page.
                st.sampled_from([200, 4096, 1 << 30]),
                st.integers(0, (1 << 64) - 1),
            ),
            min_size=1,
            max_size=4,
        )
    )

    def apply(data: bytes) -> bytes:
        out = bytearray(data)
        for kind, where, within, value in edits:
            if not out:
                break
            at = int(where * min(len(out), within))
            if kind == "flip":
                out[at] ^= 1 << (value % 8)
            elif kind == "cut":
                del out[at:]
            elif kind == "insert":
                out[at:at] = value.to_bytes(8, "little")
            elif kind == "zero":
                out[at : at + value % 64] = bytes(len(out[at : at + value % 64]))
            elif kind == "word":
                out[at : at + 8] = value.to_bytes(8, "little")[: len(out[at : at + 8])]
            else:
                del out[at : at + value % 64]
        return bytes(out)

    return apply


def npy_with_header(text: bytes, body: bytes = bytes(240)) -> bytes:
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + body


#: What may stand in the header of a .npy file, rightly or not.
NPY_VALUES = st.one_of(
    st.sampled_from(
        ["'<f4'", "'|O'", "'>i8'", "'<U9'", "'<M8[s]'", "[('a','<f4')]", "'<f2'", "'?'"]
    ),
    st.sampled_from(
        ["True", "False", "None", "1", "''", "()", "(20, 3)", "(60,)", "(-1,)", "(0, 3)"]
    ),
    st.integers(-5, 1 << 70).map(lambda n: f"({n},)"),
    st.integers(0, 1 << 64).map(lambda n: f"({n}, {n})"),
    st.integers(1, 200).map(lambda n: "(" * n + ")" * n),
)


@st.composite
def hostile_headers(draw: st.DrawFn) -> bytes:
    """The text of a .npy header."""
    descr, order, shape = draw(NPY_VALUES), draw(NPY_VALUES), draw(NPY_VALUES)
    text = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}"
    return (text + draw(st.sampled_from(["}", ", 'more': 1}"]))).encode()
