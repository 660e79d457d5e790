"""The terminal's side of the command line: results, questions, and what went wrong.

Results go to standard output, all else to standard error. A terminal obeys what it is sent, and the
service's words are among it: what would move or repaint it is replaced by a mark.
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TextIO, cast

import typer

from fundlab.base.errors import FundlabError, OutputError, StoreLocked, printable

FAILED: Final = 1
WRONG_USAGE: Final = 2
BREAKS: Final = 3
LOCKED: Final = 4
INTERRUPTED: Final = 130
answered = ""
"""The last result, as text."""
_quiet = False
_held: Final[list[str]] = []
_with_place: Final = warnings.formatwarning
_SEE: Final = "see where it goes, then run the same again"

UsageError: Final = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
"""Raised for wrong usage of any kind; typer has no public name for it."""


class NoOutput(OutputError):
    """Standard output takes nothing: an error can only be shown on standard error."""


def prepare() -> None:
    """See that both streams take any text, and let a warning of ours be one line of standard error.
    Raises ``NoOutput`` where nobody takes the results.

    Of standard error nothing depends: where it is closed, its lines are dropped.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        continue  # a closed stream's number: else the next file that is opened would take it
    os.close(number)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if sys.stdout is None:
        raise NoOutput(f"standard output is closed; {_SEE}")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.formatwarning = _warning_line


def _warning_line(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> str:
    """Where in our code a warning was given says nothing to who typed a command."""
    if category.__module__.startswith("fundlab."):
        return f"fundlab: warning: {printable(str(message))}\n"
    return _with_place(message, category, *place, **more)


@contextmanager
def results() -> Iterator[None]:
    """Around a command: what ``--quiet`` holds back is printed if it does not end well."""
    global _quiet, answered
    _quiet, answered = False, ""
    try:
        yield
    except BaseException as end:
        if _held and getattr(end, "exit_code", FAILED) != 0:
            write("\n".join(_held))
        raise
    finally:
        _held.clear()


def hush(quiet: bool) -> None:
    """From here on hold back results."""
    global _quiet
    _quiet |= quiet


def answer(body: dict[str, Any], as_json: bool, text: str, *, well: bool = True) -> None:
    """The result, as one JSON object or as ``text``; that is held back by ``--quiet`` while all is
    ``well``."""
    global answered
    answered = text
    if as_json:
        _put(sys.stdout, json.dumps(body, default=str, allow_nan=False))
    elif well and _quiet:
        _held.append(text)
    else:
        write(text)


def write(text: str) -> None:
    """``text`` on standard output. Raises ``NoOutput`` where it cannot be written."""
    _put(sys.stdout, "\n".join(map(printable, text.split("\n"))))


def say(text: str) -> None:
    """``text`` on standard error, if it can be written: what was done is done all the same."""
    with suppress(NoOutput):
        _put(sys.stderr, "\n".join(map(printable, text.split("\n"))))


def ask(question: str, unanswered: FundlabError, **options: Any) -> Any:
    """What is typed at the terminal, as ``value_proc`` takes it. Raises ``unanswered`` where
    nothing is, and as Ctrl-C does."""
    try:
        return typer.prompt(question, err=True, **options)
    except typer.Abort as abort:
        interrupted = isinstance(abort.__context__, KeyboardInterrupt)
    raise KeyboardInterrupt if interrupted else unanswered


def explained(error: BaseException) -> tuple[int, str, str]:
    """The exit status for what went wrong, of what kind it is, and what to say of it."""
    status, kind, message = FAILED, type(error).__name__, str(error)
    if isinstance(error, UsageError):
        error.message = error.message.removeprefix("Value error, ")  # of the library beneath
        status, kind, message = WRONG_USAGE, "UsageError", error.format_message()
    elif isinstance(error, KeyboardInterrupt):
        advised = hasattr(error, "__notes__")
        status = INTERRUPTED
        message = "interrupted" if advised else "interrupted; run the same again to go on"
    elif isinstance(error, StoreLocked):
        status = LOCKED
    elif isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename}: "
        advice = "see to it, then run the same again"
        if isinstance(error, FileExistsError | NotADirectoryError):  # a file where a folder goes
            advice = "give another path, or make room there"
        message = f"{where}{error.strerror or error}; {advice}"
        try:
            Path.cwd()
        except FileNotFoundError:
            message = "the current folder is gone; change to another one, then run the same again"
    return status, kind, ". ".join([message, *getattr(error, "__notes__", [])])


def show_error(error: BaseException, as_json: bool) -> int:
    """Say what went wrong, in one line or as one JSON object; the exit status for it."""
    status, kind, message = explained(error)
    if as_json and not isinstance(error, NoOutput):
        try:
            _put(sys.stdout, json.dumps({"error": {"type": kind, "message": message}}))
        except NoOutput:  # then as a line
            pass
        else:
            return status
    if isinstance(error, UsageError):
        with suppress(OSError):
            error.show(file=sys.stderr)
    else:
        say(f"fundlab: {' '.join(message.split())}")
    return status


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # for what is left in it
        raise NoOutput(f"standard output cannot be written ({error.strerror}); {_SEE}") from None
