"""``fundlab schedule``: files that run as they are printed."""

from __future__ import annotations

import errno
import json
import os
import plistlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fundlab import sandbox
from fundlab.base.errors import InvalidRequest, StoreError
from fundlab.operate.schedules import schedule

CRON_FIELD = r"(\*|\d+)"


def made(scheduler: Any, tmp_path: Path, **given: Any) -> dict[str, str]:
    found = schedule(
        scheduler,
        tmp_path / "files",
        tmp_path,
        {"FUNDLAB_PROFILE": "it's"},
        user="root",
        **{"period": "2026-10"} | given,
    )
    return {one.path.name: one.content for one in found.files}


@pytest.mark.parametrize("tz", [None, "Europe/Berlin"])
def test_units_are_valid(tmp_path: Path, tz: str | None) -> None:
    found = schedule(
        "systemd",
        tmp_path / "files",
        tmp_path,
        {},
        at="06:15",
        tz=tz,
        user="root",
        period="2026-10",
    )
    found.write()
    assert {one.path.name: oct(one.path.stat().st_mode & 0o777) for one in found.files} == {
        "fundlab.env": "0o600", "fundlab-nightly.sh": "0o700",
        "fundlab.service": "0o644", "fundlab.timer": "0o644",
    }  # fmt: skip
    timer = found.files[-1].content
    assert f"OnCalendar=*-*-* 06:15:00{f' {tz}' if tz else ''}\n" in timer
    assert "Persistent=true" in timer
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not here to say whether the units are valid")
    units = [str(one.path) for one in found.files[-2:]]
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=60
    )
    mine = [line for line in done.stderr.splitlines() if "fundlab" in line]
    assert (done.returncode, mine) == (0, [])


def test_a_line_for_cron(tmp_path: Path) -> None:
    lines = made("cron", tmp_path, at="06:05")["fundlab.cron"].splitlines()
    assert lines == [f"5 6 * * * {tmp_path}/files/fundlab-nightly.sh"]
    assert re.fullmatch(rf"{CRON_FIELD}( {CRON_FIELD}){{4}} /\S+", lines[0])
    with_zone = made("cron", tmp_path, tz="America/New_York")["fundlab.cron"].splitlines()
    assert with_zone[1:] == [
        "CRON_TZ=America/New_York", f"0 6 * * * {tmp_path}/files/fundlab-nightly.sh",
    ]  # fmt: skip


def test_a_job_for_launchd(tmp_path: Path) -> None:
    job = plistlib.loads(made("launchd", tmp_path, at="23:59")["fundlab.nightly.plist"].encode())
    assert job["StartCalendarInterval"] == {"Hour": 23, "Minute": 59}
    assert job["ProgramArguments"] == [f"{tmp_path}/files/fundlab-nightly.sh"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"at": "6:00"}, "is not a valid time of day; give 06:00"),
        ({"at": "24:00"}, "is not a valid time of day; give 06:00"),
        ({"tz": "Moon/Sea"}, "is not a known zone; give Europe/Berlin or UTC"),
        ({"tz": "../etc"}, "is not a known zone"),
        ({"at": "02:30", "tz": "Europe/Berlin"}, "-03-.*clocks go forward over that time"),
        ({"at": "00:00", "tz": "Africa/Cairo"}, "-04-.*such as 06:00"),
        ({"period": "2026-Q3"}, "'2026-Q3' is not a month; give one such as '2026-10'"),
        ({"period": "2026"}, "is not a month"),
        ({"period": "2026-10-01"}, "is not a month"),
    ],
)
def test_what_is_not_accepted(tmp_path: Path, given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        made("systemd", tmp_path, **given)


def test_the_file_that_a_full_disk_does_not_take_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = tmp_path / "kept"
    kept.touch()
    files = schedule("cron", tmp_path, tmp_path, {}, user="ana", period="2026-10")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(
        StoreError, match=r"/fundlab\.env cannot be written: No space left on device"
    ):
        files.write()
    assert list(tmp_path.iterdir()) == [kept]


def test_what_no_timer_can_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="launchd runs in the machine's zone only"):
        made("launchd", tmp_path, tz="UTC")
    with pytest.raises(InvalidRequest, match="a character that timers do not take"):
        made("cron", tmp_path / "my books %")


