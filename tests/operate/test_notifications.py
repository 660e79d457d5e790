"""``--heartbeat`` and ``--notify``: what is told of a job, and that no job fails because of it."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Iterator
from email import message_from_string
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fake_service import FakeService, transfer

import fundlab as fl
from fundlab.base.errors import NetworkError

SECRET = "canary-8c1d"


class Listener(ThreadingHTTPServer):
    """Keeps what it was told: path and body."""

    heard: list[tuple[str, str]]
    status = 200
    pause = 0.0
    """Seconds between the parts of an answer."""


@pytest.fixture
def listener() -> Iterator[Listener]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            server.heard.append((self.path, body))
            self.send_response(server.status)
            self.end_headers()
            for _ in range(20 if server.pause else 0):
                self.wfile.write(b".")
                time.sleep(server.pause)

        def log_message(self, *_: object) -> None:
            pass

    server = Listener(("127.0.0.1", 0), Handler)
    server.heard = []
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def url(listener: Listener) -> str:
    return f"http://127.0.0.1:{listener.server_port}/ping/{SECRET}"


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, fundlab: Any, tmp_path: Path) -> Any:
    """Run ``fundlab status`` as the job: it ends well, or with what is raised."""
    store = fl.Store(tmp_path / "books")
    store.sync(FakeService([transfer(1)]), ["transfers", "balances"])  # type: ignore[arg-type]

    def run(*options: object, ends: int | BaseException = 0) -> tuple[int, str, str]:
        if isinstance(ends, BaseException):

            def fail(*_: object, **__: object) -> None:
                raise ends

            monkeypatch.setattr("fundlab.operate.status.status", fail)
        else:
            for name in ("sync", "report"):
                store.note_run(name, {"problems": ends})  # type: ignore[arg-type]
            store.note_run("sync", {"tables": {"events": store.runs()["report"]["at"]}})
        found: tuple[int, str, str] = fundlab(
            "status", "--offline", "--store", tmp_path / "books", *options
        )
        return found

    return run


def test_a_service_of_heartbeats_hears_of_start_and_end(
    job: Any, listener: Listener, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job("--heartbeat", url)[0] == 0
    assert [path.removeprefix(f"/ping/{SECRET}") for path, _ in listener.heard] == ["/start", ""]
    assert listener.heard[1][1].startswith("all is well")
    listener.heard.clear()
    monkeypatch.setenv("FUNDLAB_HEARTBEAT_STATUS", f"{url}/?rid=7")
    assert job(ends=3)[0] == 3
    assert [path.removeprefix(f"/ping/{SECRET}") for path, _ in listener.heard] == [
        "/start?rid=7", "/3?rid=7",
    ]  # fmt: skip
    assert job(ends=NetworkError("no answer"))[0] == 1
    assert job(ends=KeyboardInterrupt())[0] == 130
    assert [(path.split("/")[-1], body) for path, body in listener.heard[3::2]] == [
        ("1?rid=7", "no answer"), ("130?rid=7", "interrupted; run the same again to go on"),
    ]  # fmt: skip


def test_a_file_keeps_the_last_success(job: Any, tmp_path: Path) -> None:
    file = tmp_path / "beats" / "status.json"
    assert job("--heartbeat", file)[0] == 0
    good = json.loads(file.read_text())
    assert (good["command"], good["status"]) == ("status", 0)
    assert good["ended"] == good["last_success"] >= good["started"]
    assert file.read_text().count("\n") == 1
    assert job("--heartbeat", file, ends=NetworkError("no answer"))[0] == 1
    bad = json.loads(file.read_text())
    assert (bad["status"], bad["verdict"]) == (1, "no answer")
    assert bad["last_success"] == good["last_success"]


@pytest.mark.parametrize("there", [b"", b'{"command": "sta', b"[]", b"null", b"\xff\xfe"])
def test_a_file_without_a_line_of_ours_is_replaced(
    job: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, there: bytes
) -> None:
    file = tmp_path / "status.json"
    file.write_bytes(there)
    assert job("--heartbeat", file, ends=NetworkError("no answer"))[0] == 1
    line = json.loads(file.read_text())
    assert (line["status"], line["last_success"], caplog.text) == (1, None, "")


def test_somebody_is_notified_only_where_it_does_not_end_well(
    job: Any, listener: Listener, url: str
) -> None:
    job("--notify", url)
    assert listener.heard == []
    assert job("--notify", url, ends=2)[0] == 3
    ((_, body),) = listener.heard
    told = json.loads(body)
    assert (told["command"], told["status"]) == ("status", 3)
    assert told["text"].endswith(f"exit status 3. {told['verdict']}")
    assert "2 problems, by the last report" in told["verdict"]


def test_mail(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    class Post(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            data = False
            for line in self.rfile:
                heard.append(line.decode().rstrip())
                if data and line != b".\r\n":
                    continue
                starts = line.upper().startswith(b"DATA")
                self.wfile.write(b"354 go on\r\n" if starts else b"250 fine\r\n")
                data = starts
                if line.upper().startswith(b"QUIT"):
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Post) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("FUNDLAB_MAIL_SERVER", f"smtp://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("FUNDLAB_MAIL_FROM", "fundlab@example.com")
        assert job("--notify", "mailto:ana@example.com,ben@example.com", ends=1)[0] == 3
        server.shutdown()
    assert [line for line in heard if line.upper().startswith("RCPT")] == [
        "rcpt TO:<ana@example.com>", "rcpt TO:<ben@example.com>",
    ]  # fmt: skip
    said = "\n".join(heard[heard.index("data") + 1 : heard.index(".")])
    message = message_from_string(said, policy=default)
    assert message["Subject"].startswith("fundlab status on ")
    assert "1 problem, by the last report" in message.get_content()


@pytest.mark.parametrize("answers", [500, 302, None])
def test_a_job_does_not_fail_because_nobody_listens(
    job: Any, listener: Listener, url: str, answers: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    if answers is None:
        listener.shutdown()
        listener.server_close()
    else:
        listener.status = answers
    status, out, _ = job("--heartbeat", url, "--notify", url)
    assert (status, out[:11]) == (0, "all is well")
    assert caplog.text.count("http://127.0.0.1 was not told of this job") == 2
    assert SECRET not in caplog.text


def test_a_job_waits_a_bounded_time_for_an_answer_byte_by_byte(
    job: Any, listener: Listener, url: str, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.setattr("fundlab.operate.notifications.LONGEST_S", 0.2)
    listener.pause = 0.02
    status, out, _ = job("--heartbeat", url)
    assert (status, out[:11]) == (0, "all is well")
    assert caplog.text.count("127.0.0.1 was not told of this job: it took longer than 0.2 s") == 2
    assert SECRET not in caplog.text


def test_a_job_does_not_fail_because_a_file_or_mail_cannot_be_written(
    job: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    assert job("--heartbeat", tmp_path / "file" / "below")[0] == 0
    assert job("--notify", "mailto:ana@example.com", ends=1)[0] == 3
    assert "mail needs mail_server and mail_from in the settings" in caplog.text


@pytest.mark.parametrize(
    ("option", "target"),
    [
        ("--heartbeat", f"http://example.com/{SECRET}"),
        ("--heartbeat", f"ftp://example.com/{SECRET}"),
        ("--notify", f"/tmp/{SECRET}"),
        ("--notify", f"mailto:{SECRET}"),
    ],
)
def test_what_cannot_be_told_is_wrong_usage(job: Any, option: str, target: str) -> None:
    status, out, err = job(option, target)
    assert (status, out) == (2, "")
    assert "; give " in err
    assert SECRET not in err


def test_the_three_jobs_have_the_options(fundlab: Any) -> None:
    for command in ("sync", "report", "close"):
        shown = fundlab(command, "--help")[1]
        assert "--heartbeat FILE|URL" in shown
        assert f"FUNDLAB_HEARTBEAT_{command.upper()}" in "".join(shown.split())
