"""``fundlab init``: from a credential to a profile that works."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted import skipping

import fundlab as fl
from fundlab import sandbox
from fundlab.base.errors import SettingsError
from fundlab.client.signing import new_key
from fundlab.settings.config_file import read_config, write_profile
from fundlab.settings.secret import Secret

KEPT = """# ours, since 2025
[play] # the sandbox of the team
base_url = "https://play.example.com"   # not real
rate_limit = 5

[names]
"0190" = "Treasury USD"
"""


@pytest.fixture(scope="module")
def service() -> Iterator[sandbox.Sandbox]:
    with sandbox.serve(seed=7, transfers=3) as serving:
        yield serving


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "fundlab" / "config.toml"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is not there is asked again without waiting."""
    monkeypatch.setattr("fundlab.client.transport.Environment", skipping)


@pytest.fixture
def init(service: sandbox.Sandbox, config: Path, fundlab: Any) -> Any:
    def run(*options: object, secret: str | None = None) -> tuple[int, str, str]:
        found: tuple[int, str, str] = fundlab(
            "init", "--service", service.base_url, "--auth-url", service.auth_url,
            "--client-id", service.client_id, "--secret-stdin", *options,
            answer=f"{secret or service.client_secret}\n",
        )  # fmt: skip
        return found

    return run


def modes(path: Path) -> tuple[int, int]:
    return path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777


@pytest.mark.seconds
def test_a_profile_is_written_and_works(
    init: Any, config: Path, service: sandbox.Sandbox, fundlab: Any
) -> None:
    status, out, err = init()
    assert (status, err) == (0, "")
    assert modes(config) == (0o600, 0o700)
    lines = out.splitlines()
    kept = f"profile [sandbox] is in {config} with its secret (mode 600); its store is "
    assert lines[0] == f"{kept}{config.parents[1]}/data/sandbox"
    month = lines[-2].split()[-1]
    assert lines[-4:] == [
        "next:", "  fundlab sync", f"  fundlab report {month}",
        "  fundlab schedule systemd --at 06:15 --write",
    ]  # fmt: skip
    assert service.client_secret not in out
    # The commands that it names work as they stand.
    assert fundlab("sync")[0] == 0
    assert fundlab("report", month, "--format", "csv")[0] == 0
    assert list((config.parents[1] / "data/reports").glob(f"*{month}*"))
    assert (config.parents[1] / "data/sandbox/transfers").is_dir()


