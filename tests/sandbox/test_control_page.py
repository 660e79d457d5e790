"""The control interface described, and its page: in Chromium, live, with nothing from outside."""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import requests
from extra_packages import needs
from sandbox_caller import Caller, approved_account, deposit, fund, instructions

from fundlab.sandbox import Sandbox, serve
from fundlab.sandbox.control import Control
from fundlab.sandbox.control_http import ACTIONS, VIEWS

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def act(sandbox: Sandbox, action: str, **arguments: Any) -> requests.Response:
    return requests.post(f"{sandbox.control_url}/{action}", json=arguments, timeout=5)


def page_of(sandbox: Sandbox, **headers: str) -> requests.Response:
    return requests.get(sandbox.control_url, headers={"Accept": "text/html"} | headers, timeout=5)


# ---------------------------------------------------------------------------- the document


@pytest.mark.thorough
def test_it_is_valid_openapi(sandbox: Sandbox) -> None:
    document = requests.get(f"{sandbox.control_url}/openapi.json", timeout=5).json()
    needs("openapi_spec_validator").validate(document)


def test_every_action_and_argument_is_described(sandbox: Sandbox) -> None:
    document = requests.get(f"{sandbox.control_url}/openapi.json", timeout=5).json()
    assert document["paths"].keys() == {f"/_sandbox/{name}" for name in (*ACTIONS, *VIEWS, "state")}
    for name in ACTIONS:
        described = document["paths"][f"/_sandbox/{name}"]["post"]
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        if name in ("add_fault", "configure"):
            schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            some = {"add_fault": {"kind", "count", "keep"}, "configure": {"failures", "cubix_fee"}}
            assert some[name] <= schema["properties"].keys()
            continue
        taken = inspect.signature(getattr(Control, name)).parameters
        assert list(schema["properties"]) == list(taken)[1:], name
        needed = [n for n, given in taken.items() if given.default is given.empty][1:]
        assert schema.get("required", []) == needed, name
        assert described["summary"].endswith("."), name


def test_a_client_made_from_the_document_would_be_understood(sandbox: Sandbox) -> None:
    """Each default that is described is accepted, and what is not described is refused."""
    document = requests.get(f"{sandbox.control_url}/openapi.json", timeout=5).json()
    known = {
        "advance": {"seconds": 1}, "shift_access": {"seconds": 0},
        "add_credential": {"client_id": "new"},
        "add_destination_address": {"crypto_network": "BASE"},
        "add_event": {"type": "a.b", "object_type": "c", "object": {}},
        "deposit": {"profile_id": sandbox.profile_ids[0], "amount": "1.00"},
        "set_trading": {"profile_id": sandbox.profile_ids[0], "asset": "USD", "amount": "0"},
        "bank_statement": {"period": "2026-10"},
    }  # fmt: skip
    for path, operations in document["paths"].items():
        name = path.rpartition("/")[2]
        if "post" not in operations or name in ("add_fault", "configure"):
            continue
        body = operations["post"]["requestBody"]["content"]["application/json"]["schema"]
        if name in known or "required" not in body:
            defaults = {n: s["default"] for n, s in body["properties"].items() if "default" in s}
            found = act(sandbox, name, **defaults | known.get(name, {}))
            assert found.ok or name == "restore", (name, found.text)
        assert act(sandbox, name, unheard_of=1).status_code == 400, name


# ---------------------------------------------------------------------------- by hand


