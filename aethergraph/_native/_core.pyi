"""Types of the compiled cffi module; only ``core.py`` and ``signals.py`` import it."""

from typing import Any

ffi: Any
lib: Any
