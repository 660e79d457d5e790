"""The control interface (and the identity events of §6): from Python and HTTP, loopback only."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import requests
from sandbox_caller import Caller, caller_of, deposit, fund, instructions

from fundlab.bank import statements
from fundlab.base.errors import SandboxError
from fundlab.sandbox import Sandbox, serve
from fundlab.sandbox.app import build_app
from fundlab.sandbox.control_http import add_control

TRANSFERS = "/v2/transfer/transfers"
MONTHS = ("2026-09", "2026-10")


def act(sandbox: Sandbox, action: str, **arguments: Any) -> requests.Response:
    return requests.post(f"{sandbox.control_url}/{action}", json=arguments, timeout=5)


def view(sandbox: Sandbox, name: str) -> Any:
    answer = requests.get(f"{sandbox.control_url}/{name}", timeout=5)
    assert answer.status_code == 200
    return answer.json()


def test_it_lists_itself(sandbox: Sandbox) -> None:
    listed = requests.get(sandbox.control_url, timeout=5).json()
    assert {"advance", "add_fault", "reset", "add_identity"} <= set(listed["actions"])
    for name in listed["views"]:
        view(sandbox, name)


def test_the_clock_over_http(sandbox: Sandbox) -> None:
    assert view(sandbox, "clock") == {
        "mode": "manual", "now": "2026-11-01T00:00:00.000000000Z", "access_shift": 0.0,
    }  # fmt: skip
    moved = act(sandbox, "advance", seconds=90.5).json()
    assert moved["now"] == "2026-11-01T00:01:30.500000000Z"
    assert act(sandbox, "shift_access", seconds=-30).json()["access_shift"] == -30
    for bad in (-1, "x", None, 1e300):
        assert act(sandbox, "advance", seconds=bad).status_code == 400
    assert sandbox.clock.now().ns == 1_793_491_290_500_000_000


def test_faults_over_http(sandbox: Sandbox, caller: Caller) -> None:
    number = act(sandbox, "add_fault", kind="status", operation="list_events", status=503).json()
    assert view(sandbox, "faults")[0]["status"] == 503
    assert caller.get("/v2/events").status_code == 503
    assert act(sandbox, "remove_fault", number=number["number"]).status_code == 200
    assert caller.get("/v2/events").status_code == 200
    assert act(sandbox, "add_fault", kind="explode").status_code == 400
    assert act(sandbox, "add_fault", kind="reset", self=1).status_code == 400
    assert act(sandbox, "remove_fault", number=99).status_code == 400


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("status", {"status": 503, "body": "{}", "headers": {"x-a": "b"}}),
        ("rate_limit", {"seconds": 3}), ("latency", {"seconds": 0.1}), ("reset", {}), ("lost", {}),
        ("truncate", {"keep": 0.25}), ("lapse_token", {"after": 2}), ("duplicate_page", {}),
        ("repeat_cursor", {}), ("late", {"seconds": 100}),
    ],
)  # fmt: skip
def test_every_fault_can_be_armed_over_http(
    sandbox: Sandbox, kind: str, options: dict[str, Any]
) -> None:
    given = {"operation": "list_events", "count": 3, "probability": 0.5, "seed": 7, **options}
    number = act(sandbox, "add_fault", kind=kind, **given).json()["number"]
    (shown,) = view(sandbox, "faults")
    assert shown.items() >= {"number": number, "struck": 0, "kind": kind, **given}.items()
    act(sandbox, "clear_faults")
    assert view(sandbox, "faults") == []


def test_credentials_over_http(sandbox: Sandbox) -> None:
    made = act(sandbox, "add_credential", client_id="two", scopes=["events:read_event"]).json()
    second = caller_of(sandbox, client_id="two", client_secret=made["client_secret"])
    assert second.get("/v2/events").status_code == 200
    assert second.get(TRANSFERS).status_code == 403
    rotated = act(sandbox, "rotate_secret", client_id="two").json()["client_secret"]
    assert second.ask_token().status_code == 401
    assert second.ask_token(client_secret=rotated).status_code == 200
    act(sandbox, "require_signing", client_id="two", signing=True)
    assert second.get("/v2/events").status_code == 401
    shown = view(sandbox, "credentials")
    assert [entry["client_id"] for entry in shown] == [sandbox.client_id, "two"]
    assert rotated not in str(shown)
    for action, arguments in (
        ("add_credential", {"client_id": "two"}), ("rotate_secret", {"client_id": "three"}),
        ("add_credential", {"client_id": "x", "scopes": ["all"]}),
        ("add_signing_key", {"client_id": "two", "signing_key_id": "k", "public_key": "no"}),
    ):  # fmt: skip
        assert act(sandbox, action, **arguments).status_code == 400
    second.close()


def test_a_new_customer_has_a_profile_of_its_own(sandbox: Sandbox) -> None:
    made = act(sandbox, "add_credential", client_id="new", new_customer=True).json()
    other = caller_of(sandbox, client_id="new", client_secret=made["client_secret"])
    (profile_id,) = made["profile_ids"]
    fund(other, sandbox, profile_id, "12.50")
    assert other.balance(profile_id)["available"] == "12.50"
    other.close()


def test_identities_emit_the_interfaces_events(sandbox: Sandbox, caller: Caller) -> None:
    """§6."""
    act(sandbox, "add_identity")
    act(sandbox, "add_identity", status="PENDING")
    assert act(sandbox, "add_identity", status="MAYBE").status_code == 400
    events = list(caller.rows("/v2/events", "events"))
    assert [event["type"] for event in events] == [
        "identity.approved", "identity.documents_required",
    ]  # fmt: skip
    assert events[0]["object"]["new_summary_status"] == "APPROVED"
    assert events[1]["object"]["required_documents"] == ["TAX_IDENTIFICATION"]


def test_reset_starts_over_and_keeps_the_credential() -> None:
    with serve(transfers=300, clock="manual") as sandbox:
        caller = caller_of(sandbox)
        before = list(caller.rows(TRANSFERS))
        fund(caller, sandbox, sandbox.profile_ids[0], "1")
        assert len(list(caller.rows(TRANSFERS))) == 301
        act(sandbox, "reset")
        assert list(caller.rows(TRANSFERS)) == before
        assert str(sandbox.clock.now()) == "2026-11-01T00:00:00.000000000Z"
        caller.close()


def test_a_scenario_saved_in_one_sandbox_loads_in_another(
    sandbox: Sandbox, caller: Caller, tmp_path: Path
) -> None:
    profile_id = sandbox.profile_ids[0]
    fund(caller, sandbox, profile_id, "77.70")
    memo_id = instructions(caller, profile_id)["memo_id"]
    assert deposit(caller, memo_id, "2.30").ok
    state = requests.get(f"{sandbox.control_url}/state", timeout=5).content
    assert caller.client_secret.encode() not in state
    with serve(seed=99, transfers=50, clock="manual", db=tmp_path / "other.db") as other:
        reader = caller_of(other)
        loaded = requests.put(f"{other.control_url}/state", data=state, timeout=5)
        assert loaded.status_code == 200
        assert reader.balance(profile_id)["available"] == "77.70"
        assert 0 <= other.clock.now().ns - sandbox.clock.now().ns < 1_000_000
        other.clock.advance(60)
        assert reader.balance(profile_id)["available"] == "80.00"
        for bad in (b"", b"no database", state[:5000]):
            answer = requests.put(f"{other.control_url}/state", data=bad, timeout=5)
            assert answer.status_code == 400
        assert reader.balance(profile_id)["available"] == "80.00"
        reader.close()


def test_a_saved_state_opened_as_a_file_has_a_credential_that_works(tmp_path: Path) -> None:
    with serve(transfers=20, clock="manual") as one:
        (tmp_path / "state.db").write_bytes(one.control.save())
    secrets = []
    for _ in range(2):
        with serve(db=tmp_path / "state.db", clock="manual") as again:
            caller = caller_of(again)
            assert sum(1 for _ in caller.rows(TRANSFERS)) == 20
            secrets.append(again.client_secret)
            caller.close()
    assert secrets[0] == secrets[1] != ""


KILLED_WHILE_LOADING = """
import os, signal, sys
from fundlab.sandbox import serve
from fundlab.sandbox.database import Database

