"""Types of the compiled cffi module; only ``_binding`` imports it."""

from typing import Any

ffi: Any
lib: Any