def test_what_it_asks_for_is_asked_until_it_is_accepted(
    config: Path, service: sandbox.Sandbox, fundlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ["http://not.loopback", service.base_url, service.auth_url, service.client_id, ""]
    monkeypatch.setattr("fundlab.settings.labels.OF_THE_SAMPLE", {})
    answers += ["Treasury USD"]  # what else is found stays without a name
    typed = iter(["with white space ", service.client_secret])  # not shown while it is typed
    monkeypatch.setattr("getpass.getpass", lambda *_: next(typed))
    status, out, err = fundlab("init", answer="\n".join([*answers, ""]))
    assert status == 0, err
    assert "client_secret starts or ends with white space; copy it once more" in err
    assert read_config(config)["sandbox"].reveal()["client_secret"] == service.client_secret
    assert "URL of the service:" in err
    assert "http:// is for loopback only, use https://" in err
    assert tomllib.loads(config.read_text())["sandbox"]["client_id"] == service.client_id
    # A profile that it found has a name, in the file and wherever it is shown.
    (named,) = tomllib.loads(config.read_text())["names"].items()
    assert named[1] == "Treasury USD"
    assert f"Name of profile {named[0]} (last " in err
    assert "1 name written below [names] of" in err
    assert fundlab("sync", "transfers")[0] == 0
    assert "  Treasury USD  " in fundlab("transfers")[1]
    # Nobody there: what is missing is named with its option.
    status, out, err = fundlab("init", "--name", "other")
    assert (status, out.strip()) == (1, "")
    assert "base_url was not given; nothing was written: answer at a terminal, or give --b" in err


def test_who_types_only_the_secret_is_asked_for_names(
    config: Path, service: sandbox.Sandbox, fundlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the command that a sandbox says at a terminal."""
    monkeypatch.setattr("fundlab.settings.labels.OF_THE_SAMPLE", {})
    monkeypatch.setattr("getpass.getpass", lambda *_: service.client_secret)
    given = ("init", "--base-url", service.base_url, "--auth-url", service.auth_url,
             "--client-id", service.client_id)  # fmt: skip
    status, _, err = fundlab(*given, answer="Treasury USD\n")
    assert (status, "Private key" in err) == (0, False)
    assert [*tomllib.loads(config.read_text())["names"].values()] == ["Treasury USD"]


def test_it_is_named_by_the_option_that_all_commands_have(
    init: Any, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert init("--profile", "acme")[1].startswith(f"profile [acme] is in {config} ")
    monkeypatch.setenv("FUNDLAB_PROFILE", "beta")
    assert init()[1].startswith(f"profile [beta] is in {config} ")
    assert {*tomllib.loads(config.read_text())} == {"profile", "acme", "beta"}


def test_a_service_elsewhere_is_production(config: Path, fundlab: Any, at_once: None) -> None:
    given = ("--service", "https://service.invalid", "--client-id", "c", "--secret-stdin")
    _, out, _ = fundlab(
        "init", *given, "--auth-url", "https://service.invalid/t", answer="secret\n"
    )
    assert out.startswith(f"profile [production] is in {config} ")


def test_where_money_is_real_init_asks_for_approvals(
    config: Path, fundlab: Any, at_once: None
) -> None:
    given = ("--service", "https://service.invalid", "--client-id", "c", "--secret-stdin")
    _, _, err = fundlab("init", *given, answer="\nsecret\n\n2\n10000.00\n")
    assert "How many other people must approve a payment [0]:" in err
    written = tomllib.loads(config.read_text())["production"]
    assert (int(written["approvals"]), written["approval_from"]) == (2, "10000.00")
    assert fl.Settings.load("production").approvals == 2
    again = ("--auth-url", "https://service.invalid", "--force", "--approvals", "x")
    status, _, err = fundlab("init", *given, *again, answer="secret\n")
    assert status == 1
    assert "how many other people must approve, 0 to 9" in err


def test_a_profile_is_not_overwritten_unasked(init: Any, config: Path, fundlab: Any) -> None:
    init()
    written = config.read_text()
    status, _, err = init("--store", "elsewhere", secret="n")
    assert (status, config.read_text()) == (1, written)
    assert f"{config} has a profile [sandbox] already; nothing was written: give --force" in err
    config.write_text(written + 'withdrawal_limit = "5.00" # ask Ana\n')
    assert init("--store", "elsewhere", "--force")[0] == 0
    text = config.read_text()
    assert text.count("[sandbox]") == text.count("client_secret") == 1
    assert 'withdrawal_limit = "5.00" # ask Ana\n' in text
    assert str(config.parents[1] / "elsewhere") in text


def test_what_was_given_before_needs_only_a_return(
    init: Any, config: Path, service: sandbox.Sandbox, fundlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    init()
    written = config.read_text()
    monkeypatch.setattr("getpass.getpass", lambda *_: service.client_secret)
    status, _, err = fundlab("init", answer="\ny\n\n\n\n")
    assert (status, config.read_text()) == (0, written)
    assert f"URL of the service [{service.base_url}]:" in err
    assert "Replace it? [y/N]:" in err
    # and Python finds the store without a word of where it is
    assert fl.Store().path == fl.Store(config.parents[1] / "data" / "sandbox").path


def test_another_profile_leaves_the_file_as_it_is(
    init: Any, config: Path, service: sandbox.Sandbox
) -> None:
    config.parent.mkdir()
    config.write_text(KEPT)
    config.chmod(0o600)
    status, out, _ = init("--name", "second", "--sandbox", "--json")
    body = json.loads(out)
    assert (status, body["ok"], body["profile"]) == (0, True, "second")
    assert body["next"][0] == "fundlab --profile second sync"
    assert config.read_text().startswith(KEPT)
    assert tomllib.loads(config.read_text())["second"] == {
        "base_url": service.base_url, "auth_url": service.auth_url,
        "client_id": service.client_id, "client_secret": service.client_secret,
        "sandbox": True, "store": str(config.parents[1] / "data/second"),
    }  # fmt: skip


def test_a_failing_doctor_leaves_the_file_and_says_so(init: Any, config: Path) -> None:
    status, out, err = init(secret="wrong")
    assert (status, config.is_file()) == (1, True)
    assert out.startswith(f"profile [sandbox] is in {config} ")
    assert "FAIL  token: " in out
    assert "next:" not in out
    assert "1 of 4 checks failed: token; do what stands beside each, then run 'fundlab d" in err
    assert "or 'fundlab init --name sandbox' to give them anew" in err


def test_a_key_is_made_and_registered_later(init: Any, config: Path, tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    status, out, err = init("--key", key)
    assert status == 0
    assert key.stat().st_mode & 0o777 == 0o600
    assert "-----BEGIN PUBLIC KEY-----" in err
    begun = tomllib.loads(config.read_text())["sandbox"]
    store = begun["store"]
    assert f"init --name sandbox --store {store} --key {key} --key-id ID --force" in out
    assert "signing_key" not in begun
    init("--store", store, "--key", key, "--key-id", "k-7", "--force")
    assert tomllib.loads(config.read_text())["sandbox"]["signing_key_id"] == "k-7"


def test_a_store_or_a_key_that_cannot_work_is_not_written(
    init: Any, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("hello")
    file.chmod(0o600)
    folder.mkdir()
    no_folder = f"fundlab: {file} is a file, and a store is a folder; nothing was written: give "
    for store in (file, file / "below"):
        assert init("--store", store) == (1, "", no_folder + "another --store\n")
    no_key = {
        file: f"fundlab: the signing key {file} is not a PEM private key of ES256 (prime256v1) or "
        "EdDSA (ed25519); nothing was written\n",
        folder: f"fundlab: the signing key {folder} cannot be read: Is a directory; check the "
        "path; nothing was written\n",
    }
    for key, said in no_key.items():
        assert init("--key", key) == (1, "", said)
        assert init("--key", key, "--key-id", "k-7") == (1, "", said)
    assert not config.exists()


def test_a_key_with_a_password_that_the_environment_has(
    init: Any, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key.pem"
    new_key("ES256", key, Secret("of the key"))
    status, out, err = init("--key", key, "--key-id", "k-7")
    assert (status, out, config.exists()) == (1, "", False)
    assert "is encrypted; give signing_key_password (FUNDLAB_SIGNING_KEY_PASSWORD)" in err
    monkeypatch.setenv("FUNDLAB_SIGNING_KEY_PASSWORD", "of the key")
    assert init("--key", key)[0] == 0
    status, out, err = init("--key", key, "--key-id", "k-7", "--force")
    assert tomllib.loads(config.read_text())["sandbox"]["signing_key_id"] == "k-7"
    assert "is encrypted" not in out + err


def test_a_store_in_a_bucket_is_written_as_it_is_given(init: Any, config: Path) -> None:
    assert init("--store", "s3://treasury/funds")[0] == 0
    assert tomllib.loads(config.read_text())["sandbox"]["store"] == "s3://treasury/funds"


def test_a_key_that_is_typed_is_made_only_where_that_is_agreed_to(
    config: Path, service: sandbox.Sandbox, fundlab: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("FUNDLAB_CLIENT_SECRET", service.client_secret)
    slip, key = tmp_path / "n", tmp_path / "new.pem"
    answers = [service.auth_url, service.client_id, slip, "", key, "y", ""]
    given = ("init", "--base-url", service.base_url)
    status, _, err = fundlab(*given, answer="\n".join(map(str, [*answers, ""])))
    assert status == 0, err
    assert f"There is no file {slip}: make a new key there? [y/N]" in err
    assert not slip.exists()
    assert key.exists()


def test_in_the_environment_of_a_sandbox_the_next_commands_take_the_profile(
    config: Path, service: sandbox.Sandbox, fundlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in service.environment().items():
        monkeypatch.setenv(name, value)
    status, out, _ = fundlab("init")
    assert (status, "  fundlab --profile sandbox sync\n" in out) == (0, True)
    assert out.endswith("Without --profile or FUNDLAB_PROFILE no command takes [sandbox].\n")
    assert fundlab("--profile", "sandbox", "sync", "addresses")[0] == 0
    assert (config.parents[1] / "data" / "sandbox" / "addresses").is_dir()
    assert not (config.parents[1] / "data" / "store").exists()
    monkeypatch.setenv("FUNDLAB_STORE", str(config.parents[1] / "elsewhere"))
    assert "its store is " + str(config.parents[1] / "elsewhere") in fundlab("init", "--force")[1]


def test_a_service_with_a_certificate_of_its_own(
    config: Path, fundlab: Any, tmp_path: Path
) -> None:
    kept = tmp_path / "ours.pem"
    with sandbox.serve(empty=True, tls_self_signed=True, tls_cert=kept) as serving:
        given = ("init", "--service", serving.base_url, "--auth-url", serving.auth_url,
                 "--client-id", serving.client_id, "--secret-stdin")  # fmt: skip
        answer = f"{serving.client_secret}\n"
        status, _, err = fundlab(*given, "--ca-bundle", tmp_path / "none.pem", answer=answer)
        assert (status, config.exists()) == (1, False)
        assert "ca_bundle names no file" in err
        status, _, err = fundlab(*given, "--ca-bundle", kept, answer=answer)
        assert (status, err) == (0, "")
        assert tomllib.loads(config.read_text())["sandbox"]["ca_bundle"] == str(kept)
        assert fundlab("sync", "addresses")[0] == 0


def test_the_secret_may_stay_in_the_environment(
    config: Path, service: sandbox.Sandbox, fundlab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("init", "--service", service.base_url, "--auth-url", service.auth_url,
             "--client-id", service.client_id, "--secret-env")  # fmt: skip
    status, _, err = fundlab(*given)
    assert (status, "--secret-env: set FUNDLAB_CLIENT_SECRET" in err) == (1, True)
    monkeypatch.setenv("FUNDLAB_CLIENT_SECRET", service.client_secret)
    status, out, err = fundlab(*given)
    assert (status, err) == (0, "")
    assert "its secret is in FUNDLAB_CLIENT_SECRET" in out
    assert service.client_secret not in config.read_text() + out
    # and the next commands find the rest in the profile
    assert fundlab("sync", "transfers")[0] == 0
    assert (config.parents[1] / "data" / "sandbox" / "transfers").is_dir()
    status, _, err = fundlab("schedule", "cron", "--write")
    assert "the job fails as long as it has no FUNDLAB_CLIENT_SECRET" in " ".join(err.split())


def test_a_schedule_needs_no_secret_that_its_profile_has(
    init: Any, config: Path, service: sandbox.Sandbox, fundlab: Any, monkeypatch: Any
) -> None:
    assert init()[0] == 0
    monkeypatch.setenv("FUNDLAB_CLIENT_SECRET", service.client_secret)
    assert fundlab("schedule", "cron", "--write")[::2] == (0, "")


def test_a_schedule_has_whole_paths(
    config: Path, fundlab: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("SIGNING_KEY", "JOURNAL", "CA_BUNDLE", "HEARTBEAT_SYNC"):
        monkeypatch.setenv(f"FUNDLAB_{name}", f"a/{name}")
    monkeypatch.setenv("FUNDLAB_HEARTBEAT_CLOSE", "https://a.example/b")
    status, out, _ = fundlab("schedule", "cron", "--json")
    said = "".join(one["content"] for one in json.loads(out)["files"])
    assert status == 0
    for name in ("SIGNING_KEY", "JOURNAL", "CA_BUNDLE", "HEARTBEAT_SYNC"):
        assert f"{tmp_path}/a/{name}" in said
    assert "https://a.example/b" in said


def test_the_secret_may_be_in_the_keyring(
    init: Any, config: Path, service: sandbox.Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[tuple[str, str], str] = {}
    monkeypatch.setattr("keyring.set_password", lambda s, u, p: kept.update({(s, u): p}))
    monkeypatch.setattr("keyring.get_password", lambda s, u: kept.get((s, u)))
    assert init("--keyring")[0] == 0
    assert kept == {("fundlab-sandbox", service.client_id): service.client_secret}
    assert service.client_secret not in config.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "production.base_url = 'https://x.example'\n",
        "[ production ]\nbase_url = 'https://x.example'\n",
    ],
)
def test_what_is_not_understood_is_left_alone(config: Path, text: str) -> None:
    config.parent.mkdir()
    config.write_text(text)
    config.chmod(0o600)
    with pytest.raises(SettingsError, match="without changing what else is there") as caught:
        write_profile(config, "production", {"client_secret": Secret("canary")}, ())
    assert config.read_text() == text
    frames, trace = [], caught.tb
    while trace is not None:
        frames.append(repr(trace.tb_frame.f_locals))
        trace = trace.tb_next
    assert "'canary'" not in "".join(frames[1:])


@pytest.mark.parametrize("name", ["names", "profile", "a b", "", "ä"])
def test_names_that_no_profile_can_have(config: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="is not a valid name of a profile"):
        write_profile(config, name, {}, ())


def test_any_secret_comes_back_as_it_was(config: Path) -> None:
    secret = 'a"b\\c\té😀\x7f#]'
    write_profile(config, "p", {"client_secret": Secret(secret)}, ())
    write_profile(config, "q", {"client_secret": Secret("x")}, ())
    assert read_config(config)["p"].reveal() == {"client_secret": secret}
    assert read_config(config)["profile"].reveal() == "p"