restore = Database.restore

def killed(*given):
    restore(*given)
    os.kill(os.getpid(), signal.SIGKILL)

with serve(db=sys.argv[1], empty=True, seed=3, clock="manual") as sandbox:
    print(sandbox.client_id, sandbox.client_secret, flush=True)
    Database.restore = killed
    sandbox.control.load(open(sys.argv[2], "rb").read())
"""


@pytest.mark.thorough
def test_a_kill_while_a_state_is_loaded_leaves_the_credential(tmp_path: Path) -> None:
    db, state = tmp_path / "sandbox.db", tmp_path / "state"
    with serve(transfers=20, clock="manual") as one:
        state.write_bytes(one.control.save())
    command = [sys.executable, "-c", KILLED_WHILE_LOADING, str(db), str(state)]
    killed = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    with serve(db=db, clock="manual") as again:
        assert [again.client_id, again.client_secret] == killed.stdout.split()
        caller = caller_of(again)
        assert sum(1 for _ in caller.rows(TRANSFERS)) == 20
        caller.close()


KILLED_AFTER_ADVANCING = """
import os, signal, sys
from fundlab.sandbox import serve

with serve(db=sys.argv[1], transfers=20, clock="manual") as sandbox:
    print(sandbox.clock.advance(3 * 86_400), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.thorough
def test_a_kill_does_not_turn_the_clock_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_AFTER_ADVANCING, str(tmp_path / "sandbox.db")]
    killed = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout.strip() == "2026-11-04T00:00:00.000000000Z"
    with serve(db=tmp_path / "sandbox.db", clock="manual") as again:
        assert str(again.clock.now()) == "2026-11-04T00:00:00.000000000Z"


