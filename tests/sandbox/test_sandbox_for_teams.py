"""A sandbox as a team starts it: around a command, in a shell, with the credentials it fixes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sandbox_caller import Caller

from fundlab.base.errors import SandboxError
from fundlab.client.signing import new_key
from fundlab.sandbox import Sandbox, serve
from fundlab.settings.secret import Secret
from fundlab.settings.settings import Settings

SANDBOX = [sys.executable, "-m", "fundlab", "sandbox", "--empty"]
READ = "transfer:read_transfer"
TRANSFERS = "/v2/transfer/transfers"


def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SANDBOX, *arguments], env=os.environ | environ, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def caller(sandbox: Sandbox, client_id: str, client_secret: str, **key: Any) -> Caller:
    return Caller(sandbox.base_url, client_id, client_secret, **key)


# ---------------------------------------------------------------------------- around a command


@pytest.mark.seconds
def test_a_command_finds_the_sandbox_and_its_status_is_passed_on() -> None:
    script = (
        "import fundlab as fl, os, sys\n"
        "with fl.connect() as client:\n"
        "    profile = os.environ['FUNDLAB_SANDBOX_PROFILE_IDS'].split()[0]\n"
        "    print(client.get_profile_balance(profile, 'USD').available)\n"
        "sys.exit(7)"
    )
    # of another service, which the command must not reach
    elsewhere = {
        "FUNDLAB_PROFILE": "production", "FUNDLAB_BASE_URL": "https://api.example.com",
        "FUNDLAB_CLIENT_SECRET_FILE": "/nowhere", "FUNDLAB_SIGNING_KEY": "/nowhere.pem",
    }  # fmt: skip
    done = run("--signing", "--", sys.executable, "-c", script, **elsewhere)
    assert (done.returncode, done.stdout, done.stderr) == (7, "0.00\n", "")


@pytest.mark.thorough
def test_a_command_that_cannot_be_run_is_named() -> None:
    done = run("--", "no-such-command")
    assert done.returncode == 1
    assert done.stderr == (
        "fundlab: no-such-command cannot be run: No such file or directory; 'fundlab sandbox' by "
        "itself serves, and what follows -- is a program to run with it\n"
    )


@pytest.mark.seconds
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_command_and_its_end_the_caller(number: signal.Signals) -> None:
    script = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(3))\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen(
        [*SANDBOX, "--", sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.wait(30) == 3
    process.stdout.close()


@pytest.mark.thorough
def test_what_a_signal_ends_has_the_status_of_a_shell() -> None:
    script = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert run("--", sys.executable, "-c", script).returncode == 128 + signal.SIGKILL


@pytest.mark.thorough
def test_a_start_that_was_broken_off_is_not_taken_for_a_command_that_succeeded(
    tmp_path: Path,
) -> None:
    db = tmp_path / "sandbox.db"
    command = [*SANDBOX[:-1], "--db", str(db), "--transfers", "300000", "--", "true"]
    process = subprocess.Popen(command)
    while not db.exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.3)
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM


# ---------------------------------------------------------------------------- in a shell


def test_the_exports_set_a_shell_and_unset_other_services() -> None:
    with serve(empty=True, client_secret="it's $(here)") as sandbox:
        script = (
            f"{sandbox.exports()}\nexec {sys.executable} -c 'import os; print(dict(os.environ))'"
        )
        environ = {**os.environ, "FUNDLAB_PROFILE": "production"}
        shown = subprocess.run(
            ["/bin/sh", "-c", script], capture_output=True, text=True, check=True, env=environ
        )
        found = eval(shown.stdout)
        assert found.items() >= sandbox.environment().items()
        assert "FUNDLAB_PROFILE" not in found
        settings = Settings.load(environ=found)
        assert settings.client_secret.reveal() == "it's $(here)"


@pytest.mark.thorough
def test_the_commands_exports_are_its_first_lines() -> None:
    process = subprocess.Popen([*SANDBOX, "--env"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.startswith("unset FUNDLAB_PROFILE ")
    assert process.stdout.readline().startswith("export FUNDLAB_BASE_URL=http://127.0.0.1:")
    process.terminate()
    assert process.wait(30) == 0
    process.stdout.close()


# ---------------------------------------------------------------------------- credentials


def test_the_credential_is_the_one_asked_for_also_on_a_file_that_had_another(
    tmp_path: Path,
) -> None:
    db = tmp_path / "sandbox.db"
    with serve(empty=True, db=db) as first:
        own = first.client_id
    with serve(empty=True, db=db, client_id="desk", client_secret="one") as second:
        assert second.client_id == "desk"
        assert caller(second, "desk", "one").get(TRANSFERS).status_code == 200
    with serve(empty=True, db=db, client_id="desk", client_secret="two") as third:
        assert caller(third, "desk", "two").get(TRANSFERS).status_code == 200
        assert caller(third, "desk", "one").ask_token().status_code == 401
        listed = [entry["client_id"] for entry in third.control.credentials()]
        assert listed == [own, "desk"]


@pytest.mark.parametrize("alg", ["ES256", "EdDSA"])
def test_a_key_of_ones_own_signs_in_a_header_of_ones_own(alg: Any, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    new_key(alg, key)
    given = {"client_id": "desk", "signing_key": key, "db": tmp_path / "sandbox.db"}
    named = {"signature_header": "Acme-Signature", "signature_prefix": "acme/"}
    for own in ({}, named):
        with serve(empty=True, **given, **own) as sandbox, sandbox.connect() as client:
            assert list(client.list_transfers()) == []
            assert (sandbox.signing_key, sandbox.signing_key_id) == (key, "desk-key")
            unsigned = caller(sandbox, "desk", sandbox.client_secret)
            assert unsigned.get(TRANSFERS).status_code == 401
    assert key.exists()


def test_a_file_of_credentials(tmp_path: Path) -> None:
    new_key("EdDSA", tmp_path / "payer.pem")
    path = tmp_path / "credentials.toml"
    path.write_text(
        f'[treasury]\nclient_secret = "for-tests"\nscopes = ["{READ}"]\n'
        '[payer]\nclient_id = "payer-1"\nsigning_key = "payer.pem"\nsigning_key_id = "k1"\n'
        "new_customer = true\n"
    )
    with serve(empty=True, credentials=path) as sandbox:
        assert (sandbox.client_id, sandbox.client_secret) == ("treasury", "for-tests")
        reader = caller(sandbox, "treasury", "for-tests")
        assert reader.get(TRANSFERS).status_code == 200
        assert reader.get("/v2/events").status_code == 403
        first, second = sandbox.control.credentials()
        assert first["scopes"] == [READ]
        assert second["client_id"] == "payer-1"
        assert second["customer_id"] != first["customer_id"]
        assert (second["signing"], second["signing_key_ids"]) == (True, ["k1"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no credential"), ("[a", "not TOML"), ("a = 1", "a must be a table: [a]"),
        ('[a]\nsecret = "hidden"', "[a] secret: Extra inputs are not permitted; known: client_id"),
        ('[a]\nclient_secret = "\\u0007hidden"', "[a] client_secret: String should match pattern"),
        ('[a]\nscopes = ["all"]', "unknown scopes ['all']"),
        ('[a]\nsigning_key = "none.pem"', "none.pem cannot be read"),
        ('[a]\nsigning_key = "credentials.toml"', "toml: a signing key is one of ES256"),
        ('[a]\n[b]\nclient_id = "a"', "two credentials of one client_id"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named_without_its_secrets(
    content: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "credentials.toml"
    path.write_text(content)
    with pytest.raises(SandboxError) as caught:
        serve(empty=True, credentials=path)
    assert said in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_key_or_a_certificate_that_is_none_is_said_in_our_words(tmp_path: Path) -> None:
    none, locked = tmp_path / "none.pem", tmp_path / "locked.pem"
    none.write_text("hello")
    accepted = "a signing key is one of ES256 (curve prime256v1) or EdDSA (ed25519) in PEM"
    with pytest.raises(SandboxError) as caught:
        serve(empty=True, client_id="a", client_secret="x" * 40, signing_key=none)
    assert str(caught.value) == f"the signing key {none}: {accepted}; 'fundlab keys new' makes one"
    new_key("ES256", locked, Secret("of the key"))
    with pytest.raises(SandboxError) as caught:
        serve(empty=True, client_id="a", client_secret="x" * 40, signing_key=locked)
    assert str(caught.value) == f"the signing key {locked}: it has a password; give one without"
    with pytest.raises(SandboxError) as caught:
        serve(empty=True, tls_cert=none, tls_key=none)
    assert str(caught.value) == (
        f"tls_cert {none} and tls_key {none} must be a certificate and its key without password, "
        "in PEM; or give tls_self_signed"
    )


def test_a_file_and_a_name_of_ones_own_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="give either credentials or client_id"):
        serve(empty=True, client_id="x", credentials=tmp_path / "x")


@pytest.mark.seconds
def test_the_secret_may_come_from_the_environment() -> None:
    shown = run(
        "--client-id", "desk", "--", sys.executable, "-c",
        "import json, os; print(json.dumps(dict(os.environ)))",
        FUNDLAB_SANDBOX_CLIENT_SECRET="from-the-environment",
    )  # fmt: skip
    found = json.loads(shown.stdout)
    assert found["FUNDLAB_CLIENT_ID"] == "desk"
    assert found["FUNDLAB_CLIENT_SECRET"] == "from-the-environment"
