"""Who reaches a sandbox: other machines by name, HTTPS, and no page of a browser but its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
import yaml

from fundlab.base.errors import NetworkError, SandboxError
from fundlab.sandbox import Sandbox, serve
from fundlab.sandbox.certificate import self_signed

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
KEY = "Sandbox-Control-Key"
browser = [
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome is installed here"),
]


@pytest.fixture
def open_one() -> Iterator[Sandbox]:
    """One that other machines reach, with a key of ours."""
    with serve(
        empty=True, clock="manual", host="0.0.0.0", allow_remote=True, control_key="the key"
    ) as running:
        yield running


def act(sandbox: Sandbox, **headers: str) -> requests.Response:
    url = f"{sandbox.control_url}/advance"
    return requests.post(url, json={"seconds": 5}, headers=headers, timeout=5)


# ---------------------------------------------------------------------------- other machines


def test_others_are_let_in_only_where_that_is_said() -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(SandboxError, match="unless allow_remote"):
            serve(empty=True, host=host)


def test_control_then_needs_its_key(open_one: Sandbox) -> None:
    assert open_one.base_url.startswith("http://127.0.0.1:")
    for headers in ({}, {KEY: "a key"}, {KEY: ""}, {KEY: "thé key".encode("latin-1")}):
        answer = act(open_one, **headers)
        assert answer.status_code == 403
        assert answer.json()["detail"] == (
            "the control interface needs its key in the header Sandbox-Control-Key"
        )
    assert act(open_one, **{KEY: "the key"}).ok
    assert open_one.announcement()["control_key"] == "the key"
    assert open_one.environment()["FUNDLAB_SANDBOX_CONTROL_KEY"] == "the key"
    assert "the key" not in f"{vars(open_one)!r}{vars(open_one.control)!r}"


def test_a_key_is_made_where_none_is_given() -> None:
    with serve(empty=True, allow_remote=True) as one, serve(empty=True, allow_remote=True) as two:
        keys = {sandbox.announcement()["control_key"] for sandbox in (one, two)}
        assert len(keys) == 2
        assert min(map(len, keys)) > 40


def test_a_key_may_be_asked_for_on_this_machine_too() -> None:
    with serve(empty=True, control_key="the key") as sandbox:
        assert act(sandbox).status_code == 403
        assert act(sandbox, **{KEY: "the key"}).ok


def test_a_machines_name_is_as_good_as_its_address(open_one: Sandbox) -> None:
    assert act(open_one, **{KEY: "the key", "Host": "sandbox.example:8080"}).ok


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://[", "http://localhost:8888", ""]
)
def test_a_page_of_another_origin_does_not_control_even_with_the_key(
    origin: str, open_one: Sandbox
) -> None:
    status = act(open_one, **{KEY: "the key", "Origin": origin}).status_code
    assert status == 403


def test_its_own_page_does(open_one: Sandbox) -> None:
    assert act(open_one, **{KEY: "the key", "Origin": open_one.base_url}).ok


# ---------------------------------------------------------------------------- HTTPS


def test_a_client_trusts_the_certificate_that_was_made(tmp_path: Path) -> None:
    kept = tmp_path / "trusted.pem"
    with serve(empty=True, tls_self_signed=True, tls_cert=kept, clock="manual") as sandbox:
        assert sandbox.base_url.startswith("https://127.0.0.1:")
        assert sandbox.ca_bundle == kept
        with sandbox.connect() as client:
            assert list(client.list_transfers()) == []
        context = ssl.create_default_context(cafile=str(kept))
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        port = int(sandbox.base_url.rpartition(":")[2])
        for name in ("localhost", "127.0.0.1", socket.gethostname()):
            with (
                socket.create_connection(("127.0.0.1", port), timeout=5) as plain,
                context.wrap_socket(plain, server_hostname=name) as secured,
            ):
                assert secured.version() in ("TLSv1.2", "TLSv1.3")
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(sandbox.control_url, timeout=5)
        sandbox.faults.add("reset", "list_events", count=1)  # as over plain HTTP
        with sandbox.connect() as client:
            assert list(client.list_events()) == []


def test_a_client_that_does_not_know_the_certificate_refuses_it(tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_bytes(self_signed([])[0])
    with serve(empty=True, tls_self_signed=True) as sandbox:
        given = sandbox.environment()
        with (
            sandbox.connect(ca_bundle=other) as client,
            pytest.raises(NetworkError, match="certificate"),
        ):
            list(client.list_transfers())
        with sandbox.connect() as client:  # by then the other connection is closed on both sides
            assert list(client.list_transfers()) == []
        assert given["FUNDLAB_CA_BUNDLE"] == str(sandbox.ca_bundle)
    assert not Path(given["FUNDLAB_CA_BUNDLE"]).exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tls_cert": "c.pem"}, "tls_cert and tls_key go together"),
        ({"tls_key": "k.pem"}, "tls_cert and tls_key go together"),
        ({"tls_key": "k.pem", "tls_self_signed": True}, "either tls_self_signed or tls_key"),
        ({"tls_cert": "c.pem", "tls_key": "k.pem"}, "tls_cert c.pem and tls_key k.pem cannot"),
    ],
)
def test_what_is_wrong_with_the_files_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SandboxError, match=re.escape(said)):
        serve(empty=True, **given)


def test_the_files_of_ones_own_are_served(tmp_path: Path) -> None:
    certificate, key = self_signed(["sandbox.example", "192.0.2.7"])
    cert_file, key_file = tmp_path / "c.pem", tmp_path / "k.pem"
    cert_file.write_bytes(certificate)
    key_file.write_bytes(key)
    with (
        serve(empty=True, tls_cert=cert_file, tls_key=key_file) as sandbox,
        sandbox.connect(ca_bundle=cert_file) as client,
    ):
        assert sandbox.ca_bundle is None
        assert list(client.list_transfers()) == []


# ---------------------------------------------------------------------------- a browser's pages

FOREIGN = """<!doctype html><pre id="found"></pre><form method="post" target="hidden"></form>
<iframe name="hidden"></iframe><script>
const control = "CONTROL", found = {};
const ask = (name, path, options) => fetch(control + path, options)
  .then(answer => found[name] = answer.type + " " + answer.status, () => found[name] = "failed");