def test_reset_leaves_no_fault_and_no_shift(sandbox: Sandbox, caller: Caller) -> None:
    act(sandbox, "add_fault", kind="status", operation="list_transfers", status=503)
    act(sandbox, "shift_access", seconds=600)
    assert caller.get(TRANSFERS).status_code == 503
    act(sandbox, "reset")
    assert view(sandbox, "faults") == []
    assert view(sandbox, "clock")["access_shift"] == 0
    assert caller.get(TRANSFERS).status_code == 200


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("DROP TABLE credentials", "credentials"), ("DROP TABLE transfers", "transfers"),
        ("ALTER TABLE quotes DROP COLUMN body", "quotes"), ("CREATE TABLE more (a)", "more"),
    ],
)  # fmt: skip
def test_a_state_that_is_not_whole_changes_nothing(
    change: str, named: str, sandbox: Sandbox, caller: Caller
) -> None:
    fund(caller, sandbox, sandbox.profile_ids[0], "77.70")
    other = sqlite3.connect(":memory:")
    other.deserialize(sandbox.control.save())
    other.execute(change)
    with pytest.raises(SandboxError, match=f"not a saved state: .* not a sandbox's: {named}"):
        sandbox.control.load(other.serialize())
    other.close()
    assert caller.balance(sandbox.profile_ids[0])["available"] == "77.70"