def test_the_settings_of_the_shell_but_its_secrets(
    fundlab: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUNDLAB_CLIENT_ID", "desk")
    monkeypatch.setenv("FUNDLAB_CLIENT_SECRET", "canary-22")
    ping = "https://hc.example.com/ping/1"
    status, out, err = fundlab("schedule", "cron", "--heartbeat", ping, "--json")
    assert status == 0
    settings, *_ = json.loads(out)["files"]
    assert settings["mode"] == "600"
    assert "FUNDLAB_CLIENT_ID=desk\n" in settings["content"]
    assert f"FUNDLAB_HEARTBEAT_REPORT={ping}\n" in settings["content"]
    assert f"FUNDLAB_STORE={tmp_path}/data/store\n" in settings["content"]
    assert "canary-22" not in out + err
    assert "it has no FUNDLAB_CLIENT_SECRET" in err
    assert not (tmp_path / "schedule").exists()
    assert fundlab("schedule", "cron", "--at", "dawn")[0] == 2
    for period in ("soon", "2026-Q3", "2026-W40", "2026-13"):
        status, _, err = fundlab("schedule", "cron", "--period", period)
        assert (status, f"period='{period}'" in err) == (2, True)


def test_the_job_writes_and_reads_what_this_shell_would(
    fundlab: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = {"XDG_CONFIG_HOME": f"{tmp_path}/settings", "XDG_DATA_HOME": f"{tmp_path}/own data",
               "https_proxy": "http://proxy.example:3128", "NO_PROXY": "localhost",
               "REQUESTS_CA_BUNDLE": f"{tmp_path}/company.pem"}  # fmt: skip
    for name, folder in folders.items():
        monkeypatch.setenv(name, folder)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "company.pem")
    monkeypatch.setenv("http_proxy", "http://ana:pass-w0rd@proxy.example:3128")
    status, out, err = fundlab(
        "schedule", "cron", "--heartbeat", "hb.json", "--work", tmp_path / "elsewhere", "--json"
    )
    assert status == 0
    content = json.loads(out)["files"][0]["content"]
    said = dict(line.split("=", 1) for line in shlex.split(content))
    assert {name: said[name] for name in folders} == folders
    assert said["FUNDLAB_HEARTBEAT_REPORT"] == f"{tmp_path}/hb.json"
    assert "http_proxy" not in said
    assert "pass-w0rd" not in out + err
    assert "the job goes without http_proxy, which a password is in: put it into" in err


def test_no_password_in_an_address_is_printed_or_written(
    fundlab: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FUNDLAB_NOTIFY", "https://ana:canary-23@hooks.example.com/x")
    monkeypatch.setenv("FUNDLAB_HEARTBEAT_SYNC", "https://hc.example.com/ping/ana:b@1")
    monkeypatch.setenv("FUNDLAB_MAIL_SERVER", "smtps://mail.example.com")
    beat = "https://:canary-24@hc.example.com"
    status, out, err = fundlab("schedule", "cron", "--heartbeat", beat, "--json", "--write")
    assert status == 0
    content = json.loads(out)["files"][0]["content"]
    assert (tmp_path / "schedule" / "fundlab.env").read_text() == content
    said = dict(line.split("=", 1) for line in shlex.split(content))
    assert said["FUNDLAB_HEARTBEAT_SYNC"] == "https://hc.example.com/ping/ana:b@1"
    assert said["FUNDLAB_MAIL_SERVER"] == "smtps://mail.example.com"
    assert not re.search("canary|FUNDLAB_NOTIFY|FUNDLAB_HEARTBEAT_REPORT", content)
    assert "canary" not in out + err
    without = "the job goes without FUNDLAB_NOTIFY and FUNDLAB_HEARTBEAT_REPORT, which a password"
    assert f"{without} is in: put it into {tmp_path}/schedule/fundlab.env by hand" in err


@pytest.mark.thorough
def test_the_script_reports_the_months_that_are_over_once_and_quietly(
    tmp_path: Path, fundlab: Any
) -> None:
    with sandbox.serve(transfers=200) as service:
        settings = {
            "FUNDLAB_BASE_URL": service.base_url,
            "FUNDLAB_AUTH_URL": service.auth_url,
            "FUNDLAB_CLIENT_ID": service.client_id,
            "FUNDLAB_CLIENT_SECRET": service.client_secret,
            "FUNDLAB_STORE": str(tmp_path / "it's here"),
            "FUNDLAB_HEARTBEAT_REPORT": str(tmp_path / "beat.json"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "HOME": str(tmp_path),
        }
        files = schedule("cron", tmp_path, tmp_path, settings, user="root", period="2026-10")
        files.write()
        written = []
        for _ in range(2):
            run = subprocess.run(
                [str(files.files[1].path)], env={"PATH": "/usr/bin:/bin"}, capture_output=True,
                text=True,
            )  # fmt: skip
            assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
            reports = (tmp_path / "data" / "reports").iterdir()
            written.append({path: path.stat().st_mtime_ns for path in reports})
    last_month = pd.Timestamp.now("UTC").tz_localize(None).to_period("M") - 1
    months = [str(month) for month in pd.period_range("2026-10", last_month, freq="M")]
    pages = sorted(path.name for path in written[0] if path.suffix == ".html")
    assert pages == [f"report-{month}.html" for month in months]
    assert written[1] == written[0]
    assert json.loads((tmp_path / "beat.json").read_text())["status"] == 0
    store = ("--store", settings["FUNDLAB_STORE"])
    assert fundlab("status", "--offline", *store)[1].startswith("all is well")
