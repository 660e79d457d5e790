"""The terminal's side of the command line: results, questions, and how it tells what went wrong.

Results go to standard output, all else to standard error. A terminal obeys what it is sent, and the
service's words are among it: what would move or repaint it is replaced by a mark.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO, cast

import typer

from fundlab.errors import FundlabError, OutputError, StoreLocked, printable

FAILED: Final = 1
WRONG_USAGE: Final = 2
BREAKS: Final = 3
LOCKED: Final = 4
INTERRUPTED: Final = 130
_STREAMS: Final = 3
_SEE: Final = "see where it goes, then run the same again"

UsageError: Final = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
"""Raised for wrong usage of any kind; typer has no public name for it."""


class NoOutput(OutputError):
    """Standard output takes nothing: an error can only be told on standard error."""


def prepare() -> None:
    """See that both streams take any text. Raises ``NoOutput`` where nobody takes the results.

    Of standard error nothing depends: where it is closed, its lines are dropped.
    """
    for number in range(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # else the next file that is opened takes its number
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if sys.stdout is None:
        raise NoOutput(f"standard output is closed; {_SEE}")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def answer(body: dict[str, Any], as_json: bool, text: str) -> None:
    """The result, as one JSON object or as ``text``."""
    if as_json:
        _put(sys.stdout, json.dumps(body, default=str))
    else:
        write(text)


def write(text: str) -> None:
    """``text`` on standard output. Raises ``NoOutput`` where it cannot be written."""
    _put(sys.stdout, _shown(text))


def say(text: str) -> None:
    """``text`` on standard error, if it can be written: what was done is done all the same."""
    with suppress(NoOutput):
        _put(sys.stderr, _shown(text))


def ask(question: str, unanswered: FundlabError, **options: Any) -> str:
    """What is typed at the terminal. Raises ``unanswered`` where nothing is, and as Ctrl-C does."""
    try:
        return str(typer.prompt(question, err=True, **options))
    except typer.Abort as abort:
        interrupted = isinstance(abort.__context__, KeyboardInterrupt)
    raise KeyboardInterrupt if interrupted else unanswered


def tell(error: BaseException, as_json: bool) -> int:
    """Say what went wrong, in one line or as one JSON object; the exit status for it."""
    kind = "UsageError" if isinstance(error, UsageError) else type(error).__name__
    message = ". ".join([_message(error), *getattr(error, "__notes__", [])])
    if not (as_json and _put_error({"type": kind, "message": message}, error)):
        if isinstance(error, UsageError):
            with suppress(OSError):
                error.show(file=sys.stderr)
        else:
            say(f"fundlab: {' '.join(message.split())}")
    return _status(error)


def _put_error(found: dict[str, str], error: BaseException) -> bool:
    """Whether standard output took it."""
    if isinstance(error, NoOutput):
        return False
    try:
        _put(sys.stdout, json.dumps({"error": found}))
    except NoOutput:
        return False
    return True


def _message(error: BaseException) -> str:
    if isinstance(error, UsageError):
        return error.format_message()
    if isinstance(error, KeyboardInterrupt):
        advised = hasattr(error, "__notes__")
        return "interrupted" if advised else "interrupted; run the same again to go on"
    if isinstance(error, FileNotFoundError) and _is_nowhere():
        return "the current folder is gone; change to another one, then run the same again"
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{error.strerror or error}; see to it, then run the same again"
    return str(error)


def _is_nowhere() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _status(error: BaseException) -> int:
    if isinstance(error, UsageError):
        return WRONG_USAGE
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return LOCKED if isinstance(error, StoreLocked) else FAILED


def _shown(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # for what is left in it
        raise NoOutput(f"standard output cannot be written ({error.strerror}); {_SEE}") from None