def test_the_log_of_requests_is_a_frame(sandbox: Sandbox, caller: Caller) -> None:
    caller.get(f"{TRANSFERS}?limit=0")
    caller.get("/v2/nothing")
    frame = sandbox.requests()
    assert list(frame.columns) == [
        "at", "method", "path", "operation", "status", "problem", "faults", "milliseconds",
    ]  # fmt: skip
    assert list(frame["path"]) == ["/oauth2/token", f"{TRANSFERS}?limit=0", "/v2/nothing"]
    assert list(frame["status"]) == [200, 400, 404]
    assert "limit" in frame["problem"].iloc[1]
    assert str(frame["at"].dtype.tz) == "UTC"
    assert caller.client_secret not in frame.to_csv()
    assert caller.token() not in frame.to_csv()
    act(sandbox, "clear_requests")
    assert len(sandbox.requests()) == 0


@pytest.mark.thorough
@pytest.mark.parametrize("over_http", [False, True])
@pytest.mark.parametrize("target", ["memory", "file"])
@pytest.mark.parametrize("origin", ["memory", "file"])
def test_a_scenario_of_a_file_or_of_memory_loads_in_either(
    tmp_path: Path, origin: str, target: str, over_http: bool
) -> None:
    db = tmp_path / "origin.db" if origin == "file" else None
    with serve(transfers=20, db=db, clock="manual") as one:
        profile_id, url = one.profile_ids[0], f"{one.control_url}/state"
        caller = caller_of(one)
        fund(caller, one, profile_id, "31.25")
        expected = caller.balance(profile_id)
        state = requests.get(url, timeout=5).content if over_http else one.control.save()
        caller.close()
    later = {"db": tmp_path / "target.db"} if target == "file" else {}
    with serve(empty=True, seed=3, clock="manual", **later) as two:  # type: ignore[arg-type]
        reader = caller_of(two)
        if over_http:
            assert requests.put(f"{two.control_url}/state", data=state, timeout=5).ok
        else:
            two.control.load(state)
        assert reader.balance(profile_id) == expected
        assert sum(1 for _ in reader.rows(TRANSFERS)) == 21
        two.control.load(two.control.save())
        assert reader.balance(profile_id) == expected
        reader.close()
    if later:
        with serve(**later) as again:  # type: ignore[arg-type]
            reader = caller_of(again)
            assert reader.balance(profile_id) == expected
            reader.close()