const json = {"Content-Type": "application/json"};
const form = document.forms[0];
form.action = control + "/advance";
form.enctype = "text/plain";
form.innerHTML = '<input name=\\'{"seconds": 5, "x": "\\' value=\\'"}\\'>';
form.submit();
Promise.all([
  ask("read", "/credentials", {}),
  ask("blind", "/credentials", {mode: "no-cors"}),
  ask("plain", "/advance", {method: "POST", body: '{"seconds": 5}'}),
  ask("blind post", "/advance", {method: "POST", mode: "no-cors", body: '{"seconds": 5}'}),
  ask("json", "/advance", {method: "POST", headers: json, body: '{"seconds": 5}'}),
  ask("key", "/clock", {headers: {"Sandbox-Control-Key": "the key"}}),
  fetch("own.txt").then(a => a.text()).then(text => found.own = text.trim()),
]).then(() => setTimeout(
  () => document.getElementById("found").textContent = JSON.stringify(found), 500));
</script>"""


@contextmanager
def another_server(folder: Path) -> Iterator[int]:
    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args, directory=str(folder))

        def log_message(self, format: str, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running.server_port
        running.shutdown()
        thread.join()


def dom(folder: Path, url: str) -> str:
    """What Chromium makes of a page; every name but this machine's own leads to this machine."""
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--host-resolver-rules=MAP *.example 127.0.0.1", f"--user-data-dir={folder}/profile",
        "--virtual-time-budget=8000", "--dump-dom", url,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


class TestInABrowser:
    pytestmark = browser

    @pytest.mark.parametrize("remote", [False, True], ids=["this machine", "others let in"])
    def test_a_foreign_page_reaches_nothing(self, remote: bool, tmp_path: Path) -> None:
        given: dict[str, Any] = {"empty": True, "clock": "manual"}
        if remote:
            given |= {"host": "0.0.0.0", "allow_remote": True, "control_key": "the key"}
        with serve(**given) as sandbox, another_server(tmp_path) as port:
            before = sandbox.clock.now()
            (tmp_path / "own.txt").write_text("its own")
            page = FOREIGN.replace("CONTROL", sandbox.control_url)
            (tmp_path / "page.html").write_text(page)
            shown = dom(tmp_path, f"http://evil.example:{port}/page.html")
            match = re.search(r'<pre id="found">(.+?)</pre>', shown)
            assert match is not None, shown
            found = json.loads(match[1])
            assert found.pop("own") == "its own"  # the page does run, and does reach a server
            # blind: it may send, but learns nothing, and a blind post is no application/json
            assert {found.pop("blind"), found.pop("blind post")} <= {"opaque 0", "failed"}
            assert set(found.values()) == {"failed"}, found
            assert sandbox.clock.now() == before

    @pytest.mark.parametrize("remote", [False, True], ids=["this machine", "others let in"])
    def test_a_name_that_is_rebound_to_this_machine_reaches_nothing(
        self, remote: bool, tmp_path: Path
    ) -> None:
        given: dict[str, Any] = {"empty": True, "host": "0.0.0.0", "allow_remote": True}
        with serve(**(given if remote else {"empty": True})) as sandbox:
            port = sandbox.base_url.rpartition(":")[2]
            shown = dom(tmp_path, f"http://rebound.example:{port}/_sandbox/credentials")
            assert "403" in shown
            assert ("needs its key" if remote else "this machine only") in shown
            assert sandbox.client_id not in shown


