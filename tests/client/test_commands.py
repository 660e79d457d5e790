"""``fundlab keys new`` and ``fundlab doctor`` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from fundlab import sandbox
from fundlab.base.errors import SettingsError
from fundlab.client.signing import load_signer, new_key
from fundlab.models import SCOPES
from fundlab.settings.secret import Secret

LACKING = "transfer:read_fiat_account"
NOT_NEEDED = "transfer:write_fiat_withdrawal"


def in_one_line(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------------------- keys new


@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
def test_a_new_key(alg: str, tmp_path: Path, fundlab: Any) -> None:
    key = tmp_path / "key.pem"
    status, out, err = fundlab("keys", "new", "--alg", alg, "--out", key)
    assert status == 0, err
    assert out.startswith("-----BEGIN PUBLIC KEY-----\n")
    assert out.endswith("-----END PUBLIC KEY-----\n")
    load_pem_public_key(out.encode())
    assert key.stat().st_mode & 0o777 == 0o600
    assert load_signer(key, "k").alg == alg
    assert f"set FUNDLAB_SIGNING_KEY={key} and FUNDLAB_SIGNING_KEY_ID" in err
    approver = f"'fundlab approvers add NAME --key FILE', and give 'fundlab approve' --key {key}"
    assert (approver in err) is (alg == "EdDSA")
    assert "PRIVATE" not in out + err


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path, fundlab: Any) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(b"precious")
    status, out, _ = fundlab("keys", "new", "--out", key, "--json")
    message = f"{key} exists and is not overwritten; choose another name"
    expected = {"error": {"type": "SettingsError", "message": message}}
    assert (status, json.loads(out)) == (1, expected)
    assert key.read_bytes() == b"precious"


def test_a_new_key_as_json_with_a_password(
    tmp_path: Path, fundlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUNDLAB_SIGNING_KEY_PASSWORD", "pw")
    key = tmp_path / "key.pem"
    body = json.loads(fundlab("keys", "new", "--out", key, "--encrypt", "--json")[1])
    assert (body["alg"], body["signing_key"]) == ("ES256", str(key))
    load_pem_public_key(body["public_key"].encode())
    assert b"ENCRYPTED" in key.read_bytes()
    assert load_signer(key, "k", Secret("pw")).alg == "ES256"


@pytest.mark.parametrize("password", ["p" * 1024, "\udcff"])
def test_a_password_that_cannot_be_used_leaves_no_file(tmp_path: Path, password: str) -> None:
    out = tmp_path / "key.pem"
    with pytest.raises(SettingsError, match="password cannot be used: give up to 1023 bytes"):
        new_key("ES256", out, Secret(password))
    assert not out.exists()


def test_a_key_that_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    out = tmp_path / "key.pem"
    with pytest.raises(SettingsError, match=r"key\.pem cannot be written: No space left on device"):
        new_key("ES256", out)
    assert not out.exists()


@pytest.mark.parametrize("arguments", [["--alg", "RS256", "--out", "k"], []])
def test_wrong_usage_is_2(arguments: list[str], fundlab: Any) -> None:
    assert fundlab("keys", "new", *arguments)[0] == 2


# --------------------------------------------------------------------------------- doctor


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, fundlab: Any) -> Any:
    """Run ``fundlab doctor`` for a sandbox."""

    def run(service: sandbox.Sandbox, *options: str) -> tuple[int, str, str]:
        for name, value in service.announcement().items():
            if name not in ("control_url", "profile_ids"):
                monkeypatch.setenv(f"FUNDLAB_{name.upper()}", str(value))
        found: tuple[int, str, str] = fundlab("doctor", *options)
        return found

    return run


def test_all_is_well(doctor: Any) -> None:
    with sandbox.serve(seed=7, transfers=3, signing=True) as service:
        status, out, err = doctor(service)
        secret = service.client_secret
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert all(line.startswith(("ok    ", " " * 8)) for line in lines)
    assert {line.split(":")[0].removeprefix("ok    ") for line in lines if line[0] == "o"} == {
        "settings", "connection", "clock", "token", "credential", "signing", "read",
        *(f"scope {scope.partition(':')[0]}" for scope in SCOPES),
    }  # fmt: skip
    assert secret not in out


def test_what_is_wrong_is_named_with_what_to_do(doctor: Any) -> None:
    granted = [scope for scope in SCOPES if scope not in (LACKING, NOT_NEEDED)]
    with sandbox.serve(seed=7, transfers=3, signing=True, scopes=granted) as service:
        service.signing_key_id = "another"
        status, out, err = doctor(service)
        status_of_json, as_json, nothing = doctor(service, "--json")
    assert (status, status_of_json, nothing) == (1, 1, "")
    shown = in_one_line(out)
    assert f"FAIL scope {LACKING}: not granted, so no " in shown
    assert f"ok scope {NOT_NEEDED}: not granted, so no create_fiat_withdrawal" in shown
    assert f"→ ask the administrator to grant the scope {LACKING} to this credential" in shown
    assert "signing: a request signed with key another was refused" in shown
    assert "→ check that the public key is registered under exactly this signing_key_id" in shown
    assert in_one_line(err) == (
        f"fundlab: 2 of 19 checks failed: scope {LACKING}, signing; do what stands beside each, "
        "then run this again"
    )
    body = json.loads(as_json)
    assert body["ok"] is False
    assert [check["name"] for check in body["checks"] if not check["ok"]] == [
        f"scope {LACKING}", "signing",
    ]  # fmt: skip
    assert body["error"]["type"] == "ChecksFailed"
    assert LACKING in body["error"]["message"]
