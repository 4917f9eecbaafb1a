"""Common parts of the commands: consoles, progress bars, JSON, and errors as one line."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import shlex
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text
from typer.models import OptionInfo

from aethergraph.convert.readers.base import ProgressFn
from aethergraph.errors import AetherError, InvalidArgumentError

__all__ = [
    "Stages",
    "amount",
    "command",
    "count",
    "duration",
    "ending_by_signals",
    "note",
    "printable",
    "print_json",
    "print_table",
    "rate",
    "refuse_given",
    "set_debug",
    "showing_metrics",
    "size",
    "stdout",
]

P = ParamSpec("P")
R = TypeVar("R")

SHOW_AFTER_SECONDS = 1.0
#: Columns of what is no terminal.
_ANY_WIDTH = 10_000
#: Text as Python shows it, in a regular expression.
_QUOTED = r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
_debug = False
#: Options by argument of the command that is running.
_arguments: Mapping[str, str] = {}


def set_debug(value: bool) -> None:
    """Set whether errors print a traceback."""
    global _debug
    _debug = value or os.environ.get("AETHERGRAPH_DEBUG", "") not in ("", "0")


def stdout() -> Console:
    """Return a console on the current standard output, as wide as any line where it is no terminal.

    What reads it then, a file or another command, has no width.
    """
    width = None if sys.stdout.isatty() else _ANY_WIDTH
    return Console(file=sys.stdout, highlight=False, width=width)


def stderr() -> Console:
    """Return a console on the current standard error.

    A terminal gets long lines broken between words, what reads them otherwise gets them whole.
    """
    console = Console(file=sys.stderr, highlight=False)
    console.soft_wrap = not console.is_terminal
    return console


def note(text: str) -> None:
    """Print a remark on stderr, which names options where the library names its arguments."""
    console = stderr()
    with console.capture() as written:
        console.print(f"[dim]note:[/dim] {escape(_by_options(text, _arguments))}")
    if sys.stderr is not None:  # it was closed before the program began
        sys.stderr.write(written.get())  # through what stands for it, while a line is drawn again


@contextmanager
def showing_metrics() -> Iterator[None]:
    """Let ``aethergraph top`` see this process in a block, or say why that cannot be.

    It decorates whole commands, as only what is made afterwards is seen.
    """
    from aethergraph import observe
    from aethergraph.observe import registry

    was_enabled = registry.is_enabled()
    try:
        observe.enable()
    except AetherError as error:
        note(f"aethergraph top will not see this process: {error}")
    try:
        yield
    finally:
        if not was_enabled:
            observe.disable()


@contextmanager
def ending_by_signals() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C or SIGTERM end a block in its own time; a second one is KeyboardInterrupt.

    Yields:
        A function that returns whether the first one has come.
    """
    has_come = False

    def take(*_: object) -> None:
        nonlocal has_come
        if has_come:  # what is waited for may never come, such as a source that does not answer
            raise KeyboardInterrupt
        has_come = True

    before = {number: signal.signal(number, take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: has_come
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def printable(text: str) -> str:
    """Return ``text`` without what a terminal would take for commands."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def print_json(value: Any) -> None:
    """Print plain JSON on stdout (NaN and infinities become null)."""
    json.dump(_jsonable(value), sys.stdout, indent=2)
    sys.stdout.write("\n")


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(v) for v in value]
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def print_table(rows: list[tuple[str, str]], title: str | None = None) -> None:
    """Print two columns without lines."""
    table = Table(title=title, title_justify="left", box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(escape(name), escape(value))
    stdout().print(table)


def refuse_given(context: typer.Context, names: Collection[str], why: str) -> None:
    """Refuse parameters of a command that were given, but would be without effect.

    Args:
        context: the command's.
        names: of the parameters.
        why: what follows the option in the message.

    Raises:
        InvalidArgumentError: one of them was given; names the option.
    """
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))
        if option.name in names and source is not None and source.name == "COMMANDLINE":
            raise InvalidArgumentError(f"{max(option.opts, key=len)} {why}")


# ---- numbers for people ----------------------------------------------------------------------


def size(value: float) -> str:
    """Format a number of bytes, as in ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def count(value: float) -> str:
    """Format a number of items, as in ``12,345`` or ``1.2 M``."""
    if value < 100_000:
        return f"{value:,.0f}"
    for scale, unit in ((1e3, "K"), (1e6, "M")):
        if value < 1000 * scale:
            return f"{value / scale:.1f} {unit}"
    return f"{value / 1e9:.1f} G"


def amount(value: float, unit: str) -> str:
    """Format a number of records, or of another unit that is named, as in ``8.2 MiB``."""
    if unit == "bytes":
        return size(value)
    return count(value) if unit == "records" else f"{count(value)} {unit}"


def rate(value: float, unit: str) -> str:
    """Format a number of units per second."""
    return f"{size(value)}/s" if unit == "B" else f"{count(value)} {unit}/s"


def duration(seconds: float) -> str:
    """Format seconds, as in ``0.4 s`` or ``2 min 05 s``."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


# ---- progress --------------------------------------------------------------------------------


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        text = "" if not speed else rate(speed, task.fields["unit"])
        return Text(text, style="cyan")


class Stages:
    """Progress bars on stderr, one per stage, shown only for stages longer than a second.

    Nothing is shown if stderr is not a terminal. Used as a context manager, and called with the
    name
    and the unit ("B", "edges"...) of a stage to begin; the call returns the stage's function of
    (done,
    total). These functions may be called from any thread.
    """

    def __init__(self) -> None:
        self._console = stderr()
        self._quiet = not self._console.is_terminal
        self._progress: Progress | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Stages:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, name: str, unit: str) -> ProgressFn:
        """Begin a stage; return its function of (done, total), for any thread."""
        began = time.monotonic()
        task: TaskID | None = None

        def report(done: int, total: int) -> None:
            nonlocal task
            if self._quiet or (task is None and time.monotonic() - began < SHOW_AFTER_SECONDS):
                return
            with self._lock:
                progress = self._shown()
                if task is None:
                    task = progress.add_task(name, total=total, unit=unit)
                progress.update(task, completed=done, total=max(total, 1))

        return report

    def _shown(self) -> Progress:
        if self._progress is None:
            self._progress = Progress(
                TextColumn("{task.description:<18}"),
                BarColumn(bar_width=30),
                TaskProgressColumn(),
                _Rate(),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                console=self._console,
            )
            self._progress.start()
        return self._progress


# ---- errors ----------------------------------------------------------------------------------


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a command so that every failure becomes one line on stderr and an exit code.

    Warnings become notes. Both name options where the library names its arguments.
    """
    options = _options(function)

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        global _arguments
        _arguments = options
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *_: note(str(message))
                result = function(*args, **kwargs)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a failure can be told: at exit it cannot
            return result
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            _fail("interrupted", 130)
        except BrokenPipeError:
            settle_stdout()
            raise typer.Exit(1) from None
        except (AetherError, OSError) as error:
            code = 2 if isinstance(error, InvalidArgumentError) else 1
            _fail(_by_options(str(error), options), code)
        except MemoryError as error:
            _fail(f"out of memory {error}".rstrip(), 1)
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            _fail(f"unexpected {failure} (run aethergraph --debug ... for the traceback)", 1)

    # Paragraphs of the help are as wide as the terminal, not as the lines of the source.
    run.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(function) or "")
    return run


def print_error(text: str) -> None:
    """Print an error as one line on stderr; with ``--debug`` the traceback as well."""
    if _debug:
        traceback.print_exc()
    line = " ".join(text.split())
    stderr().print(f"[bold red]aethergraph: error:[/bold red] {escape(line)}")


def _options(function: Callable[..., Any]) -> dict[str, str]:
    """Return the options of a command by the names of its parameters, without those that it needs.

    Nobody has to be told of an option that no call goes without.
    """
    options = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, OptionInfo) and parameter.default is not parameter.empty:
                names = info.param_decls or ["--" + parameter.name.replace("_", "-")]
                options[parameter.name] = max((name.split("/")[0] for name in names), key=len)
    return options


