"""A sandbox in the foreground: until a signal arrives, or beside a command until it ends."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from fundlab.base.errors import SandboxError
from fundlab.sandbox.serve import OF_A_SERVICE, Sandbox, serve

_KILLED: Final = 128
"""And the number of a signal: the exit status of what the signal ended, as a shell has it."""


def run(
    *,
    announce: Callable[[str], None] | None = None,
    env: bool = False,
    command: Sequence[str] = (),
    **options: Any,
) -> int:
    """Serve in the foreground until SIGINT, SIGTERM or SIGHUP, which also break off a long start;
    or until ``command`` ends, which runs with the sandbox in its environment. Its exit status, or
    128 and the number of the signal that ended it, is returned; 0 where there is none.

    The first line printed is the contract's JSON object (``base_url``, ``auth_url``,
    ``control_url``, ``client_id``, ``client_secret``, ``profile_ids`` and, with signing,
    ``signing_key`` and ``signing_key_id``); with ``env`` lines that set the same in a shell; with a
    ``command`` nothing: standard output is the command's. Options and errors as ``serve``.

    >>> import json, signal
    >>> def announce(line):
    ...     print(sorted(json.loads(line))[:2])
    ...     signal.raise_signal(signal.SIGTERM)  # or Ctrl-C, or kill
    >>> fl.sandbox.run(empty=True, announce=announce)
    ['auth_url', 'base_url']
    0
    """
    arrived, serving = threading.Event(), threading.Event()
    child: subprocess.Popen[bytes] | None = None
    status = 0

    def stop(number: int, _: object) -> None:
        nonlocal status
        arrived.set()
        if child is not None:
            # what a terminal sends, it sends to the command too
            if number != signal.SIGINT or not _before_a_terminal():
                child.send_signal(number)
        elif command:
            status = _KILLED + number
        if not serving.is_set():
            raise _BrokenOff

    numbers = [signal.SIGINT, signal.SIGTERM]
    # a command started by nohup ignores the hang-up, and goes on doing so
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    previous = {number: signal.signal(number, stop) for number in numbers}
    try:
        with suppress(_BrokenOff), serve(**options) as sandbox:
            serving.set()
            if sys.stderr is not None:
                sys.stderr.write(sandbox.kept())
            if command:
                if not arrived.is_set():
                    own = {name: v for name, v in os.environ.items() if name not in OF_A_SERVICE}
                    try:
                        child = subprocess.Popen(command, env=own | sandbox.environment())  # noqa: S603 - the user's own
                    except OSError as error:
                        raise SandboxError(
                            f"{command[0]} cannot be run: {error.strerror}; 'fundlab sandbox' by "
                            "itself serves, and what follows -- is a program to run with it"
                        ) from None
                    if arrived.is_set():
                        child.terminate()
                    status = child.wait()
                    status = status if status >= 0 else _KILLED - status
            else:
                line = sandbox.exports() if env else json.dumps(sandbox.announcement())
                if announce is None:
                    sys.stdout.write(f"{line}\n")
                    sys.stdout.flush()
                    before_eyes = sys.stderr is not None and sys.stderr.isatty()
                    if before_eyes and not env:
                        sys.stderr.write(_next_step(sandbox))
                else:
                    announce(line)
                arrived.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return status


def _next_step(sandbox: Sandbox) -> str:
    """What who reads the announcement may do with it; the secret is not said twice."""
    options = {"base_url": "--base-url", "auth_url": "--auth-url", "client_id": "--client-id",
               "signing_key": "--key", "signing_key_id": "--key-id",
               "ca_bundle": "--ca-bundle"}  # fmt: skip
    made = sandbox.announcement()
    given = [word for key, name in options.items() if key in made for word in (name, made[key])]
    given += ["--sandbox"] * ("FUNDLAB_SANDBOX" in sandbox.environment())
    command = shlex.join(["fundlab", "init", *given])
    return f"In another terminal, with the client_secret when it asks for it: {command}\n"


class _BrokenOff(BaseException):
    """A signal arrived while the sandbox was starting."""


def _before_a_terminal() -> bool:
    """Whether the keys of a terminal reach this process, and so all that it runs."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