def test_what_is_due_comes_before_an_action_or_a_view(
    sandbox: Sandbox, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that goes on by itself: time passes without a request."""
    profile_id, clock = sandbox.profile_ids[0], sandbox._service.world.clock
    memo_id = instructions(caller, profile_id)["memo_id"]

    def arrives(amount: str) -> None:
        assert deposit(caller, memo_id, amount).ok
        clock.advance(60)

    arrives("10")
    sandbox.control.set_trading(profile_id, "USD", "10")
    assert caller.balance(profile_id) == {"asset": "USD", "available": "0.00", "trading": "10.00"}
    arrives("5")
    accounts = {entry["owner"]: entry["balance"] for entry in sandbox.control.ledger()["accounts"]}
    assert accounts[f"available/{profile_id}"] == "5.00"
    arrives("1")
    sandbox.control.add_identity()
    arrives("2")
    sandbox.control.add_event("x.y", "x", {}, is_test=False)
    arrives("3")
    sandbox.control.add_destination_address("BASE")  # type: ignore[arg-type]
    with serve(empty=True, clock="manual", seed=3) as other:
        arrives("4")
        other.control.load(sandbox.control.save())
        reader = caller_of(other)
        assert reader.balance(profile_id)["available"] == "15.00"
        kinds = [event["type"] for event in reader.rows("/v2/events?order=ASC", "events")]
        reader.close()
    wire = ["transfer.wire_deposit.pending", "transfer.wire_deposit.completed"]
    assert kinds == [*wire, *wire, *wire, "identity.approved", *wire, "x.y", *wire, *wire]


def test_reset_makes_the_history_of_the_files_first_start(tmp_path: Path) -> None:
    db = tmp_path / "a.db"
    with serve(db=db, transfers=60, profiles=3, seed=5, clock="manual") as first:
        caller = caller_of(first)
        rows, profile_ids = list(caller.rows(TRANSFERS)), first.profile_ids
        caller.close()
    with serve(db=db, clock="manual") as second:
        caller = caller_of(second)
        act(second, "reset")
        assert second.profile_ids == profile_ids
        assert list(caller.rows(TRANSFERS)) == rows
        caller.close()


def test_a_credential_from_before_a_reset_sees_nothing_of_later_customers(
    sandbox: Sandbox,
) -> None:
    made = sandbox.control.add_credential("old", new_customer=True)
    old = caller_of(sandbox, client_id="old", client_secret=made["client_secret"])
    sandbox.control.reset()
    later = sandbox.control.add_credential("new", new_customer=True)
    new = caller_of(sandbox, client_id="new", client_secret=later["client_secret"])
    (profile_id,) = later["profile_ids"]
    fund(new, sandbox, profile_id, "99")
    assert later["customer_id"] != made["customer_id"]
    path = f"/v2/profiles/{profile_id}/balances/USD"
    assert [new.get(path).status_code, old.get(path).status_code] == [200, 404]
    assert list(old.rows(TRANSFERS)) == []
    assert profile_id not in sandbox.profile_ids
    assert len(sandbox.profile_ids) == 2
    old.close()
    new.close()


@pytest.mark.parametrize("host", ["evil.example", "192.0.2.1", "127.0.0.1.evil.example"])
def test_other_names_for_this_machine_are_refused(sandbox: Sandbox, host: str) -> None:
    """A page in a browser may point its own name at the loopback address."""
    answer = requests.get(sandbox.control_url + "/clock", headers={"Host": host}, timeout=5)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("peer", "status"),
    [("127.0.0.1", 200), ("::1", 200), ("::ffff:127.0.0.1", 200), ("192.0.2.7", 403), ("", 403)],
)
def test_other_machines_are_refused(sandbox: Sandbox, peer: str, status: int) -> None:
    """Whatever name they ask for: the peer's own address counts."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": "/_sandbox/clock", "raw_path": b"/_sandbox/clock",
        "query_string": b"", "root_path": "", "headers": [(b"host", b"localhost")],
        "client": (peer, 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    app = build_app(sandbox.control.service)
    add_control(app, sandbox.control)
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == status


def test_actions_need_json_that_a_web_page_cannot_send_unasked(sandbox: Sandbox) -> None:
    url = f"{sandbox.control_url}/advance"
    assert requests.post(url, data='{"seconds": 5}', timeout=5).status_code == 415
    assert requests.post(url, json=[], timeout=5).status_code == 400
    assert requests.post(url, json={"hours": 1}, timeout=5).status_code == 400
    assert requests.get(url, timeout=5).status_code == 405


def test_the_same_from_python(sandbox: Sandbox) -> None:
    assert sandbox.control.ledger() == {"totals": {}, "accounts": []}
    with pytest.raises(SandboxError, match="seconds"):
        sandbox.clock.advance(-1)
    with pytest.raises(SandboxError, match="exceeds"):
        sandbox.control.set_trading(sandbox.profile_ids[0], "USD", "1")


@pytest.mark.parametrize(
    "arguments",
    [
        ("a.b", "c", {"x": float("nan")}), ("a.b", "c", {"x": {1}}), ("a.b", "c", {"x": "\ud800"}),
        ("\ud800", "c", {}), ("a.b", "\udfff", {}),
    ],
)  # fmt: skip
def test_an_event_that_is_not_json_is_refused(
    sandbox: Sandbox, caller: Caller, arguments: tuple[str, str, dict[str, Any]]
) -> None:
    with pytest.raises(SandboxError, match="is not JSON"):
        sandbox.control.add_event(*arguments)
    assert list(caller.rows("/v2/events", "events")) == []


def test_unknown_networks_are_named_and_one_scope_is_one(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match=r"crypto_network: must be one of .*BITCOIN"):
        sandbox.control.add_destination_address("DOGE")  # type: ignore[arg-type]
    made = sandbox.control.add_credential("one", scopes="events:read_event")
    one = caller_of(sandbox, client_id="one", client_secret=made["client_secret"])
    assert one.get("/v2/events").status_code == 200
    assert one.get(TRANSFERS).status_code == 403
    one.close()


@pytest.mark.parametrize(
    ("action", "arguments", "status"),
    [
        ("set_trading", {"asset": "USD", "amount": "x"}, 400),
        ("set_trading", {"asset": "USD", "amount": "-1"}, 400),
        ("set_trading", {"asset": "XYZ", "amount": "0"}, 404),
        ("set_trading", {"profile_id": "nobody", "asset": "USD", "amount": "0"}, 404),
        ("crypto_deposit", {"address": "x", "asset": "BTC", "amount": "0"}, 400),
        ("crypto_deposit", {"address": "x", "asset": "USD", "amount": "1"}, 400),
        ("crypto_deposit", {"address": "x", "asset": "BTC", "amount": "1"}, 404),
        ("add_destination_address", {"crypto_network": "DOGE"}, 400),
        ("add_destination_address", {"crypto_network": "BASE", "identity_id": "x"}, 404),
        ("deprecate_instructions", {"id": "x"}, 404),
        ("remove_transfer", {"id": "x"}, 404),
        ("add_fault", {"kind": "status", "count": "x"}, 400),
        ("add_fault", {"kind": "status", "headers": {"a": "b\r\nc: d"}}, 400),
        ("shift_access", {"seconds": "x"}, 400),
        ("add_event", {"type": "x"}, 400),
    ],
)
def test_bad_arguments_are_problems(
    sandbox: Sandbox, action: str, arguments: dict[str, Any], status: int
) -> None:
    given = {"profile_id": sandbox.profile_ids[0], **arguments}
    if action != "set_trading":
        del given["profile_id"]
    answer = act(sandbox, action, **given)
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert sandbox.control.ledger() == {"totals": {}, "accounts": []}


@pytest.mark.parametrize("format", statements.FORMATS)
def test_the_bank_writes_a_statement_in_every_format(format: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "format": format, "batch": 0.6, "netted_fee": "15.00", "late_days": 3, "references": 0.5,
        "errors": {"doubled": 1, "charge": 2, "missing": 1}, "daily": True, "page_lines": 2,
    }  # fmt: skip
    with serve(seed=5, transfers=600, clock="manual") as sandbox:
        months = [sandbox.control.bank_statement(month, **options) for month in MONTHS]
        again = act(sandbox, "bank_statement", period=MONTHS[0], **options).json()
    assert again == months[0]
    paths = []
    for made in months:
        paths.append(tmp_path / made["name"])
        paths[-1].write_text(made["text"])
    read = statements.read(*paths)
    lines = [line for made in months for line in made["lines"]]
    assert read.entries["amount"].tolist() == [Decimal(line["amount"]) for line in lines]
    assert read.entries["bank_ref"].tolist() == [line["bank_ref"] for line in lines]
    assert {"doubled", "charge", "transfer"} <= {line["kind"] for line in lines}
    assert max(len(line["transfer_ids"]) for line in lines) > 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"period": "2026-13"}, "period"),
        ({"period": "soon"}, "period"),
        ({"period": "2026-10", "batch": 2}, "batch"),
        ({"period": "2026-10", "netted_fee": "-1"}, "amount"),
        ({"period": "2026-10", "format": "pdf"}, "format"),
        ({"period": "2026-10", "late_days": -1}, "late_days"),
        ({"period": "2026-10", "format": "bai2", "asset": "DOGE"}, "asset"),
    ],
)
def test_a_bank_statement_that_cannot_be_written(
    sandbox: Sandbox, arguments: dict[str, Any], field: str
) -> None:
    answer = act(sandbox, "bank_statement", **arguments)
    assert answer.status_code in (400, 404)
    assert field in answer.text
