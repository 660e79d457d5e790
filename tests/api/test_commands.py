"""``fundlab keys new`` and ``fundlab doctor`` as a user runs them: the command, in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from fundlab import sandbox
from fundlab.api.signing import load_signer, new_key
from fundlab.errors import SettingsError
from fundlab.models import SCOPES
from fundlab.secret import Secret

LACKING = "transfer:read_fiat_account"
NOT_NEEDED = "transfer:write_fiat_withdrawal"


def fundlab(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if "FUNDLAB" not in name}
    return subprocess.run(
        [sys.executable, "-m", "fundlab", *arguments],
        env=clean | {"COLUMNS": "100"} | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def in_one_line(text: str) -> str:
    return " ".join(text.split())


# ------------------------------------------------------------------------------- keys new


@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
def test_a_new_key(alg: str, tmp_path: Path) -> None:
    out = tmp_path / "key.pem"
    made = fundlab("keys", "new", "--alg", alg, "--out", str(out))
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("-----BEGIN PUBLIC KEY-----\n")
    assert made.stdout.endswith("-----END PUBLIC KEY-----\n")
    load_pem_public_key(made.stdout.encode())
    assert out.stat().st_mode & 0o777 == 0o600
    assert load_signer(out, "k").alg == alg
    assert f"set FUNDLAB_SIGNING_KEY={out} and FUNDLAB_SIGNING_KEY_ID" in made.stderr
    assert "PRIVATE" not in made.stdout + made.stderr


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "key.pem"
    out.write_bytes(b"precious")
    again = fundlab("keys", "new", "--out", str(out), "--json")
    assert again.returncode == 1
    message = f"{out} exists and is not overwritten; choose another name"
    assert json.loads(again.stdout) == {"error": {"type": "SettingsError", "message": message}}
    assert out.read_bytes() == b"precious"


def test_a_new_key_as_json_with_a_password(tmp_path: Path) -> None:
    out = tmp_path / "key.pem"
    made = fundlab(
        "keys", "new", "--out", str(out), "--encrypt", "--json", FUNDLAB_SIGNING_KEY_PASSWORD="pw"
    )
    body = json.loads(made.stdout)
    assert {name: body[name] for name in ("alg", "signing_key")} == {
        "alg": "ES256", "signing_key": str(out),
    }  # fmt: skip
    load_pem_public_key(body["public_key"].encode())
    assert b"ENCRYPTED" in out.read_bytes()
    assert load_signer(out, "k", Secret("pw")).alg == "ES256"


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
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    assert fundlab("keys", "new", *arguments).returncode == 2


# --------------------------------------------------------------------------------- doctor


@pytest.fixture(scope="module")
def service() -> Iterator[sandbox.Sandbox]:
    with sandbox.serve(seed=7, transfers=3, signing=True) as running:
        yield running


def environment(service: sandbox.Sandbox) -> dict[str, str]:
    return {
        "FUNDLAB_BASE_URL": service.base_url,
        "FUNDLAB_AUTH_URL": service.auth_url,
        "FUNDLAB_CLIENT_ID": service.client_id,
        "FUNDLAB_CLIENT_SECRET": service.client_secret,
        "FUNDLAB_SIGNING_KEY": str(service.signing_key),
        "FUNDLAB_SIGNING_KEY_ID": str(service.signing_key_id),
    }


def test_all_is_well(service: sandbox.Sandbox) -> None:
    found = fundlab("doctor", **environment(service))
    assert (found.returncode, found.stderr) == (0, "")
    lines = found.stdout.splitlines()
    assert all(line.startswith(("ok    ", " " * 8)) for line in lines)
    assert {line.split(":")[0].removeprefix("ok    ") for line in lines if line[0] == "o"} == {
        "settings", "connection", "clock", "token", "credential", "signing", "read",
        *(f"scope {scope.partition(':')[0]}" for scope in SCOPES),
    }  # fmt: skip
    assert service.client_secret not in found.stdout


def test_what_is_wrong_is_named_with_what_to_do() -> None:
    granted = [scope for scope in SCOPES if scope not in (LACKING, NOT_NEEDED)]
    with sandbox.serve(seed=7, transfers=3, signing=True, scopes=granted) as service:
        given = environment(service) | {"FUNDLAB_SIGNING_KEY_ID": "another"}
        text, as_json = fundlab("doctor", **given), fundlab("doctor", "--json", **given)
    assert (text.returncode, as_json.returncode) == (1, 1)
    shown = in_one_line(text.stdout)
    assert f"FAIL scope {LACKING}: not granted, so no " in shown
    assert f"ok scope {NOT_NEEDED}: not granted, so no create_fiat_withdrawal" in shown
    assert f"→ ask the administrator to grant the scope {LACKING} to this credential" in shown
    assert "signing: a request signed with key another was refused" in shown
    assert "→ check that the public key is registered under exactly this signing_key_id" in shown
    assert in_one_line(text.stderr) == (
        f"fundlab: 2 of 19 checks failed: scope {LACKING}, signing; do what stands beside each, "
        "then run this again"
    )
    body = json.loads(as_json.stdout)
    assert as_json.stderr == ""
    assert body["ok"] is False
    assert [check["name"] for check in body["checks"] if not check["ok"]] == [
        f"scope {LACKING}", "signing",
    ]  # fmt: skip
    assert body["error"]["type"] == "ChecksFailed"
    assert LACKING in body["error"]["message"]