# ---------------------------------------------------------------------------- containers


@pytest.mark.thorough
def test_the_containers_example_serves_as_it_says(tmp_path: Path) -> None:
    """Its very command lines and variables, with this machine in place of two containers."""
    folder = Path(__file__).parents[2] / "notebooks/sandbox"
    text = re.sub(r"\\\n\s*", "", (folder / "Containerfile").read_text())
    said = dict(re.findall(r"^([A-Z]+) +(.+)$", text, re.MULTILINE))
    assert said["FROM"].rpartition(":")[2] != "latest"
    assert said["USER"] != "root"
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    sandbox, tests = compose["services"]["sandbox"], compose["services"]["tests"]
    assert (folder / sandbox["build"]["context"]).resolve() == folder.parents[1]
    assert (folder.parents[1] / sandbox["build"]["dockerfile"]).exists()
    assert {volume.partition(":")[0] for volume in sandbox["volumes"]} == {*compose["volumes"]}

    port = said["EXPOSE"]
    command = [*json.loads(said["ENTRYPOINT"]), *sandbox["command"]]
    assert command[command.index("--port") + 1] == port
    mounted = "/certificate", str(tmp_path)
    here = dict([mounted, (port, "0")])
    command = [re.sub("|".join(here), lambda found: here[found[0]], part) for part in command]
    process = subprocess.Popen(
        [sys.executable, "-m", *command], env=os.environ | sandbox["environment"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        own = json.loads(process.stdout.readline())["base_url"]
        given = {
            name: value.replace(f"https://sandbox:{port}", own).replace(*mounted)
            for name, value in tests["environment"].items()
        }
        shown = subprocess.run(
            [sys.executable, "-c", *tests["command"]], env=os.environ | given, check=True,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert len(shown.stdout.splitlines()) == 5
        advanced = requests.post(
            f"{given['FUNDLAB_SANDBOX_CONTROL_URL']}/advance", json={"seconds": 1},
            headers={KEY: given["FUNDLAB_SANDBOX_CONTROL_KEY"]}, timeout=5,
            verify=given["FUNDLAB_CA_BUNDLE"],
        )  # fmt: skip
        assert advanced.ok
        kind, *check = sandbox["healthcheck"]["test"]
        assert (kind, check[0]) == ("CMD", "python")
        asked = check[2].replace(f":{port}", f":{urlsplit(own).port}").replace(*mounted)
        assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.mark.thorough
def test_client_and_sandbox_do_without_the_analytics(tmp_path: Path) -> None:
    """With what requirements.txt names; each is a dependency of the project, at its own bound."""
    root = Path(__file__).parents[2]
    lines = (root / "notebooks/sandbox/requirements.txt").read_text().splitlines()
    named = {line for line in lines if line and not line.startswith("#")}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    core, extra = set(project["dependencies"]), set(project["optional-dependencies"]["sandbox"])
    assert named < core | extra
    heavy = {re.split("[>=]", line)[0] for line in core - named}
    assert {"pandas", "pyarrow", "duckdb", "matplotlib"} <= heavy
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name.partition('.')[0] in {heavy!r}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
    )
    script = (
        "import fundlab as fl\n"
        "with fl.connect() as client: print(len(list(client.list_transfers())))\n"
        "try: import pandas\n"
        "except ImportError: print('absent')"
    )
    shown = subprocess.run(
        [sys.executable, "-m", "fundlab", "sandbox", "--transfers", "100", "--signing", "--",
         sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{root}"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (shown.stdout, shown.stderr) == ("100\nabsent\n", "")


def test_who_opens_its_address_finds_the_pages(sandbox: Sandbox) -> None:
    """Its own, with nothing from elsewhere, and without a token."""
    leads = requests.get(sandbox.base_url, headers={"Accept": "text/html"}, timeout=5)
    assert leads.url == sandbox.control_url
    assert "text/html" in leads.headers["Content-Type"]
    assert requests.get(f"{sandbox.base_url}/health", timeout=5).json() == {"status": "ok"}
    docs = requests.get(f"{sandbox.base_url}/docs", timeout=5).text
    named = re.findall(r"""(?:src|href|url)(?:=|: )['"]([^'"]+)""", docs)
    assert len(named) == 4
    for path in named:
        assert re.match("/[^/]", path)
        assert requests.get(sandbox.base_url + path, timeout=5).ok
    assert '"validatorUrl": null' in docs  # else it asks swagger.io for other than loopback