def test_a_deposit_by_hand_arrives(sandbox: Sandbox, caller: Caller) -> None:
    profile_id = sandbox.profile_ids[0]
    assert act(sandbox, "deposit", profile_id=profile_id, amount="12.50").ok
    assert caller.balance(profile_id)["available"] == "0.00"
    sandbox.clock.advance(60)
    assert caller.balance(profile_id)["available"] == "12.50"
    for bad in ({"amount": "0"}, {"amount": "-1"}, {"asset": "XYZ"}, {"profile_id": "nobody"}):
        given = {"profile_id": profile_id, "amount": "1"} | bad
        assert act(sandbox, "deposit", **given).status_code in (400, 404)


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED"])
def test_a_pending_transfer_is_ended_by_hand(status: str, sandbox: Sandbox, caller: Caller) -> None:
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "100.00")
    account = approved_account(caller, sandbox)
    body = {
        "amount": "10.13", "asset": "USD", "fiat_account_id": account["id"],
        "profile_id": profile_id,
    }  # fmt: skip
    paid = caller.post("/v2/transfer/fiat-withdrawals", body).json()
    deposit(caller, instructions(caller, profile_id)["memo_id"], "50.00")
    incoming = caller.get("/v2/transfer/transfers?limit=1").json()["items"][0]
    for one in (paid, incoming):
        ended = act(sandbox, "finish_transfer", id=one["id"], status=status).json()
        assert ended["status"] == status
        assert caller.get(f"/v2/transfer/transfers/{one['id']}").json() == ended
        again = act(sandbox, "finish_transfer", id=one["id"])
        assert (again.status_code, again.json()["meta"]["field"]) == (400, "id")
    expected = {"COMPLETED": "114.87", "FAILED": "100.00"}[status]
    sandbox.clock.advance(3600)  # nothing more comes due
    assert caller.balance(profile_id)["available"] == expected
    assert set(sandbox.control.ledger()["totals"].values()) == {"0.00"}


def test_of_a_pending_transfer_that_was_removed_nothing_comes(
    sandbox: Sandbox, caller: Caller
) -> None:
    """Each request does what is due first: with work for a row that is gone, all would fail."""
    profile_id = sandbox.profile_ids[0]
    for amount in ("12.50", "7.00"):
        assert act(sandbox, "deposit", profile_id=profile_id, amount=amount).ok
    later, first = caller.get("/v2/transfer/transfers").json()["items"]
    assert act(sandbox, "remove_transfer", id=first["id"]).json() == first
    sandbox.clock.advance(60)
    assert caller.balance(profile_id)["available"] == "7.00"
    (left,) = caller.get("/v2/transfer/transfers").json()["items"]
    assert (left["id"], left["status"]) == (later["id"], "COMPLETED")


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED"])
def test_what_waits_for_an_approval_is_ended_by_hand_too(status: str) -> None:
    """Half of what a history leaves pending has no time at which it is due."""
    with serve(transfers=1_500, clock="manual") as sandbox, sandbox.connect() as client:
        listed = {"statuses": ["PENDING"], "page_size": 1000}
        waiting = list(client.list_transfers(**listed))
        assert any(row.secondary_status for row in waiting)
        for row in waiting:
            ended = sandbox.control.finish_transfer(row.id, status)
            assert (ended["id"], ended["status"]) == (row.id, status)
            assert "secondary_status" not in ended
        assert list(client.list_transfers(**listed)) == []
        assert set(sandbox.control.ledger()["totals"].values()) == {"0.00"}
        sandbox.clock.advance(3 * 86_400)  # nothing more comes due
        ids = [row.id for row in waiting]
        assert {row.status for row in client.list_transfers(ids=ids)} == {status}


# ---------------------------------------------------------------------------- the page


def test_programs_get_json_and_browsers_the_page(sandbox: Sandbox) -> None:
    assert "actions" in requests.get(sandbox.control_url, timeout=5).json()
    assert "actions" in requests.get(f"{sandbox.control_url}/", timeout=5).json()
    page = page_of(sandbox)
    assert page.headers["Content-Type"].startswith("text/html")
    assert page_of(sandbox, Origin="http://evil.example").status_code == 403


def test_the_page_is_one_file_that_may_do_nothing_else(sandbox: Sandbox) -> None:
    found = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            found.extend(v for n, v in attrs if n in ("src", "href", "action", "srcset", "style"))

    one, two = page_of(sandbox), page_of(sandbox)
    Links().feed(one.text)
    assert found == []
    assert not re.search(r"https?:|innerHTML|\{nonce\}", one.text)
    policy = one.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert policy != two.headers["Content-Security-Policy"]  # a nonce serves once
    assert len(one.content) < 40_000


def chromium(folder: Path, url: str, *flags: str) -> str:
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--enable-logging=stderr", f"--user-data-dir={folder}/profile", *flags, url,
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    refused = "the server responded with a status of 403"
    said = [line for line in ran.stderr.splitlines() if "CONSOLE" in line and refused not in line]
    assert said == []
    return ran.stdout


