"""That a job began, and how it ended, said to whoever listens: a service of heartbeats, a file, a
mailbox or a web hook.

What cannot be said is a warning: no job fails because of it. Said are the command, its exit status
and one line that was shown anyway; no secret is among them, and addresses, which may hold one, are
in no log.
"""

from __future__ import annotations

import json
import logging
import os
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from fundlab.base.errors import FundlabError, InvalidRequest, printable
from fundlab.settings.settings import is_loopback, setting
from fundlab.store import disk

TIMEOUT_S: Final = 10.0
LONGEST_S: Final = 15.0
"""For all of a telling; ``TIMEOUT_S`` is for each part of an answer."""
_LONGEST: Final = 500
_HTTPS: Final = ("https", "http")
_SMTP: Final = {"smtps": 465, "smtp": 587}

log = logging.getLogger(__name__)


@dataclass
class Outcome:
    """How a job ended: its exit ``status``, and one line about it."""

    status: int = 0
    verdict: str = ""


@contextmanager
def beating(command: str, heartbeat: str | None, notify: str | None) -> Iterator[Outcome]:
    """Around a job, which fills in the outcome: ``heartbeat`` hears of its start and its end,
    ``notify`` of an end that is not well.

    A heartbeat's URL is asked with ``/start``, as it is, or with ``/`` and the exit status, as
    services of heartbeats expect; a file holds one line of JSON, replaced at once.
    """
    outcome = Outcome()
    started = datetime.now(UTC)
    if heartbeat is not None:
        _beat(command, heartbeat, started, None)
    try:
        yield outcome
    finally:
        outcome.verdict = printable(" ".join(outcome.verdict.split())[:_LONGEST])
        if heartbeat is not None:
            _beat(command, heartbeat, started, outcome)
        if notify is not None and outcome.status != 0:
            with _heard(notify):
                _within_bounds(lambda: _notify(command, notify, outcome))


def checked_target(text: str, option: str) -> str:
    """``text`` if it can be told something. Raises ``InvalidRequest``, which does not quote it."""
    parts = urlsplit(text)
    if parts.scheme in _HTTPS and parts.hostname:
        if parts.scheme == "https" or is_loopback(parts.hostname):
            return text
        raise InvalidRequest(f"{option} has http://, which is for this machine only; give https://")
    if option == "--notify" and parts.scheme == "mailto" and "@" in parts.path:
        return text
    if option == "--heartbeat" and "://" not in text and text.strip():
        return text
    accepted = "a file or https://…" if option == "--heartbeat" else "mailto:ana@… or https://…"
    raise InvalidRequest(f"{option} cannot be told anything there; give {accepted}")


def _beat(command: str, target: str, started: datetime, outcome: Outcome | None) -> None:
    with _heard(target):
        verdict = "" if outcome is None else outcome.verdict
        if "://" in target:
            ending = "start" if outcome is None else str(outcome.status or "")
            parts = urlsplit(target)
            path = "/".join(filter(None, [parts.path.rstrip("/"), ending]))
            url = parts._replace(path=path).geturl()
            _within_bounds(lambda: _post(url, data=verdict.encode()))
            return
        path_of_file = Path(target).expanduser().absolute()
        before: Any = None
        # None yet, or empty, cut or of somebody else: it is replaced.
        with suppress(FileNotFoundError, NotADirectoryError, ValueError):
            before = json.loads(path_of_file.read_text(encoding="utf-8"))
        now = datetime.now(UTC).isoformat()
        line = {
            "command": command, "host": socket.gethostname(), "process": os.getpid(),
            "started": started.isoformat(), "ended": None, "status": None, "verdict": verdict,
            "last_success": before.get("last_success") if isinstance(before, dict) else None,
        }  # fmt: skip
        if outcome is not None:
            line |= {"ended": now, "status": outcome.status}
            line |= {"last_success": now} if outcome.status == 0 else {}
        with disk.replacing(path_of_file) as file:
            file.write(f"{json.dumps(line)}\n".encode())


def _notify(command: str, target: str, outcome: Outcome) -> None:
    host = socket.gethostname()
    headline = f"fundlab {command} on {host}: exit status {outcome.status}"
    if "://" in target:
        body = {
            "text": f"{headline}. {outcome.verdict}", "command": command, "host": host,
            "status": outcome.status, "verdict": outcome.verdict,
            "at": datetime.now(UTC).isoformat(),
        }  # fmt: skip
        _post(target, json=body)
        return
    server, sender = setting("mail_server"), setting("mail_from")
    if server is None or sender is None:
        raise InvalidRequest("mail needs mail_server and mail_from in the settings")
    message = EmailMessage()
    message["Subject"], message["From"] = headline, sender
    message["To"] = unquote(urlsplit(target).path)
    message.set_content(f"{outcome.verdict}\n\n'fundlab status' says more.\n")
    parts = urlsplit(server)
    port, host = parts.port or _SMTP[parts.scheme], str(parts.hostname)
    context = ssl.create_default_context()
    with (
        smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context)
        if parts.scheme == "smtps"
        else smtplib.SMTP(host, port, timeout=TIMEOUT_S)
    ) as post:
        if parts.scheme == "smtp" and not is_loopback(host):
            post.starttls(context=context)
        user, password = setting("mail_user"), setting("mail_password")
        if user is not None and password is not None:
            post.login(user, password.reveal())
        post.send_message(message)


def _post(url: str, **content: Any) -> None:
    import requests  # 0.1 s, for whoever is told nothing by web

    with requests.Session() as session:
        session.trust_env = setting("trust_env") or False
        bundle = setting("ca_bundle")
        answer = session.post(
            url, timeout=TIMEOUT_S, allow_redirects=False,
            verify=True if bundle is None else str(bundle), **content,
        )  # fmt: skip
    if not 200 <= answer.status_code < 300:
        raise InvalidRequest(f"it answered {answer.status_code}")


def _within_bounds(telling: Callable[[], None]) -> None:
    """Do ``telling``, and wait for it no longer than ``LONGEST_S``: who answers byte by byte keeps
    to every limit for a part of an answer."""
    wrong: list[Exception] = []

    def run() -> None:
        try:
            telling()
        except Exception as error:  # noqa: BLE001 - raised again below
            wrong.append(error)

    thread = threading.Thread(target=run, name="fundlab-telling", daemon=True)
    thread.start()
    thread.join(LONGEST_S)
    if thread.is_alive():
        raise InvalidRequest(f"it took longer than {LONGEST_S:g} s")
    if wrong:
        raise wrong[0]


@contextmanager
def _heard(target: str) -> Iterator[None]:
    """What goes wrong in telling ``target`` as a warning, without the path, which may be secret."""
    try:
        yield
    except (FundlabError, OSError, ValueError) as error:
        address = f"{urlsplit(target).scheme}://{urlsplit(target).hostname}"
        address = target if "://" not in target else address
        why = str(error) if isinstance(error, FundlabError) else type(error).__name__
        log.warning("%s was not told of this job: %s", address, why)
