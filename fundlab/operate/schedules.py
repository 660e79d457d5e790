"""The files of a nightly run, for cron, systemd or launchd: a script, its settings, a timer."""

from __future__ import annotations

import plistlib
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from pathlib import Path
from typing import Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fundlab.base.errors import InvalidRequest
from fundlab.base.periods import check_month
from fundlab.store import disk

Scheduler = Literal["cron", "systemd", "launchd"]

_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_PLAIN: Final = re.compile(r"/[\w@+=:,./-]*", re.ASCII)


@dataclass(frozen=True)
class File:
    """One of the files, and the mode that it needs: settings are their owner's alone."""

    path: Path
    mode: int
    content: str


@dataclass(frozen=True)
class Schedule:
    """``files``, and the commands that ``install`` them once they are written."""

    files: tuple[File, ...]
    install: tuple[str, ...]

    def write(self) -> None:
        """Write the files, each at once with its mode. Raises ``OSError`` where a folder, and
        ``StoreError`` where a file cannot be written."""
        for file in self.files:
            file.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with disk.replacing(file.path, file.mode) as open_file:
                open_file.write(file.content.encode())

    def __str__(self) -> str:
        shown = [f"==> {one.path} (mode {one.mode:o})\n{one.content}" for one in self.files]
        return "\n".join([*shown, "==> then", *(f"  {line}" for line in self.install)])


def schedule(
    scheduler: Scheduler,
    folder: Path,
    work: Path,
    variables: Mapping[str, str],
    *,
    at: str = "06:00",
    tz: str | None = None,
    user: str,
    period: str,
) -> Schedule:
    """A sync and a ``report --catch-up`` (from the month ``period`` on) each day ``at`` a time, in
    the machine's zone or ``tz``. The files go into ``folder``, reports into ``work``; ``variables``
    are the settings of the run.

    Raises ``InvalidRequest`` for a time or zone there is none of, a time that some day of the next
    year has not, a zone of launchd's, a ``period`` that is not a month, and a path that a timer's
    file could not name.
    """
    check_month(period)
    match = _TIME.fullmatch(at)
    if match is None:
        raise InvalidRequest(f"at={at!r} is not a valid time of day; give 06:00")
    try:
        zone = None if tz is None else ZoneInfo(tz)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(f"tz={tz!r} is not a known zone; give Europe/Berlin or UTC") from None
    if zone is not None and scheduler == "launchd":
        raise InvalidRequest(f"tz={tz!r}: launchd runs in the machine's zone only; leave it out")
    for path in (folder, work):
        if not _PLAIN.fullmatch(str(path)):
            raise InvalidRequest(
                f"{str(path)!r} has a character that timers do not take; choose folders named by "
                "letters, digits and -_./ with --out and --work"
            )
    hour, minute = int(match[1]), int(match[2])
    for day in range(366):
        due = datetime.combine(date.today() + timedelta(day), clock_time(hour, minute))  # noqa: DTZ011
        if due.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).time() != due.time():
            raise InvalidRequest(
                f"at={at!r}: on {due:%Y-%m-%d} clocks go forward over that time, and a timer may "
                "leave out that day; give a time that each day has, such as 06:00"
            )
    settings, script = folder / "fundlab.env", folder / "fundlab-nightly.sh"
    command = f"{shlex.quote(sys.executable)} -m fundlab"
    body = f"""#!/bin/sh
# Bring the store up to date, then report every month that is over and has no report yet. What a
# sync finds (3) is no reason not to report. Nothing is printed while all is well.
set -a
. {settings}
set +a
cd {work} || exit 1
{command} sync --quiet
status=$?
[ $status -eq 0 ] || [ $status -eq 3 ] || exit $status
exec {command} report --catch-up --period {period} --quiet
"""
    files = [
        File(settings, 0o600, "".join(f"{k}={shlex.quote(v)}\n" for k, v in variables.items())),
        File(script, 0o700, body),
    ]
    if scheduler == "cron":
        line = f"{minute} {hour} * * * {script}\n"
        if tz is not None:
            warning = "# of cronie; Debian's cron does not know CRON_TZ: take systemd there"
            line = f"{warning}\nCRON_TZ={tz}\n{line}"
        files.append(File(folder / "fundlab.cron", 0o600, line))
        # Added to the lines that are there, and once however often it is run.
        kept = f"(crontab -l 2>/dev/null | grep -vF {script}; cat {files[-1].path}) | crontab -"
        return Schedule(tuple(files), (kept,))
    if scheduler == "systemd":
        service = f"""[Unit]
Description=Sync and report with fundlab
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
User={user}
WorkingDirectory={work}
ExecStart={script}
"""
        timer = f"""[Unit]
Description=Each day at {at}

[Timer]
OnCalendar=*-*-* {at}:00{"" if tz is None else f" {tz}"}
Persistent=true

[Install]
WantedBy=timers.target
"""
        units = [folder / "fundlab.service", folder / "fundlab.timer"]
        files += [File(units[0], 0o644, service), File(units[1], 0o644, timer)]
        return Schedule(
            tuple(files),
            (f"sudo cp {units[0]} {units[1]} /etc/systemd/system/",
             "sudo systemctl daemon-reload",
             "sudo systemctl enable --now fundlab.timer"),
        )  # fmt: skip
    agent = Path("~/Library/LaunchAgents/fundlab.nightly.plist").expanduser()
    job = {
        "Label": "fundlab.nightly",
        "ProgramArguments": [str(script)],
        "StartCalendarInterval": {"Hour": hour, "Minute": minute},
        "StandardOutPath": str(work / "fundlab.log"),
        "StandardErrorPath": str(work / "fundlab.log"),
    }
    files.append(File(agent, 0o600, plistlib.dumps(job).decode()))
    return Schedule(tuple(files), (f"launchctl bootstrap gui/$(id -u) {agent}",))