@pytest.fixture
def open_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The page's document after ``steps`` (of JavaScript, within the page) and some seconds."""
    from fundlab.sandbox import control_http

    real = control_http.files

    class WithSteps:
        def __init__(self, steps: str) -> None:
            self.steps = steps

        def joinpath(self, name: str) -> Any:
            return self

        def read_text(self, encoding: str) -> str:
            text = real("fundlab.sandbox").joinpath("control.html").read_text(encoding="utf-8")
            return text.replace("</script>", f"setTimeout(() => {{{self.steps}}}, 1500);</script>")

    def opened(sandbox: Sandbox, steps: str = "", *flags: str) -> str:
        monkeypatch.setattr(control_http, "files", lambda _: WithSteps(steps))
        return chromium(
            tmp_path, sandbox.control_url, "--virtual-time-budget=6000", *flags, "--dump-dom"
        )

    return opened


in_browser = [
    pytest.mark.thorough,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium or Chrome is installed here"),
]


class TestInABrowser:
    pytestmark = in_browser

    def test_it_shows_what_there_is(
        self, sandbox: Sandbox, caller: Caller, open_page: Callable[..., str]
    ) -> None:
        fund(caller, sandbox, sandbox.profile_ids[0], "77.70")
        caller.get("/v2/events?x=<script>alert(1)</script>")
        sandbox.faults.add("latency", "list_events", seconds=0)
        show_display = "document.title = getComputedStyle(document.getElementById('key')).display"
        shown = open_page(sandbox, show_display)
        assert "<title>none</title>" in shown  # nobody is asked for a key that there is not
        assert "2026-11-01 00:01:00 UTC" in shown
        for text in ("77.70", "WIRE_DEPOSIT", "latency", "list_events", "POST /oauth2/token"):
            assert text in shown, text
        assert f'title="{sandbox.profile_ids[0]}">Treasury</span>' in shown
        assert "alert(1)</script>" not in shown
        for name in ACTIONS:
            assert f"<summary>{name}</summary>" in shown

    def test_its_buttons_and_forms_move_it(
        self, sandbox: Sandbox, caller: Caller, open_page: Callable[..., str]
    ) -> None:
        profile_id = sandbox.profile_ids[0]
        sandbox.control.configure(review_seconds=99)
        steps = f"""
        [...document.querySelectorAll("#steps button")].find(b => b.textContent === "+1 h").click();
        function fill(action, given) {{
          const form = [...document.querySelectorAll("#actions details")].find(
            one => one.querySelector("summary").textContent === action).querySelector("form");
          for (const name in given) form.querySelector(`[name=${{name}}]`).value = given[name];
          form.requestSubmit();
        }}
        fill("deposit", {{profile_id: "{profile_id}", amount: "5.25"}});
        fill("configure", {{withdrawal_seconds: 7}});
        document.getElementById("fault").requestSubmit();
        """
        shown = open_page(sandbox, steps)
        assert str(sandbox.clock.now()).startswith("2026-11-01T01:00:00")
        assert len(sandbox.faults.active()) == 1
        sandbox.faults.clear()
        behaviour = sandbox.control.behaviour()
        assert (behaviour["withdrawal_seconds"], behaviour["review_seconds"]) == (7, 99)
        (waiting,) = caller.get("/v2/transfer/transfers").json()["items"]
        assert (waiting["status"], waiting["amount"]) == ("PENDING", "5.25")
        assert "PENDING" in shown  # live: nothing was reloaded
        open_page(sandbox, "document.querySelector('#transfers button').click()")
        assert caller.balance(profile_id)["available"] == "5.25"

    def test_it_asks_for_the_key_where_there_is_one(self, open_page: Callable[..., str]) -> None:
        with serve(empty=True, clock="manual", control_key="the key") as sandbox:
            shown = open_page(sandbox)
            assert "needs its key" in shown
            assert '<form id="key" hidden' not in shown
            steps = """const form = document.getElementById("key");
            form.querySelector("input").value = "the key"; form.requestSubmit();"""
            shown = open_page(sandbox, steps)
            assert '<form id="key" hidden' in shown
            assert "2026-11-01 00:00:00 UTC" in shown