def _by_options(text: str, options: Mapping[str, str]) -> str:
    """Return a message that names arguments of Python with options of a command in their place.

    ``dead_letter=`` is ``--dead-letter`` then, ``order='time'`` is ``--order time``, and ``--ids
    (ids=)``, which says both, ``--ids``. What a message begins with, ``max_bad = 'x'``, is the
    argument, too; elsewhere it may be a field of a record. What is quoted, and paths such as
    ``/data/time=2024/a.csv``, stay as they are.

    Args:
        text: the message.
        options: options by argument.
    """
    if not options:
        return text

    def option(match: re.Match[str]) -> str:
        name, quoted, bare = match["name"], match["quoted"], match["bare"]
        if name is None:
            return match[0]
        if quoted is not None:
            return f"{options[name]} {shlex.quote(quoted[1:-1])}"
        return f"{options[name]} {bare}" if bare and bare != "True" else options[name]

    names = "|".join(options)
    text = re.sub(rf"(--[a-z-]+) \((?:{names})=\)", r"\1", text)
    text = re.sub(rf"^({names})(?= = )", lambda match: options[match[1]], text)
    return re.sub(
        rf"(?<![\w=])(?:{_QUOTED})"
        rf"|(?<![\w./-])(?P<name>{names})="
        rf"(?:(?P<quoted>{_QUOTED})|(?P<bare>[\w%]+)?(?=[\s,;:)]|\.?(?:\s|$)))",
        option, text,
    )  # fmt: skip


def settle_stdout() -> None:
    """Write what stdout still holds, or drop what it cannot: Python would fail at it at exit."""
    if sys.stdout is None:  # it was closed before the program began
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(text: str, code: int) -> NoReturn:
    settle_stdout()
    print_error(text)
    raise typer.Exit(code) from None
